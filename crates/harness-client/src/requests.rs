//! From a request of the harness to the handler that answers it, and back to the wire.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt as _;
use harness_proto::convert::{struct_from_map, struct_to_map};
use harness_proto::json::to_json;
use harness_proto::localharness::{
    self as wire, CallHookRequest, CallHookResponse, InputEvent, LifecycleHook, MultipleChoice,
    PolicyDecisionRequest, PolicyDecisionResponse, PreToolArgs, StepUpdate, ToolCall,
    ToolConfirmation, ToolResponse, UserQuestionAnswer, UserQuestionsResponse, call_hook_request,
    call_hook_response, input_event, user_question, user_question_answer, user_questions_response,
};
use serde_json::{Map, Value, json};

use crate::handlers::{
    Answer, Compaction, Confirmation, ConfirmationVerdict, HandlerError, Handlers, HostCall,
    PANICKED, PolicyQuestion, PolicyVerdict, PostTool, PostTurn, PreToolVerdict, PreTurn,
    PreTurnVerdict, Question, Selection, Stop, StopVerdict, ToolFailure, ToolReply, ToolUse,
};
use crate::{Dialect, Error, Input, StepId, StopReason};

/// What a request is known by while it is open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RequestKey {
    Tool(String),
    Hook(String),
    Policy(String),
    Question(StepId),
    Confirmation(StepId),
}

