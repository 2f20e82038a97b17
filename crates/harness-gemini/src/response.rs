//! The frames of an answer as [`ModelEvent`]s.
//!
//! Each frame is one `GenerateContentResponse`. What is known is read strictly, what is not is
//! skipped, and counts are read leniently: a strange one must not cost an answer.

use std::collections::VecDeque;

use harness_types::{
    CallId, FinishReason, Message, ModalityCount, ModelError, ModelErrorKind, ModelEvent,
    ModelPart, ModelRequest, ToolCall, Usage,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::failure;
use crate::request::LOCAL_CALL;
use crate::target::Peer;

/// Reads the frames of one answer.
///
/// The finish is held back until the stream ends ([`Frames::finish`]): some servers name a reason
/// in every frame, and parts may not follow a finish.
#[derive(Debug)]
pub(crate) struct Frames {
    events: VecDeque<ModelEvent>,
    finish: Option<Finish>,
    /// A call that could not be read; it decides how the answer ends.
    malformed: Option<Finish>,
    calls: Vec<CallId>,
    /// The number of the next id for a call that came without one.
    next_local: u64,
    /// Whether any frame has come.
    pub(crate) any: bool,
}

#[derive(Debug, Clone)]
struct Finish {
    reason: FinishReason,
    message: Option<String>,
}

impl Frames {
    /// For the answer to `request`, whose history says which call ids are taken.
    pub(crate) fn new(request: &ModelRequest) -> Self {
        Self {
            events: VecDeque::new(),
            finish: None,
            malformed: None,
            calls: Vec::new(),
            next_local: next_local(&request.messages),
            any: false,
        }
    }

    /// Takes the next event out.
    pub(crate) fn next_event(&mut self) -> Option<ModelEvent> {
        self.events.pop_front()
    }

    /// Whether a reason for the end has been named.
    pub(crate) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Ends the answer: the finish, when a reason was named.
    pub(crate) fn finish(&mut self) -> Option<ModelEvent> {
        let named = self.finish.take()?;
        let Finish { reason, message } = self.malformed.take().unwrap_or(named);
        Some(ModelEvent::Finish { reason, message })
    }

    /// Reads one frame.
    pub(crate) fn read(&mut self, peer: &Peer, data: &[u8]) -> Result<(), ModelError> {
        let data = data.trim_ascii();
        // Not sent by Google, but by gateways that speak other dialects as well.
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        self.any = true;
        let malformed = |error: serde_json::Error| {
            let message = format!(
                "a frame of the answer of {} cannot be read: {error}",
                peer.host
            );
            peer.error(ModelErrorKind::Malformed, &message)
        };
        if data.first() == Some(&b'[') {
            for frame in serde_json::from_slice::<Vec<Frame>>(data).map_err(malformed)? {
                self.frame(peer, frame)?;
            }
            return Ok(());
        }
        let frame = serde_json::from_slice::<Frame>(data).map_err(malformed)?;
        self.frame(peer, frame)
    }

    fn frame(&mut self, peer: &Peer, frame: Frame) -> Result<(), ModelError> {
        if let Some(error) = frame.error.filter(|error| !error.is_null()) {
            return Err(failure::from_stream(peer, &error));
        }
        // One answer was asked for; more are a server's mistake.
        let candidate = frame.candidates.into_iter().flatten().next();
        if let Some(candidate) = candidate {
            let parts = candidate.content.and_then(|content| content.parts);
            for part in parts.into_iter().flatten() {
                self.part(part);
            }
            if let Some(reason) = candidate.finish_reason.as_deref().and_then(finish_reason) {
                self.end(reason, candidate.finish_message);
            }
        }
        if let Some(feedback) = frame.prompt_feedback
            && let Some(reason) = feedback.block_reason
            && !reason.is_empty()
            && reason != "BLOCK_REASON_UNSPECIFIED"
        {
            self.end(FinishReason::Blocked(reason), feedback.block_reason_message);
        }
        if let Some(usage @ Value::Object(_)) = &frame.usage_metadata {
            self.events.push_back(ModelEvent::Usage(read_usage(usage)));
        }
        Ok(())
    }

    /// A later reason replaces an earlier one, but a plain stop replaces nothing.
    fn end(&mut self, reason: FinishReason, message: Option<String>) {
        if self.finish.is_none() || reason != FinishReason::Stop {
            let message = message.filter(|text| !text.is_empty());
            self.finish = Some(Finish { reason, message });
        }
    }

    fn part(&mut self, part: Part) {
        let signature = part.thought_signature.filter(|text| !text.is_empty());
        if let Some(call) = part.function_call {
            match self.call(call) {
                Ok(call) => {
                    let part = ModelPart::Call { call, signature };
                    self.events.push_back(ModelEvent::Part(part));
                }
                Err(message) => {
                    self.malformed.get_or_insert(Finish {
                        reason: FinishReason::MalformedCall("UNREADABLE_FUNCTION_CALL".to_owned()),
                        message: Some(message),
                    });
                }
            }
            return;
        }
        let other = part.inline_data.is_some();
        if other {
            tracing::debug!("media in the model's answer is ignored");
        }
        // A signature may come with an empty text, or with none; it has to go back all the same.
        let text = match part.text {
            Some(text) => text,
            None if signature.is_some() && !other => String::new(),
            None => return,
        };
        if text.is_empty() && signature.is_none() {
            return;
        }
        let part = if part.thought == Some(true) {
            ModelPart::Thought { text, signature }
        } else {
            ModelPart::Text { text, signature }
        };
        self.events.push_back(ModelEvent::Part(part));
    }

    fn call(&mut self, call: FunctionCall) -> Result<ToolCall, String> {
        let name = match call.name {
            Some(Value::String(name)) if !name.is_empty() => name,
            other => return Err(format!("a function call has {} as its name", kind(&other))),
        };
        let args = match call.args {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(args)) => args,
            other => {
                let kind = kind(&other);
                return Err(format!(
                    "the args of the call of `{name}` are {kind}; they have to be an object"
                ));
            }
        };
        let given = match call.id {
            Some(Value::String(id)) if !id.is_empty() => Some(CallId::new(id)),
            _ => None,
        };
        let id = match given {
            Some(id) if !self.calls.contains(&id) => id,
            _ => {
                let id = CallId::new(format!("{LOCAL_CALL}{}", self.next_local));
                self.next_local = self.next_local.saturating_add(1);
                id
            }
        };
        self.calls.push(id.clone());
        Ok(ToolCall { id, name, args })
    }
}

