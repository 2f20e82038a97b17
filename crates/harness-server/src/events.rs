//! What happens in a conversation, as messages to the client.

use harness_host::{History, StepChange, Update};
use harness_proto::convert::struct_from_map;
use harness_proto::localharness::{
    ActionCustomTool, ActionEditFile, ActionError, ActionFindFile, ActionFinish,
    ActionListDirectory, ActionRunCommand, ActionSearchDirectory, ActionViewFile, CallHookRequest,
    InitializeConversationResponse, LifecycleHook, Modality, ModalityTokenCount, MultipleChoice,
    OnToolErrorArgs, OutputEvent, PolicyDecisionRequest, PostToolArgs, PostTurnArgs, PreToolArgs,
    PreTurnArgs, SandboxStatus, StepUpdate, StopArgs, ToolCall as WireCall,
    ToolResponse as WireResponse, TrajectoryStateUpdate, TrajectoryUsageEntry, UsageMetadata,
    UsageUpdate, UserInput, UserQuestion, UserQuestionsRequest, action_edit_file,
    action_list_directory, call_hook_request, output_event, step_update, trajectory_state_update,
    user_input, user_question,
};
use harness_types::{
    Action, Choice, ConversationId, DiffBlock, EntryKind, HookCall, HostResponse, InputPart,
    LineChange, ModalityCount, Question, Request, RequestPayload, Source, Step, StepState,
    StopReason, Target, ToolCall, TrajectoryId, TurnEnd, Usage,
};
use serde_json::Value;

use output_event::Event;

/// Turns an update into the message for it; `None` where the wire has none.
pub(crate) fn event(conversation: &ConversationId, update: &Update) -> Option<Event> {
    Some(match update {
        Update::Step(change) => Event::StepUpdate(step_update(conversation, change)),
        Update::TurnStarted { trajectory } => Event::TrajectoryStateUpdate(TrajectoryStateUpdate {
            trajectory_id: Some(trajectory.to_string()),
            state: Some(trajectory_state_update::State::Running.into()),
            ..Default::default()
        }),
        Update::TurnEnded { trajectory, end } => {
            Event::TrajectoryStateUpdate(turn_ended(trajectory, end))
        }
        Update::Usage {
            total,
            trajectories,
        } => Event::UsageUpdate(UsageUpdate {
            agents: usage_entries(trajectories),
            total: Some(usage(total)),
        }),
        Update::Request(request) => return self::request(request),
        Update::SessionEnded => Event::SessionEndResponse(true),
        _ => return None,
    })
}

/// The answer to the first message.
pub(crate) fn initialized(conversation: &ConversationId, history: History) -> Event {
    let resumed = !history.steps.is_empty();
    Event::InitializeConversationResponse(InitializeConversationResponse {
        cascade_id: Some(conversation.to_string()),
        cumulative_usage: resumed.then(|| usage(&history.usage)),
        trajectory_usage: if resumed {
            usage_entries(&history.trajectories)
        } else {
            Vec::new()
        },
        history: history
            .steps
            .into_iter()
            .map(|(trajectory, step)| {
                step_update(conversation, &StepChange::seen(trajectory, step))
            })
            .collect(),
        sandbox_status: Some(SandboxStatus {
            available: Some(false),
            unavailable_reason: Some("command sandboxing is not built yet".to_owned()),
        }),
    })
}

/// Numbers an event.
pub(crate) fn envelope(event: Event, seq_num: i64, timestamp_micros: i64) -> OutputEvent {
    OutputEvent {
        event: Some(event),
        seq_num: Some(seq_num),
        timestamp_micros: Some(timestamp_micros),
        ..Default::default()
    }
}

fn turn_ended(trajectory: &TrajectoryId, end: &TurnEnd) -> TrajectoryStateUpdate {
    use trajectory_state_update::State;
    let (state, error, stop_reason) = match end {
        TurnEnd::Failed { error } => (State::FullyIdle, Some(error.message.clone()), None),
        TurnEnd::Stopped { reason } => (State::FullyIdle, None, Some(self::stop_reason(*reason))),
        TurnEnd::Denied { reason } => (State::Cancelled, Some(reason.clone()), None),
        // A halt ends a turn like any other end: clients wait for this state.
        _ => (State::FullyIdle, None, None),
    };
    TrajectoryStateUpdate {
        trajectory_id: Some(trajectory.to_string()),
        state: Some(state.into()),
        error,
        stop_reason: stop_reason.map(Into::into),
        ..Default::default()
    }
}

