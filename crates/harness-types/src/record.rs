//! Records: the log of a conversation, from which everything else is folded.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Action, CallStage, ConversationId, FinishReason, Input, InputId, Media, ModelCallId,
    ModelError, ModelPart, Request, RequestId, RequestOutcome, ResultContent, StepError, StepIndex,
    TimerId, Timestamp, ToolCall, ToolClass, ToolOrigin, ToolResultStatus, TrajectoryId, TurnId,
    TurnStage, Usage,
};

/// One entry of a conversation's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When it was written.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub body: RecordBody,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecordBody {
    /// The conversation began. Always the first record.
    Opened {
        /// Its id; also that of its root trajectory.
        conversation: ConversationId,
    },
    /// The conversation was taken up again by another process. What was open then is closed by the
    /// records that follow.
    Resumed,
    /// Somebody spoke. The input waits until a step boundary.
    InputQueued {
        /// The input.
        input: InputId,
        /// What was said.
        body: Input,
    },
    /// A waiting input was thrown away without reaching the model.
    InputDropped {
        /// The input.
        input: InputId,
    },
    /// A turn began.
    TurnStarted {
        /// Where.
        trajectory: TrajectoryId,
        /// Which.
        turn: TurnId,
    },
    /// A turn went on to its next stage.
    TurnStageChanged {
        /// Where.
        trajectory: TrajectoryId,
        /// The new stage.
        stage: TurnStage,
    },
    /// A waiting input became a step and part of the history.
    InputTaken {
        /// Where.
        trajectory: TrajectoryId,
        /// The input.
        input: InputId,
        /// The step that shows it.
        step: StepIndex,
    },
    /// The loop told the model something that nobody said.
    NoticeGiven {
        /// Where.
        trajectory: TrajectoryId,
        /// What.
        text: String,
    },
    /// The loop told the observers about an error.
    ErrorShown {
        /// Where.
        trajectory: TrajectoryId,
        /// The step that shows it.
        step: StepIndex,
        /// The error.
        error: StepError,
    },
    /// The model is asked. The request itself is the history at this point.
    ModelCallStarted {
        /// Where.
        trajectory: TrajectoryId,
        /// Which request.
        call: ModelCallId,
        /// How often this answer has been asked for before.
        attempt: u32,
    },
    /// The model said something.
    AnswerDelta(AnswerDelta),
    /// The model counted tokens; the last count of a request holds.
    UsageReported {
        /// Where.
        trajectory: TrajectoryId,
        /// Which request.
        call: ModelCallId,
        /// The counts of this request.
        usage: Usage,
    },
    /// The answer ended.
    AnswerEnded {
        /// Where.
        trajectory: TrajectoryId,
        /// Which request.
        call: ModelCallId,
        /// How.
        end: AnswerEnd,
    },
    /// The request will be repeated after a wait.
    RetryScheduled {
        /// Where.
        trajectory: TrajectoryId,
        /// The step that shows it.
        step: StepIndex,
        /// Why.
        error: ModelError,
        /// The wait.
        timer: TimerId,
        /// How long it is.
        wait: Duration,
    },
    /// The wait is over.
    RetryDue {
        /// Where.
        trajectory: TrajectoryId,
        /// The wait.
        timer: TimerId,
    },
    /// A call of the answer became a step.
    CallOpened {
        /// Where.
        trajectory: TrajectoryId,
        /// The step that shows it.
        step: StepIndex,
        /// The call.
        call: ToolCall,
        /// What it may do.
        class: ToolClass,
        /// Where it runs.
        origin: ToolOrigin,
        /// What observers are shown.
        action: Action,
        /// What the model says it is for, in a few words; the text of the step.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        summary: String,
    },
    /// A call went on to its next stage.
    CallStageChanged {
        /// Where.
        trajectory: TrajectoryId,
        /// The call's step.
        step: StepIndex,
        /// The new stage.
        stage: CallStage,
    },
    /// A hook changed the arguments of a call that has not started.
    CallModified {
        /// Where.
        trajectory: TrajectoryId,
        /// The call's step.
        step: StepIndex,
        /// The new arguments.
        args: Map<String, Value>,
        /// What observers are shown now.
        action: Action,
    },
    /// A running call has something to show.
    CallProgressed {
        /// Where.
        trajectory: TrajectoryId,
        /// The call's step.
        step: StepIndex,
        /// What observers are shown now.
        action: Action,
    },
    /// A call ended. Every opened call has exactly one of these.
    CallFinished {
        /// Where.
        trajectory: TrajectoryId,
        /// The call's step.
        step: StepIndex,
        /// How.
        result: CallResult,
    },
    /// All calls of the answer have ended; their results joined the history, in call order.
    CallsSettled {
        /// Where.
        trajectory: TrajectoryId,
    },
    /// The loop asked the outside something.
    RequestOpened {
        /// What.
        request: Request,
    },
    /// The question was answered, or will not be.
    RequestClosed {
        /// Which.
        request: RequestId,
        /// How.
        outcome: RequestOutcome,
    },
    /// A turn ended.
    TurnEnded {
        /// Where.
        trajectory: TrajectoryId,
        /// How.
        end: TurnEnd,
    },
    /// The client asked for the session to end.
    SessionEnding {
        /// Bounds the wait for the hook.
        timer: TimerId,
    },
    /// The session's end has been dealt with.
    SessionEnded,
}