impl RequestKey {
    /// Whether nobody waits for the answer any more once the turn is over. Hooks around turns and
    /// sessions are answered in any case.
    pub(crate) fn ends_with_turn(&self) -> bool {
        !matches!(self, Self::Hook(_))
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<InputEvent, HandlerError>> + Send>>;

/// A request on its way through a handler.
pub(crate) struct Job {
    pub(crate) key: RequestKey,
    run: Answering,
    /// What is answered when the handler fails.
    refuse: Box<dyn FnOnce(String) -> InputEvent + Send>,
}

impl Job {
    fn new(
        key: RequestKey,
        run: impl Future<Output = Result<InputEvent, HandlerError>> + Send + 'static,
        refuse: impl FnOnce(String) -> InputEvent + Send + 'static,
    ) -> Self {
        Self {
            key,
            run: Box::pin(run),
            refuse: Box::new(refuse),
        }
    }

    /// Runs the handler and returns its answer as a frame of at most `max_bytes`. Never fails and
    /// never panics; `None` when not even a refusal fits.
    pub(crate) async fn answer(self, max_bytes: usize) -> Option<String> {
        let Self { key, run, refuse } = self;
        let problem = match AssertUnwindSafe(run).catch_unwind().await {
            Ok(Ok(event)) => match frame(&event, max_bytes) {
                Ok(frame) => return Some(frame),
                Err(error) => error.to_string(),
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => PANICKED.to_owned(),
        };
        tracing::warn!(?key, %problem, "a handler failed");
        frame(&refuse(problem), max_bytes).ok()
    }
}

/// Writes a message for the harness.
pub(crate) fn frame(event: &InputEvent, max_bytes: usize) -> Result<String, Error> {
    bounded(to_json(event).map_err(Error::Encode)?, max_bytes)
}

/// Writes what is said to the agent.
pub(crate) fn input_frame(
    input: Input,
    dialect: Dialect,
    max_bytes: usize,
) -> Result<String, Error> {
    use wire::user_input::part::Part;
    let event = input.into_event();
    match (dialect, &event.event) {
        // The object form took the name `userInput` later.
        (Dialect::UpTo014, Some(input_event::Event::UserInput(input))) => {
            let text = match input.parts.as_slice() {
                [part] => match &part.part {
                    Some(Part::Text(text)) => Some(text),
                    _ => None,
                },
                _ => None,
            };
            let frame = match text {
                Some(text) => json!({ "userInput": text }).to_string(),
                None => {
                    let input = to_json(input).map_err(Error::Encode)?;
                    format!(r#"{{"complexUserInput":{input}}}"#)
                }
            };
            bounded(frame, max_bytes)
        }
        _ => frame(&event, max_bytes),
    }
}

fn bounded(frame: String, max_bytes: usize) -> Result<String, Error> {
    if frame.len() > max_bytes {
        return Err(Error::TooLarge {
            length: frame.len(),
            limit: max_bytes,
        });
    }
    Ok(frame)
}

/// A call of a host tool.
pub(crate) fn tool_call(handlers: &Handlers, call: ToolCall, dialect: Dialect) -> Job {
    let id = call.id().to_owned();
    let handler = handlers.find_tool(call.name());
    let (answer_id, refuse_id) = (id.clone(), id.clone());
    let run = async move {
        let name = call.name().to_owned();
        let Some(handler) = handler else {
            return Err(format!("there is no tool {name:?} in this program").into());
        };
        let arguments = match &call.arguments {
            _ if !call.arguments_json().trim().is_empty() => object(call.arguments_json())?,
            Some(arguments) => struct_to_map(arguments)?,
            None => Map::new(),
        };
        let reply = handler(HostCall {
            id: call.id().to_owned(),
            name,
            arguments,
            trajectory_id: call.trajectory_id.clone(),
        })
        .await?;
        Ok(tool_response(answer_id, reply))
    };
    Job::new(RequestKey::Tool(id), run, move |problem| {
        let response = match dialect {
            Dialect::Current => ToolResponse {
                id: Some(refuse_id),
                error_message: Some(problem),
                ..ToolResponse::default()
            },
            // `error_message` is younger than these harnesses.
            Dialect::UpTo014 => ToolResponse {
                id: Some(refuse_id),
                response_json: Some(json!({ "error": problem }).to_string()),
                ..ToolResponse::default()
            },
        };
        event(input_event::Event::ToolResponse(response))
    })
}

fn tool_response(id: String, reply: ToolReply) -> InputEvent {
    let value = match reply.value {
        object @ Value::Object(_) => object,
        // The closed harness loses call and answer when this is no object.
        other => json!({ "result": other }),
    };
    let media = reply.media.into_iter().map(|media| wire::Media {
        mime_type: Some(media.mime_type),
        description: Some(media.description),
        data: Some(media.data),
    });
    event(input_event::Event::ToolResponse(ToolResponse {
        id: Some(id),
        response_json: Some(value.to_string()),
        supplemental_media: media.collect(),
        ..ToolResponse::default()
    }))
}

/// A lifecycle hook.
pub(crate) fn hook(handlers: &Handlers, request: CallHookRequest) -> Job {
    use call_hook_response::Result as Answered;
    let id = request.request_id().to_owned();
    let kind = request.r#type();
    let handlers = handlers.clone();
    let (answer_id, refuse_id) = (id.clone(), id.clone());
    let run = async move {
        let result = run_hook(&handlers, kind, request.args).await?;
        Ok(hook_response(answer_id, result))
    };
    Job::new(RequestKey::Hook(id), run, move |problem| {
        let result = match kind {
            // The closed harness ends the session on an error here; a plain no it understands.
            LifecycleHook::PreTurn => Answered::PreTurnResult(wire::PreTurnResult {
                decision: Some(wire::pre_turn_result::Decision::Deny.into()),
                reason: Some(format!("the pre-turn hook failed: {problem}")),
            }),
            LifecycleHook::PreTool => Answered::PreToolResult(wire::PreToolResult {
                decision: Some(wire::pre_tool_result::Decision::Deny.into()),
                reason: Some(format!("the pre-tool hook failed: {problem}")),
                ..wire::PreToolResult::default()
            }),
            _ => Answered::ErrorMessage(problem),
        };
        hook_response(refuse_id, result)
    })
}

async fn run_hook(
    handlers: &Handlers,
    kind: LifecycleHook,
    args: Option<call_hook_request::Args>,
) -> Result<call_hook_response::Result, HandlerError> {
    use call_hook_request::Args;
    use call_hook_response::Result as Answered;
    let empty = Answered::EmptyResult(wire::EmptyResult {});
    let missing = || HandlerError::from("this program has no such hook");

    match (kind, args) {
        (LifecycleHook::OnSessionStart, _) => {
            if let Some(handler) = &handlers.session_start {
                handler(()).await?;
            }
        }
        (LifecycleHook::OnSessionEnd, _) => {
            if let Some(handler) = &handlers.session_end {
                handler(()).await?;
            }
        }
        (LifecycleHook::PreTurn, args) => {
            let input = match args {
                Some(Args::PreTurnArgs(args)) => args.user_input.unwrap_or_default(),
                _ => wire::UserInput::default(),
            };
            let handler = handlers.pre_turn.as_ref().ok_or_else(missing)?;
            let (decision, reason) = match handler(PreTurn { input }).await? {
                PreTurnVerdict::Allow => (wire::pre_turn_result::Decision::Allow, None),
                PreTurnVerdict::Deny(why) => (wire::pre_turn_result::Decision::Deny, Some(why)),
            };
            return Ok(Answered::PreTurnResult(wire::PreTurnResult {
                decision: Some(decision.into()),
                reason,
            }));
        }
        (LifecycleHook::PreTool, args) => {
            let Some(Args::PreToolArgs(args)) = args else {
                return Err("the harness did not say which call it is about".into());
            };
            let handler = handlers.pre_tool.as_ref().ok_or_else(missing)?;
            let verdict = handler(tool_use(args)?).await?;
            return Ok(Answered::PreToolResult(pre_tool_result(verdict)?));
        }
        (LifecycleHook::PostTurn, Some(Args::PostTurnArgs(args))) => {
            if let Some(handler) = &handlers.post_turn {
                let response = args.response_text.unwrap_or_default();
                handler(PostTurn { response }).await?;
            }
        }
        (LifecycleHook::PostTool, Some(Args::PostToolArgs(args))) => {
            if let Some(handler) = &handlers.post_tool {
                handler(PostTool {
                    tool: args.tool_name.unwrap_or_default(),
                    server: filled(args.server_name),
                    call_id: args.call_id.unwrap_or_default(),
                    result: args.result.unwrap_or_default(),
                    error: filled(args.error),
                })
                .await?;
            }
        }
        (LifecycleHook::OnToolError, Some(Args::OnToolErrorArgs(args))) => {
            if let Some(handler) = &handlers.tool_error {
                let text = handler(ToolFailure {
                    tool: args.tool_name.unwrap_or_default(),
                    server: filled(args.server_name),
                    call_id: args.call_id.unwrap_or_default(),
                    error: args.error_message.unwrap_or_default(),
                })
                .await?;
                if let Some(text) = filled(text) {
                    return Ok(Answered::OnToolErrorResult(wire::OnToolErrorResult {
                        custom_error_message: Some(text),
                    }));
                }
            }
        }
        (LifecycleHook::OnCompaction, Some(Args::OnCompactionArgs(args))) => {
            if let Some(handler) = &handlers.compaction {
                let summary = args.summary.unwrap_or_default();
                handler(Compaction { summary }).await?;
            }
        }
        (LifecycleHook::Stop, args) => {
            let args = match args {
                Some(Args::StopArgs(args)) => args,
                _ => wire::StopArgs::default(),
            };
            return Ok(Answered::StopResult(stop_result(handlers, args).await?));
        }
        _ => {}
    }
    Ok(empty)
}

fn pre_tool_result(verdict: PreToolVerdict) -> Result<wire::PreToolResult, HandlerError> {
    use wire::pre_tool_result::Decision;
    let mut result = wire::PreToolResult::default();
    let decision = match verdict {
        PreToolVerdict::Allow => Decision::Allow,
        PreToolVerdict::Modify(arguments) => {
            // Old harnesses read the text, newer ones the struct.
            result.modified_args = Some(struct_from_map(&arguments)?);
            result.modified_arguments_json = Some(Value::Object(arguments).to_string());
            Decision::Allow
        }
        PreToolVerdict::Deny(reason) => {
            result.reason = Some(reason);
            Decision::Deny
        }
    };
    result.decision = Some(decision.into());
    Ok(result)
}

async fn stop_result(
    handlers: &Handlers,
    args: wire::StopArgs,
) -> Result<wire::StopResult, HandlerError> {
    use wire::stop_result::Decision;
    let verdict = match &handlers.stop {
        None => StopVerdict::Stop,
        Some(handler) => {
            handler(Stop {
                continuations: args.continuation_count().try_into().unwrap_or(0),
                stop_reason: args.stop_reason.and_then(StopReason::from_wire),
                response: args.response_text.unwrap_or_default(),
                error: filled(args.error_message),
            })
            .await?
        }
    };
    let (decision, reason) = match verdict {
        StopVerdict::Stop => (Decision::AllowStop, None),
        StopVerdict::Continue(reason) => (Decision::Continue, Some(reason)),
    };
    Ok(wire::StopResult {
        decision: Some(decision.into()),
        reason,
    })
}

/// A rule that is decided here.
pub(crate) fn policy(handlers: &Handlers, request: PolicyDecisionRequest) -> Job {
    use wire::PolicyEvaluationOutcome as Outcome;
    let id = request.request_id().to_owned();
    let handler = handlers.policy.clone();
    let respond = |id: String, outcome: Outcome, reason: Option<String>| {
        event(input_event::Event::PolicyDecisionResponse(
            PolicyDecisionResponse {
                request_id: Some(id),
                outcome: Some(outcome.into()),
                deny_reason: reason,
            },
        ))
    };
    let (answer_id, refuse_id) = (id.clone(), id.clone());
    let run = async move {
        let Some(handler) = handler else {
            return Err("nobody here decides about tool calls".into());
        };
        let verdict = handler(PolicyQuestion {
            rule_id: request.rule_id.unwrap_or_default(),
            reason: filled(request.reason),
            call: tool_use(request.tool_args.unwrap_or_default())?,
        })
        .await?;
        Ok(match verdict {
            PolicyVerdict::Allow => respond(answer_id, Outcome::Allow, None),
            PolicyVerdict::Deny(reason) => respond(answer_id, Outcome::Deny, reason),
            PolicyVerdict::NoMatch => respond(answer_id, Outcome::NoMatch, None),
        })
    };
    Job::new(RequestKey::Policy(id), run, move |problem| {
        respond(refuse_id, Outcome::Deny, Some(problem))
    })
}

/// Questions to the user; `None` when the step asks none.
pub(crate) fn questions(handlers: &Handlers, step: &StepUpdate) -> Option<Job> {
    let asked = step.questions_request.clone()?.questions;
    let handler = handlers.questions.clone();
    let respond = {
        let (trajectory_id, step_index) = (step.trajectory_id.clone(), step.step_index);
        move |result| {
            event(input_event::Event::QuestionResponse(
                UserQuestionsResponse {
                    trajectory_id,
                    step_index,
                    result: Some(result),
                },
            ))
        }
    };
    let answer = respond.clone();
    let run = async move {
        let Some(handler) = handler else {
            return Err("nobody here answers questions".into());
        };
        // Kinds of question that are not known yet count as skipped.
        let known: Vec<Option<Question>> = asked.into_iter().map(question).collect();
        let questions: Vec<Question> = known.iter().flatten().cloned().collect();
        let mut answers = handler(questions).await?.into_iter();
        let answers = known.iter().map(|question| match question {
            None => user_answer(Answer::Skipped, 0),
            Some(question) => {
                let answer = answers.next().unwrap_or(Answer::Skipped);
                user_answer(answer, question.choices.len())
            }
        });
        Ok(answer(user_questions_response::Result::Response(
            user_questions_response::QuestionsResponse {
                answers: answers.collect(),
            },
        )))
    };
    let key = RequestKey::Question(StepId::of(step));
    Some(Job::new(key, run, move |_| {
        respond(user_questions_response::Result::Cancelled(true))
    }))
}

fn question(asked: wire::UserQuestion) -> Option<Question> {
    let user_question::QuestionType::MultipleChoice(MultipleChoice {
        question,
        choices,
        is_multi_select,
    }) = asked.question_type?;
    Some(Question {
        text: question.unwrap_or_default(),
        choices,
        selection: match is_multi_select {
            Some(true) => Selection::Many,
            _ => Selection::One,
        },
    })
}

fn user_answer(answer: Answer, choices: usize) -> UserQuestionAnswer {
    use user_question_answer::Answer as Wire;
    let choice = match answer {
        Answer::Skipped => {
            return UserQuestionAnswer {
                answer: Some(Wire::Unanswered(true)),
            };
        }
        Answer::Choices(picked) => wire::MultipleChoiceAnswer {
            selected_choice_indices: picked
                .into_iter()
                .filter(|position| *position < choices)
                .filter_map(|position| position.try_into().ok())
                .collect(),
            freeform_response: None,
        },
        Answer::Text(text) => wire::MultipleChoiceAnswer {
            selected_choice_indices: Vec::new(),
            freeform_response: Some(text),
        },
    };
    UserQuestionAnswer {
        answer: Some(Wire::MultipleChoiceAnswer(choice)),
    }
}

/// A call that waits for a yes or no; `None` when the step does not.
pub(crate) fn confirmation(handlers: &Handlers, step: &StepUpdate) -> Option<Job> {
    step.tool_confirmation_request.as_ref()?;
    let handler = handlers.confirm.clone();
    let respond = {
        let (trajectory_id, step_index) = (step.trajectory_id.clone(), step.step_index);
        move |verdict| {
            event(input_event::Event::ToolConfirmation(ToolConfirmation {
                trajectory_id,
                step_index,
                accepted: Some(verdict == ConfirmationVerdict::Accept),
            }))
        }
    };
    let answer = respond.clone();
    let asked = Confirmation {
        step: Box::new(step.clone()),
    };
    let run = async move {
        let Some(handler) = handler else {
            return Err("nobody here confirms tool calls".into());
        };
        Ok(answer(handler(asked).await?))
    };
    let key = RequestKey::Confirmation(StepId::of(step));
    Some(Job::new(key, run, move |_| {
        respond(ConfirmationVerdict::Reject)
    }))
}

fn tool_use(args: PreToolArgs) -> Result<ToolUse, HandlerError> {
    let step = args.step_index.map(|index| StepId {
        trajectory_id: args.trajectory_id().to_owned(),
        index,
    });
    Ok(ToolUse {
        arguments: match args.arguments_json() {
            "" => Map::new(),
            text => object(text)?,
        },
        tool: args.tool_name.unwrap_or_default(),
        server: filled(args.server_name),
        call_id: args.call_id.unwrap_or_default(),
        step,
    })
}

fn object(text: &str) -> Result<Map<String, Value>, HandlerError> {
    serde_json::from_str(text).map_err(|error| {
        // Where, never what: arguments may hold secrets.
        let (line, column) = (error.line(), error.column());
        format!("the arguments are no JSON object (line {line}, column {column})").into()
    })
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn hook_response(id: String, result: call_hook_response::Result) -> InputEvent {
    event(input_event::Event::CallHookResponse(CallHookResponse {
        request_id: Some(id),
        result: Some(result),
    }))
}

fn event(event: input_event::Event) -> InputEvent {
    InputEvent { event: Some(event) }
}
