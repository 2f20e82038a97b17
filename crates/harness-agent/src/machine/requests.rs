//! Answers to what the loop has asked.

use harness_policy::Verdict;
use harness_types::{
    Action, CallResult, CallStage, Choice, HookCall, HookVerdict, HostAnswer, HostResponse,
    PolicyOutcome, Question, QuestionAnswer, RecordBody, Request, RequestAnswer, RequestId,
    RequestOutcome, RequestPayload, ResultContent, StepIndex, ToolCall, ToolResultStatus,
    TrajectoryId, TurnEnd, TurnStage,
};
use serde_json::{Map, Value};

use super::Stepper;
use super::calls::{denied, failed};

impl Stepper<'_> {
    pub(super) fn answer(&mut self, id: RequestId, answer: RequestAnswer) {
        let Some(request) = self.state.requests().get(&id).cloned() else {
            self.note(format!(
                "an answer to request {id} was ignored: it is not open (answered already, \
                 cancelled, or never asked)"
            ));
            return;
        };
        let kind = request.payload.kind();
        if !answer.fits(kind) {
            self.note(format!(
                "an answer to request {id} was ignored: it is not a {kind:?} answer"
            ));
            return;
        }
        if let (RequestPayload::Hook { hook }, RequestAnswer::Hook(verdict)) =
            (&request.payload, &answer)
            && !verdict_fits(hook, verdict)
        {
            self.note(format!(
                "an answer to request {id} was ignored: that verdict does not belong to this hook"
            ));
            return;
        }
        let outcome = RequestOutcome::Answered(answer.clone());
        self.emit(RecordBody::RequestClosed {
            request: id,
            outcome,
        });
        self.act_on(request, answer);
    }

    fn act_on(&mut self, request: Request, answer: RequestAnswer) {
        let Request {
            trajectory,
            step,
            payload,
            ..
        } = request;
        match (payload, answer, step) {
            (RequestPayload::HostCall { call }, RequestAnswer::Host(answer), Some(step)) => {
                self.ran(&trajectory, step, host_result(call, answer));
            }
            (
                RequestPayload::Question { questions },
                RequestAnswer::Question(answers),
                Some(step),
            ) => {
                self.ran(&trajectory, step, question_result(questions, answers));
            }
            (
                RequestPayload::PolicyDecision { tool, call, .. },
                RequestAnswer::Policy(outcome),
                Some(step),
            ) => self.policy_answered(&trajectory, step, &tool, call, outcome),
            (RequestPayload::Confirmation { .. }, RequestAnswer::Policy(outcome), Some(step)) => {
                match outcome {
                    PolicyOutcome::Allow => self.set_stage(&trajectory, step, CallStage::Ready),
                    PolicyOutcome::Deny { reason } => {
                        let why = reason.unwrap_or_else(|| "the user refused the call".to_owned());
                        self.finish_call(&trajectory, step, denied(why));
                    }
                    _ => {
                        let why = "the question whether the call may run was not answered";
                        self.finish_call(&trajectory, step, denied(why.to_owned()));
                    }
                }
            }
            (RequestPayload::Hook { hook }, RequestAnswer::Hook(verdict), step) => match step {
                Some(step) => self.tool_hook_answered(&trajectory, step, hook, verdict),
                None => self.turn_hook_answered(&trajectory, hook, verdict),
            },
            _ => {}
        }
    }

    fn policy_answered(
        &mut self,
        id: &TrajectoryId,
        step: StepIndex,
        tool: &str,
        call: ToolCall,
        outcome: PolicyOutcome,
    ) {
        let machine = self.machine;
        let from = self.policy_position(id, step).unwrap_or(0);
        let verdict = match machine.policy.evaluate(tool, None, from) {
            Verdict::AskClient { next, .. } => machine.policy.resume(tool, None, next, outcome),
            verdict => verdict,
        };
        self.obey(id, step, call, verdict);
    }

    fn policy_position(&self, id: &TrajectoryId, step: StepIndex) -> Option<u32> {
        match self.state.trajectory(id)?.turn.as_ref()?.call(step)?.stage {
            CallStage::Policy { from } => Some(from),
            _ => None,
        }
    }

    fn tool_hook_answered(
        &mut self,
        id: &TrajectoryId,
        step: StepIndex,
        hook: HookCall,
        verdict: HookVerdict,
    ) {
        match (hook, verdict) {
            (HookCall::PreTool { .. }, HookVerdict::Deny { reason }) => {
                self.finish_call(id, step, denied(reason));
            }
            (HookCall::PreTool { .. }, HookVerdict::Failed { message }) => {
                let why = format!("refused, because the pre-tool hook failed: {message}");
                self.finish_call(id, step, denied(why));
            }
            (HookCall::PreTool { call, .. }, HookVerdict::Modify { args }) => {
                self.modify_call(id, step, call, args);
            }
            (HookCall::PreTool { .. }, _) => {
                self.set_stage(id, step, CallStage::Policy { from: 0 });
            }
            (HookCall::PostTool { .. } | HookCall::ToolError { .. }, verdict) => {
                let Some(call) = self
                    .state
                    .trajectory(id)
                    .and_then(|t| t.turn.as_ref()?.call(step))
                else {
                    return;
                };
                let CallStage::Ran { result } = &call.stage else {
                    return;
                };
                let mut result = (**result).clone();
                match verdict {
                    HookVerdict::ReplaceError { message } => {
                        result.content = ResultContent::Text(message);
                    }
                    HookVerdict::Failed { message } => {
                        self.note(format!(
                            "the hook after a call failed and was ignored: {message}"
                        ));
                    }
                    _ => {}
                }
                self.finish_call(id, step, result);
            }
            _ => {}
        }
    }

    fn modify_call(
        &mut self,
        id: &TrajectoryId,
        step: StepIndex,
        mut call: ToolCall,
        changes: Map<String, Value>,
    ) {
        call.args.extend(changes);
        let catalogue = &self.machine.catalogue;
        let Some(spec) = catalogue.spec(&call.name) else {
            return;
        };
        let checked = catalogue.check(spec, &mut call.args);
        let action = catalogue.opening(spec, &call);
        let args = call.args;
        self.emit(RecordBody::CallModified {
            trajectory: id.clone(),
            step,
            args,
            action,
        });
        match checked {
            Ok(()) => self.set_stage(id, step, CallStage::Policy { from: 0 }),
            Err(why) => {
                let why = format!("arguments as changed by the pre-tool hook: {why}");
                self.finish_call(id, step, failed(why));
            }
        }
    }

    fn turn_hook_answered(&mut self, id: &TrajectoryId, hook: HookCall, verdict: HookVerdict) {
        if hook == HookCall::SessionEnd {
            self.emit(RecordBody::SessionEnded);
            return;
        }
        let Some(turn) = self.state.trajectory(id).and_then(|t| t.turn.as_ref()) else {
            return;
        };
        let (stage, continuations) = (turn.stage.clone(), turn.continuations);
        let shown = match &hook {
            HookCall::PreTurn { shown, .. } => *shown,
            _ => None,
        };
        match (&stage, verdict) {
            (TurnStage::PreTurn, HookVerdict::Deny { reason }) => self.deny_turn(id, shown, reason),
            (TurnStage::PreTurn, HookVerdict::Failed { message }) => {
                self.deny_turn(
                    id,
                    shown,
                    format!("refused, because the pre-turn hook failed: {message}"),
                );
            }
            (TurnStage::Stopping { end }, HookVerdict::KeepGoing { reason }) => {
                let may = matches!(end, TurnEnd::Completed | TurnEnd::Finished { .. });
                let limit = self.machine.config.limits.stop_continuations;
                if !may {
                    self.note("the stop hook wants to go on, but the turn ended with an error");
                    self.leave_stage(id, stage);
                } else if continuations >= limit {
                    self.note(format!(
                        "the stop hook has continued this turn {limit} times already"
                    ));
                    self.leave_stage(id, stage);
                } else {
                    let (trajectory, text) = (id.clone(), reason);
                    self.emit(RecordBody::NoticeGiven { trajectory, text });
                    let (trajectory, stage) = (id.clone(), TurnStage::Running);
                    self.emit(RecordBody::TurnStageChanged { trajectory, stage });
                }
            }
            (_, HookVerdict::Failed { message }) => {
                self.note(format!("a hook failed and was ignored: {message}"));
                self.leave_stage(id, stage);
            }
            _ => self.leave_stage(id, stage),
        }
    }
}

