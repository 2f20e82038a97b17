use harness_types::{GenerationOptions, Quota};
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

fn peer() -> Peer {
    Peer::new("h", Vec::new())
}

fn read(frames: &[Value]) -> Vec<ModelEvent> {
    let mut reader = Frames::new(&request(Vec::new()));
    for frame in frames {
        reader.read(&peer(), frame.to_string().as_bytes()).unwrap();
    }
    let mut events: Vec<_> = std::iter::from_fn(|| reader.next_event()).collect();
    events.extend(reader.finish());
    events
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}}]})
}

fn finish(reason: FinishReason) -> ModelEvent {
    ModelEvent::Finish {
        reason,
        message: None,
    }
}

fn text(text: &str, signature: Option<&str>) -> ModelEvent {
    ModelEvent::Part(ModelPart::Text {
        text: text.into(),
        signature: signature.map(str::to_owned),
    })
}

fn call(id: &str, name: &str, args: Value) -> ModelEvent {
    let Value::Object(args) = args else {
        panic!("not an object")
    };
    ModelEvent::Part(ModelPart::Call {
        call: ToolCall {
            id: CallId::new(id),
            name: name.into(),
            args,
        },
        signature: None,
    })
}

#[test]
fn f016_f066_every_finish_reason_counts_with_and_without_content() {
    let word = str::to_owned;
    let cases = [
        ("STOP", FinishReason::Stop),
        ("MAX_TOKENS", FinishReason::MaxTokens),
    ]
    .into_iter()
    .chain(
        [
            "SAFETY",
            "RECITATION",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "MODEL_ARMOR",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ]
        .map(|reason| (reason, FinishReason::Blocked(word(reason)))),
    )
    .chain(
        ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"]
            .map(|reason| (reason, FinishReason::MalformedCall(word(reason)))),
    )
    .chain(
        [
            "OTHER",
            "LANGUAGE",
            "TOO_MANY_TOOL_CALLS",
            "MISSING_THOUGHT_SIGNATURE",
            "IMAGE_OTHER",
            "NO_IMAGE",
            "SOMETHING_NEW",
        ]
        .map(|reason| (reason, FinishReason::Other(word(reason)))),
    );
    for (word, reason) in cases {
        let bare = json!({"candidates": [{"finishReason": word}]});
        assert_eq!(read(&[bare]), [finish(reason.clone())], "{word}");
        let empty = json!({"candidates": [{"content": {}, "finishReason": word}]});
        assert_eq!(read(&[empty]), [finish(reason.clone())], "{word}");
        let full = json!({"candidates": [{"content": {"parts": [{"text": "a"}]},
            "finishReason": word, "finishMessage": "because"}]});
        let told = ModelEvent::Finish {
            reason,
            message: Some("because".into()),
        };
        assert_eq!(read(&[full]), [text("a", None), told], "{word}");
    }
}

#[test]
fn a_reason_in_every_frame_is_told_once_and_last() {
    let frame = |text: &str, reason: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": reason}]});
    assert_eq!(
        read(&[
            frame("a", "STOP"),
            frame("b", "MAX_TOKENS"),
            frame("c", "STOP")
        ]),
        [
            text("a", None),
            text("b", None),
            text("c", None),
            finish(FinishReason::MaxTokens)
        ]
    );
    assert_eq!(
        read(&[frame("a", "FINISH_REASON_UNSPECIFIED"), frame("b", "")]),
        [text("a", None), text("b", None)]
    );
}

#[test]
fn a_blocked_prompt_is_a_finish() {
    let frame = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT",
        "blockReasonMessage": "the prompt"}, "usageMetadata": {"promptTokenCount": 7}});
    assert_eq!(
        read(&[frame]),
        [
            ModelEvent::Usage(Usage {
                prompt_tokens: 7,
                ..Usage::default()
            }),
            ModelEvent::Finish {
                reason: FinishReason::Blocked("PROHIBITED_CONTENT".into()),
                message: Some("the prompt".into()),
            },
        ]
    );
    assert_eq!(
        read(&[json!({"promptFeedback": {"safetyRatings": []}})]),
        []
    );
}