impl RecordBody {
    /// The value of `type` in its JSON form.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::Resumed => "resumed",
            Self::InputQueued { .. } => "input_queued",
            Self::InputDropped { .. } => "input_dropped",
            Self::TurnStarted { .. } => "turn_started",
            Self::TurnStageChanged { .. } => "turn_stage_changed",
            Self::InputTaken { .. } => "input_taken",
            Self::NoticeGiven { .. } => "notice_given",
            Self::ErrorShown { .. } => "error_shown",
            Self::ModelCallStarted { .. } => "model_call_started",
            Self::AnswerDelta(_) => "answer_delta",
            Self::UsageReported { .. } => "usage_reported",
            Self::AnswerEnded { .. } => "answer_ended",
            Self::RetryScheduled { .. } => "retry_scheduled",
            Self::RetryDue { .. } => "retry_due",
            Self::CallOpened { .. } => "call_opened",
            Self::CallStageChanged { .. } => "call_stage_changed",
            Self::CallModified { .. } => "call_modified",
            Self::CallProgressed { .. } => "call_progressed",
            Self::CallFinished { .. } => "call_finished",
            Self::CallsSettled { .. } => "calls_settled",
            Self::RequestOpened { .. } => "request_opened",
            Self::RequestClosed { .. } => "request_closed",
            Self::TurnEnded { .. } => "turn_ended",
            Self::SessionEnding { .. } => "session_ending",
            Self::SessionEnded => "session_ended",
        }
    }

    /// Whether this record is a piece of work in progress: adjacent ones may be merged, and those
    /// at the very end of a log may be lost when a process dies. A store must not leave one out
    /// before a record it keeps: the text and the calls of an answer are nowhere else.
    pub fn is_progress(&self) -> bool {
        matches!(self, Self::AnswerDelta(_) | Self::CallProgressed { .. })
    }
}

/// The next piece of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerDelta {
    /// Where.
    pub trajectory: TrajectoryId,
    /// Which request.
    pub call: ModelCallId,
    /// The step that shows text and thoughts of this answer; `None` for a call.
    pub step: Option<StepIndex>,
    /// The piece.
    pub part: ModelPart,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerEnd {
    /// Well; it is part of the history.
    Complete {
        /// The model's reason.
        finish: FinishReason,
    },
    /// It was cut. Its text, and those of its calls that were opened, are part of the history.
    Partial {
        /// Why.
        reason: String,
    },
    /// The provider or the transport failed before anything irrevocable; it is not part of the
    /// history.
    Failed {
        /// Why.
        reason: String,
    },
    /// The model ended it in a way that cannot be used; it is not part of the history.
    Unusable {
        /// Why.
        reason: String,
    },
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// How.
    pub status: ToolResultStatus,
    /// What the model is told.
    pub content: ResultContent,
    /// Attachments for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// What observers are shown; `None` keeps what the step shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// What observers are told went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnEnd {
    /// The model had nothing more to do.
    Completed,
    /// The model gave its structured answer.
    Finished {
        /// The answer, as JSON text.
        output: String,
    },
    /// Somebody halted it.
    Halted,
    /// The process that ran it ended in the middle of it.
    Interrupted,
    /// A hook refused it before it began.
    Denied {
        /// Why.
        reason: String,
    },
    /// A limit ended it.
    Stopped {
        /// Which.
        reason: StopReason,
    },
    /// It failed.
    Failed {
        /// Why.
        error: StepError,
    },
}

/// A limit that ends a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The budget of model calls is used up.
    MaxModelCalls,
    /// The budget of tool calls is used up.
    MaxToolCalls,
    /// The budget of prompt tokens is used up.
    MaxInputTokens,
    /// The budget of answer tokens is used up.
    MaxOutputTokens,
    /// The budget of tokens is used up.
    MaxTotalTokens,
    /// The provider's quota is used up.
    QuotaExhausted,
}

/// What an observer has to look at after a record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Touch {
    /// A step is new or has changed.
    Step {
        /// Where.
        trajectory: TrajectoryId,
        /// Which.
        step: StepIndex,
    },
    /// A turn began.
    TurnStarted {
        /// Where.
        trajectory: TrajectoryId,
    },
    /// A turn ended.
    TurnEnded {
        /// Where.
        trajectory: TrajectoryId,
        /// How.
        end: TurnEnd,
    },
    /// The usage totals have changed.
    Usage,
    /// A request was opened.
    RequestOpened(RequestId),
    /// A request was closed.
    RequestClosed(RequestId),
    /// The session's end has been dealt with.
    SessionEnded,
}
