//! The machine: state and stimulus in, records and effects out.

mod answer;
mod calls;
mod requests;
mod resume;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use harness_policy::Policy;
use harness_toolkit::Containment;
use harness_types::{
    Action, Command, Config, Containment as ContainmentMode, Conversation, FinishReason, Hook,
    HookCall, Message, ModelCallId, ModelError, ModelPart, ModelRequest, Note, Record, RecordBody,
    RequestId, RequestKind, RequestPayload, StepIndex, TimerId, Timestamp, ToolCall, ToolError,
    ToolOutput, Touch, TrajectoryId, Usage,
};

use crate::{Catalogue, Error, prompt};

/// Decides what happens next in a conversation. Holds what does not change while it runs.
#[derive(Debug)]
pub struct Machine {
    config: Config,
    catalogue: Catalogue,
    policy: Policy,
    containment: Option<Containment>,
    system: Arc<str>,
}

/// What chance and the clock contribute to a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stamp {
    /// Now.
    pub at: Timestamp,
    /// A number in 0..1.
    pub chance: f64,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Stimulus {
    /// A front end wants something.
    Command(Command),
    /// The model said a piece of its answer.
    ModelPart {
        /// The request it answers.
        call: ModelCallId,
        /// The piece.
        part: ModelPart,
    },
    /// The model counted tokens.
    ModelUsage {
        /// The request.
        call: ModelCallId,
        /// The counts.
        usage: Usage,
    },
    /// The answer has ended.
    ModelEnded {
        /// The request.
        call: ModelCallId,
        /// How.
        end: ModelEnd,
    },
    /// A running tool has something to show.
    ToolProgress {
        /// Its trajectory.
        trajectory: TrajectoryId,
        /// Its step.
        step: StepIndex,
        /// What.
        action: Action,
    },
    /// A tool has ended.
    ToolEnded {
        /// Its trajectory.
        trajectory: TrajectoryId,
        /// Its step.
        step: StepIndex,
        /// How.
        result: Result<ToolOutput, ToolError>,
    },
    /// A wait is over.
    TimerFired(TimerId),
    /// Records could not be kept; effects that depend on them did not start.
    StoreFailed {
        /// Why.
        message: String,
    },
}

/// How the stream of an answer ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ModelEnd {
    /// The model said why it stopped.
    Finished {
        /// Why.
        reason: FinishReason,
        /// What the provider adds in words.
        message: Option<String>,
    },
    /// It failed, or broke off without a word.
    Failed(ModelError),
}

/// Something the driver has to start or stop.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Ask the model.
    CallModel {
        /// Which request.
        call: ModelCallId,
        /// The request.
        request: ModelRequest,
    },
    /// Stop listening to the model.
    AbortModel {
        /// Which request.
        call: ModelCallId,
    },
    /// Run a built-in tool.
    RunTool {
        /// Its trajectory.
        trajectory: TrajectoryId,
        /// Its step.
        step: StepIndex,
        /// The call, with checked arguments.
        call: ToolCall,
    },
    /// Stop a built-in tool.
    AbortTool {
        /// Its trajectory.
        trajectory: TrajectoryId,
        /// Its step.
        step: StepIndex,
    },
    /// Wake the machine later.
    StartTimer {
        /// Which wait.
        timer: TimerId,
        /// How long.
        after: Duration,
    },
}

/// What a step amounts to.
#[derive(Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// What happened, in order. Already applied to the state.
    pub records: Vec<Record>,
    /// What to start, once the records are kept; what to stop, at once.
    pub effects: Vec<Effect>,
    /// What observers have to look at.
    pub touches: Vec<Touch>,
    /// What was ignored, and why.
    pub notes: Vec<Note>,
}

