use harness_types::{CallId, ToolCall, ToolClass, ToolOrigin};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        conversation: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        system: "".into(),
        tools: [].into(),
        messages,
        options: GenerationOptions::default(),
    }
}

/// The body as text: the order of its keys counts.
fn body(request: &ModelRequest) -> String {
    String::from_utf8(encode(request, Service::GeminiApi, "gemini-3-pro").unwrap()).unwrap()
}

fn contents_of(messages: Vec<Message>) -> Value {
    let body: Value = serde_json::from_str(&body(&request(messages))).unwrap();
    body["contents"].clone()
}

fn user(text: &str) -> Message {
    Message::Input(Input::user([InputPart::text(text)]))
}

fn media(mime_type: &str, data: &[u8]) -> Media {
    Media {
        mime_type: mime_type.into(),
        description: "never sent".into(),
        data: data.into(),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

fn call(id: &str, args: Value, signature: Option<&str>) -> ModelPart {
    ModelPart::Call {
        call: ToolCall {
            id: CallId::new(id),
            name: "look".into(),
            args: object(args),
        },
        signature: signature.map(str::to_owned),
    }
}

fn result(id: &str, status: ToolResultStatus, content: ResultContent) -> ToolResult {
    ToolResult {
        call: CallId::new(id),
        name: "look".into(),
        status,
        content,
        media: Vec::new(),
    }
}

fn tool(name: &str, parameters: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        policy_name: "p".into(),
        description: format!("Does {name}."),
        parameters,
        class: ToolClass::ReadOnly,
        origin: ToolOrigin::Host,
    }
}

#[test]
fn the_smallest_body_has_nothing_that_was_not_asked_for() {
    assert_eq!(
        body(&request(vec![user("hi")])),
        r#"{"sessionId":"95275530947985237","contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#
    );
}

#[test]
fn the_full_body() {
    let mut request = request(vec![user("hi")]);
    request.system = "Be brief.".into();
    request.tools = [
        tool(
            "zeta",
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                   "properties": {"b": {"type": "string"}, "a": {}}, "additionalProperties": false}),
        ),
        tool("alpha", json!({"properties": {}})),
        tool("none", Value::Null),
    ]
    .into();
    request.options = GenerationOptions {
        thinking_level: Some("extra_high".into()),
        service_tier: Some("flex".into()),
        max_output_tokens: Some(65_535),
    };
    let expected = concat!(
        r#"{"systemInstruction":{"parts":[{"text":"Be brief."}]},"#,
        r#""tools":[{"functionDeclarations":["#,
        r#"{"name":"zeta","description":"Does zeta.","parametersJsonSchema":"#,
        r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","#,
        r#""properties":{"b":{"type":"string"},"a":{}},"additionalProperties":false}},"#,
        r#"{"name":"alpha","description":"Does alpha.","parametersJsonSchema":"#,
        r#"{"type":"object","properties":{}}},"#,
        r#"{"name":"none","description":"Does none.","parametersJsonSchema":{"type":"object"}}]}],"#,
        r#""toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},"#,
        r#""generationConfig":{"maxOutputTokens":65535,"#,
        r#""thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}},"#,
        r#""serviceTier":"flex","sessionId":"95275530947985237","#,
        r#""contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
    );
    assert_eq!(body(&request), expected);
}

#[test]
fn inputs_keep_the_order_of_their_parts_and_share_a_content() {
    let contents = contents_of(vec![
        Message::Input(Input::user([
            InputPart::text("see"),
            InputPart::Media(media("image/png", b"\x00\xff\x10")),
            InputPart::text(""),
            InputPart::SlashCommand("plan".into()),
            InputPart::text("this \u{1b}\"quoted\"\n"),
        ])),
        Message::Input(Input::trigger("build failed")),
        Message::Input(Input {
            kind: InputKind::Trigger,
            parts: vec![InputPart::Media(media("audio/wav", b"w"))],
        }),
        Message::Notice("go on".into()),
        Message::Input(Input::user([])),
    ]);
    assert_eq!(
        contents,
        json!([{"role": "user", "parts": [
            {"text": "see"},
            {"inlineData": {"mimeType": "image/png", "data": "AP8Q"}},
            {"text": "/plan "},
            {"text": "this \u{1b}\"quoted\"\n"},
            {"text": "This message comes from an automated trigger; nobody typed it.\n\nbuild failed"},
            {"text": "This message comes from an automated trigger; nobody typed it."},
            {"inlineData": {"mimeType": "audio/wav", "data": "dw=="}},
            {"text": "go on"},
        ]}])
    );
}