/// Whether a hook can give this verdict.
fn verdict_fits(hook: &HookCall, verdict: &HookVerdict) -> bool {
    match verdict {
        HookVerdict::Continue | HookVerdict::Failed { .. } => true,
        HookVerdict::Modify { .. } => matches!(hook, HookCall::PreTool { .. }),
        HookVerdict::Deny { .. } => {
            matches!(hook, HookCall::PreTool { .. } | HookCall::PreTurn { .. })
        }
        HookVerdict::KeepGoing { .. } => matches!(hook, HookCall::Stop { .. }),
        HookVerdict::ReplaceError { .. } => matches!(hook, HookCall::ToolError { .. }),
        _ => false,
    }
}

/// What a host tool's answer means to the model.
fn host_result(call: ToolCall, answer: HostAnswer) -> CallResult {
    let HostAnswer { response, media } = answer;
    let action = Some(Action::HostTool {
        call,
        response: Some(response.clone()),
    });
    let result = match response {
        HostResponse::Error(message) => failed(message),
        HostResponse::Value(Value::Object(object)) => succeeded(ResultContent::Json(object)),
        HostResponse::Value(value) => succeeded(ResultContent::Json(Map::from_iter([(
            "result".to_owned(),
            value,
        )]))),
        HostResponse::Text(text) => succeeded(ResultContent::Text(text)),
        _ => failed("the tool answered in a form this version does not know".to_owned()),
    };
    CallResult {
        media,
        action,
        ..result
    }
}

