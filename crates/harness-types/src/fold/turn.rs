//! A running turn: the answer that comes in and the calls it holds.

use serde::{Deserialize, Serialize};

use crate::{
    CallId, CallResult, ModelCallId, ModelPart, ResultContent, StepIndex, TimerId, ToolCall,
    ToolClass, ToolOrigin, TurnEnd, TurnId, Usage,
};

/// A call that ended with a result, and how often it did in the running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatedCall {
    /// A digest of the tool, the arguments and the result.
    pub digest: u64,
    /// How often.
    pub count: u32,
}

/// How many different calls a turn remembers to recognise repetition.
const REMEMBERED_CALLS: usize = 32;

/// A running turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// How far it is.
    pub stage: TurnStage,
    /// The answer that is coming in, or the wait before asking again.
    pub waiting: Waiting,
    /// How often the answer now wanted has been asked for before.
    pub attempt: u32,
    /// How many answers in a row could not be used.
    pub unusable: u32,
    /// How many answers in a row were cut after one of their calls had begun.
    pub cut: u32,
    /// How many of those have been waited for before asking again.
    pub cut_waited: u32,
    /// How many answers in a row held nothing but failed calls that never ran.
    pub invalid: u32,
    /// The calls of the answer, in call order.
    pub calls: Vec<Call>,
    /// The answer that holds `calls` has ended.
    pub answer_ended: bool,
    /// How often a stop hook has continued the turn.
    pub continuations: u32,
    /// The last text of the model in this turn.
    pub response: String,
    /// Whether a call of this turn has been answered to the model.
    pub worked: bool,
    /// The calls seen lately with their results, most recent last.
    pub repeated: Vec<RepeatedCall>,
}

/// How far a turn is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnStage {
    /// The session-start hook comes first.
    SessionStart,
    /// The pre-turn hook comes next.
    PreTurn,
    /// The model and the tools work.
    Running,
    /// The stop hook is asked whether the turn may end.
    Stopping {
        /// How it would end.
        end: TurnEnd,
    },
    /// The post-turn hook comes last.
    PostTurn {
        /// How it ends.
        end: TurnEnd,
    },
}

/// What a running turn waits for from the model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Waiting {
    /// Nothing.
    Nothing,
    /// An answer is coming in.
    Answer(ModelCall),
    /// A wait before the request is repeated.
    Retry(TimerId),
}

/// An answer that is coming in.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The request.
    pub id: ModelCallId,
    /// What came so far.
    pub answer: Answer,
    /// The last counts of this request.
    pub usage: Option<Usage>,
}

/// What came of an answer so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// Its parts.
    pub parts: Vec<ModelPart>,
    /// The step that shows its text and thoughts.
    pub step: Option<StepIndex>,
}

/// What an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerState {
    /// Neither text nor calls.
    Empty,
    /// Text, no calls.
    Text,
    /// Calls.
    Calls,
}

impl Answer {
    /// What the answer holds.
    pub fn state(&self) -> AnswerState {
        let mut state = AnswerState::Empty;
        for part in &self.parts {
            match part {
                ModelPart::Call { .. } => return AnswerState::Calls,
                ModelPart::Text { text, .. } if !text.is_empty() => state = AnswerState::Text,
                ModelPart::Text { .. } | ModelPart::Thought { .. } => {}
            }
        }
        state
    }

    /// The calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            ModelPart::Call { call, .. } => Some(call),
            _ => None,
        })
    }
}

/// A call of the last answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The step that shows it.
    pub step: StepIndex,
    /// The call, with the arguments it runs with.
    pub call: ToolCall,
    /// What it may do.
    pub class: ToolClass,
    /// Where it runs.
    pub origin: ToolOrigin,
    /// How far it is.
    pub stage: CallStage,
    /// Whether it has ever run.
    pub ran: bool,
    /// How it ended.
    pub result: Option<CallResult>,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallStage {
    /// The pre-tool hook comes first.
    Hook,
    /// The policy decides, from the rule with this number on.
    Policy {
        /// The first rule not yet looked at.
        from: u32,
    },
    /// It may run when its turn comes.
    Ready,
    /// It runs.
    Running,
    /// It ran; the hook that follows has to be asked.
    Ran {
        /// How it ended, unless the hook changes that.
        result: Box<CallResult>,
    },
    /// It has ended.
    Done,
}

impl Turn {
    pub(super) fn new(id: TurnId) -> Self {
        Self {
            id,
            stage: TurnStage::SessionStart,
            waiting: Waiting::Nothing,
            attempt: 0,
            unusable: 0,
            cut: 0,
            cut_waited: 0,
            invalid: 0,
            calls: Vec::new(),
            answer_ended: true,
            continuations: 0,
            response: String::new(),
            worked: false,
            repeated: Vec::new(),
        }
    }

    /// A call by its step.
    pub fn call(&self, step: StepIndex) -> Option<&Call> {
        self.calls.iter().find(|call| call.step == step)
    }

    /// A call by its id.
    pub fn call_by_id(&self, id: &CallId) -> Option<&Call> {
        self.calls.iter().find(|call| call.call.id == *id)
    }

    /// How often the call at `step` has ended with the result it has, in this turn.
    pub fn repeats(&self, step: StepIndex) -> u32 {
        let Some((call, result)) = self.call(step).and_then(|c| Some((c, c.result.as_ref()?)))
        else {
            return 0;
        };
        let digest = digest(&call.call, &result.content);
        self.repeated
            .iter()
            .find(|seen| seen.digest == digest)
            .map_or(0, |seen| seen.count)
    }

    pub(super) fn remember(&mut self, digest: u64) {
        let place = self.repeated.iter().position(|seen| seen.digest == digest);
        let count = place.map_or(0, |place| self.repeated.remove(place).count);
        if self.repeated.len() == REMEMBERED_CALLS {
            self.repeated.remove(0);
        }
        self.repeated.push(RepeatedCall {
            digest,
            count: count.saturating_add(1),
        });
    }

    pub(super) fn answer_mut(&mut self, call: ModelCallId) -> Option<&mut ModelCall> {
        match &mut self.waiting {
            Waiting::Answer(answer) if answer.id == call => Some(answer),
            _ => None,
        }
    }
}

/// FNV-1a over the tool, the arguments and the result: stable across builds, so that a fold is too.
pub(super) fn digest(call: &ToolCall, content: &ResultContent) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(&call.name);
    // Serialising a JSON value with text keys cannot fail.
    add(&serde_json::to_string(&call.args).unwrap_or_default());
    match content {
        ResultContent::Text(text) => add(text),
        ResultContent::Json(json) => add(&serde_json::to_string(json).unwrap_or_default()),
    }
    hash
}