fn stop_reason(reason: StopReason) -> trajectory_state_update::StopReason {
    use trajectory_state_update::StopReason as Wire;
    match reason {
        StopReason::MaxModelCalls => Wire::MaxModelCallsExceeded,
        StopReason::MaxToolCalls => Wire::MaxToolCallsExceeded,
        StopReason::MaxInputTokens => Wire::MaxInputTokensExceeded,
        StopReason::MaxOutputTokens => Wire::MaxOutputTokensExceeded,
        StopReason::MaxTotalTokens => Wire::MaxTotalTokensExceeded,
        StopReason::QuotaExhausted => Wire::QuotaExhausted,
        _ => Wire::Unspecified,
    }
}

fn usage_entries(trajectories: &[(TrajectoryId, Usage)]) -> Vec<TrajectoryUsageEntry> {
    trajectories
        .iter()
        .map(|(trajectory, spent)| TrajectoryUsageEntry {
            trajectory_id: Some(trajectory.to_string()),
            usage: Some(usage(spent)),
        })
        .collect()
}

/// Counts of zero are left out, as clients take an absent one for "not reported".
fn usage(usage: &Usage) -> UsageMetadata {
    let count = |count: u64| (count > 0).then_some(count);
    UsageMetadata {
        prompt_token_count: count(usage.prompt_tokens),
        cached_content_token_count: count(usage.cached_tokens),
        candidates_token_count: count(usage.candidates_tokens),
        thoughts_token_count: count(usage.thoughts_tokens),
        total_token_count: count(usage.total_tokens),
        service_tier: usage.service_tier.clone(),
        prompt_tokens_details: modalities(&usage.prompt_details),
        cache_tokens_details: modalities(&usage.cache_details),
        candidates_tokens_details: modalities(&usage.candidates_details),
        ..Default::default()
    }
}

fn modalities(counts: &[ModalityCount]) -> Vec<ModalityTokenCount> {
    counts
        .iter()
        .map(|count| ModalityTokenCount {
            modality: Modality::from_str_name(&count.modality).map(Into::into),
            token_count: Some(count.tokens),
        })
        .collect()
}

fn step_update(conversation: &ConversationId, change: &StepChange) -> StepUpdate {
    let step = &change.step;
    let mut update = StepUpdate {
        cascade_id: Some(conversation.to_string()),
        trajectory_id: Some(change.trajectory.to_string()),
        step_index: Some(step.index.get()),
        state: Some(state(step.state).into()),
        source: Some(source(step.source).into()),
        target: Some(target(step.target).into()),
        text: Some(step.text.clone()),
        text_delta: Some(change.text_delta().to_owned()),
        thinking: Some(step.thinking.clone()),
        thinking_delta: Some(change.thinking_delta().to_owned()),
        ..Default::default()
    };
    if let Some(action) = &step.action {
        set_action(&mut update, action, step);
    }
    if let Some(error) = &step.error {
        update.error_message = Some(error.message.clone());
        update.error = Some(ActionError {
            error_message: Some(error.message.clone()),
            http_code: Some(error.http_code.unwrap_or_default().into()),
        });
    }
    update
}

fn state(state: StepState) -> step_update::State {
    match state {
        StepState::Waiting => step_update::State::WaitingForUser,
        StepState::Done => step_update::State::Done,
        StepState::Error => step_update::State::Error,
        _ => step_update::State::Active,
    }
}

fn source(source: Source) -> step_update::Source {
    match source {
        Source::System => step_update::Source::System,
        Source::User => step_update::Source::User,
        Source::Model => step_update::Source::Model,
        _ => step_update::Source::Unspecified,
    }
}

fn target(target: Target) -> step_update::Target {
    match target {
        Target::User => step_update::Target::User,
        Target::Model => step_update::Target::Model,
        Target::Environment => step_update::Target::Environment,
        _ => step_update::Target::Unspecified,
    }
}