fn succeeded(content: ResultContent) -> CallResult {
    CallResult {
        status: ToolResultStatus::Succeeded,
        content,
        media: Vec::new(),
        action: None,
        error: None,
    }
}

/// What the user's answers mean to the model. An index that is no option is named, not dropped.
fn question_result(questions: Vec<Question>, answers: Option<Vec<QuestionAnswer>>) -> CallResult {
    let Some(answers) = answers else {
        let why = "the user dismissed the questions without an answer".to_owned();
        let action = Some(Action::AskQuestion {
            questions,
            answers: Vec::new(),
        });
        return CallResult {
            action,
            ..failed(why)
        };
    };
    let lines = questions.iter().enumerate().map(|(n, question)| {
        let answer = match answers.get(n) {
            None | Some(QuestionAnswer::Skipped) => "skipped by the user".to_owned(),
            Some(QuestionAnswer::Chosen { options, text }) => chosen(question, options, text),
            Some(_) => "answered in a form this version does not know".to_owned(),
        };
        format!("Q{}: {}\nA{}: {answer}", n + 1, question.question, n + 1)
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let action = Some(Action::AskQuestion { questions, answers });
    CallResult {
        action,
        ..succeeded(ResultContent::Text(text))
    }
}

fn chosen(question: &Question, options: &[u32], text: &str) -> String {
    let mut words: Vec<String> = options
        .iter()
        .map(|option| match question.options.get(*option as usize) {
            Some(words) => words.clone(),
            None => format!("(choice {option}, which is not among the options)"),
        })
        .collect();
    if question.choice == Choice::One {
        words.truncate(1);
    }
    if !text.is_empty() {
        words.push(text.to_owned());
    }
    if words.is_empty() {
        "no choice made".to_owned()
    } else {
        words.join(", ")
    }
}
