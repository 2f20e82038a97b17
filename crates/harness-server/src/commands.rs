//! What a client says, as commands to the loop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use harness_host::StepChange;
use harness_proto::convert::struct_to_map;
use harness_proto::localharness::{
    CallHookResponse, Media as WireMedia, OnToolErrorResult, PolicyDecisionResponse,
    PolicyEvaluationOutcome, PreToolResult, PreTurnResult, StopResult, ToolResponse, UserInput,
    UserQuestionAnswer, UserQuestionsResponse, call_hook_response, input_event, pre_tool_result,
    pre_turn_result, stop_result, user_input, user_question_answer, user_questions_response,
};
use harness_types::{
    Command, HookVerdict, HostAnswer, HostResponse, Input, InputPart, Media, PolicyOutcome,
    QuestionAnswer, Request, RequestAnswer, RequestId, RequestPayload, StepState,
};
use serde_json::Value;

use crate::events::HOOK_REQUEST_PREFIX;

/// The requests a client has been sent, by the words it answers with. Hooks and policy decisions
/// carry the request's number and need no entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    calls: HashMap<String, RequestId>,
    questions: HashMap<(String, u32), RequestId>,
}

impl Asked {
    /// Notes the question of a waiting step before the client is shown the step.
    pub(crate) fn note_question(&self, change: &StepChange) {
        if let (StepState::Waiting, Some(request)) = (change.step.state, change.step.request) {
            let key = (change.trajectory.to_string(), change.step.index.get());
            self.lock().questions.insert(key, request);
        }
    }

    /// Notes a host call before the client is sent it.
    pub(crate) fn note_call(&self, request: &Request) {
        if let RequestPayload::HostCall { call } = &request.payload {
            self.lock().calls.insert(call.id.to_string(), request.id);
        }
    }