fn set_action(update: &mut StepUpdate, action: &Action, step: &Step) {
    match action {
        Action::ListDirectory { path, entries } => {
            update.list_directory = Some(ActionListDirectory {
                directory_path: Some(file_uri(path)),
                results: entries
                    .iter()
                    .map(|entry| action_list_directory::Result {
                        name: Some(entry.name.clone()),
                        info: Some(match entry.kind {
                            EntryKind::File { bytes } => {
                                action_list_directory::result::Info::FileSize(bytes)
                            }
                            _ => action_list_directory::result::Info::IsDirectory(true),
                        }),
                    })
                    .collect(),
            });
        }
        Action::ViewFile {
            path,
            start_line,
            end_line,
            content_offset,
        } => {
            update.view_file = Some(ActionViewFile {
                file_path: Some(file_uri(path)),
                start_line: Some(*start_line),
                end_line: Some(*end_line),
                content_offset: Some(i32::try_from(*content_offset).unwrap_or(i32::MAX)),
            });
        }
        Action::EditFile { path, diff } => {
            update.edit_file = Some(ActionEditFile {
                file_path: Some(file_uri(path)),
                diff_block: diff.iter().map(diff_block).collect(),
            });
        }
        Action::SearchDirectory {
            path,
            query,
            results,
        } => {
            update.search_directory = Some(ActionSearchDirectory {
                directory_path: Some(file_uri(path)),
                query: Some(query.clone()),
                num_results: results.map(|count| i32::try_from(count).unwrap_or(i32::MAX)),
            });
        }
        Action::FindFile {
            path,
            query,
            output,
        } => {
            update.find_file = Some(ActionFindFile {
                directory_path: Some(file_uri(path)),
                query: Some(query.clone()),
                output: output.clone(),
            });
        }
        Action::RunCommand {
            command_line,
            working_dir,
            exit_code,
            output,
        } => {
            update.run_command = Some(ActionRunCommand {
                command_line: Some(command_line.clone()),
                working_dir: Some(working_dir.clone()),
                exit_code: *exit_code,
                combined_output: output.clone(),
            });
        }
        // Only a step that waits asks; afterwards the answer is the tool's result.
        Action::AskQuestion { questions, .. } if step.state == StepState::Waiting => {
            update.request_text = Some("The agent has a question".to_owned());
            update.questions_request = Some(questions_request(questions));
        }
        Action::Finish { output } => {
            update.finish = Some(ActionFinish {
                output_string: Some(output.clone()),
            });
        }
        Action::HostTool { call, response } => {
            update.custom_tool = Some(ActionCustomTool {
                tool_call: Some(wire_call(call, &update_trajectory(update))),
                tool_response: response
                    .as_ref()
                    .map(|response| wire_response(call, response)),
            });
        }
        // A tool the wire has no word for is shown by its state and error alone.
        _ => {}
    }
}

fn update_trajectory(update: &StepUpdate) -> String {
    update.trajectory_id.clone().unwrap_or_default()
}

fn diff_block(block: &DiffBlock) -> action_edit_file::DiffBlock {
    use action_edit_file::diff_line::LineAction;
    let line_number = |line: u32| Some(i32::try_from(line).unwrap_or(i32::MAX));
    action_edit_file::DiffBlock {
        start_line: line_number(block.start_line),
        end_line: line_number(block.end_line),
        lines: block
            .lines
            .iter()
            .map(|line| action_edit_file::DiffLine {
                text: Some(line.text.clone()),
                action: Some(
                    match line.change {
                        LineChange::Insert => LineAction::Insert,
                        LineChange::Delete => LineAction::Delete,
                        LineChange::Keep => LineAction::None,
                    }
                    .into(),
                ),
            })
            .collect(),
    }
}

fn questions_request(questions: &[Question]) -> UserQuestionsRequest {
    UserQuestionsRequest {
        questions: questions
            .iter()
            .map(|question| UserQuestion {
                question_type: Some(user_question::QuestionType::MultipleChoice(
                    MultipleChoice {
                        question: Some(question.question.clone()),
                        choices: question.options.clone(),
                        is_multi_select: Some(question.choice == Choice::Many),
                    },
                )),
            })
            .collect(),
    }
}

/// The request of a host call, a hook or a policy decision. Questions show in their step.
fn request(request: &Request) -> Option<Event> {
    let trajectory = request.trajectory.to_string();
    Some(match &request.payload {
        RequestPayload::HostCall { call } => Event::ToolCall(wire_call(call, &trajectory)),
        RequestPayload::Hook { hook } => Event::CallHookRequest(hook_request(request, hook)),
        RequestPayload::PolicyDecision {
            rule,
            reason,
            tool,
            call,
        } => Event::PolicyDecisionRequest(PolicyDecisionRequest {
            request_id: Some(request.id.to_string()),
            rule_id: Some(rule.clone()),
            tool_args: Some(tool_args(request, tool, call)),
            reason: reason.clone(),
        }),
        _ => return None,
    })
}

fn tool_args(request: &Request, tool: &str, call: &ToolCall) -> PreToolArgs {
    PreToolArgs {
        tool_name: Some(tool.to_owned()),
        arguments_json: Some(json(&call.args)),
        server_name: Some(String::new()),
        call_id: Some(call.id.to_string()),
        trajectory_id: Some(request.trajectory.to_string()),
        step_index: request.step.map(harness_types::StepIndex::get),
    }
}

