//! What the loop asks the outside, and how it is answered: one mechanism for host calls, hooks,
//! policy decisions and questions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{InputId, InputPart, Media, RequestId, StepIndex, ToolCall, TrajectoryId};

/// A question the loop has asked and waits for.
///
/// It is answered once; a later or wrong answer is ignored with a log line. A halt cancels it. It
/// is shown again to a client that attaches while it is open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Its id.
    pub id: RequestId,
    /// The trajectory that waits.
    pub trajectory: TrajectoryId,
    /// The step that waits, when it is about one.
    pub step: Option<StepIndex>,
    /// What is asked.
    pub payload: RequestPayload,
}

/// What kind of answer a request needs; a front end says which kinds it can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RequestKind {
    /// Run a host tool.
    HostCall,
    /// Run a hook.
    Hook,
    /// Decide a policy rule that cannot be decided here.
    PolicyDecision,
    /// Ask the user questions.
    Question,
    /// Ask whether a call may run.
    Confirmation,
}

/// What a request asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RequestPayload {
    /// Run a host tool.
    HostCall {
        /// The call.
        call: ToolCall,
    },
    /// Run a hook.
    Hook {
        /// Which one, with what it is told.
        hook: HookCall,
    },
    /// Decide a rule.
    PolicyDecision {
        /// The rule's id, as the client named it.
        rule: String,
        /// Why the rule asks.
        reason: Option<String>,
        /// The name policies know the tool by.
        tool: String,
        /// The call.
        call: ToolCall,
    },
    /// Ask the user.
    Question {
        /// What.
        questions: Vec<Question>,
    },
    /// May this call run?
    Confirmation {
        /// The name policies know the tool by.
        tool: String,
        /// The call.
        call: ToolCall,
        /// The rule that asks.
        rule: String,
    },
}

impl RequestPayload {
    /// The kind of answer it needs.
    pub fn kind(&self) -> RequestKind {
        match self {
            Self::HostCall { .. } => RequestKind::HostCall,
            Self::Hook { .. } => RequestKind::Hook,
            Self::PolicyDecision { .. } => RequestKind::PolicyDecision,
            Self::Question { .. } => RequestKind::Question,
            Self::Confirmation { .. } => RequestKind::Confirmation,
        }
    }
}

/// A hook and what it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookCall {
    /// Before the first turn.
    SessionStart,
    /// Before the session ends.
    SessionEnd,
    /// Before a turn.
    PreTurn {
        /// The last input the hook is shown: what it decides, it decides about the inputs up to
        /// this one.
        shown: Option<InputId>,
        /// What the user said.
        parts: Vec<InputPart>,
    },
    /// After a turn.
    PostTurn {
        /// The last text of the model.
        response: String,
    },
    /// Before a call runs.
    PreTool {
        /// The name policies know the tool by.
        tool: String,
        /// The call.
        call: ToolCall,
    },
    /// After a call succeeded.
    PostTool {
        /// The name policies know the tool by.
        tool: String,
        /// The call.
        call: ToolCall,
        /// What it said.
        result: String,
    },
    /// After a call failed.
    ToolError {
        /// The name policies know the tool by.
        tool: String,
        /// The call.
        call: ToolCall,
        /// Why.
        error: String,
    },
    /// Before a turn ends.
    Stop {
        /// The last text of the model.
        response: String,
        /// How often this turn has been continued by this hook.
        continuations: u32,
        /// The error the turn ends with.
        error: Option<String>,
        /// The limit that ends the turn.
        stop_reason: Option<crate::StopReason>,
    },
}

/// What a hook decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookVerdict {
    /// No opinion: go on.
    Continue,
    /// Go on, with these arguments in place of the call's own.
    Modify {
        /// Arguments by name; they replace those of the same name, others stay.
        args: Map<String, Value>,
    },
    /// Refuse.
    Deny {
        /// Why.
        reason: String,
    },
    /// Do not stop yet.
    KeepGoing {
        /// What the model is told.
        reason: String,
    },
    /// Tell the model this in place of the error.
    ReplaceError {
        /// The text.
        message: String,
    },
    /// The hook itself failed.
    Failed {
        /// Why.
        message: String,
    },
}

/// What the client says about a rule it was asked to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PolicyOutcome {
    /// The call may run.
    Allow,
    /// It may not.
    Deny {
        /// Why, when a reason was given.
        reason: Option<String>,
    },
    /// The rule does not apply after all; the next one decides.
    NoMatch,
}

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The question.
    pub question: String,
    /// The choices, at least two.
    pub options: Vec<String>,
    /// How many may be chosen.
    pub choice: Choice,
}

/// How many options of a question may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// One.
    One,
    /// Any number.
    Many,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionAnswer {
    /// The user skipped it.
    Skipped,
    /// The user chose.
    Chosen {
        /// Indexes into the options, from 0.
        options: Vec<u32>,
        /// What the user wrote besides or instead.
        text: String,
    },
}

/// What a host tool says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostResponse {
    /// Any JSON value.
    Value(Value),
    /// Text that is not JSON, as it came.
    Text(String),
    /// The tool failed.
    Error(String),
}

/// A host tool's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostAnswer {
    /// What it says.
    pub response: HostResponse,
    /// Attachments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RequestAnswer {
    /// Answers [`RequestPayload::HostCall`].
    Host(HostAnswer),
    /// Answers [`RequestPayload::Hook`].
    Hook(HookVerdict),
    /// Answers [`RequestPayload::PolicyDecision`] and [`RequestPayload::Confirmation`].
    Policy(PolicyOutcome),
    /// Answers [`RequestPayload::Question`]; `None` when the user dismissed the questions.
    Question(Option<Vec<QuestionAnswer>>),
}

impl RequestAnswer {
    /// Whether this is the kind of answer `kind` needs.
    pub fn fits(&self, kind: RequestKind) -> bool {
        match self {
            Self::Host(_) => kind == RequestKind::HostCall,
            Self::Hook(_) => kind == RequestKind::Hook,
            Self::Policy(_) => {
                matches!(
                    kind,
                    RequestKind::PolicyDecision | RequestKind::Confirmation
                )
            }
            Self::Question(_) => kind == RequestKind::Question,
        }
    }
}

/// How a request was closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RequestOutcome {
    /// Somebody answered.
    Answered(RequestAnswer),
    /// Nobody will: the turn was halted, or nobody is there who could.
    Cancelled,
}
