use std::error::Error as _;

use proptest::prelude::*;
use serde_json::json;

use super::super::Gate;
use super::*;
use crate::ToolResultStatus;

#[test]
fn the_documented_example_reads_as_what_it_says() {
    let script = Script::from_json(include_str!("../../tests/data/script.json")).unwrap();
    let ms = Duration::from_millis;
    let expected = Script {
        about: "Lists a folder, reads a file of it, survives an overloaded server, and reports."
            .into(),
        turns: vec![
            ScriptedTurn::new()
                .expecting(Expectation {
                    last_input_contains: vec!["what is in".into()],
                    tools_include: vec!["list_dir".into(), "view_file".into()],
                    ..Expectation::default()
                })
                .delay(ms(20))
                .thinking("The user wants to know what the folder holds.")
                .text_chunks(["Let me ", "look."])
                .call("list_dir", json!({"DirectoryPath": "${workspace}"}))
                .usage(Usage {
                    prompt_tokens: 900,
                    candidates_tokens: 30,
                    total_tokens: 930,
                    ..Usage::default()
                }),
            ScriptedTurn::new().error(ModelError {
                retry_after: Some(ms(10)),
                ..ModelError::new(ModelErrorKind::Status { code: 503 }, "overloaded")
            }),
            ScriptedTurn::new()
                .expecting(Expectation {
                    tool_result_contains: vec!["notes.md".into()],
                    tool_results: Some(vec![ToolResultStatus::Succeeded]),
                    ..Expectation::default()
                })
                .part(ScriptedPart::Thinking {
                    chunks: vec!["Two files; ".into(), "the notes matter.".into()],
                    signature: Some("c2lnLTE=".into()),
                })
                .text("There are notes. ")
                .part(ScriptedPart::Wait(ms(5)))
                .call_with_id(
                    "read-1",
                    "view_file",
                    json!({"AbsolutePath": "${workspace}/notes.md"}),
                )
                .signed("c2lnLTI="),
            ScriptedTurn::new().chunk_delay(ms(5)).text_chunks([
                "The folder ",
                "holds the ",
                "notes.",
            ]),
            ScriptedTurn::new()
                .text("An answer that stops in the mid")
                .cut(),
            ScriptedTurn {
                end: ScriptedEnd::Finish {
                    reason: FinishReason::MalformedCall("MALFORMED_FUNCTION_CALL".into()),
                    message: Some("no such call".into()),
                },
                ..ScriptedTurn::new()
            },
            ScriptedTurn::new().error(ModelError {
                quota: Quota::Exhausted,
                ..ModelError::new(
                    ModelErrorKind::Status { code: 429 },
                    "the daily quota is used up",
                )
            }),
        ],
    };
    assert_eq!(script, expected);
}

fn json_problem(text: &str) -> String {
    let error = Script::from_json(text).unwrap_err();
    assert_eq!(error.to_string(), "the script cannot be read");
    error.source().unwrap().to_string()
}

