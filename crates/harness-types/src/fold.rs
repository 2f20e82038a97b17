//! A conversation, folded from its records.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::{
    Action, AnswerDelta, AnswerEnd, CallId, CallResult, ConversationId, Input, InputId, Message,
    ModelCallId, ModelPart, Record, RecordBody, Request, RequestId, RequestOutcome, RequestPayload,
    ResultContent, Source, Step, StepError, StepIndex, StepState, Target, TimerId, ToolCall,
    ToolClass, ToolOrigin, ToolResult, ToolResultStatus, Touch, TrajectoryId, TurnEnd, TurnId,
    Usage,
};

/// What a conversation's records amount to.
///
/// [`Conversation::apply`] is the only way to change one, and it never fails: a record that makes
/// no sense where it stands changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    id: ConversationId,
    root: TrajectoryId,
    trajectories: BTreeMap<TrajectoryId, Trajectory>,
    queue: VecDeque<QueuedInput>,
    requests: BTreeMap<RequestId, Request>,
    held: bool,
    session_started: bool,
    session_ending: Option<TimerId>,
    next_input: InputId,
    next_turn: TurnId,
    next_call: ModelCallId,
    next_request: RequestId,
    next_timer: TimerId,
    tool_calls: u64,
}

/// An input that waits for a step boundary.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedInput {
    /// Its id.
    pub id: InputId,
    /// What was said.
    pub body: Input,
}

/// One agent's run inside a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Trajectory {
    /// Its id.
    pub id: TrajectoryId,
    /// Everything visible, in order.
    pub steps: Vec<Step>,
    /// What the model is asked with.
    pub history: Vec<Message>,
    /// Tokens over all its requests.
    pub usage: Usage,
    /// The running turn.
    pub turn: Option<Turn>,
}

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
        result: CallResult,
    },
    /// It has ended.
    Done,
}

impl Conversation {
    /// An empty conversation with this id.
    pub fn new(id: ConversationId) -> Self {
        let root = TrajectoryId::root(&id);
        let trajectory = Trajectory {
            id: root.clone(),
            steps: Vec::new(),
            history: Vec::new(),
            usage: Usage::default(),
            turn: None,
        };
        Self {
            id,
            trajectories: BTreeMap::from([(root.clone(), trajectory)]),
            root,
            queue: VecDeque::new(),
            requests: BTreeMap::new(),
            held: false,
            session_started: false,
            session_ending: None,
            next_input: InputId::default(),
            next_turn: TurnId::default(),
            next_call: ModelCallId::default(),
            next_request: RequestId::default(),
            next_timer: TimerId::default(),
            tool_calls: 0,
        }
    }

