//! An agent inside your program: your model, your tools, your store, no second process.
//!
//! [`Agent`] is a conversation with an AI agent. It is made of a
//! [`Model`](types::Model), tools, and rules that say which calls may run; `chat` begins a turn
//! and gives its events, or just its text.
//!
//! ```
//! use harness_sdk::types::{Script, ScriptedModel, ScriptedTurn, ToolCall};
//! use harness_sdk::{Agent, Decision, tool};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A model that plays a script; with the feature `gemini`, harness_sdk::gemini has a real one.
//! let model = ScriptedModel::new(Script::new([
//!     ScriptedTurn::new().call("set_light", json!({"on": true})),
//!     ScriptedTurn::new().text("The light is on."),
//! ]));
//!
//! let set_light = tool(
//!     "set_light",
//!     "Switches the light.",
//!     json!({"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}),
//!     |_context, args| async move { Ok(format!("on: {}", args["on"])) },
//! );
//!
//! let mut agent = Agent::builder(model)
//!     .tool(set_light)
//!     .approve(|call| async move {
//!         match call.tool.as_str() {
//!             "set_light" => Decision::Allow,
//!             other => Decision::Deny(format!("{other} is not for you")),
//!         }
//!     })
//!     .open()
//!     .await?;
//!
//! assert_eq!(agent.chat("Light, please").await?.text().await?, "The light is on.");
//! agent.close().await;
//! # Ok(()) }
//! ```
//!
//! # Who decides about tool calls
//!
//! Tools that change nothing may run. Every other call is put to [`AgentBuilder::approve`]; rules
//! ([`AgentBuilder::allow`], [`deny`](AgentBuilder::deny), [`ask`](AgentBuilder::ask)) decide
//! before that. An agent with tools that change something, and with neither rules nor somebody to
//! ask, is refused when it is opened. Built-in file tools stay inside the workspaces; a command
//! that is run reaches what your program can reach.
//!
//! # Where this sits
//!
//! Everything here is a thin layer over [`host`]: [`Agent::session`] gives the conversation
//! itself, with its commands and attachments, and [`AgentBuilder::configure`] the whole
//! [`Config`](types::Config). Programs that serve many conversations to many clients use
//! [`host::Host`] directly.
//!
//! # Features
//!
//! None is on by default. [`types`], [`toolkit`], [`agent`] and [`host`] are always there.
//!
//! | feature | what it brings |
//! |---|---|
//! | `files`, `search`, `edit`, `shell`; `built-ins` for all | the built-in tools, for [`AgentBuilder::built_ins`] |
//! | `gemini` | `gemini`: Gemini as a model |
//! | `session` | `session`: a store that keeps conversations in SQLite files |
//! | `policy` | `policy`: evaluating rules oneself |
//! | `process` | `process`: starting processes and ending whole trees of them |
//! | `framing`, `proto` | `framing`, `proto`: the pieces of the wire |
//! | `server` | `server`: serving agents to SDKs |
//! | `client` | `client`: driving a harness process |
//!
//! # Limits
//!
//! Needs a tokio runtime with time. One turn of an agent runs at a time. The bounds of the loop
//! are in [`Limits`](types::Limits), with their defaults; set them with
//! [`AgentBuilder::configure`].

mod answering;
mod builder;
mod conversation;
mod error;
mod function;
mod turn;

pub use answering::{Decision, PendingCall};
pub use builder::{AgentBuilder, BuiltIns};
pub use conversation::{Agent, Stopper};
pub use error::Error;
pub use function::{FunctionTool, tool};
pub use turn::{Event, Turn};

pub use harness_agent as agent;
pub use harness_host as host;
pub use harness_toolkit as toolkit;
pub use harness_types as types;

#[cfg(feature = "client")]
pub use harness_client as client;
#[cfg(feature = "framing")]
pub use harness_framing as framing;
#[cfg(feature = "gemini")]
pub use harness_gemini as gemini;
#[cfg(feature = "policy")]
pub use harness_policy as policy;
#[cfg(feature = "process")]
pub use harness_process as process;
#[cfg(feature = "proto")]
pub use harness_proto as proto;
#[cfg(feature = "server")]
pub use harness_server as server;
#[cfg(feature = "session")]
pub use harness_session as session;