fn kind(value: &Option<Value>) -> &'static str {
    match value {
        None => "nothing",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(_)) => "a string",
        Some(Value::Array(_)) => "an array",
        Some(Value::Object(_)) => "an object",
    }
}

/// One more than the highest number among our own ids of the history, so that an id is given once
/// in a conversation without chance being involved.
fn next_local(messages: &[Message]) -> u64 {
    let parts = messages.iter().filter_map(|message| match message {
        Message::Model(parts) => Some(parts),
        _ => None,
    });
    let numbers = parts.flatten().filter_map(|part| match part {
        ModelPart::Call { call, .. } => {
            let number = call.id.as_str().strip_prefix(LOCAL_CALL)?;
            number.parse::<u64>().ok()
        }
        _ => None,
    });
    numbers.max().map_or(0, |highest| highest.saturating_add(1))
}

/// The reasons of the Gemini API and of Vertex AI, by name: their numbers differ. `None` for the
/// word that stands for no reason.
fn finish_reason(word: &str) -> Option<FinishReason> {
    Some(match word {
        "" | "FINISH_REASON_UNSPECIFIED" => return None,
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FinishReason::Blocked(word.to_owned()),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
            FinishReason::MalformedCall(word.to_owned())
        }
        _ => FinishReason::Other(word.to_owned()),
    })
}

fn read_usage(usage: &Value) -> Usage {
    let count = |key: &str| usage.get(key).map_or(0, number);
    Usage {
        prompt_tokens: count("promptTokenCount"),
        cached_tokens: count("cachedContentTokenCount"),
        candidates_tokens: count("candidatesTokenCount"),
        thoughts_tokens: count("thoughtsTokenCount"),
        total_tokens: count("totalTokenCount"),
        service_tier: usage
            .get("serviceTier")
            .and_then(Value::as_str)
            .map(str::to_owned),
        prompt_details: modalities(usage.get("promptTokensDetails")),
        cache_details: modalities(usage.get("cacheTokensDetails")),
        candidates_details: modalities(usage.get("candidatesTokensDetails")),
    }
}

/// A count; 64-bit ones are strings in protobuf's JSON.
fn number(value: &Value) -> u64 {
    match value {
        Value::String(digits) => digits.parse().unwrap_or(0),
        other => other.as_u64().unwrap_or(0),
    }
}

fn modalities(list: Option<&Value>) -> Vec<ModalityCount> {
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    entries
        .filter_map(|entry| {
            Some(ModalityCount {
                modality: entry.get("modality")?.as_str()?.to_owned(),
                tokens: entry.get("tokenCount").map_or(0, number),
            })
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<String>,
    function_call: Option<FunctionCall>,
    inline_data: Option<serde::de::IgnoredAny>,
}

/// Read leniently, so that a call the model got wrong can be told from a broken transport.
#[derive(Deserialize)]
struct FunctionCall {
    id: Option<Value>,
    name: Option<Value>,
    args: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[cfg(test)]
mod tests;
