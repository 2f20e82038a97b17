//! Answers of the model: how they come in, and what follows from how they end.

use harness_types::{
    Answer, AnswerDelta, AnswerEnd, AnswerState, CallId, FinishReason, Message, ModelCall,
    ModelCallId, ModelError, ModelPart, RecordBody, StepError, StepIndex, ToolCall, ToolClass,
    ToolOrigin, Touch, TrajectoryId, TurnEnd, Usage, Waiting,
};

use super::{ModelEnd, Stepper};

/// Separates the text of a cut answer from what follows, for clients that join all text they are
/// sent.
const CUT_MARK: &str = "\n\n";

impl Stepper<'_> {
    fn waiting_for(&self, call: ModelCallId) -> Option<(TrajectoryId, &ModelCall)> {
        self.state
            .trajectories()
            .find_map(|trajectory| match &trajectory.turn.as_ref()?.waiting {
                Waiting::Answer(answer) if answer.id == call => {
                    Some((trajectory.id.clone(), answer))
                }
                _ => None,
            })
    }

    pub(super) fn model_usage(&mut self, call: ModelCallId, usage: Usage) {
        if let Some((trajectory, _)) = self.waiting_for(call) {
            self.emit(RecordBody::UsageReported {
                trajectory,
                call,
                usage,
            });
        }
    }

    pub(super) fn model_part(&mut self, call: ModelCallId, part: ModelPart) {
        let Some((trajectory, model_call)) = self.waiting_for(call) else {
            return;
        };
        let answer = &model_call.answer;
        match part {
            ModelPart::Call {
                call: mut tool_call,
                signature,
            } => {
                let taken = self.taken_ids(&trajectory, answer);
                tool_call.id = unique_id(&tool_call.id, call, &taken);
                let part = ModelPart::Call {
                    call: tool_call,
                    signature,
                };
                self.emit(RecordBody::AnswerDelta(AnswerDelta {
                    trajectory: trajectory.clone(),
                    call,
                    step: None,
                    part,
                }));
                self.open_early_calls(&trajectory);
            }
            ModelPart::Text {
                ref text,
                ref signature,
            }
            | ModelPart::Thought {
                ref text,
                ref signature,
            } => {
                if text.is_empty() && signature.is_none() {
                    return;
                }
                let step = answer.step.or_else(|| {
                    self.state
                        .trajectory(&trajectory)
                        .map(harness_types::Trajectory::next_step)
                });
                self.emit(RecordBody::AnswerDelta(AnswerDelta {
                    trajectory,
                    call,
                    step,
                    part,
                }));
            }
            _ => self
                .note("a part of the model's answer that this version does not know was ignored"),
        }
    }

    /// The ids of all calls so far. A client answers by id alone, so a late answer to an earlier
    /// call must not be taken for that of a later one.
    fn taken_ids<'s>(&'s self, id: &TrajectoryId, answer: &'s Answer) -> Vec<&'s CallId> {
        let history = self.state.trajectory(id).map_or(&[][..], |t| &t.history);
        let earlier = history.iter().filter_map(|message| match message {
            Message::ToolResults(results) => Some(results),
            _ => None,
        });
        let earlier = earlier.flatten().map(|result| &result.call);
        earlier.chain(answer.calls().map(|call| &call.id)).collect()
    }

    pub(super) fn model_ended(&mut self, call: ModelCallId, end: ModelEnd) {
        let Some((trajectory, model_call)) = self.waiting_for(call) else {
            return;
        };
        let state = model_call.answer.state();
        match end {
            ModelEnd::Failed(error) => self.model_failed(&trajectory, call, error),
            ModelEnd::Finished { reason, message } => {
                self.model_finished(&trajectory, call, state, reason, message);
            }
        }
    }

    fn model_finished(
        &mut self,
        id: &TrajectoryId,
        call: ModelCallId,
        state: AnswerState,
        reason: FinishReason,
        message: Option<String>,
    ) {
        let said = message
            .map(|message| format!(": {message}"))
            .unwrap_or_default();
        match (&reason, state) {
            (FinishReason::Blocked(word), _) => {
                let why = format!("the model's answer was blocked ({word}{said})");
                self.unusable_answer(id, call, why, None);
            }
            (FinishReason::MalformedCall(word), _) => {
                let why = format!("the model made a tool call that cannot be read ({word}{said})");
                let hint = "Your last answer held a tool call that could not be read. Make the \
                    call again with well-formed arguments, or answer in text.";
                self.unusable_answer(id, call, why, Some(hint));
            }
            // A call that is whole is worth making; a text that is not would be taken for an answer.
            (FinishReason::MaxTokens, AnswerState::Empty | AnswerState::Text) => {
                let why = "the model reached its limit of output tokens before it was done";
                let hint = "Your last answer reached the limit of output tokens and was thrown \
                            away. Answer more briefly, or work in smaller steps.";
                self.unusable_answer(id, call, why.to_owned(), Some(hint));
            }
            (_, AnswerState::Empty) if !self.has_worked(id) => {
                let why = "the model gave an empty answer".to_owned();
                let hint = "Your last answer was empty. Answer in text or call a tool.";
                self.unusable_answer(id, call, why, Some(hint));
            }
            (_, AnswerState::Empty | AnswerState::Text) => {
                self.complete_answer(id, call, reason);
                // What was said meanwhile is answered within the same turn.
                if self.state.queued().is_empty() {
                    self.end_turn(id, TurnEnd::Completed);
                }
            }
            (_, AnswerState::Calls) => {
                self.complete_answer(id, call, reason);
            }
        }
    }

    fn has_worked(&self, id: &TrajectoryId) -> bool {
        self.state
            .trajectory(id)
            .and_then(|t| t.turn.as_ref())
            .is_some_and(|turn| turn.worked)
    }

    fn complete_answer(&mut self, id: &TrajectoryId, call: ModelCallId, finish: FinishReason) {
        let waiting = self.unopened_calls(id);
        self.end_answer(id, call, AnswerEnd::Complete { finish });
        for (place, tool_call) in waiting {
            self.open_call(id, place, tool_call);
        }
    }

    fn end_answer(&mut self, id: &TrajectoryId, call: ModelCallId, end: AnswerEnd) {
        let counted = self
            .waiting_for(call)
            .is_some_and(|(_, answer)| answer.usage.is_some());
        self.emit(RecordBody::AnswerEnded {
            trajectory: id.clone(),
            call,
            end,
        });
        if counted {
            self.outcome.touches.push(Touch::Usage);
        }
    }

    fn show_error(&mut self, id: &TrajectoryId, message: &str) {
        let Some(trajectory) = self.state.trajectory(id) else {
            return;
        };
        let step = trajectory.next_step();
        let error = StepError {
            message: message.to_owned(),
            http_code: None,
        };
        self.emit(RecordBody::ErrorShown {
            trajectory: id.clone(),
            step,
            error,
        });
    }

    /// Whether a call of the answer that is coming in has been opened already.
    fn has_opened_calls(&self, id: &TrajectoryId) -> bool {
        self.state
            .trajectory(id)
            .and_then(|t| t.turn.as_ref())
            .is_some_and(|turn| !turn.calls.is_empty())
    }

    /// Marks the end of text that will not be part of the history, so that nobody takes it for the
    /// beginning of what follows.
    fn mark_cut(&mut self, id: &TrajectoryId, call: ModelCallId) {
        let Some((_, model_call)) = self.waiting_for(call) else {
            return;
        };
        let Some(step) = model_call.answer.step else {
            return;
        };
        if self
            .state
            .step(id, step)
            .is_some_and(|step| !step.text.is_empty())
        {
            let part = ModelPart::Text {
                text: CUT_MARK.to_owned(),
                signature: None,
            };
            self.emit(RecordBody::AnswerDelta(AnswerDelta {
                trajectory: id.clone(),
                call,
                step: Some(step),
                part,
            }));
        }
    }

    fn unusable_answer(
        &mut self,
        id: &TrajectoryId,
        call: ModelCallId,
        reason: String,
        hint: Option<&str>,
    ) {
        if self.has_opened_calls(id) {
            self.end_answer_partial(id, call, &reason);
            self.cancel_calls_not_started(id, &reason);
            self.show_error(id, &reason);
            return;
        }
        self.mark_cut(id, call);
        self.end_answer(
            id,
            call,
            AnswerEnd::Unusable {
                reason: reason.clone(),
            },
        );
        let unusable = self
            .state
            .trajectory(id)
            .and_then(|t| t.turn.as_ref())
            .map_or(0, |turn| turn.unusable);
        let limit = self.machine.config.output_retries;
        if unusable > limit {
            let message = format!("{reason}; gave up after {unusable} answers that cannot be used");
            self.fail_turn(
                id,
                StepError {
                    message,
                    http_code: None,
                },
            );
            return;
        }
        self.show_error(
            id,
            &format!("{reason}; asking again ({unusable} of {limit})"),
        );
        if let Some(hint) = hint {
            let (trajectory, text) = (id.clone(), hint.to_owned());
            self.emit(RecordBody::NoticeGiven { trajectory, text });
        }
    }

    fn model_failed(&mut self, id: &TrajectoryId, call: ModelCallId, error: ModelError) {
        if self.has_opened_calls(id) {
            // A call of this answer has started: it is never asked again. What came stays, and the
            // turn goes on from there.
            self.end_answer_partial(id, call, &error.message);
            self.cancel_calls_not_started(id, "the answer that held the call broke off");
            self.show_error(
                id,
                &format!("the model's answer broke off: {}", error.message),
            );
            return;
        }
        self.mark_cut(id, call);
        self.end_answer(
            id,
            call,
            AnswerEnd::Failed {
                reason: error.message.clone(),
            },
        );
        let attempt = self
            .state
            .trajectory(id)
            .and_then(|t| t.turn.as_ref())
            .map_or(0, |turn| turn.attempt);
        let wait = self
            .machine
            .config
            .retry
            .wait(error.retry_class(), attempt, self.stamp.chance);
        let Some(wait) = wait else {
            let message = if attempt == 0 {
                error.message.clone()
            } else {
                format!("{}; gave up after {} tries", error.message, attempt + 1)
            };
            self.fail_turn(
                id,
                StepError {
                    message,
                    http_code: error.http_code(),
                },
            );
            return;
        };
        let seconds = wait.as_secs_f64();
        let message = format!("{}; asking again in {seconds:.1} s", error.message);
        self.schedule_retry(id, ModelError { message, ..error }, wait);
    }

    /// Keeps what came of an answer that will not be completed.
    pub(super) fn end_answer_partial(
        &mut self,
        id: &TrajectoryId,
        call: ModelCallId,
        reason: &str,
    ) {
        self.end_answer(
            id,
            call,
            AnswerEnd::Partial {
                reason: reason.to_owned(),
            },
        );
    }

    /// Opens those calls of the incoming answer that may start before it has ended: the read-only
    /// ones before the first other one.
    fn open_early_calls(&mut self, id: &TrajectoryId) {
        for (place, tool_call) in self.unopened_calls(id) {
            let early = self
                .machine
                .catalogue
                .spec(&tool_call.name)
                .is_some_and(|spec| {
                    spec.class == ToolClass::ReadOnly && spec.origin == ToolOrigin::BuiltIn
                });
            if !early {
                return;
            }
            self.open_call(id, place, tool_call);
        }
    }

    /// The calls of the incoming answer that no step shows yet, with their places in it.
    fn unopened_calls(&self, id: &TrajectoryId) -> Vec<(usize, ToolCall)> {
        let Some(turn) = self.state.trajectory(id).and_then(|t| t.turn.as_ref()) else {
            return Vec::new();
        };
        let Waiting::Answer(model_call) = &turn.waiting else {
            return Vec::new();
        };
        model_call
            .answer
            .calls()
            .cloned()
            .enumerate()
            .skip(turn.calls.len())
            .collect()
    }

    pub(super) fn next_step(&self, id: &TrajectoryId) -> StepIndex {
        self.state
            .trajectory(id)
            .map(harness_types::Trajectory::next_step)
            .unwrap_or_default()
    }
}

/// The id a call gets: the model's own when it gave one that no other call of the answer has.
fn unique_id(given: &CallId, call: ModelCallId, taken: &[&CallId]) -> CallId {
    if !given.as_str().is_empty() && !taken.contains(&given) {
        return given.clone();
    }
    let base = match given.as_str() {
        "" => format!("call-{call}"),
        text => text.to_owned(),
    };
    (taken.len()..)
        .map(|n| CallId::new(format!("{base}-{n}")))
        .find(|id| !taken.contains(&id))
        .unwrap_or_else(|| given.clone())
}
