//! Tools: how they are described, called and answered.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Action, BoxFuture, CallId, ConversationId, Media, StepIndex, TrajectoryId};

/// What a call may do to the world; decides when it may start and whether it may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// Changes nothing. May run beside other calls, and before the answer that holds it is
    /// complete.
    ReadOnly,
    /// Changes something, but doing it twice is the same as doing it once.
    Idempotent,
    /// Changes something. Waits for all earlier calls and holds later ones.
    Mutating,
    /// Runs outside this process, with effects nobody here knows. Runs beside other external calls.
    External,
}

/// Where a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolOrigin {
    /// In this process, as a [`Tool`].
    BuiltIn,
    /// In the client: the loop asks with a request.
    Host,
    /// In the loop itself: it asks a person.
    Question,
    /// In the loop itself: it ends the turn.
    Finish,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name the model calls it by: 1 to 64 of `[a-zA-Z0-9_-]`.
    pub name: String,
    /// The name policies and hooks know it by, where it differs from `name`.
    pub policy_name: String,
    /// What it does, in words for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object schema; sent to the model as it is.
    pub parameters: Value,
    /// What a call may do.
    pub class: ToolClass,
    /// Where a call runs.
    pub origin: ToolOrigin,
}

/// A call of a tool, as the model made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its id.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub args: Map<String, Value>,
}

/// What a call says to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResultContent {
    /// Text.
    Text(String),
    /// A JSON object.
    Json(Map<String, Value>),
}

/// What a call that did its work hands back.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// What the model is told.
    pub content: ResultContent,
    /// Attachments for the model.
    pub media: Vec<Media>,
    /// What observers are shown; `None` keeps the action the call opened with.
    pub action: Option<Action>,
}

impl ToolOutput {
    /// Output that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: ResultContent::Text(text.into()),
            media: Vec::new(),
            action: None,
        }
    }

    /// Adds what observers are shown.
    #[must_use]
    pub fn with_action(mut self, action: Action) -> Self {
        self.action = Some(action);
        self
    }
}

/// A call that did not do its work. The model and the observers are told; the turn goes on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments cannot be used; nothing was done.
    #[error("{message}")]
    InvalidArguments {
        /// Which argument, what was expected, what was given.
        message: String,
    },
    /// The work was tried and failed.
    #[error("{message}")]
    Failed {
        /// What went wrong, where, and what to do, in words for the model.
        message: String,
        /// What observers are shown, when there is more to show than the call itself.
        action: Option<Box<Action>>,
    },
}

impl ToolError {
    /// An error about the arguments.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidArguments {
            message: message.into(),
        }
    }

    /// An error of the work itself.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            action: None,
        }
    }
}

/// Receives what a running call wants to show before it has ended.
pub type ToolProgress = Arc<dyn Fn(Action) + Send + Sync>;

/// What a call may know of its surroundings.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The conversation.
    pub conversation: ConversationId,
    /// The trajectory the call belongs to.
    pub trajectory: TrajectoryId,
    /// The step that shows the call.
    pub step: StepIndex,
    /// The folders of the conversation; the first one is where relative work happens.
    pub workspaces: Arc<[PathBuf]>,
    /// Receives intermediate views. Calls are cheap; they are coalesced behind this.
    pub progress: ToolProgress,
}

impl ToolContext {
    /// A context whose progress goes nowhere.
    pub fn new(
        conversation: ConversationId,
        step: StepIndex,
        workspaces: impl Into<Arc<[PathBuf]>>,
    ) -> Self {
        Self {
            trajectory: TrajectoryId::root(&conversation),
            conversation,
            step,
            workspaces: workspaces.into(),
            progress: Arc::new(|_| {}),
        }
    }

    /// The same context with another receiver of progress.
    #[must_use]
    pub fn with_progress(mut self, progress: ToolProgress) -> Self {
        self.progress = progress;
        self
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("conversation", &self.conversation)
            .field("step", &self.step)
            .field("workspaces", &self.workspaces)
            .finish_non_exhaustive()
    }
}

/// A tool that runs in this process.
///
/// # Cancel safety
///
/// The loop cancels a call by dropping its future. An implementation must leave nothing running
/// and nothing half-written behind when that happens.
pub trait Tool: Send + Sync + fmt::Debug {
    /// How the tool is described. Asked once, when the tool is registered.
    fn spec(&self) -> ToolSpec;

    /// What observers are shown when a call opens. The arguments have passed the tool's schema.
    fn opening(&self, call: &ToolCall) -> Action {
        Action::Tool { call: call.clone() }
    }

    /// The paths a call wants to reach, for containment; empty when it reaches none. A relative
    /// path is refused by the tool itself.
    fn paths(&self, args: &Map<String, Value>) -> Vec<PathBuf> {
        let _ = args;
        Vec::new()
    }

    /// Does the work. The arguments have passed the tool's schema.
    ///
    /// # Errors
    ///
    /// [`ToolError`] tells the model what went wrong; it ends nothing but the call.
    fn call<'a>(
        &'a self,
        context: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}