#[test]
fn f001_every_call_has_its_response_in_a_content_of_their_own() {
    use ToolResultStatus::{Cancelled, Denied, Failed, Succeeded};
    let text = |text: &str| ResultContent::Text(text.into());
    let mut pictured = result("c5", Succeeded, text("a picture"));
    pictured.media.push(media("image/png", b"p"));
    let contents = contents_of(vec![
        user("go"),
        Message::Model(vec![
            ModelPart::Thought {
                text: "hm".into(),
                signature: None,
            },
            ModelPart::Text {
                text: "I look.".into(),
                signature: None,
            },
            call("c1", json!({"z": 1, "a": null}), Some("c2ln+/=")),
            call("c2", json!({}), None),
        ]),
        Message::ToolResults(vec![
            result("c1", Succeeded, text("found")),
            result("c2", Denied, text("no")),
            result(
                "c3",
                Failed,
                ResultContent::Json(object(json!({"code": 7}))),
            ),
            result("c4", Cancelled, text("halted")),
            pictured,
            result(
                "c6",
                Succeeded,
                ResultContent::Json(object(json!({"b": 1, "a": 2}))),
            ),
        ]),
        user("and now?"),
    ]);
    let response = |id: &str, response: Value| json!({"functionResponse": {"id": id, "name": "look", "response": response}});
    let mut picture = response("c5", json!({"output": "a picture"}));
    picture["functionResponse"]["parts"] =
        json!([{"inlineData": {"mimeType": "image/png", "data": "cA=="}}]);
    assert_eq!(
        contents,
        json!([
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true},
                {"text": "I look."},
                {"functionCall": {"id": "c1", "name": "look", "args": {"z": 1, "a": null}},
                 "thoughtSignature": "c2ln+/="},
                {"functionCall": {"id": "c2", "name": "look", "args": {}}},
            ]},
            {"role": "user", "parts": [
                response("c1", json!({"output": "found"})),
                response("c2", json!({"error": "no"})),
                response("c3", json!({"error": {"code": 7}})),
                response("c4", json!({"error": "halted"})),
                picture,
                response("c6", json!({"b": 1, "a": 2})),
            ]},
            {"role": "user", "parts": [{"text": "and now?"}]},
        ])
    );
}

#[test]
fn signatures_go_back_where_they_came_from_even_on_empty_parts() {
    let text = |text: &str, signature: Option<&str>| ModelPart::Text {
        text: text.into(),
        signature: signature.map(str::to_owned),
    };
    let contents = contents_of(vec![
        Message::Model(vec![
            text("a", None),
            text("", Some("AAE=")),
            text("", None),
        ]),
        Message::Model(vec![
            ModelPart::Thought {
                text: String::new(),
                signature: Some("not base64 é".into()),
            },
            ModelPart::Thought {
                text: String::new(),
                signature: None,
            },
        ]),
        Message::Model(Vec::new()),
    ]);
    assert_eq!(
        contents,
        json!([{"role": "model", "parts": [
            {"text": "a"},
            {"text": "", "thoughtSignature": "AAE="},
            {"text": "", "thought": true, "thoughtSignature": "not base64 é"},
        ]}])
    );
}

#[test]
fn vertex_is_sent_no_session_and_no_ids_it_did_not_give() {
    let local = format!("{LOCAL_CALL}3");
    let request = request(vec![
        Message::Model(vec![
            call(&local, json!({}), None),
            call("theirs", json!({}), None),
        ]),
        Message::ToolResults(vec![result(
            &local,
            ToolResultStatus::Succeeded,
            ResultContent::Text("x".into()),
        )]),
    ]);
    let body = encode(&request, Service::Vertex, "m").unwrap();
    assert_eq!(
        String::from_utf8(body).unwrap(),
        concat!(
            r#"{"contents":[{"role":"model","parts":[{"functionCall":{"name":"look","args":{}}},"#,
            r#"{"functionCall":{"id":"theirs","name":"look","args":{}}}]},"#,
            r#"{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"output":"x"}}}]}]}"#,
        )
    );
}

