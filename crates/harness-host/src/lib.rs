//! The conversations of one process: open, attach, detach, limits, shutdown.
//!
//! # Where this sits
//!
//! Between the front ends and `harness-agent`. A front end hands in a [`Blueprint`], gets a
//! [`Session`] to send commands to and an [`Attachment`] to read what happens, and never touches
//! the loop. Who builds the model, the tools and the store from a blueprint is up to the program:
//! it gives the host an [`Assemble`].
//!
//! # What an attachment promises
//!
//! The host keeps steps, not messages. An [`Attachment`] is a cursor into what happened: a change
//! that has not been read yet is read in its latest state, so a reader that stalls costs a bounded
//! amount of memory, loses nothing, and gets each piece of text exactly once.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use harness_host::{Assemble, Assembly, Blueprint, Host, Limits, Update};
//! use harness_types::{Command, Input, InputPart, MemoryStore, Script, ScriptedModel, ScriptedTurn};
//!
//! /// Always the same model, no tools, nothing kept.
//! #[derive(Debug)]
//! struct Greeter;
//!
//! impl Assemble for Greeter {
//!     fn assemble(&self, _: &mut Blueprint) -> Result<Assembly, harness_host::Error> {
//!         Ok(Assembly {
//!             model: Arc::new(ScriptedModel::new(Script::new([ScriptedTurn::new().text("Hi!")]))),
//!             tools: Default::default(),
//!             store: Arc::new(MemoryStore::new()),
//!         })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::new(Arc::new(Greeter), Limits::default());
//! let session = host.open(Blueprint::default()).await?;
//! let mut updates = session.attach();
//! session.send(Command::Input(Input::user([InputPart::text("Hello")]))).await?;
//! let mut text = String::new();
//! while let Some(update) = updates.next().await {
//!     match update {
//!         Update::Step(change) if change.step.index.get() == 1 => text.push_str(change.text_delta()),
//!         Update::TurnEnded { .. } => break,
//!         _ => {}
//!     }
//! }
//! assert_eq!(text, "Hi!");
//! session.close().await;
//! host.shutdown().await;
//! # Ok(()) }
//! ```

mod attachment;
mod blueprint;
mod board;
mod error;
mod host;

pub use attachment::{Attachment, History, StepChange, Update};
pub use blueprint::{
    Assemble, Assembly, Blueprint, CommandOptions, Continuation, Endpoint, ModelRole, ModelSpec,
};
pub use error::Error;
pub use host::{Host, Limits, Session};
