//! A [`ModelRequest`] as the JSON body of `streamGenerateContent`.
//!
//! Pure: the same request gives the same bytes, without a clock or chance (F057), because the
//! provider's cache looks for a common prefix. What stays the same between the requests of a
//! conversation therefore comes first, and the history last.
//!
//! The body is written in one go from borrowed parts; neither the history nor the attachments are
//! copied on the way.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use harness_types::{
    ConversationId, GenerationOptions, Input, InputKind, InputPart, Media, Message, ModelPart,
    ModelRequest, ResultContent, ToolResult, ToolResultStatus, ToolSpec,
};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};

/// Says that nobody typed what follows.
const TRIGGER: &str = "This message comes from an automated trigger; nobody typed it.";

/// Ids of calls that the provider gave none start with this.
pub(crate) const LOCAL_CALL: &str = "local-call-";

/// Which dialect of the body is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// The Gemini API.
    GeminiApi,
    /// Vertex AI. Its public schema has no `sessionId`, and it refuses what it does not know; the
    /// same holds for call ids in its older releases, so that only ids it gave are repeated.
    Vertex,
}

/// Whether a model takes a thinking level, by its name: models before Gemini 3 refuse it.
pub(crate) fn takes_thinking_level(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !name.starts_with("gemini-1") && !name.starts_with("gemini-2")
}

/// The body for `request`, sent to a model of the name `model`.
pub(crate) fn encode(
    request: &ModelRequest,
    service: Service,
    model: &str,
) -> serde_json::Result<Vec<u8>> {
    let body = Body {
        system_instruction: (!request.system.is_empty()).then(|| Content {
            role: None,
            parts: vec![Part::text(&request.system)],
        }),
        tools: (!request.tools.is_empty()).then(|| {
            [Tools {
                function_declarations: request.tools.iter().map(declaration).collect(),
            }]
        }),
        tool_config: (!request.tools.is_empty()).then_some(ToolConfig {
            function_calling_config: CallingConfig { mode: "AUTO" },
        }),
        generation_config: generation(&request.options, model),
        service_tier: request.options.service_tier.as_deref(),
        session_id: match service {
            Service::GeminiApi => Some(session_id(&request.conversation)),
            Service::Vertex => None,
        },
        contents: contents(&request.messages, service),
    };
    serde_json::to_vec(&body)
}

/// The provider's id of a conversation: the hash of our id, as a signed number in decimal.
fn session_id(conversation: &ConversationId) -> String {
    fnv_1a(conversation.as_str().as_bytes())
        .cast_signed()
        .to_string()
}

/// FNV-1a with 64 bits.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn generation<'a>(options: &'a GenerationOptions, model: &str) -> Option<GenerationConfig<'a>> {
    let thinking_config = options
        .thinking_level
        .as_deref()
        .filter(|_| takes_thinking_level(model))
        .map(|level| ThinkingConfig {
            include_thoughts: true,
            thinking_level: Level(level),
        });
    let max_output_tokens = options.max_output_tokens;
    (thinking_config.is_some() || max_output_tokens.is_some()).then_some(GenerationConfig {
        max_output_tokens,
        thinking_config,
    })
}

fn declaration(tool: &ToolSpec) -> Declaration<'_> {
    Declaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: Schema(&tool.parameters),
    }
}

/// The history. Neighbouring messages of one role share a content; the answers of tools always
/// have their own, because the provider counts them against the calls of the content before.
fn contents(messages: &[Message], service: Service) -> Vec<Content<'_>> {
    let mut contents: Vec<Content<'_>> = Vec::with_capacity(messages.len());
    // The role the last content can still grow in.
    let mut open = None;
    for message in messages {
        let (role, parts, joins) = match message {
            Message::Input(input) => ("user", input_parts(input), true),
            Message::Notice(text) => ("user", vec![Part::text(text)], true),
            Message::Model(parts) => {
                let parts = parts.iter().filter_map(|part| model_part(part, service));
                ("model", parts.collect(), true)
            }
            Message::ToolResults(results) => {
                let parts = results.iter().map(|result| result_part(result, service));
                ("user", parts.collect(), false)
            }
            other => {
                tracing::warn!(?other, "a message of a kind unknown here is not sent");
                continue;
            }
        };
        if parts.is_empty() {
            // The provider refuses a content without parts.
            continue;
        }
        match contents.last_mut() {
            Some(last) if joins && open == Some(role) => last.parts.extend(parts),
            _ => contents.push(Content {
                role: Some(role),
                parts,
            }),
        }
        open = joins.then_some(role);
    }
    contents
}