fn turn_problem(turn: &str) -> String {
    let text = format!(r#"{{"version": 1, "turns": [{{}}, {turn}]}}"#);
    Script::from_json(&text).unwrap_err().to_string()
}

#[test]
fn unknown_fields_are_named_wherever_they_are() {
    for (text, field) in [
        (r#"{"version": 1, "turns": [], "turn": []}"#, "turn"),
        (r#"{"version": 1, "turns": [{"txt": ""}]}"#, "txt"),
        (
            r#"{"version": 1, "turns": [{"parts": [{"say": ""}]}]}"#,
            "say",
        ),
        (
            r#"{"version": 1, "turns": [{"calls": [{"name": "a", "arguments": {}}]}]}"#,
            "arguments",
        ),
        (
            r#"{"version": 1, "turns": [{"error": {"code": 500}}]}"#,
            "code",
        ),
        (
            r#"{"version": 1, "turns": [{"usage": {"tokens": 5}}]}"#,
            "tokens",
        ),
        (
            r#"{"version": 1, "turns": [{"expect": {"system": "a"}}]}"#,
            "system",
        ),
    ] {
        let problem = json_problem(text);
        assert!(
            problem.starts_with(&format!("unknown field `{field}`, expected ")),
            "{text}: {problem}"
        );
        assert!(problem.contains(" at line 1 column "), "{problem}");
    }
}

#[test]
fn wrong_shapes_and_contradictions_are_told() {
    assert_eq!(
        json_problem(r#"{"version": 1, "turns": [{"text": 5}]}"#),
        "invalid type: integer `5`, expected a string or a list of strings at line 1 column 35"
    );
    assert_eq!(
        json_problem("{}"),
        "missing field `version` at line 1 column 2"
    );
    assert_eq!(
        Script::from_json(r#"{"version": 2, "acts": []}"#)
            .unwrap_err()
            .to_string(),
        "the script has format version 2, and only 1 can be read"
    );
    let prefix = "turn 2 of the script: ";
    for (turn, problem) in [
        (
            r#"{"finish": "stop", "cut": true}"#,
            "`finish`, `error` and `cut` exclude each other",
        ),
        (
            r#"{"error": {"status": 500}, "finish_message": "a"}"#,
            "`finish`, `error` and `cut` exclude each other",
        ),
        (
            r#"{"parts": [], "text": "a"}"#,
            "`parts` excludes `thinking`, `text` and `calls`",
        ),
        (
            r#"{"parts": [{"text": "a", "thinking": "b"}]}"#,
            "a part is one of `thinking`, `text`, `call` and `wait_ms`",
        ),
        (
            r#"{"parts": [{}]}"#,
            "a part is one of `thinking`, `text`, `call` and `wait_ms`",
        ),
        (
            r#"{"parts": [{"call": {"name": "a"}, "signature": "b"}]}"#,
            "the `signature` of a call stands inside `call`",
        ),
        (
            r#"{"parts": [{"wait_ms": 1, "signature": "b"}]}"#,
            "a `wait_ms` has no `signature`",
        ),
        (
            r#"{"error": {"message": "a"}}"#,
            "an `error` has a `status` or a `kind`",
        ),
        (
            r#"{"error": {"status": 500, "kind": "cut"}}"#,
            "an `error` has a `status` or a `kind`",
        ),
    ] {
        assert_eq!(turn_problem(turn), format!("{prefix}{problem}"), "{turn}");
    }
}

#[test]
fn gates_have_no_form_in_a_file() {
    let gate = Gate::new();
    for turn in [
        ScriptedTurn::new().gate(&gate),
        ScriptedTurn::new().gated(&gate),
    ] {
        assert_eq!(
            Script::new([turn]).to_json().unwrap_err().to_string(),
            "turn 1 of the script: a gate has no form in a file"
        );
    }
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(".{0,8}", 0..3)
}

fn word() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(".{0,8}")
}

fn millis_strategy() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_millis)
}

fn args() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        proptest::collection::vec(any::<bool>(), 0..3).prop_map(Value::from),
    ];
    proptest::collection::btree_map(".{0,4}", value, 0..3).prop_map(|map| map.into_iter().collect())
}

fn part() -> impl Strategy<Value = ScriptedPart> {
    prop_oneof![
        (texts(), word())
            .prop_map(|(chunks, signature)| ScriptedPart::Thinking { chunks, signature }),
        (texts(), word()).prop_map(|(chunks, signature)| ScriptedPart::Text { chunks, signature }),
        (word(), ".{0,8}", args(), word()).prop_map(|(id, name, args, signature)| {
            ScriptedPart::Call {
                id,
                name,
                args,
                signature,
            }
        }),
        millis_strategy().prop_map(ScriptedPart::Wait),
    ]
}

