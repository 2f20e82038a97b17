//! The agent loop: a pure machine per conversation and the driver that feeds it.
//!
//! # Where this sits
//!
//! Above `harness-types`, whose records it writes, `harness-policy` and `harness-toolkit`; below
//! every front end. It knows no wire format, no provider and no operating system.
//!
//! # The log is the loop
//!
//! [`Machine::step`] takes the state of a conversation and one [`Stimulus`] and answers with
//! records and effects. The state is changed by applying those records and in no other way, so it
//! always equals the fold of the log. Effects start only after the records that announce them have
//! been accepted by the [`SessionStore`](harness_types::SessionStore). Time, randomness and the
//! order in which things complete come in with the stimulus; the machine has no other source of
//! them.
//!
//! # Example
//!
//! An agent with a scripted model, in process:
//!
//! ```
//! use std::sync::Arc;
//! use harness_agent::{Agent, AgentParts, Observer, Registry};
//! use harness_types::{Command, Config, Conversation, ConversationId, Input, InputPart, MemoryStore,
//!     Script, ScriptedModel, ScriptedTurn, Touch};
//! use tokio::sync::mpsc;
//!
//! /// Tells the caller when a turn has ended.
//! #[derive(Debug)]
//! struct UntilIdle(mpsc::UnboundedSender<String>);
//!
//! impl Observer for UntilIdle {
//!     fn changed(&mut self, conversation: &Conversation, touches: &[Touch]) {
//!         if touches.iter().any(|touch| matches!(touch, Touch::TurnEnded { .. })) {
//!             let text = conversation.root().steps.last().map(|step| step.text.clone());
//!             let _ = self.0.send(text.unwrap_or_default());
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (sender, mut idle) = mpsc::unbounded_channel();
//! let agent = Agent::spawn(AgentParts {
//!     id: ConversationId::from_random([7; 16]),
//!     config: Config::default(),
//!     model: Arc::new(ScriptedModel::new(Script::new([ScriptedTurn::new().text("Good morning.")]))),
//!     tools: Registry::default(),
//!     store: Arc::new(MemoryStore::new()),
//!     observer: Box::new(UntilIdle(sender)),
//!     loaded: None,
//! })?;
//! agent.send(Command::Input(Input::user([InputPart::text("Hello")]))).await?;
//! assert_eq!(idle.recv().await.as_deref(), Some("Good morning."));
//! # Ok(()) }
//! ```
//!
//! # Limits
//!
//! Every bound of the loop is in [`Limits`](harness_types::Limits). Nothing here waits for a person
//! with a time limit; [`Command::Halt`](harness_types::Command::Halt) always works.

mod agent;
mod catalogue;
mod driver;
mod error;
mod machine;
mod observer;
mod prompt;

pub use agent::{Agent, AgentParts};
pub use catalogue::Catalogue;
pub use error::Error;
pub use harness_toolkit::Registry;
pub use machine::{Effect, Machine, ModelEnd, Outcome, Stamp, Stimulus};
pub use observer::Observer;