#[test]
fn parts_keep_their_order_their_kind_and_their_signatures() {
    let frame = parts(json!([
        {"text": "hm", "thought": true},
        {"text": "", "thought": true, "thoughtSignature": "dGg="},
        {"text": "a"},
        {"text": ""},
        {"text": "", "thoughtSignature": "AAE+/w=="},
        {"thoughtSignature": "bare"},
        {"text": "b", "thought": false, "thoughtSignature": ""},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "lost"},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"text": null},
        {"functionCall": {"id": "c", "name": "f", "args": {"b": 1, "a": [null]}},
         "thoughtSignature": "c2ln", "later": {}},
    ]));
    assert_eq!(
        read(&[frame]),
        [
            ModelEvent::Part(ModelPart::Thought {
                text: "hm".into(),
                signature: None
            }),
            ModelEvent::Part(ModelPart::Thought {
                text: String::new(),
                signature: Some("dGg=".into())
            }),
            text("a", None),
            text("", Some("AAE+/w==")),
            text("", Some("bare")),
            text("b", None),
            ModelEvent::Part(ModelPart::Call {
                call: ToolCall {
                    id: CallId::new("c"),
                    name: "f".into(),
                    args: [("b".to_owned(), json!(1)), ("a".to_owned(), json!([null]))]
                        .into_iter()
                        .collect(),
                },
                signature: Some("c2ln".into()),
            }),
        ]
    );
}

#[test]
fn calls_without_an_id_of_their_own_get_one_that_the_history_does_not_have() {
    let old = |id: &str| {
        Message::Model(vec![ModelPart::Call {
            call: ToolCall {
                id: CallId::new(id),
                name: "f".into(),
                args: Map::new(),
            },
            signature: None,
        }])
    };
    let history = vec![old("local-call-4"), old("x"), old("local-call-nine")];
    let mut reader = Frames::new(&request(history));
    let frame = parts(json!([
        {"functionCall": {"name": "f"}},
        {"functionCall": {"name": "f", "id": "", "args": null}},
        {"functionCall": {"name": "f", "id": "c"}},
        {"functionCall": {"name": "f", "id": "c"}},
    ]));
    reader.read(&peer(), frame.to_string().as_bytes()).unwrap();
    let events: Vec<_> = std::iter::from_fn(|| reader.next_event()).collect();
    let expected = ["local-call-5", "local-call-6", "c", "local-call-7"];
    assert_eq!(events, expected.map(|id| call(id, "f", json!({}))));
}

#[test]
fn f016_a_call_that_cannot_be_read_ends_the_answer_as_malformed() {
    let frame = json!({"candidates": [{"content": {"parts": [
        {"functionCall": {"name": "f", "id": "1", "args": "{}"}},
        {"functionCall": {"name": "g", "id": "2", "args": {}}},
        {"functionCall": {"name": 7}},
    ]}, "finishReason": "STOP"}]});
    assert_eq!(
        read(&[frame]),
        [
            call("2", "g", json!({})),
            ModelEvent::Finish {
                reason: FinishReason::MalformedCall("UNREADABLE_FUNCTION_CALL".into()),
                message: Some(
                    "the args of the call of `f` are a string; they have to be an object".into()
                ),
            }
        ]
    );
    // Cut before its end it is a cut answer, nothing else.
    assert_eq!(read(&[parts(json!([{"functionCall": {}}]))]), []);
}