    /// Forgets a request that needs no answer any more.
    pub(crate) fn forget(&self, id: RequestId) {
        let mut entries = self.lock();
        entries.calls.retain(|_, request| *request != id);
        entries.questions.retain(|_, request| *request != id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to do about a message.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    /// Tell the loop.
    Command(Command),
    /// Nothing but a line in the log: it answers what nobody asked, or not any more.
    Stray(String),
    /// The client should know that this could not be used.
    Unusable(String),
}

/// Reads a message that came after the first one.
pub(crate) fn command(event: Option<input_event::Event>, asked: &Asked) -> Said {
    use input_event::Event;
    match event {
        Some(Event::UserInput(input)) => user_input_command(input),
        Some(Event::AutomatedTrigger(text)) => Said::Command(Command::Input(Input::trigger(text))),
        Some(Event::HaltRequest(true)) => Said::Command(Command::Halt),
        Some(Event::HaltRequest(false)) => Said::Unusable("haltRequest is false".to_owned()),
        Some(Event::SessionEndRequest(true)) => Said::Command(Command::EndSession),
        Some(Event::SessionEndRequest(false)) => {
            Said::Unusable("sessionEndRequest is false".to_owned())
        }
        Some(Event::ToolResponse(response)) => tool_response(response, asked),
        Some(Event::QuestionResponse(response)) => question_response(response, asked),
        Some(Event::CallHookResponse(response)) => hook_response(response),
        Some(Event::PolicyDecisionResponse(response)) => policy_response(response),
        Some(Event::ToolConfirmation(_)) => {
            Said::Stray("a toolConfirmation that was not asked for was ignored".to_owned())
        }
        None => Said::Unusable("the message holds no known event".to_owned()),
    }
}

fn answer(request: RequestId, answer: RequestAnswer) -> Said {
    Said::Command(Command::Answer { request, answer })
}

fn user_input_command(input: UserInput) -> Said {
    let mut parts = Vec::with_capacity(input.parts.len());
    for part in input.parts {
        parts.push(match part.part {
            Some(user_input::part::Part::Text(text)) => InputPart::Text(text),
            Some(user_input::part::Part::SlashCommand(command)) => {
                InputPart::SlashCommand(command.name.unwrap_or_default())
            }
            Some(user_input::part::Part::Media(media)) => {
                let mime_type = media.mime_type.unwrap_or_default();
                if !is_supported(&mime_type) {
                    return Said::Unusable(format!(
                        "userInput: the MIME type {mime_type:?} is not supported; send an image, \
                         audio, video, text or PDF"
                    ));
                }
                InputPart::Media(Media {
                    mime_type,
                    description: media.description.unwrap_or_default(),
                    data: media.data.unwrap_or_default().as_ref().into(),
                })
            }
            None => return Said::Unusable("userInput: a part holds nothing".to_owned()),
        });
    }
    if parts.is_empty() {
        return Said::Unusable("userInput holds no parts".to_owned());
    }
    Said::Command(Command::Input(Input::user(parts)))
}

fn is_supported(mime_type: &str) -> bool {
    let (kind, rest) = mime_type.split_once('/').unwrap_or_default();
    !rest.is_empty()
        && (matches!(kind, "image" | "audio" | "video" | "text")
            || matches!(mime_type, "application/pdf" | "application/json"))
}

fn tool_response(response: ToolResponse, asked: &Asked) -> Said {
    let id = response.id.unwrap_or_default();
    let Some(request) = asked.lock().calls.remove(&id) else {
        return Said::Stray(format!(
            "a toolResponse for {id:?} was ignored: no such call is open"
        ));
    };
    let said = if let Some(message) = response.error_message.filter(|text| !text.is_empty()) {
        HostResponse::Error(message)
    } else if let Some(object) = response.response {
        match struct_to_map(&object) {
            Ok(object) => HostResponse::Value(Value::Object(object)),
            Err(error) => {
                HostResponse::Error(format!("the tool's response is unreadable: {error}"))
            }
        }
    } else {
        match response.response_json.as_deref().unwrap_or_default() {
            "" => HostResponse::Value(Value::Object(serde_json::Map::new())),
            text => match serde_json::from_str(text) {
                Ok(value) => HostResponse::Value(value),
                // Not JSON: the model gets what there is rather than nothing.
                Err(_) => HostResponse::Text(text.to_owned()),
            },
        }
    };
    let media = response.supplemental_media.into_iter().map(media).collect();
    answer(
        request,
        RequestAnswer::Host(HostAnswer {
            response: said,
            media,
        }),
    )
}

fn media(media: WireMedia) -> Media {
    Media {
        mime_type: media.mime_type.unwrap_or_default(),
        description: media.description.unwrap_or_default(),
        data: media.data.unwrap_or_default().as_ref().into(),
    }
}

fn question_response(response: UserQuestionsResponse, asked: &Asked) -> Said {
    let key = (
        response.trajectory_id.unwrap_or_default(),
        response.step_index.unwrap_or_default(),
    );
    let Some(request) = asked.lock().questions.remove(&key) else {
        return Said::Stray(format!(
            "a questionResponse for step {} was ignored: no question is open there",
            key.1
        ));
    };
    let answers = match response.result {
        Some(user_questions_response::Result::Response(response)) => {
            Some(response.answers.into_iter().map(question_answer).collect())
        }
        Some(user_questions_response::Result::Cancelled(_)) | None => None,
    };
    answer(request, RequestAnswer::Question(answers))
}

fn question_answer(answer: UserQuestionAnswer) -> QuestionAnswer {
    match answer.answer {
        Some(user_question_answer::Answer::MultipleChoiceAnswer(chosen)) => {
            QuestionAnswer::Chosen {
                options: chosen
                    .selected_choice_indices
                    .into_iter()
                    // A negative index is no option; the largest number says so without a cast.
                    .map(|index| u32::try_from(index).unwrap_or(u32::MAX))
                    .collect(),
                text: chosen.freeform_response.unwrap_or_default(),
            }
        }
        Some(user_question_answer::Answer::Unanswered(_)) | None => QuestionAnswer::Skipped,
    }
}

fn hook_response(response: CallHookResponse) -> Said {
    let id = response.request_id.unwrap_or_default();
    let number = id
        .strip_prefix(HOOK_REQUEST_PREFIX)
        .and_then(|number| number.parse().ok());
    let Some(number) = number else {
        return Said::Stray(format!(
            "a callHookResponse for {id:?} was ignored: no such request"
        ));
    };
    answer(
        RequestId::new(number),
        RequestAnswer::Hook(verdict(response.result)),
    )
}

fn verdict(result: Option<call_hook_response::Result>) -> HookVerdict {
    use call_hook_response::Result;
    match result {
        None | Some(Result::EmptyResult(_)) => HookVerdict::Continue,
        Some(Result::ErrorMessage(message)) => HookVerdict::Failed { message },
        Some(Result::PreTurnResult(result)) => pre_turn(result),
        Some(Result::PreToolResult(result)) => pre_tool(result),
        Some(Result::OnToolErrorResult(result)) => tool_error(result),
        Some(Result::StopResult(result)) => stop(result),
    }
}

const NO_REASON: &str = "refused by a hook that gave no reason";

fn reason(given: Option<String>) -> String {
    given
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| NO_REASON.to_owned())
}

fn pre_turn(result: PreTurnResult) -> HookVerdict {
    match result.decision() {
        pre_turn_result::Decision::Deny => HookVerdict::Deny {
            reason: reason(result.reason),
        },
        pre_turn_result::Decision::Allow => HookVerdict::Continue,
        pre_turn_result::Decision::Unspecified => undecided(result.decision, "decision"),
    }
}

fn pre_tool(result: PreToolResult) -> HookVerdict {
    match result.decision() {
        pre_tool_result::Decision::Deny => {
            return HookVerdict::Deny {
                reason: reason(result.reason),
            };
        }
        pre_tool_result::Decision::Allow => {}
        pre_tool_result::Decision::Unspecified => {
            if let refused @ HookVerdict::Failed { .. } = undecided(result.decision, "decision") {
                return refused;
            }
        }
    }
    let args = match (result.modified_args, result.modified_arguments_json) {
        (Some(object), _) => match struct_to_map(&object) {
            Ok(args) => args,
            Err(error) => {
                return HookVerdict::Failed {
                    message: error.to_string(),
                };
            }
        },
        (None, Some(text)) if !text.is_empty() => match serde_json::from_str(&text) {
            Ok(args) => args,
            Err(error) => {
                let message = format!("modifiedArgumentsJson is no JSON object: {error}");
                return HookVerdict::Failed { message };
            }
        },
        _ => return HookVerdict::Continue,
    };
    HookVerdict::Modify { args }
}

/// An absent decision is no opinion; one that this version has no name for is not taken for
/// permission.
fn undecided(decision: Option<i32>, field: &str) -> HookVerdict {
    match decision {
        None | Some(0) => HookVerdict::Continue,
        Some(number) => HookVerdict::Failed {
            message: format!("{field} {number} is unknown"),
        },
    }
}

fn tool_error(result: OnToolErrorResult) -> HookVerdict {
    match result.custom_error_message.filter(|text| !text.is_empty()) {
        Some(message) => HookVerdict::ReplaceError { message },
        None => HookVerdict::Continue,
    }
}

fn stop(result: StopResult) -> HookVerdict {
    match result.decision() {
        stop_result::Decision::Continue => {
            let reason = result
                .reason
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "The work is not done yet. Go on.".to_owned());
            HookVerdict::KeepGoing { reason }
        }
        _ => HookVerdict::Continue,
    }
}

fn policy_response(response: PolicyDecisionResponse) -> Said {
    let id = response.request_id.clone().unwrap_or_default();
    let Ok(number) = id.parse() else {
        return Said::Stray(format!(
            "a policyDecisionResponse for {id:?} was ignored: no such request"
        ));
    };
    let outcome = match response.outcome() {
        PolicyEvaluationOutcome::Allow => PolicyOutcome::Allow,
        PolicyEvaluationOutcome::NoMatch => PolicyOutcome::NoMatch,
        PolicyEvaluationOutcome::Deny => PolicyOutcome::Deny {
            reason: response.deny_reason.filter(|text| !text.is_empty()),
        },
        // Safety hangs on it, so what is not understood is a refusal.
        PolicyEvaluationOutcome::Unspecified => PolicyOutcome::Deny {
            reason: Some("the client's policy gave no decision that is understood".to_owned()),
        },
    };
    answer(RequestId::new(number), RequestAnswer::Policy(outcome))
}

#[cfg(test)]
mod tests;
