//! What handlers are told and what they answer.

use bytes::Bytes;
use harness_proto::localharness::{StepUpdate, UserInput, user_input};
use serde_json::{Map, Value};

use crate::{StepId, StopReason};

/// A call of a host tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HostCall {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, as the model gave them: not checked against the schema.
    pub arguments: Map<String, Value>,
    /// The agent that calls, from harnesses that say so (SDK 0.1.17).
    pub trajectory_id: Option<String>,
}

impl HostCall {
    /// The argument of this name; `null` when there is none.
    pub fn argument(&self, name: &str) -> &Value {
        self.arguments.get(name).unwrap_or(&Value::Null)
    }
}

/// What a host tool answers.
///
/// Made from a JSON value or from text. The wire wants an object: any other value travels as
/// `{"result": value}`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolReply {
    pub(crate) value: Value,
    pub(crate) media: Vec<Media>,
}

impl ToolReply {
    /// Attaches a file for the model to look at.
    #[must_use]
    pub fn with_media(mut self, media: Media) -> Self {
        self.media.push(media);
        self
    }
}

impl<T: Into<Value>> From<T> for ToolReply {
    fn from(value: T) -> Self {
        Self {
            value: value.into(),
            media: Vec::new(),
        }
    }
}

/// A file that goes with a tool's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Its MIME type.
    pub mime_type: String,
    /// What it shows; may be empty.
    pub description: String,
    /// Its bytes.
    pub data: Bytes,
}

/// A tool call that somebody has an opinion on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolUse {
    /// The tool, by the name policies know it by.
    pub tool: String,
    /// The MCP server it belongs to.
    pub server: Option<String>,
    /// The arguments, under the names the model uses.
    pub arguments: Map<String, Value>,
    /// The call's id; empty from harnesses that do not say it (before SDK 0.1.10).
    pub call_id: String,
    /// The step, from harnesses that say it (SDK 0.1.13). The closed harness counts differently
    /// here than in step updates.
    pub step: Option<StepId>,
}

impl ToolUse {
    /// The argument of this name; `null` when there is none.
    pub fn argument(&self, name: &str) -> &Value {
        self.arguments.get(name).unwrap_or(&Value::Null)
    }
}

/// A turn that is about to begin.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PreTurn {
    /// What the user said.
    pub input: UserInput,
}

impl PreTurn {
    /// The text parts of the input, put together.
    pub fn text(&self) -> String {
        let parts = self.input.parts.iter();
        let texts = parts.filter_map(|part| match &part.part {
            Some(user_input::part::Part::Text(text)) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// Whether a turn may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreTurnVerdict {
    /// It may.
    Allow,
    /// It may not, for this reason.
    Deny(String),
}

/// A turn that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostTurn {
    /// The last text of the model.
    pub response: String,
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PreToolVerdict {
    /// It may, if the rules agree.
    Allow,
    /// It may, with these arguments in place of those of the same name.
    Modify(Map<String, Value>),
    /// It may not, for this reason.
    Deny(String),
}

/// A call that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostTool {
    /// The tool, by the name policies know it by.
    pub tool: String,
    /// The MCP server it belongs to.
    pub server: Option<String>,
    /// The call's id.
    pub call_id: String,
    /// What it gave.
    pub result: String,
    /// The error, from harnesses that report failures here too.
    pub error: Option<String>,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolFailure {
    /// The tool, by the name policies know it by.
    pub tool: String,
    /// The MCP server it belongs to.
    pub server: Option<String>,
    /// The call's id.
    pub call_id: String,
    /// Why.
    pub error: String,
}

/// History that was summarised.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compaction {
    /// The summary.
    pub summary: String,
}

/// An agent that is about to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stop {
    /// The last text of the model.
    pub response: String,
    /// How often a hook has made it go on in this turn.
    pub continuations: u32,
    /// The limit that stops it, if one does.
    pub stop_reason: Option<StopReason>,
    /// The error it stops with.
    pub error: Option<String>,
}

/// Whether an agent may stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopVerdict {
    /// It may.
    Stop,
    /// It goes on and is told why.
    Continue(String),
}

/// A call that a rule leaves to this program.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PolicyQuestion {
    /// The rule's id, as it was configured. `auto` when a safety review asks.
    pub rule_id: String,
    /// Why it is asked.
    pub reason: Option<String>,
    /// The call.
    pub call: ToolUse,
}

/// What is decided about a call. Final, whatever the rule's own decision is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyVerdict {
    /// It may run.
    Allow,
    /// It may not; the reason may be left out.
    Deny(Option<String>),
    /// The rule does not apply to this call; the next one decides.
    NoMatch,
}

/// How many choices of a question may be picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Selection {
    /// One.
    One,
    /// Any number.
    Many,
}

/// A question of the agent to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// The question.
    pub text: String,
    /// The choices offered.
    pub choices: Vec<String>,
    /// How many of them may be picked.
    pub selection: Selection,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// None was given.
    Skipped,
    /// These choices, by position from 0. Positions that do not exist are left out.
    Choices(Vec<usize>),
    /// The user's own words.
    Text(String),
}

/// A call that waits for a yes or no.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Confirmation {
    /// The step that waits, with the action it is about.
    pub step: Box<StepUpdate>,
}

/// Whether a call that waits may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfirmationVerdict {
    /// It may.
    Accept,
    /// It may not.
    Reject,
}
