//! Tool calls: from the model's answer to the model's next question.
//!
//! Every call goes through the same stages: the pre-tool hook, containment and policy, its turn,
//! the run, the hook after it. Whatever happens, it is answered exactly once.

use harness_policy::Verdict;
use harness_types::{
    Call, CallResult, CallStage, Hook, HookCall, RecordBody, Request, RequestId, RequestKind,
    RequestOutcome, RequestPayload, ResultContent, StepError, StepIndex, ToolCall, ToolClass,
    ToolError, ToolOrigin, ToolOutput, ToolResultStatus, TrajectoryId, TurnEnd,
};

use super::{Effect, Stepper};
use crate::catalogue::{finish_output, questions};

impl Stepper<'_> {
    /// Shows a call as a step. One that cannot run is answered at once.
    pub(super) fn open_call(&mut self, id: &TrajectoryId, place: usize, mut call: ToolCall) {
        let catalogue = &self.machine.catalogue;
        let step = self.next_step(id);
        let trajectory = id.clone();
        let summary = summary(&call);
        let Some(spec) = catalogue.spec(&call.name) else {
            let names: Vec<&str> = catalogue.specs().iter().map(|s| s.name.as_str()).collect();
            let why = format!(
                "there is no tool {:?}; the tools are: {}",
                call.name,
                if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                }
            );
            let action = harness_types::Action::Tool { call: call.clone() };
            let (class, origin) = (ToolClass::ReadOnly, ToolOrigin::BuiltIn);
            self.emit(RecordBody::CallOpened {
                trajectory,
                step,
                call,
                class,
                origin,
                action,
                summary,
            });
            self.finish_call(id, step, failed(why));
            return;
        };
        let checked = catalogue.check(spec, &mut call.args);
        let (class, origin) = (spec.class, spec.origin);
        let action = catalogue.opening(spec, &call);
        let name = call.name.clone();
        self.emit(RecordBody::CallOpened {
            trajectory,
            step,
            call,
            class,
            origin,
            action,
            summary,
        });
        let limit = self.machine.config.limits.calls_per_answer as usize;
        if place >= limit {
            let why = format!("not run: one answer may hold at most {limit} calls");
            self.finish_call(id, step, failed(why));
        } else if let Err(why) = checked {
            self.finish_call(id, step, failed(format!("arguments of {name}: {why}")));
        }
    }

    /// Moves the calls of a trajectory on as far as they can go; `false` when nothing moved.
    pub(super) fn advance_calls(&mut self, id: &TrajectoryId) -> bool {
        let mut moved = false;
        let mut place = 0;
        while let Some(call) = self.call_at(id, place) {
            let step = call.step;
            let can_move = match &call.stage {
                CallStage::Done | CallStage::Running => false,
                CallStage::Ready => self.may_start(id, place),
                _ => self.open_request(id, Some(step)).is_none(),
            };
            if can_move {
                let (call, stage) = (call.call.clone(), call.stage.clone());
                self.advance_call(id, step, call, stage);
                moved = true;
                // The call may have more to do, and earlier ones may have been freed by it.
                place = 0;
            } else {
                place += 1;
            }
        }
        self.settle_calls(id) || moved
    }

    fn call_at(&self, id: &TrajectoryId, place: usize) -> Option<&Call> {
        self.state.trajectory(id)?.turn.as_ref()?.calls.get(place)
    }

    fn call_of(&self, id: &TrajectoryId, step: StepIndex) -> Option<&Call> {
        self.state.trajectory(id)?.turn.as_ref()?.call(step)
    }

    /// Whether a call's turn has come: a writer waits for all earlier calls and holds later ones;
    /// everything but a read-only call waits for the end of the answer.
    fn may_start(&self, id: &TrajectoryId, place: usize) -> bool {
        let Some(turn) = self.state.trajectory(id).and_then(|t| t.turn.as_ref()) else {
            return false;
        };
        let Some(call) = turn.calls.get(place) else {
            return false;
        };
        if call.class != ToolClass::ReadOnly && !turn.answer_ended {
            return false;
        }
        let mut earlier = turn.calls[..place]
            .iter()
            .filter(|earlier| earlier.stage != CallStage::Done);
        if is_writer(call) {
            earlier.next().is_none()
        } else {
            !earlier.any(is_writer)
        }
    }

    fn advance_call(
        &mut self,
        id: &TrajectoryId,
        step: StepIndex,
        call: ToolCall,
        stage: CallStage,
    ) {
        match stage {
            CallStage::Hook if self.machine.wants(Hook::PreTool) => {
                let tool = self.policy_name(&call.name);
                self.open_hook(id, Some(step), HookCall::PreTool { tool, call });
            }
            CallStage::Hook => self.set_stage(id, step, CallStage::Policy { from: 0 }),
            CallStage::Policy { from } => self.decide(id, step, call, from),
            CallStage::Ready => self.start(id, step, call),
            CallStage::Ran { result } => self.review(id, step, call, &result),
            _ => {}
        }
    }

    pub(super) fn set_stage(&mut self, id: &TrajectoryId, step: StepIndex, stage: CallStage) {
        self.emit(RecordBody::CallStageChanged {
            trajectory: id.clone(),
            step,
            stage,
        });
    }

    pub(super) fn policy_name(&self, tool: &str) -> String {
        self.machine
            .catalogue
            .spec(tool)
            .map_or_else(|| tool.to_owned(), |spec| spec.policy_name.clone())
    }

    /// Containment, then the rules from number `from` on.
    fn decide(&mut self, id: &TrajectoryId, step: StepIndex, call: ToolCall, from: u32) {
        let machine = self.machine;
        if let (Some(containment), Some(tool)) =
            (&machine.containment, machine.catalogue.built_in(&call.name))
        {
            let outside = tool
                .paths(&call.args)
                .iter()
                .find_map(|path| containment.check(path).err());
            if let Some(why) = outside {
                self.finish_call(id, step, denied(why.to_string()));
                return;
            }
        }
        let tool = self.policy_name(&call.name);
        let verdict = machine.policy.evaluate(&tool, None, from);
        self.obey(id, step, call, verdict);
    }

    /// Does what the policy says about a call.
    pub(super) fn obey(
        &mut self,
        id: &TrajectoryId,
        step: StepIndex,
        call: ToolCall,
        verdict: Verdict<'_>,
    ) {
        let rule_name = verdict.rule().map_or("", |rule| rule.name()).to_owned();
        tracing::debug!(tool = %call.name, rule = %rule_name, ?verdict, "policy");
        let tool = self.policy_name(&call.name);
        match verdict {
            Verdict::Allow { .. } => self.set_stage(id, step, CallStage::Ready),
            Verdict::Deny { reason, .. } => self.finish_call(id, step, denied(reason)),
            Verdict::Ask { .. } => {
                let payload = RequestPayload::Confirmation {
                    tool,
                    call,
                    rule: rule_name,
                };
                self.ask_or_deny(id, step, payload);
            }
            Verdict::AskClient { rule, reason, next } => {
                // Where the next rule is found when the client says that this one does not apply.
                self.set_stage(
                    id,
                    step,
                    CallStage::Policy {
                        from: next.saturating_sub(1),
                    },
                );
                let payload = RequestPayload::PolicyDecision {
                    rule: rule.id().to_owned(),
                    reason: reason.map(str::to_owned),
                    tool,
                    call,
                };
                self.ask_or_deny(id, step, payload);
            }
        }
    }

    fn ask_or_deny(&mut self, id: &TrajectoryId, step: StepIndex, payload: RequestPayload) {
        if let Err(nobody) = self.needs_answerer(payload.kind()) {
            self.finish_call(
                id,
                step,
                denied(format!("approval is needed, and {nobody}")),
            );
            return;
        }
        self.open_step_request(id, step, payload);
    }

    fn open_step_request(&mut self, id: &TrajectoryId, step: StepIndex, payload: RequestPayload) {
        let request = Request {
            id: self.state.next_request(),
            trajectory: id.clone(),
            step: Some(step),
            payload,
        };
        self.emit(RecordBody::RequestOpened { request });
    }

    fn start(&mut self, id: &TrajectoryId, step: StepIndex, call: ToolCall) {
        let spent = self.spent();
        let budget = self.machine.config.budget.max_tool_calls;
        if budget.is_some_and(|limit| spent.tool_calls >= limit) {
            let why = "not run: the budget of tool calls is used up; make no further calls";
            self.finish_call(id, step, failed(why.to_owned()));
            return;
        }
        let Some(origin) = self.call_of(id, step).map(|call| call.origin) else {
            return;
        };
        self.set_stage(id, step, CallStage::Running);
        match origin {
            ToolOrigin::BuiltIn => {
                self.effect(Effect::RunTool {
                    trajectory: id.clone(),
                    step,
                    call,
                });
            }
            ToolOrigin::Host => match self.needs_answerer(RequestKind::HostCall) {
                Ok(()) => self.open_step_request(id, step, RequestPayload::HostCall { call }),
                Err(nobody) => self.finish_call(id, step, failed(nobody.to_owned())),
            },
            ToolOrigin::Question => self.ask_question(id, step, &call),
            _ => {
                let result = CallResult {
                    status: ToolResultStatus::Succeeded,
                    content: ResultContent::Text("The answer has been taken.".to_owned()),
                    media: Vec::new(),
                    action: None,
                    error: None,
                };
                self.finish_call(id, step, result);
            }
        }
    }

    fn ask_question(&mut self, id: &TrajectoryId, step: StepIndex, call: &ToolCall) {
        let asks = self.machine.config.behavior == harness_types::AgentBehavior::Interactive;
        let nobody = "no user is there to answer; decide yourself and say what you assumed";
        if !asks || self.needs_answerer(RequestKind::Question).is_err() {
            self.finish_call(id, step, failed(nobody.to_owned()));
            return;
        }
        match questions(&call.args) {
            Ok(questions) => {
                self.open_step_request(id, step, RequestPayload::Question { questions });
            }
            Err(why) => self.finish_call(id, step, failed(why)),
        }
    }

    pub(super) fn tool_ended(
        &mut self,
        id: &TrajectoryId,
        step: StepIndex,
        result: Result<ToolOutput, ToolError>,
    ) {
        let Some(call) = self.call_of(id, step) else {
            return;
        };
        if call.stage != CallStage::Running || call.origin != ToolOrigin::BuiltIn {
            return;
        }
        let result = match result {
            Ok(output) => CallResult {
                status: ToolResultStatus::Succeeded,
                content: output.content,
                media: output.media,
                action: output.action,
                error: None,
            },
            Err(ToolError::Failed { message, action }) => CallResult {
                action: action.map(|action| *action),
                ..failed(message)
            },
            Err(error) => failed(error.to_string()),
        };
        self.ran(id, step, result);
    }

    /// A call has run: the hook after it comes first, if one is wanted.
    pub(super) fn ran(&mut self, id: &TrajectoryId, step: StepIndex, result: CallResult) {
        let hook = match result.status {
            ToolResultStatus::Succeeded => Hook::PostTool,
            _ => Hook::ToolError,
        };
        if self.machine.wants(hook) {
            let result = Box::new(result);
            self.set_stage(id, step, CallStage::Ran { result });
        } else {
            self.finish_call(id, step, result);
        }
    }

    fn review(&mut self, id: &TrajectoryId, step: StepIndex, call: ToolCall, result: &CallResult) {
        let tool = self.policy_name(&call.name);
        let text = content_text(&result.content);
        let hook = match result.status {
            ToolResultStatus::Succeeded => HookCall::PostTool {
                tool,
                call,
                result: text,
            },
            _ => HookCall::ToolError {
                tool,
                call,
                error: result.error.clone().unwrap_or(text),
            },
        };
        self.open_hook(id, Some(step), hook);
    }

    pub(super) fn finish_call(&mut self, id: &TrajectoryId, step: StepIndex, result: CallResult) {
        self.emit(RecordBody::CallFinished {
            trajectory: id.clone(),
            step,
            result,
        });
    }

    /// When all calls of an ended answer are done: hands the results to the model.
    fn settle_calls(&mut self, id: &TrajectoryId) -> bool {
        let Some(turn) = self.state.trajectory(id).and_then(|t| t.turn.as_ref()) else {
            return false;
        };
        let settled = turn.answer_ended
            && !turn.calls.is_empty()
            && turn.calls.iter().all(|call| call.stage == CallStage::Done);
        if !settled {
            return false;
        }
        let finish = turn.calls.iter().find_map(|call| {
            let result = call.result.as_ref()?;
            (call.origin == ToolOrigin::Finish && result.status == ToolResultStatus::Succeeded)
                .then(|| finish_output(&call.call))
        });
        let repeats = turn
            .calls
            .iter()
            .map(|call| turn.repeats(call.step))
            .min()
            .unwrap_or(0);
        self.emit(RecordBody::CallsSettled {
            trajectory: id.clone(),
        });
        match finish {
            Some(output) => self.end_turn(id, TurnEnd::Finished { output }),
            None => self.check_progress(id, repeats),
        }
        true
    }

    /// Stops a turn that goes in circles; says so to the model halfway there.
    fn check_progress(&mut self, id: &TrajectoryId, repeats: u32) {
        let limits = &self.machine.config.limits;
        let invalid = self
            .state
            .trajectory(id)
            .and_then(|t| t.turn.as_ref())
            .map_or(0, |turn| turn.invalid);
        let fail = |message: String| StepError {
            message,
            http_code: None,
        };
        if limits.invalid_answers > 0 && invalid >= limits.invalid_answers {
            let message =
                format!("stopped: {invalid} answers in a row held only calls that could not run");
            self.fail_turn(id, fail(message));
        } else if limits.identical_calls > 0 && repeats >= limits.identical_calls {
            let message =
                format!("stopped: the same call gave the same result {repeats} times in this turn");
            self.fail_turn(id, fail(message));
        } else if limits.identical_calls > 1 && repeats == limits.identical_calls / 2 {
            let text = format!(
                "You have made the same call {repeats} times and got the same result each time. \
                 Try something else, or say what stands in the way."
            );
            self.emit(RecordBody::NoticeGiven {
                trajectory: id.clone(),
                text,
            });
        }
    }

    /// Ends every call that has not ended.
    pub(super) fn cancel_calls(&mut self, id: &TrajectoryId, reason: &str) {
        self.cancel_where(id, reason, |_| true);
        self.settle_after_cancel(id);
    }

    /// Ends the calls that have not started.
    pub(super) fn cancel_calls_not_started(&mut self, id: &TrajectoryId, reason: &str) {
        self.cancel_where(id, reason, |call| !call.ran);
    }

    fn cancel_where(&mut self, id: &TrajectoryId, reason: &str, which: impl Fn(&Call) -> bool) {
        let Some(turn) = self.state.trajectory(id).and_then(|t| t.turn.as_ref()) else {
            return;
        };
        let open: Vec<(StepIndex, CallStage, ToolOrigin, bool)> = turn
            .calls
            .iter()
            .filter(|call| call.stage != CallStage::Done && which(call))
            .map(|call| (call.step, call.stage.clone(), call.origin, call.ran))
            .collect();
        for (step, stage, origin, ran) in open {
            if let Some(request) = self.open_request(id, Some(step)) {
                self.cancel_request(request);
            }
            let result = match stage {
                // It has run; only the hook that wanted to know is missing.
                CallStage::Ran { result } => *result,
                _ => {
                    if ran && origin == ToolOrigin::BuiltIn {
                        self.effect(Effect::AbortTool {
                            trajectory: id.clone(),
                            step,
                        });
                    }
                    let happened = if ran {
                        "was stopped; what it did so far stays"
                    } else {
                        "was not run"
                    };
                    cancelled(format!("the call {happened}: {reason}"))
                }
            };
            self.finish_call(id, step, result);
        }
    }

    fn settle_after_cancel(&mut self, id: &TrajectoryId) {
        let open = self
            .state
            .trajectory(id)
            .and_then(|t| t.turn.as_ref())
            .is_some_and(|turn| !turn.calls.is_empty());
        if open {
            self.emit(RecordBody::CallsSettled {
                trajectory: id.clone(),
            });
        }
    }

    fn cancel_request(&mut self, request: RequestId) {
        self.emit(RecordBody::RequestClosed {
            request,
            outcome: RequestOutcome::Cancelled,
        });
    }
}

/// What the model says a call is for, in a few words.
fn summary(call: &ToolCall) -> String {
    let text = call
        .args
        .get("toolSummary")
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default();
    text.to_owned()
}

/// Whether a call changes something here, so that others keep their distance.
fn is_writer(call: &Call) -> bool {
    matches!(call.class, ToolClass::Mutating | ToolClass::Idempotent)
}

pub(super) fn failed(message: String) -> CallResult {
    ended(ToolResultStatus::Failed, message)
}

pub(super) fn denied(message: String) -> CallResult {
    ended(ToolResultStatus::Denied, message)
}

pub(super) fn cancelled(message: String) -> CallResult {
    ended(ToolResultStatus::Cancelled, message)
}

fn ended(status: ToolResultStatus, message: String) -> CallResult {
    CallResult {
        status,
        content: ResultContent::Text(message.clone()),
        media: Vec::new(),
        action: None,
        error: Some(message),
    }
}

pub(super) fn content_text(content: &ResultContent) -> String {
    match content {
        ResultContent::Text(text) => text.clone(),
        // A map with text keys always serialises.
        ResultContent::Json(json) => serde_json::to_string(json).unwrap_or_default(),
        _ => String::new(),
    }
}
