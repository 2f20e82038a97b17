//! What a turn came to, collected while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use harness_host::Update;
use harness_types::{
    ConversationId, Source, Step, StepIndex, StopReason, Target, TrajectoryId, TurnEnd, Usage,
};
use serde::Serialize;
use serde_json::Value;

/// What has happened so far in a turn.
#[derive(Debug)]
pub(crate) struct Report {
    root: TrajectoryId,
    began: Instant,
    texts: BTreeMap<StepIndex, String>,
    steps: BTreeSet<(TrajectoryId, StepIndex)>,
    calls: BTreeSet<(TrajectoryId, StepIndex)>,
    usage: Usage,
    /// Calls that were refused because nobody could be asked.
    pub(crate) unanswered: u64,
    /// Calls that were refused by whoever was asked.
    pub(crate) refused: u64,
    /// How the turn ended, once it has.
    pub(crate) end: Option<TurnEnd>,
}

impl Report {
    /// Of a turn that begins now.
    pub(crate) fn new(conversation: &ConversationId) -> Self {
        Self {
            root: TrajectoryId::root(conversation),
            began: Instant::now(),
            texts: BTreeMap::new(),
            steps: BTreeSet::new(),
            calls: BTreeSet::new(),
            usage: Usage::default(),
            unanswered: 0,
            refused: 0,
            end: None,
        }
    }

    /// Takes an update into account.
    pub(crate) fn see(&mut self, update: &Update) {
        match update {
            Update::Step(change) => {
                let place = (change.trajectory.clone(), change.step.index);
                if change.step.call.is_some() {
                    self.calls.insert(place.clone());
                }
                self.steps.insert(place);
                if change.trajectory == self.root && is_answer(&change.step) {
                    self.texts
                        .insert(change.step.index, change.step.text.clone());
                }
            }
            Update::Usage { total, .. } => self.usage = total.clone(),
            Update::TurnEnded { trajectory, end } if *trajectory == self.root => {
                self.end = Some(end.clone());
            }
            _ => {}
        }
    }

    /// How long the turn has been running.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether this is a step of the agent the user talks to.
    pub(crate) fn is_root(&self, trajectory: &TrajectoryId) -> bool {
        *trajectory == self.root
    }

    /// The answer: the texts of the agent, with an empty line between two.
    pub(crate) fn text(&self) -> String {
        let texts: Vec<&str> = self
            .texts
            .values()
            .map(|text| text.trim_end_matches('\n'))
            .filter(|text| !text.is_empty())
            .collect();
        texts.join("\n\n")
    }

    /// Tokens used so far in the conversation.
    pub(crate) fn tokens(&self) -> Tokens {
        Tokens::of(&self.usage)
    }

    /// The whole as the object that `--output json` prints.
    pub(crate) fn summary(&self) -> Summary {
        let (status, structured_output, stop_reason, error) = match &self.end {
            Some(TurnEnd::Completed) => (Status::Completed, None, None, None),
            Some(TurnEnd::Finished { output }) => {
                // The loop has checked it against the schema.
                let output = serde_json::from_str(output).unwrap_or(Value::Null);
                (Status::Completed, Some(output), None, None)
            }
            Some(TurnEnd::Stopped { reason }) => (Status::Stopped, None, Some(*reason), None),
            Some(TurnEnd::Failed { error }) => {
                let error = Problem {
                    message: error.message.clone(),
                    http_code: error.http_code,
                };
                (Status::Failed, None, None, Some(error))
            }
            Some(TurnEnd::Denied { reason }) => {
                let error = Problem {
                    message: reason.clone(),
                    http_code: None,
                };
                (Status::Failed, None, None, Some(error))
            }
            _ => (Status::Halted, None, None, None),
        };
        Summary {
            conversation: self.root.to_string(),
            status,
            text: self.text(),
            structured_output,
            usage: Tokens::of(&self.usage),
            steps: self.steps.len(),
            tool_calls: self.calls.len(),
            refused_calls: self.refused + self.unanswered,
            stop_reason,
            error,
            duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Whether a step holds text of the model for the user.
pub(crate) fn is_answer(step: &Step) -> bool {
    step.source == Source::Model && step.target == Target::User && step.call.is_none()
}

/// What a turn came to. Part of the program's interface: fields are added, not changed.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    conversation: String,
    status: Status,
    text: String,
    structured_output: Option<Value>,
    usage: Tokens,
    steps: usize,
    tool_calls: usize,
    refused_calls: u64,
    stop_reason: Option<StopReason>,
    error: Option<Problem>,
    duration_ms: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Completed,
    Failed,
    Stopped,
    Halted,
}

#[derive(Debug, Serialize)]
struct Problem {
    message: String,
    http_code: Option<u16>,
}

/// Token counts of the conversation so far.
#[derive(Debug, Serialize)]
pub(crate) struct Tokens {
    prompt_tokens: u64,
    cached_tokens: u64,
    answer_tokens: u64,
    thinking_tokens: u64,
    total_tokens: u64,
}

impl Tokens {
    /// Of what the models have counted.
    pub(crate) fn of(usage: &Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            answer_tokens: usage.candidates_tokens,
            thinking_tokens: usage.thoughts_tokens,
            total_tokens: usage.total_tokens,
        }
    }
}

impl std::fmt::Display for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} tokens: {} read ({} from a cache), {} written, {} thought",
            self.total_tokens,
            self.prompt_tokens,
            self.cached_tokens,
            self.answer_tokens,
            self.thinking_tokens
        )
    }
}
