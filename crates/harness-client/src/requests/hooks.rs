//! Lifecycle hooks.

use harness_proto::convert::struct_from_map;
use harness_proto::localharness::{
    self as wire, CallHookRequest, CallHookResponse, InputEvent, LifecycleHook, call_hook_request,
    call_hook_response, input_event,
};
use serde_json::Value;

use super::{Job, RequestKey, event, filled, tool_use};
use crate::StopReason;
use crate::handlers::{
    Compaction, HandlerError, Handlers, PostTool, PostTurn, PreToolVerdict, PreTurn,
    PreTurnVerdict, Stop, StopVerdict, ToolFailure,
};

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

fn hook_response(id: String, result: call_hook_response::Result) -> InputEvent {
    event(input_event::Event::CallHookResponse(CallHookResponse {
        request_id: Some(id),
        result: Some(result),
    }))
}