fn hook_request(request: &Request, hook: &HookCall) -> CallHookRequest {
    use call_hook_request::Args;
    let trajectory_id = Some(request.trajectory.to_string());
    let step_index = request.step.map(harness_types::StepIndex::get);
    let (name, kind, args) = match hook {
        HookCall::SessionStart => ("OnSessionStart", LifecycleHook::OnSessionStart, None),
        HookCall::SessionEnd => ("OnSessionEnd", LifecycleHook::OnSessionEnd, None),
        HookCall::PreTurn { parts, .. } => {
            let user_input = Some(user_input(parts));
            let args = Args::PreTurnArgs(PreTurnArgs {
                user_input,
                trajectory_id,
            });
            ("PreTurn", LifecycleHook::PreTurn, Some(args))
        }
        HookCall::PostTurn { response } => {
            let response_text = Some(response.clone());
            let args = Args::PostTurnArgs(PostTurnArgs {
                response_text,
                trajectory_id,
            });
            ("PostTurn", LifecycleHook::PostTurn, Some(args))
        }
        HookCall::PreTool { tool, call } => {
            let args = Args::PreToolArgs(tool_args(request, tool, call));
            ("PreTool", LifecycleHook::PreTool, Some(args))
        }
        HookCall::PostTool { tool, call, result } => {
            let args = Args::PostToolArgs(PostToolArgs {
                tool_name: Some(tool.clone()),
                result: Some(result.clone()),
                error: None,
                server_name: Some(String::new()),
                call_id: Some(call.id.to_string()),
                trajectory_id,
                step_index,
            });
            ("PostTool", LifecycleHook::PostTool, Some(args))
        }
        HookCall::ToolError { tool, call, error } => {
            let args = Args::OnToolErrorArgs(OnToolErrorArgs {
                tool_name: Some(tool.clone()),
                error_message: Some(error.clone()),
                server_name: Some(String::new()),
                call_id: Some(call.id.to_string()),
                trajectory_id,
                step_index,
            });
            ("OnToolError", LifecycleHook::OnToolError, Some(args))
        }
        HookCall::Stop {
            response,
            continuations,
            error,
            stop_reason,
        } => {
            let args = Args::StopArgs(StopArgs {
                response_text: Some(response.clone()),
                trajectory_id,
                continuation_count: Some(i32::try_from(*continuations).unwrap_or(i32::MAX)),
                stop_reason: stop_reason.map(|reason| self::stop_reason(reason).into()),
                error_message: error.clone(),
            });
            ("Stop", LifecycleHook::Stop, Some(args))
        }
        _ => ("", LifecycleHook::Unspecified, None),
    };
    CallHookRequest {
        request_id: Some(format!("{HOOK_REQUEST_PREFIX}{}", request.id)),
        name: Some(name.to_owned()),
        r#type: Some(kind.into()),
        client_id: None,
        args,
    }
}

/// What the ids of hook requests begin with.
pub(crate) const HOOK_REQUEST_PREFIX: &str = "hook_request_";

fn user_input(parts: &[InputPart]) -> UserInput {
    UserInput {
        parts: parts
            .iter()
            .filter_map(|part| {
                let part = match part {
                    InputPart::Text(text) => user_input::part::Part::Text(text.clone()),
                    InputPart::Media(media) => user_input::part::Part::Media(user_input::Media {
                        mime_type: Some(media.mime_type.clone()),
                        description: Some(media.description.clone()),
                        data: Some(bytes::Bytes::copy_from_slice(&media.data)),
                    }),
                    InputPart::SlashCommand(name) => {
                        user_input::part::Part::SlashCommand(user_input::SlashCommand {
                            name: Some(name.clone()),
                        })
                    }
                    _ => return None,
                };
                Some(user_input::Part { part: Some(part) })
            })
            .collect(),
    }
}

fn wire_call(call: &ToolCall, trajectory: &str) -> WireCall {
    WireCall {
        id: Some(call.id.to_string()),
        name: Some(call.name.clone()),
        arguments_json: Some(json(&call.args)),
        // Deeper nesting than the wire's own form allows is still in the JSON text.
        arguments: struct_from_map(&call.args).ok(),
        trajectory_id: Some(trajectory.to_owned()),
    }
}

fn wire_response(call: &ToolCall, response: &HostResponse) -> WireResponse {
    let mut wire = WireResponse {
        id: Some(call.id.to_string()),
        ..Default::default()
    };
    match response {
        HostResponse::Value(value) => wire.response_json = Some(json(value)),
        HostResponse::Text(text) => {
            wire.response_json = Some(json(&Value::String(text.clone())));
        }
        HostResponse::Error(message) => wire.error_message = Some(message.clone()),
        _ => {}
    }
    wire
}

/// JSON values with text keys always serialise.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A path as the `file://` URI that clients turn back into a path.
fn file_uri(path: &str) -> String {
    use std::fmt::Write as _;
    let mut uri = String::with_capacity(path.len() + 7);
    uri.push_str("file://");
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b'/'
            | b':'
            | b'@'
            | b'!'
            | b'$'
            | b'&'
            | b'\''
            | b'('
            | b')'
            | b'*'
            | b'+'
            | b','
            | b'=' => {
                uri.push(char::from(byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris_that_decode_to_themselves() {
        assert_eq!(
            file_uri("/a b/[x]/ü#?%"),
            "file:///a%20b/%5Bx%5D/%C3%BC%23%3F%25"
        );
    }
}