    /// Folds a log. The id is that of its first record; a log without one folds into a
    /// conversation whose id is all zeros.
    pub fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut conversation = Self::new(ConversationId::from_random([0; 16]));
        for record in records {
            conversation.apply(record);
        }
        conversation
    }

    /// The conversation's id.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// The root trajectory.
    pub fn root(&self) -> &Trajectory {
        &self.trajectories[&self.root]
    }

    /// A trajectory by id.
    pub fn trajectory(&self, id: &TrajectoryId) -> Option<&Trajectory> {
        self.trajectories.get(id)
    }

    /// All trajectories by id.
    pub fn trajectories(&self) -> impl Iterator<Item = &Trajectory> {
        self.trajectories.values()
    }

    /// A step, if there is one.
    pub fn step(&self, trajectory: &TrajectoryId, step: StepIndex) -> Option<&Step> {
        self.trajectories
            .get(trajectory)?
            .steps
            .get(step.get() as usize)
    }

    /// Inputs that wait for a step boundary, oldest first.
    pub fn queued(&self) -> &VecDeque<QueuedInput> {
        &self.queue
    }

    /// Whether waiting inputs stay where they are until the next one arrives, because the last
    /// turn was halted or failed.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// The open requests by id.
    pub fn requests(&self) -> &BTreeMap<RequestId, Request> {
        &self.requests
    }

    /// Whether the session-start hook has been dealt with.
    pub fn session_started(&self) -> bool {
        self.session_started
    }

    /// The bound on the wait for the session-end hook, while it is open.
    pub fn session_ending(&self) -> Option<TimerId> {
        self.session_ending
    }

    /// Tokens over all trajectories.
    pub fn usage(&self) -> Usage {
        let mut total = Usage::default();
        for trajectory in self.trajectories.values() {
            total += &trajectory.usage;
        }
        total
    }

    /// Requests made to the model so far.
    pub fn model_calls(&self) -> u64 {
        self.next_call.get()
    }

    /// Tool calls started so far.
    pub fn tool_calls(&self) -> u64 {
        self.tool_calls
    }

    /// The id the next input will have.
    pub fn next_input(&self) -> InputId {
        self.next_input
    }

    /// The id the next turn will have.
    pub fn next_turn(&self) -> TurnId {
        self.next_turn
    }

    /// The id the next model request will have.
    pub fn next_call(&self) -> ModelCallId {
        self.next_call
    }

    /// The id the next request will have.
    pub fn next_request(&self) -> RequestId {
        self.next_request
    }

    /// The id the next timer will have.
    pub fn next_timer(&self) -> TimerId {
        self.next_timer
    }

    /// Applies a record and says what an observer has to look at.
    pub fn apply(&mut self, record: &Record) -> Option<Touch> {
        match &record.body {
            RecordBody::Opened { conversation } => {
                *self = Self::new(conversation.clone());
                None
            }
            RecordBody::InputQueued { input, body } => {
                self.next_input = input.next();
                self.held = false;
                self.queue.push_back(QueuedInput {
                    id: *input,
                    body: body.clone(),
                });
                None
            }
            RecordBody::InputDropped { input } => {
                self.queue.retain(|queued| queued.id != *input);
                None
            }
            RecordBody::InputTaken {
                trajectory,
                input,
                step,
            } => {
                let place = self.queue.iter().position(|queued| queued.id == *input)?;
                let body = self.queue.remove(place)?.body;
                self.trajectories
                    .get_mut(trajectory)?
                    .take_input(body, *step)
            }
            RecordBody::TurnStarted { trajectory, turn } => {
                self.next_turn = turn.next();
                self.trajectories.get_mut(trajectory)?.turn = Some(Turn::new(*turn));
                None
            }
            RecordBody::TurnStageChanged { trajectory, stage } => {
                if *stage == TurnStage::PreTurn {
                    self.session_started = true;
                }
                let turn = self.turn_mut(trajectory)?;
                let from = std::mem::replace(&mut turn.stage, stage.clone());
                match (from, stage) {
                    (TurnStage::PreTurn, TurnStage::Running) => Some(Touch::TurnStarted {
                        trajectory: trajectory.clone(),
                    }),
                    (TurnStage::Stopping { .. }, TurnStage::Running) => {
                        turn.continuations += 1;
                        None
                    }
                    _ => None,
                }
            }
            RecordBody::RequestOpened { request } => {
                self.next_request = request.id.next();
                if let Some(step) = self.step_mut(&request.trajectory, request.step) {
                    step.request = Some(request.id);
                    if matches!(request.payload, RequestPayload::Question { .. }) {
                        step.state = StepState::Waiting;
                    }
                }
                let id = request.id;
                self.requests.insert(id, request.clone());
                Some(Touch::RequestOpened(id))
            }
            RecordBody::RequestClosed { request, outcome } => {
                let closed = self.requests.remove(request)?;
                let _: &RequestOutcome = outcome;
                if let Some(step) = self.step_mut(&closed.trajectory, closed.step) {
                    step.request = None;
                    if step.state == StepState::Waiting {
                        step.state = StepState::Active;
                    }
                }
                Some(Touch::RequestClosed(*request))
            }
            RecordBody::ModelCallStarted { call, .. } => {
                self.next_call = call.next();
                self.apply_to_trajectory(record)
            }
            RecordBody::RetryScheduled { timer, .. } => {
                self.next_timer = timer.next();
                self.apply_to_trajectory(record)
            }
            RecordBody::CallStageChanged {
                stage: CallStage::Running,
                ..
            } => {
                self.tool_calls += 1;
                self.apply_to_trajectory(record)
            }
            RecordBody::TurnEnded { end, .. } => {
                self.held = matches!(
                    end,
                    TurnEnd::Halted | TurnEnd::Failed { .. } | TurnEnd::Stopped { .. }
                );
                self.apply_to_trajectory(record)
            }
            RecordBody::SessionEnding { timer } => {
                self.next_timer = timer.next();
                self.session_ending = Some(*timer);
                None
            }
            RecordBody::SessionEnded => {
                self.session_ending = None;
                Some(Touch::SessionEnded)
            }
            _ => self.apply_to_trajectory(record),
        }
    }

    fn apply_to_trajectory(&mut self, record: &Record) -> Option<Touch> {
        let id = record.body.trajectory()?;
        self.trajectories.get_mut(id)?.apply(&record.body)
    }

    fn turn_mut(&mut self, trajectory: &TrajectoryId) -> Option<&mut Turn> {
        self.trajectories.get_mut(trajectory)?.turn.as_mut()
    }

    fn step_mut(
        &mut self,
        trajectory: &TrajectoryId,
        step: Option<StepIndex>,
    ) -> Option<&mut Step> {
        self.trajectories
            .get_mut(trajectory)?
            .steps
            .get_mut(step?.get() as usize)
    }
}