#[test]
fn a_thinking_level_is_sent_to_models_that_take_one() {
    let mut request = request(vec![user("hi")]);
    request.options.thinking_level = Some("low".into());
    for (model, sent) in [
        ("gemini-3-pro-preview", true),
        ("models/gemini-3-flash", true),
        ("my-own", true),
        ("gemini-2.5-flash", false),
        ("publishers/google/models/gemini-2.5-pro", false),
        ("gemini-1.5-pro", false),
    ] {
        let body = encode(&request, Service::GeminiApi, model).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let config = json!({"thinkingConfig": {"includeThoughts": true, "thinkingLevel": "LOW"}});
        assert_eq!(
            body.get("generationConfig"),
            sent.then_some(&config),
            "{model}"
        );
    }
}

#[test]
fn the_session_is_the_published_hash_as_a_signed_number() {
    assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
    assert_eq!(
        session_id(&"f".repeat(32).parse().unwrap()),
        "-8315192610608301147"
    );
}

fn any_part() -> impl Strategy<Value = ModelPart> {
    let signature = || proptest::option::of("[ -~]{1,12}");
    prop_oneof![
        ("\\PC{0,8}", signature())
            .prop_map(|(text, signature)| ModelPart::Text { text, signature }),
        ("\\PC{0,8}", signature())
            .prop_map(|(text, signature)| ModelPart::Thought { text, signature }),
        ("[a-z]{0,4}", "\\PC{0,8}", signature()).prop_map(|(id, arg, signature)| {
            ModelPart::Call {
                call: ToolCall {
                    id: CallId::new(id),
                    name: "look".into(),
                    args: object(json!({ "a": arg })),
                },
                signature,
            }
        }),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        "\\PC{0,8}".prop_map(Message::Notice),
        "\\PC{0,8}".prop_map(|text| Message::Input(Input::trigger(text))),
        prop::collection::vec("\\PC{0,8}", 0..3)
            .prop_map(|texts| Message::Input(Input::user(texts.into_iter().map(InputPart::Text)))),
        prop::collection::vec(any_part(), 0..4).prop_map(Message::Model),
    ]
}

proptest! {
    #[test]
    fn f057_equal_requests_are_equal_bytes_and_growing_ones_share_their_prefix(
        messages in prop::collection::vec(any_message(), 1..8),
    ) {
        let whole = body(&request(messages.clone()));
        prop_assert_eq!(&whole, &body(&request(messages.clone())));
        // What the last message adds comes after everything else.
        let mut shorter = messages;
        shorter.pop();
        let shorter = body(&request(shorter));
        let shared = shorter.trim_end_matches(['}', ']']);
        prop_assert!(whole.starts_with(shared), "{} / {}", shorter, whole);
    }

    #[test]
    fn signatures_and_roles_survive_any_history(messages in prop::collection::vec(any_message(), 0..8)) {
        let signatures: Vec<String> = messages
            .iter()
            .filter_map(|message| match message {
                Message::Model(parts) => Some(parts),
                _ => None,
            })
            .flatten()
            .filter_map(|part| match part {
                ModelPart::Text { signature, .. }
                | ModelPart::Thought { signature, .. }
                | ModelPart::Call { signature, .. } => signature.clone(),
                _ => None,
            })
            .collect();
        let contents = contents_of(messages);
        let contents = contents.as_array().unwrap();
        let sent: Vec<String> = contents
            .iter()
            .flat_map(|content| content["parts"].as_array().unwrap())
            .filter_map(|part| part.get("thoughtSignature"))
            .map(|signature| signature.as_str().unwrap().to_owned())
            .collect();
        prop_assert_eq!(sent, signatures);
        for pair in contents.windows(2) {
            prop_assert_ne!(&pair[0]["role"], &pair[1]["role"]);
        }
    }
}
