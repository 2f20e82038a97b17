//! Drives an agent harness: starts one, or connects to one, and has conversations with it.
//!
//! A harness is a program that runs an AI agent: it talks to the model, runs tools, stores the
//! conversation. This crate is the other end of its wire, for Rust programs that want such an
//! agent without being one. It speaks with the `localharness` of this workspace and with the
//! closed one inside the Python package `google-antigravity` alike.
//!
//! ```no_run
//! use harness_client::{
//!     Builtin, ConversationConfig, Launch, Model, Rule, SearchEnvironment, find_harness,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let found = find_harness(None, &SearchEnvironment::current())?;
//! let harness = Launch::new(found.program).start().await?;
//!
//! let config = ConversationConfig::new(Model::gemini("gemini-3-flash"))
//!     .workspace("/home/me/project")
//!     .tools([Builtin::ViewFile, Builtin::ListDirectory, Builtin::RunCommand])
//!     .rule(Rule::deny("run_command").because("read only, please"));
//! let session = harness.session(config).open().await?;
//!
//! println!("{}", session.chat("What is in here?").await?.text().await?);
//!
//! let status = harness.shutdown().await?;
//! assert!(status.is_success());
//! # Ok(())
//! # }
//! ```
//!
//! | to … | use |
//! |---|---|
//! | find the program | [`find_harness`] |
//! | start and end the process | [`Launch`], [`Harness`] |
//! | connect to one that runs | [`Endpoint`] |
//! | say what a conversation is made from | [`ConversationConfig`], [`Model`], [`Rule`] |
//! | offer tools, run hooks, decide, answer questions | [`Handlers`] |
//! | talk | [`Session`], [`Turn`], [`Event`] |
//!
//! # What can be relied on
//!
//! * The connection is read by a task of its own: pings, hooks and host tools are served whether
//!   or not anybody waits for a turn. Handlers run side by side; a panic is an answer with an
//!   error.
//! * A turn has exactly the frames of its input. A turn that is dropped is halted and its rest
//!   thrown away before the next begins.
//! * A closed connection is an error, never an empty answer, and so is a turn that failed without
//!   a word.
//! * [`Session::halt`] works at any time, from any task.
//! * A handler that fails never permits anything.
//! * A harness that is dropped does not live on.
//!
//! # Limits
//!
//! Each wait and each buffer has a bound, listed in [`Limits`]; a turn has none. Works on Unix,
//! tested on Linux. Needs a tokio runtime with I/O and time.

mod config;
mod connect;
mod discovery;
mod endpoint;
mod error;
mod event;
mod feed;
mod handlers;
mod handshake;
mod harness;
mod input;
mod limits;
mod link;
mod opening;
mod requests;
mod secret;
mod session;
mod stderr;
mod tracker;
mod turn;

pub use config::{Behavior, Builtin, Containment, Continuation, ConversationConfig, Model, Rule};
pub use discovery::{
    Found, HARNESS_PATH_VARIABLE, NotFound, Origin, SearchEnvironment, Tried, Unusable,
    find_harness,
};
pub use endpoint::Endpoint;
pub use error::{CloseCause, Closed, ConnectError, Error, HandshakeError, TurnError};
pub use event::{Event, Outcome, StepId, StopReason, TurnEnd};
pub use handlers::{
    Answer, Compaction, Confirmation, ConfirmationVerdict, HandlerError, Handlers, HostCall,
    HostTool, Media, PolicyQuestion, PolicyVerdict, PostTool, PostTurn, PreToolVerdict, PreTurn,
    PreTurnVerdict, Question, Selection, Stop, StopVerdict, ToolFailure, ToolReply, ToolUse,
};
pub use harness::{Harness, Launch};
pub use harness_process::{Environment, ExitStatus};
/// The messages of the wire, which events and configurations are made of.
pub use harness_proto::localharness as wire;
pub use input::Input;
pub use limits::Limits;
pub use opening::SessionBuilder;
pub use secret::Secret;
pub use session::{Dialect, Session};
pub use stderr::StderrTail;
pub use turn::Turn;
