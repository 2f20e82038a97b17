//! A conversation, folded from its records.

mod trajectory;
mod turn;

pub use trajectory::Trajectory;
pub use turn::{
    Answer, AnswerState, Call, CallStage, ModelCall, RepeatedCall, Turn, TurnStage, Waiting,
};

use std::collections::{BTreeMap, VecDeque};

use crate::{
    AnswerDelta, ConversationId, Input, InputId, ModelCallId, Record, RecordBody, Request,
    RequestId, RequestOutcome, RequestPayload, Step, StepIndex, StepState, TimerId, Touch,
    TrajectoryId, TurnEnd, TurnId, Usage,
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
    /// What had been spent when the conversation was last taken up.
    resumed_with: Spent,
}

/// What a conversation has spent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spent {
    /// Requests to the model.
    pub model_calls: u64,
    /// Tool calls started.
    pub tool_calls: u64,
    /// Tokens.
    pub usage: Usage,
}

/// An input that waits for a step boundary.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedInput {
    /// Its id.
    pub id: InputId,
    /// What was said.
    pub body: Input,
}

impl Conversation {
    /// An empty conversation with this id.
    pub fn new(id: ConversationId) -> Self {
        let root = TrajectoryId::root(&id);
        let trajectory = Trajectory::new(root.clone());
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
            resumed_with: Spent::default(),
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
    /// turn was halted or failed, or the conversation was taken up again.
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

    /// Everything spent so far.
    pub fn spent(&self) -> Spent {
        Spent {
            model_calls: self.model_calls(),
            tool_calls: self.tool_calls,
            usage: self.usage(),
        }
    }

    /// What had been spent when the conversation was last taken up.
    pub fn resumed_with(&self) -> &Spent {
        &self.resumed_with
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
            RecordBody::Resumed => {
                // What waits goes on waiting for somebody to speak, however the open turn ends.
                self.held = true;
                self.session_started = false;
                self.resumed_with = self.spent();
                self.session_ending = None;
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
                self.held |= matches!(
                    end,
                    TurnEnd::Halted
                        | TurnEnd::Interrupted
                        | TurnEnd::Failed { .. }
                        | TurnEnd::Stopped { .. }
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
            | Self::Resumed
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
