//! The JSON form, against what Python's `json_format` makes of the same texts.
//!
//! `tests/corpus/make_corpus.py` writes the cases.

use harness_proto::json::{from_json, from_json_slice, to_json};
use harness_proto::localharness::{
    ActionListDirectory, InitializeConversationEvent, InputConfig, InputEvent, Media,
    ModelApiRetryConfig, MultipleChoiceAnswer, OutputConfig, OutputEvent, UsageMetadata,
};
use harness_proto::{Error, WireMessage, genai};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Case {
    name: String,
    message: String,
    input: String,
    accepted: bool,
    output: Option<String>,
}

/// What this crate does where it differs, or what Python does where it does not.
#[derive(Debug, PartialEq)]
enum Behaviour {
    Rejects,
    Writes(Value),
}

/// Every difference there is: case, reason, and what this crate does (`None`: rejects).
const DIFFERENCES: &[(&str, &str, Option<&str>)] = &[
    // What other SDK versions write.
    (
        "user_input_string",
        "the form of SDK 0.1.0 to 0.1.10; Python takes the letters for unknown keys",
        Some(r#"{"userInput":{"parts":[{"text":"Hello"}]}}"#),
    ),
    (
        "user_input_complex",
        "the name of the object form in SDK 0.1.0 to 0.1.10",
        Some(r#"{"userInput":{"parts":[{"text":"Hello"}]}}"#),
    ),
    (
        "config_template_old_name",
        "the name in SDK 0.1.7 to 0.1.17",
        Some(
            r#"{"config":{"systemInstructions":{"custom":{"part":[{"template":{"name":"n"}}]}}}}"#,
        ),
    ),
    (
        "enum_idle_old_name",
        "the name in SDK 0.1.0 to 0.1.8",
        Some(r#"{"trajectoryStateUpdate":{"state":"STATE_FULLY_IDLE"}}"#),
    ),
    (
        "enum_terminal_error",
        "a value of SDK 0.1.1 and 0.1.2",
        Some(r#"{"stepUpdate":{"state":"STATE_TERMINAL_ERROR"}}"#),
    ),
    // Harmless.
    (
        "unknown_key_twice",
        "unknown keys are not compared",
        Some(r#"{"haltRequest":true}"#),
    ),
    // Surely mistakes, which Python lets pass.
    ("both_names", "one field under two names", None),
    (
        "value_plain",
        "a string is no message; Python reads an empty one",
        None,
    ),
    (
        "array",
        "a list is no message; Python reads an empty one",
        None,
    ),
    (
        "string",
        "a string is no message; Python reads an empty one",
        None,
    ),
    (
        "message_as_array",
        "a list is no message; Python reads an empty one",
        None,
    ),
    (
        "message_as_string",
        "a string is no message; Python reads an empty one",
        None,
    ),
    ("enum_float", "Python cuts the fraction off", None),
    ("enum_bool", "Python reads 1", None),
    (
        "enum_out_of_range",
        "Python cuts the number to 32 bits",
        None,
    ),
    ("int_underscore", "Python's own notation", None),
    (
        "value_number_string_overflow",
        "Python reads infinity",
        None,
    ),
    ("bytes_garbage", "Python skips what is not base64", None),
    // A bound.
    (
        "value_nested_45",
        "JSON nests 128 deep here, messages 100 deep there",
        None,
    ),
];

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../corpus/cases.json")).unwrap()
}

fn expected(case: &Case) -> Behaviour {
    match (&case.output, case.accepted) {
        // Python nests deeper than the JSON reader here goes; such a text is compared as it is.
        (Some(output), true) => Behaviour::Writes(
            serde_json::from_str(output).map_or_else(|_| Value::from(output.as_str()), floats),
        ),
        (None, false) => Behaviour::Rejects,
        _ => panic!(
            "{}: a case is accepted with an output or rejected",
            case.name
        ),
    }
}

/// `1` and `1.0` are one number in JSON and two in `serde_json`.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64().unwrap()),
        Value::Array(items) => items.into_iter().map(floats).collect(),
        Value::Object(map) => map.into_iter().map(|(key, it)| (key, floats(it))).collect(),
        other => other,
    }
}

fn behaviour<T: WireMessage + PartialEq>(input: &str) -> Behaviour {
    let Ok(parsed) = from_json::<T>(input) else {
        return Behaviour::Rejects;
    };
    let json = to_json(&parsed.message).unwrap();
    let again = from_json::<T>(&json).unwrap();
    assert_eq!(again.unknown.fields(), &[] as &[String], "{json}");
    assert_eq!(to_json(&again.message).unwrap(), json);
    Behaviour::Writes(floats(serde_json::from_str(&json).unwrap()))
}

fn ours(case: &Case) -> Behaviour {
    macro_rules! dispatch {
        ($($ty:ty)*) => {
            match case.message.as_str() {
                $(name if name == <$ty>::SCHEMA.name() => behaviour::<$ty>(&case.input),)*
                other => panic!("{}: add {other} to the list of types", case.name),
            }
        };
    }
    dispatch!(InputEvent OutputEvent InitializeConversationEvent InputConfig OutputConfig
        MultipleChoiceAnswer UsageMetadata ModelApiRetryConfig Media ActionListDirectory
        genai::ImageContent genai::VideoContent genai::WordInfo)
}

#[test]
fn texts_mean_what_python_takes_them_to_mean() {
    let cases = cases();
    assert!(cases.len() >= 80, "{} cases", cases.len());
    let mut problems = Vec::new();
    for case in &cases {
        let (theirs, ours) = (expected(case), ours(case));
        let difference = DIFFERENCES.iter().find(|(name, ..)| *name == case.name);
        match difference {
            None if ours != theirs => problems.push(format!(
                "{}: {}\n  theirs: {theirs:?}\n  ours:   {ours:?}",
                case.name, case.input
            )),
            Some((_, reason, _)) if ours == theirs => {
                problems.push(format!("{}: differs no more ({reason})", case.name));
            }
            Some((_, _, pinned)) => {
                let pinned = pinned.map_or(Behaviour::Rejects, |json| {
                    Behaviour::Writes(floats(serde_json::from_str(json).unwrap()))
                });
                if ours != pinned {
                    problems.push(format!("{}: ours is now {ours:?}", case.name));
                }
            }
            None => {}
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_difference_names_a_case() {
    let cases = cases();
    let unknown: Vec<_> = DIFFERENCES
        .iter()
        .filter(|(name, ..)| cases.iter().all(|case| case.name != *name))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn bytes_and_text_are_read_alike() {
    for case in cases() {
        let text = from_json::<OutputEvent>(&case.input).map(|parsed| format!("{parsed:?}"));
        let bytes = from_json_slice::<OutputEvent>(case.input.as_bytes())
            .map(|parsed| format!("{parsed:?}"));
        assert_eq!(text, bytes, "{}", case.name);
    }
}

#[test]
fn every_rejection_says_where() {
    for case in cases() {
        if let Err(error) = from_json::<InputEvent>(&case.input) {
            let Error::Json(error) = error else {
                panic!("{}: {error:?}", case.name)
            };
            assert!(
                error.line >= 1 && !error.problem.is_empty(),
                "{}: {error:?}",
                case.name
            );
            assert!(
                !error.problem.contains(" at line "),
                "{}: {error}",
                case.name
            );
        }
    }
}
