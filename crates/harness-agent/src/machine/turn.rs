//! Turns: how they begin, go on and end.

use std::time::Duration;

use harness_types::{
    BudgetScope, Hook, HookCall, Input, InputId, InputKind, ModelError, ModelErrorKind, RecordBody,
    Request, RequestKind, RequestOutcome, RequestPayload, RetryClass, Spent, StepError, StopReason,
    TimerId, TrajectoryId, TurnEnd, TurnStage, Waiting,
};

use super::{Effect, Stepper};

impl Stepper<'_> {
    pub(super) fn queue(&mut self, body: Input) {
        let limit = self.machine.config.limits.queued_inputs as usize;
        let root = self.state.root();
        // When no turn runs, this input begins one, which takes all that wait.
        if root.turn.is_some() && self.state.queued().len() >= limit {
            let (trajectory, step) = (root.id.clone(), root.next_step());
            let message = format!("input refused: {limit} inputs are already waiting");
            self.note(message.clone());
            let error = StepError {
                message,
                http_code: None,
            };
            self.emit(RecordBody::ErrorShown {
                trajectory,
                step,
                error,
            });
            return;
        }
        let input = self.state.next_input();
        self.emit(RecordBody::InputQueued { input, body });
    }

    /// Shows what could not be used. A client that waits for the end of a turn that will not begin
    /// is told so.
    pub(super) fn refuse(&mut self, message: String) {
        let root = self.state.root();
        let (trajectory, step, idle) = (root.id.clone(), root.next_step(), root.turn.is_none());
        let error = StepError {
            message,
            http_code: None,
        };
        self.emit(RecordBody::ErrorShown {
            trajectory: trajectory.clone(),
            step,
            error: error.clone(),
        });
        if idle {
            self.emit(RecordBody::TurnEnded {
                trajectory,
                end: TurnEnd::Failed { error },
            });
        }
    }

    /// Does everything that can be done without a further stimulus.
    pub(super) fn advance(&mut self) {
        let ids: Vec<TrajectoryId> = self.state.trajectories().map(|t| t.id.clone()).collect();
        for id in ids {
            while self.advance_turn(&id) {}
        }
    }

    /// Does the next thing in a trajectory; `false` when it has to wait.
    fn advance_turn(&mut self, id: &TrajectoryId) -> bool {
        let Some(trajectory) = self.state.trajectory(id) else {
            return false;
        };
        let Some(turn) = &trajectory.turn else {
            if self.state.is_held() || self.state.queued().is_empty() {
                return false;
            }
            let turn = self.state.next_turn();
            self.emit(RecordBody::TurnStarted {
                trajectory: id.clone(),
                turn,
            });
            return true;
        };
        match &turn.stage {
            TurnStage::Running => match &turn.waiting {
                // Read-only calls may start before the answer has ended.
                Waiting::Answer(_) => self.advance_calls(id),
                Waiting::Nothing if turn.calls.is_empty() => {
                    self.ask_model(id);
                    true
                }
                Waiting::Nothing => self.advance_calls(id),
                _ => false,
            },
            stage => {
                if self.open_request(id, None).is_some() {
                    return false;
                }
                let stage = stage.clone();
                self.advance_stage(id, stage);
                true
            }
        }
    }

    /// Asks the hook of a stage, or goes on when nobody wants to be asked.
    fn advance_stage(&mut self, id: &TrajectoryId, stage: TurnStage) {
        let response = || {
            let turn = self.state.trajectory(id).and_then(|t| t.turn.as_ref());
            turn.map(|turn| turn.response.clone()).unwrap_or_default()
        };
        let asked = match &stage {
            TurnStage::SessionStart => (!self.state.session_started()
                && self.machine.wants(Hook::SessionStart))
            .then_some(HookCall::SessionStart),
            TurnStage::PreTurn => self
                .machine
                .wants(Hook::PreTurn)
                .then(|| HookCall::PreTurn {
                    shown: self.state.queued().back().map(|input| input.id),
                    parts: self
                        .state
                        .queued()
                        .iter()
                        .filter(|input| input.body.kind == InputKind::User)
                        .flat_map(|input| input.body.parts.clone())
                        .collect(),
                }),
            TurnStage::Stopping { end } => self.machine.wants(Hook::Stop).then(|| {
                let turn = self.state.trajectory(id).and_then(|t| t.turn.as_ref());
                HookCall::Stop {
                    response: response(),
                    continuations: turn.map_or(0, |turn| turn.continuations),
                    error: match end {
                        TurnEnd::Failed { error } => Some(error.message.clone()),
                        _ => None,
                    },
                    stop_reason: match end {
                        TurnEnd::Stopped { reason } => Some(*reason),
                        _ => None,
                    },
                }
            }),
            TurnStage::PostTurn { .. } => {
                self.machine
                    .wants(Hook::PostTurn)
                    .then(|| HookCall::PostTurn {
                        response: response(),
                    })
            }
            _ => None,
        };
        match asked {
            Some(hook) => self.open_hook(id, None, hook),
            None => self.leave_stage(id, stage),
        }
    }

    /// Goes on to the stage after `stage`.
    pub(super) fn leave_stage(&mut self, id: &TrajectoryId, stage: TurnStage) {
        let trajectory = id.clone();
        match stage {
            TurnStage::SessionStart => {
                self.emit(RecordBody::TurnStageChanged {
                    trajectory,
                    stage: TurnStage::PreTurn,
                });
            }
            TurnStage::PreTurn => {
                self.emit(RecordBody::TurnStageChanged {
                    trajectory,
                    stage: TurnStage::Running,
                });
            }
            TurnStage::Stopping { end } => {
                let stage = TurnStage::PostTurn { end };
                self.emit(RecordBody::TurnStageChanged { trajectory, stage });
            }
            TurnStage::PostTurn { end } => self.emit(RecordBody::TurnEnded { trajectory, end }),
            _ => {}
        }
    }

    /// Refuses a turn before it began.
    /// Only the inputs the hook was shown are dropped: nobody has judged later ones.
    pub(super) fn deny_turn(&mut self, id: &TrajectoryId, shown: Option<InputId>, reason: String) {
        let waiting: Vec<_> = self
            .state
            .queued()
            .iter()
            .map(|input| input.id)
            .filter(|id| Some(*id) <= shown)
            .collect();
        for input in waiting {
            self.emit(RecordBody::InputDropped { input });
        }
        let end = TurnEnd::Denied { reason };
        self.emit(RecordBody::TurnEnded {
            trajectory: id.clone(),
            end,
        });
    }

    pub(super) fn open_hook(
        &mut self,
        id: &TrajectoryId,
        step: Option<harness_types::StepIndex>,
        hook: HookCall,
    ) {
        let request = Request {
            id: self.state.next_request(),
            trajectory: id.clone(),
            step,
            payload: RequestPayload::Hook { hook },
        };
        self.emit(RecordBody::RequestOpened { request });
    }

    /// Takes what waits into the history and asks the model, unless the budget forbids it.
    fn ask_model(&mut self, id: &TrajectoryId) {
        self.take_inputs(id);
        if let Some(reason) = self.exhausted() {
            self.end_turn(id, TurnEnd::Stopped { reason });
            return;
        }
        if self.wait_after_cut(id) {
            return;
        }
        let Some(trajectory) = self.state.trajectory(id) else {
            return;
        };
        let attempt = trajectory.turn.as_ref().map_or(0, |turn| turn.attempt);
        let request = self.machine.request(self.state, &trajectory.history);
        let call = self.state.next_call();
        self.emit(RecordBody::ModelCallStarted {
            trajectory: id.clone(),
            call,
            attempt,
        });
        self.effect(Effect::CallModel { call, request });
    }

    /// After an answer that was cut when one of its calls had begun: the next one is asked for
    /// after a wait, and not without end. Says whether there is something to wait for.
    fn wait_after_cut(&mut self, id: &TrajectoryId) -> bool {
        let Some(turn) = self.state.trajectory(id).and_then(|t| t.turn.as_ref()) else {
            return false;
        };
        let cut = turn.cut;
        if cut <= turn.cut_waited {
            return false;
        }
        let schedule = &self.machine.config.retry;
        let error = |message: String| ModelError::new(ModelErrorKind::Cut, message);
        match schedule.wait(RetryClass::Backoff, cut - 1, self.stamp.chance) {
            Some(wait) => {
                let message = format!(
                    "the model's answer broke off after a call had begun; asking again in {:.1} s",
                    wait.as_secs_f64()
                );
                self.schedule_retry(id, error(message), wait);
            }
            None => {
                let message = format!("the model's answer broke off {cut} times in a row");
                self.fail_turn(
                    id,
                    StepError {
                        message,
                        http_code: None,
                    },
                );
            }
        }
        true
    }

    /// Shows a wait and begins it.
    pub(super) fn schedule_retry(&mut self, id: &TrajectoryId, error: ModelError, wait: Duration) {
        let (step, timer) = (self.next_step(id), self.state.next_timer());
        self.emit(RecordBody::RetryScheduled {
            trajectory: id.clone(),
            step,
            error,
            timer,
            wait,
        });
        self.effect(Effect::StartTimer { timer, after: wait });
    }

    fn take_inputs(&mut self, id: &TrajectoryId) {
        while let Some(input) = self.state.queued().front().map(|queued| queued.id) {
            let Some(trajectory) = self.state.trajectory(id) else {
                return;
            };
            let step = trajectory.next_step();
            self.emit(RecordBody::InputTaken {
                trajectory: id.clone(),
                input,
                step,
            });
        }
    }

    /// What has been spent of the budget.
    pub(super) fn spent(&self) -> Spent {
        let mut spent = self.state.spent();
        if self.machine.config.budget.scope == BudgetScope::SinceResumed {
            let before = self.state.resumed_with();
            let less = |now: &mut u64, before: u64| *now = now.saturating_sub(before);
            less(&mut spent.model_calls, before.model_calls);
            less(&mut spent.tool_calls, before.tool_calls);
            less(&mut spent.usage.prompt_tokens, before.usage.prompt_tokens);
            less(
                &mut spent.usage.candidates_tokens,
                before.usage.candidates_tokens,
            );
            less(
                &mut spent.usage.thoughts_tokens,
                before.usage.thoughts_tokens,
            );
            less(&mut spent.usage.total_tokens, before.usage.total_tokens);
        }
        spent
    }

    /// The limit that forbids a further model call, if one does.
    fn exhausted(&self) -> Option<StopReason> {
        let budget = &self.machine.config.budget;
        let spent = self.spent();
        let usage = &spent.usage;
        let output = usage
            .candidates_tokens
            .saturating_add(usage.thoughts_tokens);
        let over = |limit: Option<u64>, spent: u64| limit.is_some_and(|limit| spent >= limit);
        if over(budget.max_model_calls, spent.model_calls) {
            Some(StopReason::MaxModelCalls)
        } else if over(budget.max_tool_calls, spent.tool_calls) {
            Some(StopReason::MaxToolCalls)
        } else if over(budget.max_input_tokens, usage.prompt_tokens) {
            Some(StopReason::MaxInputTokens)
        } else if over(budget.max_output_tokens, output) {
            Some(StopReason::MaxOutputTokens)
        } else if over(budget.max_total_tokens, usage.total_tokens) {
            Some(StopReason::MaxTotalTokens)
        } else {
            None
        }
    }

    /// Shows an error and ends the turn with it.
    pub(super) fn fail_turn(&mut self, id: &TrajectoryId, error: StepError) {
        let Some(trajectory) = self.state.trajectory(id) else {
            return;
        };
        let step = trajectory.next_step();
        self.emit(RecordBody::ErrorShown {
            trajectory: id.clone(),
            step,
            error: error.clone(),
        });
        self.end_turn(id, TurnEnd::Failed { error });
    }

    /// Starts ending a turn: the hooks that want to know come first.
    pub(super) fn end_turn(&mut self, id: &TrajectoryId, end: TurnEnd) {
        let stage = TurnStage::Stopping { end };
        self.emit(RecordBody::TurnStageChanged {
            trajectory: id.clone(),
            stage,
        });
    }

    pub(super) fn timer_fired(&mut self, timer: TimerId) {
        if self.state.session_ending() == Some(timer) {
            self.note("the session-end hook was not answered in time and is given up");
            self.close_session_hook();
            self.emit(RecordBody::SessionEnded);
            return;
        }
        let due = self.state.trajectories().find_map(|trajectory| {
            let turn = trajectory.turn.as_ref()?;
            (turn.waiting == Waiting::Retry(timer)).then(|| trajectory.id.clone())
        });
        if let Some(trajectory) = due {
            self.emit(RecordBody::RetryDue { trajectory, timer });
        }
    }

    pub(super) fn end_session(&mut self) {
        if self.state.session_ending().is_some() {
            self.note("the session is already ending; the second request was ignored");
            return;
        }
        if !self.machine.wants(Hook::SessionEnd) {
            self.emit(RecordBody::SessionEnded);
            return;
        }
        let timer = self.state.next_timer();
        self.emit(RecordBody::SessionEnding { timer });
        self.effect(Effect::StartTimer {
            timer,
            after: self.machine.config.limits.session_end,
        });
        let root = self.state.root().id.clone();
        self.open_hook(&root, None, HookCall::SessionEnd);
    }

    fn close_session_hook(&mut self) {
        let open = self.state.requests().values().find(|request| {
            matches!(
                request.payload,
                RequestPayload::Hook {
                    hook: HookCall::SessionEnd
                }
            )
        });
        if let Some(request) = open.map(|request| request.id) {
            self.emit(RecordBody::RequestClosed {
                request,
                outcome: RequestOutcome::Cancelled,
            });
        }
    }

    /// Ends the running turn, whatever it is doing, and leaves a valid history.
    pub(super) fn halt(&mut self) {
        let running: Vec<TrajectoryId> = self
            .state
            .trajectories()
            .filter(|trajectory| trajectory.turn.is_some())
            .map(|trajectory| trajectory.id.clone())
            .collect();
        for id in running {
            self.abandon(&id, "halted");
            self.emit(RecordBody::TurnEnded {
                trajectory: id,
                end: TurnEnd::Halted,
            });
        }
    }

    /// Stops everything a trajectory is doing and closes what is open.
    fn abandon(&mut self, id: &TrajectoryId, reason: &str) {
        let Some(turn) = self.state.trajectory(id).and_then(|t| t.turn.as_ref()) else {
            return;
        };
        if let Waiting::Answer(model_call) = &turn.waiting {
            let call = model_call.id;
            self.effect(Effect::AbortModel { call });
            self.end_answer_partial(id, call, reason);
        }
        self.cancel_calls(id, reason);
        let open: Vec<_> = self
            .state
            .requests()
            .values()
            .filter(|request| {
                request.trajectory == *id
                    && !matches!(
                        request.payload,
                        RequestPayload::Hook {
                            hook: HookCall::SessionEnd
                        }
                    )
            })
            .map(|request| request.id)
            .collect();
        for request in open {
            self.emit(RecordBody::RequestClosed {
                request,
                outcome: RequestOutcome::Cancelled,
            });
        }
    }

    pub(super) fn store_failed(&mut self, message: &str) {
        let running: Vec<TrajectoryId> = self
            .state
            .trajectories()
            .filter(|trajectory| trajectory.turn.is_some())
            .map(|trajectory| trajectory.id.clone())
            .collect();
        let message = format!("the session could not be saved, so the turn was stopped: {message}");
        for id in running {
            self.abandon(&id, "the session could not be saved");
            let error = StepError {
                message: message.clone(),
                http_code: None,
            };
            if let Some(trajectory) = self.state.trajectory(&id) {
                let step = trajectory.next_step();
                self.emit(RecordBody::ErrorShown {
                    trajectory: id.clone(),
                    step,
                    error: error.clone(),
                });
            }
            self.emit(RecordBody::TurnEnded {
                trajectory: id,
                end: TurnEnd::Failed { error },
            });
        }
        // The timer that bounds this wait may be among the effects that did not start.
        if self.state.session_ending().is_some() {
            self.close_session_hook();
            self.emit(RecordBody::SessionEnded);
        }
    }

    pub(super) fn needs_answerer(&self, kind: RequestKind) -> Result<(), &'static str> {
        if self.machine.can_answer(kind) {
            Ok(())
        } else {
            Err("nobody is connected who could be asked")
        }
    }
}