impl Machine {
    /// Checks a configuration and makes the machine that runs it.
    ///
    /// # Errors
    ///
    /// [`Error::Policy`] when the rules cannot be evaluated.
    pub fn new(config: Config, catalogue: Catalogue) -> Result<Self, Error> {
        let policy = Policy::compile(&config.policy).map_err(|error| Error::Policy {
            message: error.to_string(),
        })?;
        let containment = match config.policy.containment {
            ContainmentMode::Contained => Some(Containment::new(config.contained_roots())),
            _ => None,
        };
        let system = prompt::system_prompt(&config, &catalogue).into();
        Ok(Self {
            config,
            catalogue,
            policy,
            containment,
            system,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The tools.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Takes one stimulus. `state` is changed by the records of the outcome and nothing else.
    pub fn step(&self, state: &mut Conversation, stamp: Stamp, stimulus: Stimulus) -> Outcome {
        let mut outcome = Outcome::default();
        self.step_into(state, stamp, stimulus, &mut outcome);
        outcome
    }

    /// As [`Machine::step`], adding to an outcome that already holds earlier steps.
    pub fn step_into(
        &self,
        state: &mut Conversation,
        stamp: Stamp,
        stimulus: Stimulus,
        outcome: &mut Outcome,
    ) {
        let mut step = Stepper {
            machine: self,
            state,
            stamp,
            outcome,
        };
        step.take(stimulus);
        step.advance();
    }

    /// The first records of a new conversation.
    pub fn open(&self, state: &mut Conversation, stamp: Stamp) -> Outcome {
        let mut outcome = Outcome::default();
        let conversation = state.id().clone();
        let mut step = Stepper {
            machine: self,
            state,
            stamp,
            outcome: &mut outcome,
        };
        step.emit(RecordBody::Opened { conversation });
        outcome
    }

    /// The records that take a conversation up again after the process that ran it has ended. Runs
    /// nothing. `notice` is shown to the user.
    pub fn resume(
        &self,
        state: &mut Conversation,
        stamp: Stamp,
        notice: Option<String>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let mut step = Stepper {
            machine: self,
            state,
            stamp,
            outcome: &mut outcome,
        };
        step.resume(notice);
        outcome
    }

    fn wants(&self, hook: Hook) -> bool {
        self.config.hooks.contains(hook) && self.can_answer(RequestKind::Hook)
    }

    fn can_answer(&self, kind: RequestKind) -> bool {
        self.config.answers.contains(&kind)
    }

    fn request(&self, conversation: &Conversation, messages: &[Message]) -> ModelRequest {
        ModelRequest {
            conversation: conversation.id().clone(),
            system: Arc::clone(&self.system),
            tools: Arc::clone(self.catalogue.specs()),
            messages: messages.to_vec(),
            options: self.config.generation.clone(),
        }
    }
}

/// One step in the making.
struct Stepper<'a> {
    machine: &'a Machine,
    state: &'a mut Conversation,
    stamp: Stamp,
    outcome: &'a mut Outcome,
}

impl Stepper<'_> {
    /// The one way to change the state.
    fn emit(&mut self, body: RecordBody) {
        let record = Record {
            at: self.stamp.at,
            body,
        };
        if let Some(touch) = self.state.apply(&record) {
            // Adjacent changes of one step are one look at it.
            if self.outcome.touches.last() != Some(&touch) {
                self.outcome.touches.push(touch);
            }
        }
        self.outcome.records.push(record);
    }

    fn effect(&mut self, effect: Effect) {
        self.outcome.effects.push(effect);
    }

    fn note(&mut self, message: impl Into<String>) {
        self.outcome.notes.push(Note::new(message));
    }

    fn take(&mut self, stimulus: Stimulus) {
        match stimulus {
            Stimulus::Command(Command::Input(body)) => self.queue(body),
            Stimulus::Command(Command::Answer { request, answer }) => self.answer(request, answer),
            Stimulus::Command(Command::Halt) => self.halt(),
            Stimulus::Command(Command::EndSession) => self.end_session(),
            Stimulus::Command(Command::Refuse { message }) => self.refuse(message),
            Stimulus::Command(_) => self.note("a command this version does not know was ignored"),
            Stimulus::ModelPart { call, part } => self.model_part(call, part),
            Stimulus::ModelUsage { call, usage } => self.model_usage(call, usage),
            Stimulus::ModelEnded { call, end } => self.model_ended(call, end),
            Stimulus::ToolProgress {
                trajectory,
                step,
                action,
            } => {
                self.emit(RecordBody::CallProgressed {
                    trajectory,
                    step,
                    action,
                });
            }
            Stimulus::ToolEnded {
                trajectory,
                step,
                result,
            } => {
                self.tool_ended(&trajectory, step, result);
            }
            Stimulus::TimerFired(timer) => self.timer_fired(timer),
            Stimulus::StoreFailed { message } => self.store_failed(&message),
        }
    }

    /// The open request of a trajectory that is about no step, or about `step`.
    fn open_request(
        &self,
        trajectory: &TrajectoryId,
        step: Option<StepIndex>,
    ) -> Option<RequestId> {
        self.state
            .requests()
            .values()
            .find(|request| {
                // The end of the session is nobody's stage: a turn may run beside it.
                let ends = RequestPayload::Hook {
                    hook: HookCall::SessionEnd,
                };
                request.trajectory == *trajectory && request.step == step && request.payload != ends
            })
            .map(|request| request.id)
    }
}