impl RecordBody {
    /// The trajectory the record is about, when it is about one.
    pub fn trajectory(&self) -> Option<&TrajectoryId> {
        match self {
            Self::Opened { .. }
            | Self::InputQueued { .. }
            | Self::InputDropped { .. }
            | Self::RequestClosed { .. }
            | Self::SessionEnding { .. }
            | Self::SessionEnded => None,
            Self::TurnStarted { trajectory, .. }
            | Self::TurnStageChanged { trajectory, .. }
            | Self::InputTaken { trajectory, .. }
            | Self::NoticeGiven { trajectory, .. }
            | Self::ErrorShown { trajectory, .. }
            | Self::ModelCallStarted { trajectory, .. }
            | Self::AnswerDelta(AnswerDelta { trajectory, .. })
            | Self::UsageReported { trajectory, .. }
            | Self::AnswerEnded { trajectory, .. }
            | Self::RetryScheduled { trajectory, .. }
            | Self::RetryDue { trajectory, .. }
            | Self::CallOpened { trajectory, .. }
            | Self::CallStageChanged { trajectory, .. }
            | Self::CallModified { trajectory, .. }
            | Self::CallProgressed { trajectory, .. }
            | Self::CallFinished { trajectory, .. }
            | Self::CallsSettled { trajectory, .. }
            | Self::TurnEnded { trajectory, .. } => Some(trajectory),
            Self::RequestOpened { request } => Some(&request.trajectory),
        }
    }
}

