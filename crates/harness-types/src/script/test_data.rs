//! Small requests for the tests of this module.

use serde_json::{Map, json};

use crate::{
    CallId, GenerationOptions, Input, InputPart, Message, ModelPart, ModelRequest, ResultContent,
    ToolCall, ToolClass, ToolOrigin, ToolResult, ToolResultStatus, ToolSpec,
};

pub(super) fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        conversation: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        system: "You are an assistant.".into(),
        tools: [tool("look")].into(),
        messages,
        options: GenerationOptions::default(),
    }
}

pub(super) fn hello() -> ModelRequest {
    request(vec![Message::Input(Input::user([InputPart::text(
        "hello",
    )]))])
}

pub(super) fn conversation_with_result(text: &str) -> ModelRequest {
    let mut request = hello();
    request.messages.push(Message::Model(vec![ModelPart::Call {
        call: ToolCall {
            id: CallId::new("a"),
            name: "look".into(),
            args: Map::new(),
        },
        signature: None,
    }]));
    request
        .messages
        .push(Message::ToolResults(vec![result("a", "look", text)]));
    request
}

pub(super) fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        policy_name: name.into(),
        description: "looks".into(),
        parameters: json!({"type": "object"}),
        class: ToolClass::ReadOnly,
        origin: ToolOrigin::BuiltIn,
    }
}

pub(super) fn result(id: &str, name: &str, text: &str) -> ToolResult {
    ToolResult {
        call: CallId::new(id),
        name: name.into(),
        status: ToolResultStatus::Succeeded,
        content: ResultContent::Text(text.into()),
        media: Vec::new(),
    }
}