#[test]
fn f018_each_count_is_told_as_it_is_and_odd_ones_cost_nothing() {
    let usage = |thoughts: u64| {
        json!({"usageMetadata": {
            "promptTokenCount": 100, "cachedContentTokenCount": 80, "candidatesTokenCount": 3,
            "thoughtsTokenCount": thoughts, "totalTokenCount": "128", "serviceTier": "priority",
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 90},
                                    {"modality": "IMAGE", "tokenCount": 10}, {"tokenCount": 1}],
            "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 80}],
            "candidatesTokensDetails": [{"modality": "TEXT"}],
        }})
    };
    let count = |modality: &str, tokens| ModalityCount {
        modality: modality.into(),
        tokens,
    };
    let expected = |thoughts| {
        ModelEvent::Usage(Usage {
            prompt_tokens: 100,
            cached_tokens: 80,
            candidates_tokens: 3,
            thoughts_tokens: thoughts,
            total_tokens: 128,
            service_tier: Some("priority".into()),
            prompt_details: vec![count("TEXT", 90), count("IMAGE", 10)],
            cache_details: vec![count("TEXT", 80)],
            candidates_details: vec![count("TEXT", 0)],
        })
    };
    assert_eq!(read(&[usage(5), usage(25)]), [expected(5), expected(25)]);
    assert_eq!(
        read(&[json!({"usageMetadata": {"promptTokenCount": -1, "totalTokenCount": {}}})]),
        [ModelEvent::Usage(Usage::default())]
    );
    assert_eq!(read(&[json!({"usageMetadata": null})]), []);
}

#[test]
fn f066_the_last_frame_may_hold_a_reason_and_counts_alone_and_counts_may_follow() {
    let usage = |total| {
        ModelEvent::Usage(Usage {
            total_tokens: total,
            ..Usage::default()
        })
    };
    assert_eq!(
        read(&[
            parts(json!([{"text": "a"}])),
            json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"totalTokenCount": 1}}),
            json!({"usageMetadata": {"totalTokenCount": 2}}),
        ]),
        [
            text("a", None),
            usage(1),
            usage(2),
            finish(FinishReason::Stop)
        ]
    );
}

#[test]
fn an_error_object_is_an_error_alone_or_in_a_list() {
    let error = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}]}});
    let expected = ModelError {
        kind: ModelErrorKind::Status { code: 429 },
        message: "HTTP 429 RESOURCE_EXHAUSTED from h: slow".into(),
        retry_after: Some(std::time::Duration::from_secs(2)),
        quota: Quota::NotNamed,
    };
    for frame in [error.clone(), json!([error])] {
        let mut reader = Frames::new(&request(Vec::new()));
        assert_eq!(
            reader.read(&peer(), frame.to_string().as_bytes()),
            Err(expected.clone())
        );
    }
}

#[test]
fn what_cannot_be_read_is_malformed_and_says_where() {
    let mut reader = Frames::new(&request(Vec::new()));
    for (frame, cause) in [
        ("{", "EOF while parsing an object at line 1 column 1"),
        (
            r#"{"candidates":7}"#,
            "invalid type: integer `7`, expected a sequence at line 1 column 15",
        ),
    ] {
        assert_eq!(
            reader.read(&peer(), frame.as_bytes()),
            Err(ModelError::new(
                ModelErrorKind::Malformed,
                format!("a frame of the answer of h cannot be read: {cause}")
            ))
        );
    }
    for ignored in ["", " \n", "[DONE]", "{}", "{\"modelVersion\": \"x\"}"] {
        assert_eq!(
            reader.read(&peer(), ignored.as_bytes()),
            Ok(()),
            "{ignored:?}"
        );
        assert_eq!(reader.next_event(), None);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[A-Z_a-z]{0,6}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("candidates"),
        Just("content"),
        Just("parts"),
        Just("text"),
        Just("thought"),
        Just("thoughtSignature"),
        Just("functionCall"),
        Just("name"),
        Just("args"),
        Just("id"),
        Just("finishReason"),
        Just("promptFeedback"),
        Just("blockReason"),
        Just("usageMetadata"),
        Just("promptTokensDetails"),
        Just("error"),
        Just("code"),
        Just("details"),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|entries| {
                Value::Object(
                    entries
                        .into_iter()
                        .map(|(k, v)| (k.to_owned(), v))
                        .collect(),
                )
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_frame_panics_and_a_finish_comes_once(frames in prop::collection::vec(any_json(), 0..5)) {
        let mut reader = Frames::new(&request(Vec::new()));
        for frame in frames {
            let _ = reader.read(&peer(), frame.to_string().as_bytes());
        }
        while let Some(event) = reader.next_event() {
            let is_finish = matches!(event, ModelEvent::Finish { .. });
            prop_assert!(!is_finish);
        }
        let _ = reader.finish();
        prop_assert_eq!(reader.finish(), None);
    }
}
