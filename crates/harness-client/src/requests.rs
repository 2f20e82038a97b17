//! From a request of the harness to the handler that answers it, and back to the wire.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt as _;
use harness_proto::convert::struct_to_map;
use harness_proto::json::to_json;
use harness_proto::localharness::{
    self as wire, InputEvent, PolicyDecisionRequest, PolicyDecisionResponse, PreToolArgs, ToolCall,
    ToolResponse, input_event,
};
use serde_json::{Map, Value, json};

use crate::handlers::{
    HandlerError, Handlers, HostCall, PANICKED, PolicyQuestion, PolicyVerdict, ToolReply, ToolUse,
};
use crate::{Dialect, Error, Input, StepId};

mod asking;
mod hooks;

pub(crate) use asking::{confirmation, questions};
pub(crate) use hooks::hook;

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

fn event(event: input_event::Event) -> InputEvent {
    InputEvent { event: Some(event) }
}