fn input_parts(input: &Input) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::with_capacity(input.parts.len() + 1);
    for part in &input.parts {
        match part {
            InputPart::Text(text) if text.is_empty() => {}
            InputPart::Text(text) => parts.push(Part::text(text)),
            InputPart::Media(media) => parts.push(Part {
                inline_data: Some(Blob::from(media)),
                ..Part::default()
            }),
            InputPart::SlashCommand(name) => parts.push(Part {
                text: Some(Text::Slash(name)),
                ..Part::default()
            }),
            other => tracing::warn!(?other, "an input of a kind unknown here is not sent"),
        }
    }
    if input.kind == InputKind::Trigger && !parts.is_empty() {
        // In the same part where that is possible, so that it is clear how far "this" reaches.
        match &mut parts[0].text {
            Some(Text::Plain(text)) => parts[0].text = Some(Text::Introduced(text)),
            _ => parts.insert(0, Part::text(TRIGGER)),
        }
    }
    parts
}

fn model_part(part: &ModelPart, service: Service) -> Option<Part<'_>> {
    match part {
        ModelPart::Text { text, signature } | ModelPart::Thought { text, signature } => {
            if text.is_empty() && signature.is_none() {
                return None;
            }
            Some(Part {
                text: Some(Text::Plain(text)),
                thought: matches!(part, ModelPart::Thought { .. }).then_some(true),
                thought_signature: signature.as_deref(),
                ..Part::default()
            })
        }
        ModelPart::Call { call, signature } => Some(Part {
            function_call: Some(FunctionCall {
                id: call_id(call.id.as_str(), service),
                name: &call.name,
                args: &call.args,
            }),
            thought_signature: signature.as_deref(),
            ..Part::default()
        }),
        other => {
            tracing::warn!(?other, "a part of a kind unknown here is not sent");
            None
        }
    }
}

fn result_part(result: &ToolResult, service: Service) -> Part<'_> {
    Part {
        function_response: Some(FunctionResponse {
            id: call_id(result.call.as_str(), service),
            name: &result.name,
            response: Response(result),
            parts: result
                .media
                .iter()
                .map(|media| Part {
                    inline_data: Some(Blob::from(media)),
                    ..Part::default()
                })
                .collect(),
        }),
        ..Part::default()
    }
}

fn call_id(id: &str, service: Service) -> Option<&str> {
    match service {
        Service::Vertex if id.starts_with(LOCAL_CALL) => None,
        Service::Vertex | Service::GeminiApi => (!id.is_empty()).then_some(id),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters_json_schema: Schema<'a>,
}

/// A schema as it is, but for a missing `type` at its root, which the provider insists on (F052).
struct Schema<'a>(&'a Value);

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let known = match self.0 {
            Value::Object(map) if map.contains_key("type") => return map.serialize(serializer),
            Value::Object(map) => Some(map),
            _ => None,
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "object")?;
        for (key, value) in known.into_iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: CallingConfig,
}

#[derive(Serialize)]
struct CallingConfig {
    mode: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig<'a> {
    include_thoughts: bool,
    thinking_level: Level<'a>,
}

/// The provider's enum is upper case and ends at `HIGH`.
struct Level<'a>(&'a str);

impl Serialize for Level<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.eq_ignore_ascii_case("extra_high") {
            return serializer.serialize_str("HIGH");
        }
        serializer.serialize_str(&self.0.to_ascii_uppercase())
    }
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Blob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

impl<'a> Part<'a> {
    fn text(text: &'a str) -> Self {
        Self {
            text: Some(Text::Plain(text)),
            ..Self::default()
        }
    }
}

enum Text<'a> {
    Plain(&'a str),
    Slash(&'a str),
    Introduced(&'a str),
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(text) => serializer.serialize_str(text),
            Self::Slash(name) => serializer.collect_str(&format_args!("/{name} ")),
            Self::Introduced(text) => serializer.collect_str(&format_args!("{TRIGGER}\n\n{text}")),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    #[serde(serialize_with = "base64")]
    data: &'a [u8],
}

impl<'a> From<&'a Media> for Blob<'a> {
    fn from(media: &'a Media) -> Self {
        Self {
            mime_type: &media.mime_type,
            data: &media.data,
        }
    }
}

fn base64<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(data, &STANDARD))
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Response<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part<'a>>,
}

/// What a result says, as the object that the provider insists on.
struct Response<'a>(&'a ToolResult);

impl Serialize for Response<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let key = match (self.0.status, &self.0.content) {
            (ToolResultStatus::Succeeded, ResultContent::Json(object)) => {
                return object.serialize(serializer);
            }
            (ToolResultStatus::Succeeded, _) => "output",
            _ => "error",
        };
        let mut map = serializer.serialize_map(Some(1))?;
        match &self.0.content {
            ResultContent::Text(text) => map.serialize_entry(key, text)?,
            ResultContent::Json(object) => map.serialize_entry(key, object)?,
            other => {
                tracing::warn!(?other, "a result of a kind unknown here is sent empty");
                map.serialize_entry(key, "")?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