fn end() -> impl Strategy<Value = ScriptedEnd> {
    let reason = prop_oneof![
        Just(FinishReason::Stop),
        Just(FinishReason::MaxTokens),
        ".{0,8}".prop_map(FinishReason::Blocked),
        ".{0,8}".prop_map(FinishReason::MalformedCall),
        ".{0,8}".prop_map(FinishReason::Other),
    ];
    let kind = prop_oneof![
        any::<u16>().prop_map(|code| ModelErrorKind::Status { code }),
        Just(ModelErrorKind::Connect),
        Just(ModelErrorKind::Cut),
        Just(ModelErrorKind::Silent),
        Just(ModelErrorKind::Malformed),
        Just(ModelErrorKind::Config),
        Just(ModelErrorKind::Script),
    ];
    let quota = prop_oneof![Just(Quota::NotNamed), Just(Quota::Exhausted)];
    let error = (
        kind,
        ".{0,8}",
        proptest::option::of(millis_strategy()),
        quota,
    )
        .prop_map(|(kind, message, retry_after, quota)| ModelError {
            kind,
            message,
            retry_after,
            quota,
        });
    prop_oneof![
        (reason, word()).prop_map(|(reason, message)| ScriptedEnd::Finish { reason, message }),
        error.prop_map(ScriptedEnd::Error),
        Just(ScriptedEnd::Cut),
    ]
}

fn usage() -> impl Strategy<Value = Usage> {
    let details = || {
        proptest::collection::vec(
            (".{0,4}", any::<u64>())
                .prop_map(|(modality, tokens)| ModalityCount { modality, tokens }),
            0..3,
        )
    };
    (any::<[u64; 5]>(), word(), details(), details(), details()).prop_map(
        |(counts, service_tier, prompt_details, cache_details, candidates_details)| Usage {
            prompt_tokens: counts[0],
            cached_tokens: counts[1],
            candidates_tokens: counts[2],
            thoughts_tokens: counts[3],
            total_tokens: counts[4],
            service_tier,
            prompt_details,
            cache_details,
            candidates_details,
        },
    )
}

fn expectation() -> impl Strategy<Value = Expectation> {
    let status = prop_oneof![
        Just(ToolResultStatus::Succeeded),
        Just(ToolResultStatus::Failed),
        Just(ToolResultStatus::Denied),
        Just(ToolResultStatus::Cancelled),
    ];
    (
        [texts(), texts(), texts(), texts(), texts(), texts()],
        proptest::option::of(proptest::collection::vec(status, 0..3)),
    )
        .prop_map(|([a, b, c, d, e, f], tool_results)| Expectation {
            last_input_contains: a,
            notice_contains: b,
            tool_result_contains: c,
            tool_results,
            system_contains: d,
            tools_include: e,
            tools_exclude: f,
        })
}

fn turn() -> impl Strategy<Value = ScriptedTurn> {
    (
        expectation(),
        millis_strategy(),
        millis_strategy(),
        proptest::collection::vec(part(), 0..4),
        proptest::option::of(usage()),
        end(),
    )
        .prop_map(
            |(expect, delay, chunk_delay, parts, usage, end)| ScriptedTurn {
                expect,
                delay,
                chunk_delay,
                chunk_gate: None,
                parts,
                usage,
                end,
            },
        )
}

proptest! {
    #[test]
    fn a_written_script_reads_as_the_same(
        about in ".{0,8}",
        turns in proptest::collection::vec(turn(), 0..4),
    ) {
        let script = Script { about, turns };
        let text = script.to_json().unwrap();
        prop_assert_eq!(&Script::from_json(&text).unwrap(), &script);
        let value = serde_json::to_value(&script).unwrap();
        prop_assert_eq!(serde_json::from_value::<Script>(value).unwrap(), script);
    }

    #[test]
    fn no_text_makes_reading_panic(text in r#"[{}\[\]":, a-z0-9]{0,60}"#) {
        let _ = Script::from_json(&text);
        let turn = format!(r#"{{"version": 1, "turns": [{{"text": {text}}}]}}"#);
        let _ = Script::from_json(&turn);
    }
}
