//! Steps: what an observer of a trajectory is shown.

use serde::{Deserialize, Serialize};

use crate::{Action, CallId, RequestId, StepIndex};

/// One visible thing that happened in a trajectory. Folded from records, never stored itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its place.
    pub index: StepIndex,
    /// How far it is.
    pub state: StepState,
    /// Who it comes from.
    pub source: Source,
    /// Whom it is for.
    pub target: Target,
    /// Text; only ever grows.
    pub text: String,
    /// Thoughts; only ever grow.
    pub thinking: String,
    /// What it does to the world.
    pub action: Option<Action>,
    /// What went wrong.
    pub error: Option<StepError>,
    /// The call it shows.
    pub call: Option<CallId>,
    /// The request it waits for.
    pub request: Option<RequestId>,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepState {
    /// Still changing.
    Active,
    /// Waits for a person.
    Waiting,
    /// Ended well.
    Done,
    /// Ended with an error, which [`Step::error`] tells.
    Error,
}

impl StepState {
    /// Whether the step will not change any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Error)
    }
}

/// Who a step comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// The loop itself, or an automation.
    System,
    /// The user.
    User,
    /// The model.
    Model,
}

/// Whom a step is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Target {
    /// The user.
    User,
    /// The model.
    Model,
    /// The world.
    Environment,
}

/// What went wrong in a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepError {
    /// For a reader.
    pub message: String,
    /// The HTTP status code behind it, if there was one that the reader should act on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_code: Option<u16>,
}
