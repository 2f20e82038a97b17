//! The vocabulary shared by models, tools, sessions and the agent loop.
//!
//! Everything above this crate speaks these words and nothing else: a model provider implements
//! [`Model`], a tool implements [`Tool`], a session database implements [`SessionStore`], the loop
//! turns [`Command`]s into [`Record`]s, and whoever watches reads the [`Conversation`] those
//! records fold into. No type here knows a wire format, a runtime or an operating system.
//!
//! # The log is the loop
//!
//! A conversation **is** its records. [`Conversation::apply`] is the only thing that changes a
//! conversation, and [`Conversation::fold`] rebuilds one from its log:
//!
//! ```
//! use harness_types::{Conversation, ConversationId, InputId, InputPart, Record, RecordBody, Timestamp};
//!
//! let id: ConversationId = "0123456789abcdef0123456789abcdef".parse()?;
//! let record = |body| Record { at: Timestamp::from_micros(0), body };
//! let log = [
//!     record(RecordBody::Opened { conversation: id.clone() }),
//!     record(RecordBody::InputQueued {
//!         input: InputId::new(0),
//!         body: harness_types::Input::user([InputPart::text("hello")]),
//!     }),
//! ];
//! let conversation = Conversation::fold(&log);
//! assert_eq!(conversation.id(), &id);
//! assert_eq!(conversation.queued().len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who should depend on this crate
//!
//! Authors of a model provider, a tool or a session store. Programs that want a whole agent take
//! `harness-sdk`, which brings this crate along.
//!
//! # Limits
//!
//! Nothing here reads the clock, the environment, the network or a file. Every collection is as
//! large as its owner lets it grow; the bounds are kept by the loop and the front ends.

mod action;
mod command;
mod config;
mod content;
mod fold;
mod id;
mod model;
mod prelude;
mod record;
mod request;
mod retry;
mod schema;
mod script;
mod secret;
mod step;
mod store;
mod time;
mod tool;
mod usage;

pub use action::{Action, DiffBlock, DiffLine, DirEntry, EntryKind, LineChange};
pub use command::{Command, Note};
pub use config::{
    AgentBehavior, Budget, BudgetScope, Config, Containment, GenerationOptions, Hook, HookSet,
    HostToolSpec, Limits, PolicyDecision, PolicyRule, PolicySpec, PromptSection,
    SystemInstructions,
};
pub use content::{
    Input, InputKind, InputPart, Media, Message, ModelPart, ToolResult, ToolResultStatus,
};
pub use fold::{
    Answer, AnswerState, Call, CallStage, Conversation, ModelCall, QueuedInput, RepeatedCall,
    Spent, Trajectory, Turn, TurnStage, Waiting,
};
pub use id::{
    CallId, ConversationId, IdError, InputId, ModelCallId, RequestId, StepIndex, TimerId,
    TrajectoryId, TurnId,
};
pub use model::{
    FinishReason, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelStream, Quota,
};
pub use prelude::BoxFuture;
pub use record::{
    AnswerDelta, AnswerEnd, CallResult, Record, RecordBody, StopReason, Touch, TurnEnd,
};
pub use request::{
    Choice, HookCall, HookVerdict, HostAnswer, HostResponse, PolicyOutcome, Question,
    QuestionAnswer, Request, RequestAnswer, RequestKind, RequestOutcome, RequestPayload,
};
pub use retry::{RetryClass, RetrySchedule};
pub use schema::{RECORD_FORMAT, RecordFormat};
pub use script::{
    Expectation, Gate, GatePass, Script, ScriptError, ScriptedEnd, ScriptedModel, ScriptedPart,
    ScriptedTurn, Sleeper, check_request, thread_sleeper,
};
pub use secret::Secret;
pub use step::{Source, Step, StepError, StepState, Target};
pub use store::{Loaded, MemoryStore, SessionStore, StoreError};
pub use time::Timestamp;
pub use tool::{
    ResultContent, Tool, ToolCall, ToolClass, ToolContext, ToolError, ToolOrigin, ToolOutput,
    ToolProgress, ToolSpec,
};
pub use usage::{ModalityCount, Usage};
