//! One agent's run: its steps, its history and what a record does to them.

use super::turn::{Answer, AnswerState, Call, CallStage, ModelCall, Turn, Waiting, digest};
use crate::{
    Action, AnswerDelta, AnswerEnd, CallResult, Input, Message, ModelCallId, ModelPart, RecordBody,
    Source, Step, StepError, StepIndex, StepState, Target, ToolOrigin, ToolResult,
    ToolResultStatus, Touch, TrajectoryId, Usage,
};

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

impl Trajectory {
    pub(super) fn new(id: TrajectoryId) -> Self {
        Self {
            id,
            steps: Vec::new(),
            history: Vec::new(),
            usage: Usage::default(),
            turn: None,
        }
    }

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

    pub(super) fn take_input(&mut self, body: Input, index: StepIndex) -> Option<Touch> {
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

    pub(super) fn show_error(&mut self, index: StepIndex, error: StepError) -> Option<Touch> {
        let step = self.open_step(index, Source::System, Target::User)?;
        step.state = StepState::Error;
        step.text.clone_from(&error.message);
        step.error = Some(error);
        self.touch(index)
    }

    pub(super) fn apply(&mut self, body: &RecordBody) -> Option<Touch> {
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
                turn.cut_waited = turn.cut;
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
                turn.cut = 0;
                turn.cut_waited = 0;
            }
            AnswerEnd::Partial { .. } => {
                turn.attempt = 0;
                turn.cut += 1;
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

fn text_of(parts: &[ModelPart]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            ModelPart::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}