impl Turn {
    fn new(id: TurnId) -> Self {
        Self {
            id,
            stage: TurnStage::SessionStart,
            waiting: Waiting::Nothing,
            attempt: 0,
            unusable: 0,
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

    fn remember(&mut self, digest: u64) {
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

    fn answer_mut(&mut self, call: ModelCallId) -> Option<&mut ModelCall> {
        match &mut self.waiting {
            Waiting::Answer(answer) if answer.id == call => Some(answer),
            _ => None,
        }
    }
}

impl Trajectory {
    /// The index the next step will have.
    pub fn next_step(&self) -> StepIndex {
        StepIndex::new(u32::try_from(self.steps.len()).unwrap_or(u32::MAX))
    }

    fn touch(&self, step: StepIndex) -> Option<Touch> {
        Some(Touch::Step {
            trajectory: self.id.clone(),
            step,
        })
    }

    fn open_step(&mut self, index: StepIndex, source: Source, target: Target) -> Option<&mut Step> {
        if index != self.next_step() {
            return None;
        }
        self.steps.push(Step {
            index,
            state: StepState::Active,
            source,
            target,
            text: String::new(),
            thinking: String::new(),
            action: None,
            error: None,
            call: None,
            request: None,
        });
        self.steps.last_mut()
    }

    fn take_input(&mut self, body: Input, index: StepIndex) -> Option<Touch> {
        let source = match body.kind {
            crate::InputKind::User => Source::User,
            crate::InputKind::Trigger => Source::System,
        };
        let step = self.open_step(index, source, Target::Model)?;
        step.text = body.display_text();
        step.state = StepState::Done;
        self.history.push(Message::Input(body));
        self.touch(index)
    }

    fn show_error(&mut self, index: StepIndex, error: StepError) -> Option<Touch> {
        let step = self.open_step(index, Source::System, Target::User)?;
        step.state = StepState::Error;
        step.text.clone_from(&error.message);
        step.error = Some(error);
        self.touch(index)
    }

    fn apply(&mut self, body: &RecordBody) -> Option<Touch> {
        match body {
            RecordBody::NoticeGiven { text, .. } => {
                self.history.push(Message::Notice(text.clone()));
                None
            }
            RecordBody::ErrorShown { step, error, .. } => self.show_error(*step, error.clone()),
            RecordBody::ModelCallStarted { call, .. } => {
                let turn = self.turn.as_mut()?;
                turn.calls.clear();
                turn.answer_ended = false;
                turn.waiting = Waiting::Answer(ModelCall {
                    id: *call,
                    answer: Answer::default(),
                    usage: None,
                });
                None
            }
            RecordBody::AnswerDelta(delta) => self.answer_delta(delta),
            RecordBody::UsageReported { call, usage, .. } => {
                // The counts join the totals when the answer ends; until then a later count
                // replaces an earlier one.
                self.turn.as_mut()?.answer_mut(*call)?.usage = Some(usage.clone());
                None
            }
            RecordBody::AnswerEnded { call, end, .. } => self.answer_ended(*call, end),
            RecordBody::RetryScheduled {
                step, error, timer, ..
            } => {
                let turn = self.turn.as_mut()?;
                turn.attempt += 1;
                turn.waiting = Waiting::Retry(*timer);
                let error = StepError {
                    message: error.message.clone(),
                    // SDKs give up on these codes, and this attempt is not the last one.
                    http_code: error
                        .http_code()
                        .filter(|code| !matches!(code, 400 | 401 | 403)),
                };
                self.show_error(*step, error)
            }
            RecordBody::RetryDue { timer, .. } => {
                let turn = self.turn.as_mut()?;
                if turn.waiting == Waiting::Retry(*timer) {
                    turn.waiting = Waiting::Nothing;
                }
                None
            }
            RecordBody::CallOpened {
                step: index,
                call,
                class,
                origin,
                action,
                summary,
                ..
            } => {
                let target = if *origin == ToolOrigin::Finish {
                    Target::User
                } else {
                    Target::Environment
                };
                let step = self.open_step(*index, Source::Model, target)?;
                step.action = Some(action.clone());
                step.call = Some(call.id.clone());
                step.text.clone_from(summary);
                self.turn.as_mut()?.calls.push(Call {
                    step: *index,
                    call: call.clone(),
                    class: *class,
                    origin: *origin,
                    stage: CallStage::Hook,
                    ran: false,
                    result: None,
                });
                self.touch(*index)
            }
            RecordBody::CallStageChanged { step, stage, .. } => {
                let call = self.call_mut(*step)?;
                call.ran |= *stage == CallStage::Running;
                call.stage = stage.clone();
                None
            }
            RecordBody::CallModified {
                step, args, action, ..
            } => {
                self.call_mut(*step)?.call.args.clone_from(args);
                self.show_action(*step, action)
            }
            RecordBody::CallProgressed { step, action, .. } => {
                if self.call_mut(*step)?.stage != CallStage::Running {
                    return None;
                }
                self.show_action(*step, action)
            }
            RecordBody::CallFinished { step, result, .. } => self.call_finished(*step, result),
            RecordBody::CallsSettled { .. } => {
                let turn = self.turn.as_mut()?;
                turn.worked = true;
                let usable = |call: &Call| {
                    call.ran
                        || call
                            .result
                            .as_ref()
                            .is_none_or(|r| r.status != ToolResultStatus::Failed)
                };
                turn.invalid = if turn.calls.iter().any(usable) {
                    0
                } else {
                    turn.invalid.saturating_add(1)
                };
                let results = turn.calls.drain(..).filter_map(|call| {
                    let result = call.result?;
                    Some(ToolResult {
                        call: call.call.id,
                        name: call.call.name,
                        status: result.status,
                        content: result.content,
                        media: result.media,
                    })
                });
                self.history.push(Message::ToolResults(results.collect()));
                None
            }
            RecordBody::TurnEnded { trajectory, end } => {
                self.turn = None;
                Some(Touch::TurnEnded {
                    trajectory: trajectory.clone(),
                    end: end.clone(),
                })
            }
            _ => None,
        }
    }

    fn call_mut(&mut self, step: StepIndex) -> Option<&mut Call> {
        self.turn
            .as_mut()?
            .calls
            .iter_mut()
            .find(|call| call.step == step)
    }

    fn show_action(&mut self, index: StepIndex, action: &Action) -> Option<Touch> {
        self.steps.get_mut(index.get() as usize)?.action = Some(action.clone());
        self.touch(index)
    }

    fn answer_delta(&mut self, delta: &AnswerDelta) -> Option<Touch> {
        self.turn.as_mut()?.answer_mut(delta.call)?;
        if let Some(index) = delta.step {
            if index == self.next_step() {
                self.open_step(index, Source::Model, Target::User)?;
            }
            let step = self.steps.get_mut(index.get() as usize)?;
            match &delta.part {
                ModelPart::Text { text, .. } => step.text.push_str(text),
                ModelPart::Thought { text, .. } => step.thinking.push_str(text),
                ModelPart::Call { .. } => {}
            }
        }
        let answer = &mut self.turn.as_mut()?.answer_mut(delta.call)?.answer;
        answer.step = answer.step.or(delta.step);
        let merged = answer
            .parts
            .last_mut()
            .is_some_and(|last| last.merge(&delta.part));
        if !merged {
            answer.parts.push(delta.part.clone());
        }
        self.touch(delta.step?)
    }

    fn answer_ended(&mut self, call: ModelCallId, end: &AnswerEnd) -> Option<Touch> {
        let turn = self.turn.as_mut()?;
        turn.answer_mut(call)?;
        let Waiting::Answer(model_call) = std::mem::replace(&mut turn.waiting, Waiting::Nothing)
        else {
            return None;
        };
        turn.answer_ended = true;
        if let Some(usage) = &model_call.usage {
            self.usage += usage;
        }
        let mut parts = model_call.answer.parts;
        // The step ends well even where the answer does not: clients leave out the text of failed
        // steps, and then the mark that ends a cut text would be lost. Another step says what went
        // wrong.
        match end {
            AnswerEnd::Complete { .. } => {
                turn.attempt = 0;
                turn.unusable = 0;
            }
            AnswerEnd::Partial { .. } => {
                turn.attempt = 0;
                let calls = &turn.calls;
                parts.retain(|part| match part {
                    ModelPart::Call { call, .. } => calls.iter().any(|c| c.call.id == call.id),
                    _ => true,
                });
            }
            AnswerEnd::Failed { .. } => {
                parts.clear();
            }
            AnswerEnd::Unusable { .. } => {
                turn.attempt = 0;
                turn.unusable += 1;
                parts.clear();
            }
        }
        let kept = Answer { parts, step: None };
        if kept.state() != AnswerState::Empty {
            turn.response = text_of(&kept.parts);
            self.history.push(Message::Model(kept.parts));
        } else if matches!(end, AnswerEnd::Complete { .. }) && !kept.parts.is_empty() {
            self.history.push(Message::Model(kept.parts));
        }
        let index = model_call.answer.step?;
        let step = self.steps.get_mut(index.get() as usize)?;
        step.state = StepState::Done;
        self.touch(index)
    }

    fn call_finished(&mut self, index: StepIndex, result: &CallResult) -> Option<Touch> {
        let call = self.call_mut(index)?;
        call.stage = CallStage::Done;
        call.result = Some(result.clone());
        let digest = digest(&call.call, &result.content);
        self.turn.as_mut()?.remember(digest);

        let step = self.steps.get_mut(index.get() as usize)?;
        if let Some(action) = &result.action {
            step.action = Some(action.clone());
        }
        step.request = None;
        match &result.error {
            None => step.state = StepState::Done,
            Some(message) => {
                step.state = StepState::Error;
                step.error = Some(StepError {
                    message: message.clone(),
                    http_code: None,
                });
                if result.status == ToolResultStatus::Denied {
                    step.target = Target::User;
                    step.action = None;
                }
            }
        }
        self.touch(index)
    }
}

/// FNV-1a over the tool, the arguments and the result: stable across builds, so that a fold is too.
fn digest(call: &ToolCall, content: &ResultContent) -> u64 {
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

fn text_of(parts: &[ModelPart]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            ModelPart::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}
