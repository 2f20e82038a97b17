use harness_proto::localharness::{
    StepUpdate, ToolCall, TrajectoryStateUpdate, UsageMetadata, UsageUpdate,
    trajectory_state_update,
};

use crate::TurnError;

/// A step of an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct StepId {
    /// The agent's run.
    pub trajectory_id: String,
    /// The step's number in it, from 0.
    pub index: u32,
}

impl StepId {
    pub(crate) fn of(step: &StepUpdate) -> Self {
        Self {
            trajectory_id: step.trajectory_id().to_owned(),
            index: step.step_index(),
        }
    }
}

/// Something that happened in a turn.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The answer grew. Only the root agent's own text: neither subagents nor tools, and never
    /// the text of a step that failed.
    TextDelta {
        /// The step it belongs to.
        step: StepId,
        /// What was added.
        text: String,
    },
    /// The model's thoughts grew; steps as in [`Event::TextDelta`].
    ThinkingDelta {
        /// The step it belongs to.
        step: StepId,
        /// What was added.
        text: String,
    },
    /// A step of any agent began or changed in something else than its text. The update is
    /// complete, text included.
    Step(Box<StepUpdate>),
    /// A host tool of this program was called; its handler is running.
    ToolCall(Box<ToolCall>),
    /// Tokens used so far, cumulative over the conversation.
    Usage(Box<UsageUpdate>),
    /// An agent changed its state without ending the turn.
    Trajectory(Box<TrajectoryStateUpdate>),
    /// The turn is over. Always the last event.
    Idle(Box<TurnEnd>),
}

/// How a turn ended and what it came to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TurnEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// The answer: the text of the root agent's steps that did not fail, in order, with an empty
    /// line between two steps.
    pub text: String,
    /// The structured result, as JSON text, when the agent handed one in.
    pub finish: Option<String>,
    /// Tokens used so far, cumulative over the conversation, if the harness said.
    pub usage: Option<UsageMetadata>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The agent was done.
    Completed,
    /// A limit of the budget was reached.
    Stopped(StopReason),
    /// It was halted; the text may be incomplete.
    Halted,
    /// It failed, or was not allowed to begin.
    Failed(TurnError),
}

/// The limit that ended a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// Requests to the model.
    ModelCalls,
    /// Tool calls.
    ToolCalls,
    /// Tokens read by the model.
    InputTokens,
    /// Tokens written by the model.
    OutputTokens,
    /// Tokens in all.
    TotalTokens,
    /// The quota of the account.
    Quota,
    /// One that this version does not know, by its number on the wire.
    Other(i32),
}

impl StopReason {
    /// `None` for "no limit".
    pub(crate) fn from_wire(number: i32) -> Option<Self> {
        use trajectory_state_update::StopReason as Wire;
        Some(match Wire::try_from(number) {
            Ok(Wire::Unspecified) => return None,
            Ok(Wire::MaxModelCallsExceeded) => Self::ModelCalls,
            Ok(Wire::MaxToolCallsExceeded) => Self::ToolCalls,
            Ok(Wire::MaxInputTokensExceeded) => Self::InputTokens,
            Ok(Wire::MaxOutputTokensExceeded) => Self::OutputTokens,
            Ok(Wire::MaxTotalTokensExceeded) => Self::TotalTokens,
            Ok(Wire::QuotaExhausted) => Self::Quota,
            Err(_) => Self::Other(number),
        })
    }
}
