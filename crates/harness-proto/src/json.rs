//! The protobuf JSON form of the messages.
//!
//! Reading accepts lowerCamelCase and proto names, 64-bit integers as numbers or strings, enums by
//! name or number, `null` for anything unset, and unknown fields. Writing gives lowerCamelCase,
//! 64-bit integers as strings, enums by name, bytes in base64, and every field that is set, zero
//! or not.
//!
//! # Limits
//!
//! Arrays and objects nest up to 128 deep; a `genai.Value` takes four levels for each level of the
//! value it stands for. Unknown fields are skipped at any depth without recursion. The size of the
//! text is the caller's to bound.

mod encoding;
mod locate;
mod unknown;

pub use encoding::{Encoding, EnumForm};
pub use unknown::{Unknown, UnknownEnumValue};

use serde_json::error::Category;

use crate::error::{JsonError, JsonErrorKind};
use crate::wire::watching_for_unknown;
use crate::{Error, WireMessage};

/// A message and what its text held beside it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Parsed<T> {
    /// The message.
    pub message: T,
    /// Fields and enum values that were not understood.
    pub unknown: Unknown,
}

/// Reads a message and lists what was not understood.
///
/// When there is something to list, that takes a second pass over the text, about as long as the
/// first; otherwise it costs nothing. [`from_json_lossy`] never makes the list.
///
/// # Errors
///
/// [`Error::Json`], with the field and the position.
///
/// # Examples
///
/// ```
/// use harness_proto::json::from_json;
/// use harness_proto::localharness::{InputEvent, input_event::Event};
///
/// let parsed = from_json::<InputEvent>(r#"{"haltRequest": true, "newField": 1}"#)?;
/// assert_eq!(parsed.message.event, Some(Event::HaltRequest(true)));
/// assert_eq!(parsed.unknown.fields(), ["newField"]);
/// # Ok::<(), harness_proto::Error>(())
/// ```
pub fn from_json<T: WireMessage>(json: &str) -> Result<Parsed<T>, Error> {
    let (message, met_unknown) = watching_for_unknown(|| from_json_lossy(json));
    let message = message?;
    let unknown = if met_unknown {
        unknown::find(json, T::SCHEMA)
    } else {
        Unknown::default()
    };
    Ok(Parsed { message, unknown })
}

/// Reads a message from bytes, as [`from_json`].
///
/// # Errors
///
/// [`Error::Json`], also for bytes that are not UTF-8.
pub fn from_json_slice<T: WireMessage>(json: &[u8]) -> Result<Parsed<T>, Error> {
    match std::str::from_utf8(json) {
        Ok(text) => from_json(text),
        Err(error) => {
            let good = json.get(..error.valid_up_to()).unwrap_or_default();
            let line_start = good
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            Err(Error::Json(Box::new(JsonError {
                message: T::SCHEMA.name(),
                path: String::new(),
                line: 1 + good.iter().filter(|byte| **byte == b'\n').count(),
                column: 1 + good.len() - line_start,
                problem: "not UTF-8".into(),
                kind: JsonErrorKind::Syntax,
            })))
        }
    }
}

/// Reads a message and passes over what is not understood.
///
/// # Errors
///
/// [`Error::Json`], with the field and the position.
pub fn from_json_lossy<T: WireMessage>(json: &str) -> Result<T, Error> {
    serde_json::from_str(json)
        .map_err(|error| Error::Json(Box::new(explain(json, T::SCHEMA.name(), &error))))
}

/// Writes a message.
///
/// # Errors
///
/// [`Error::Write`], which only a `google.protobuf` duration or value can cause.
pub fn to_json<T: WireMessage>(message: &T) -> Result<String, Error> {
    serde_json::to_string(message).map_err(|error| write_error::<T>(&error))
}

/// Appends a message to a buffer, which saves the allocation where many are sent.
///
/// # Errors
///
/// [`Error::Write`], as [`to_json`]; the buffer then holds what it held before.
pub fn to_json_into<T: WireMessage>(message: &T, buffer: &mut Vec<u8>) -> Result<(), Error> {
    let before = buffer.len();
    serde_json::to_writer(&mut *buffer, message).map_err(|error| {
        buffer.truncate(before);
        write_error::<T>(&error)
    })
}

fn write_error<T: WireMessage>(error: &serde_json::Error) -> Error {
    Error::Write {
        message: T::SCHEMA.name(),
        problem: error.to_string(),
    }
}

fn explain(json: &str, message: &'static str, error: &serde_json::Error) -> JsonError {
    let whole = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let problem = whole.strip_suffix(&position).unwrap_or(&whole);
    let kind = match error.classify() {
        _ if problem == "recursion limit exceeded" => JsonErrorKind::TooDeep,
        Category::Eof => JsonErrorKind::Incomplete,
        Category::Data => JsonErrorKind::Value,
        Category::Syntax | Category::Io => JsonErrorKind::Syntax,
    };
    JsonError {
        message,
        path: locate::path(json, error.line(), error.column()),
        line: error.line(),
        column: error.column(),
        problem: without_strings(problem),
        kind,
    }
}

/// Cuts the peer's string out of serde's "invalid type: string "…", expected …".
fn without_strings(problem: &str) -> String {
    let Some((start, rest)) = problem.split_once(": string \"") else {
        return problem.to_owned();
    };
    match rest.rsplit_once("\", expected ") {
        Some((_, expected)) => format!("{start}: string, expected {expected}"),
        None => format!("{start}: string"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::localharness::{InitializeConversationEvent, InputEvent, OutputEvent, StepUpdate};

    fn error<T: WireMessage>(json: &str) -> JsonError {
        match from_json::<T>(json) {
            Err(Error::Json(error)) => *error,
            other => panic!("{json}: {other:?}"),
        }
    }

    #[test]
    fn errors_name_the_field_and_the_position() {
        let json = "{\n  \"toolConfirmation\": {\"stepIndex\": -1}\n}";
        let error = error::<InputEvent>(json);
        assert_eq!(
            error.to_string(),
            "invalid antigravity.localharness.InputEvent at toolConfirmation.stepIndex \
             (line 2, column 38): invalid value: integer `-1`, expected an unsigned 32-bit integer"
        );
        assert_eq!(error.kind, JsonErrorKind::Value);
    }

    #[test]
    fn errors_in_lists_give_the_index() {
        let json = r#"{"config":{"models":[{"name":"a"},{"name":["b"]}]}}"#;
        assert_eq!(
            error::<InitializeConversationEvent>(json).path,
            "config.models[1].name"
        );
    }

    #[test]
    fn errors_never_quote_a_string_of_the_input() {
        let json = r#"{"config":{"models":[{"geminiApiEndpoint":"k3y\", expected"}]}}"#;
        let error = error::<InitializeConversationEvent>(json);
        assert_eq!(
            error.problem,
            "invalid type: string, expected an object of type \
             antigravity.localharness.GeminiAPIEndpoint"
        );
        for json in [
            r#"{"toolConfirmation":{"stepIndex":"k3y"}}"#,
            r#"{"toolConfirmation":{"accepted":"k3y"}}"#,
            r#"{"toolConfirmation":"k3y"}"#,
            r#"{"userInput":{"parts":[{"media":{"data":"k3y!"}}]}}"#,
            r#"{"userInput":{"parts":"k3y"}}"#,
        ] {
            let text = super::tests::error::<InputEvent>(json).to_string();
            assert!(!text.contains("k3y"), "{text}");
        }
    }

    #[test]
    fn the_kind_tells_broken_from_short_from_wrong() {
        assert_eq!(error::<InputEvent>("{\"a\" 1}").kind, JsonErrorKind::Syntax);
        assert_eq!(
            error::<InputEvent>("{\"a\": 1").kind,
            JsonErrorKind::Incomplete
        );
        assert_eq!(error::<InputEvent>("").kind, JsonErrorKind::Incomplete);
        assert_eq!(error::<InputEvent>("[]").kind, JsonErrorKind::Value);
        assert_eq!(error::<InputEvent>("{} x").kind, JsonErrorKind::Syntax);
    }

    #[test]
    fn bytes_that_are_not_text_are_an_error_with_a_position() {
        let error = from_json_slice::<InputEvent>(b"{\n \"automatedTrigger\": \"\xff\"}");
        let Err(Error::Json(error)) = error else {
            panic!("{error:?}")
        };
        assert_eq!((error.line, error.column), (2, 23));
        assert_eq!(error.problem, "not UTF-8");
    }

    #[test]
    fn depth_bombs_are_errors_or_skipped() {
        let depth = 1_000_000;
        let bomb = "[".repeat(depth) + &"]".repeat(depth);
        let parsed = from_json::<InputEvent>(&format!("{{\"bomb\":{bomb}}}")).unwrap();
        assert_eq!(parsed.unknown.fields(), ["bomb"]);

        let open = "{\"value\":{\"structValue\":{\"fields\":[".repeat(depth / 8);
        let json = format!("{{\"toolCall\":{{\"arguments\":{{\"fields\":[{open}");
        assert_eq!(error::<OutputEvent>(&json).kind, JsonErrorKind::TooDeep);

        let open = "{\"values\":[{\"listValue\":".repeat(depth / 8);
        let json = format!(
            "{{\"toolCall\":{{\"arguments\":{{\"fields\":[{{\"value\":{{\"listValue\":{open}"
        );
        assert_eq!(error::<OutputEvent>(&json).kind, JsonErrorKind::TooDeep);
    }

    #[test]
    fn a_failed_write_leaves_the_buffer_alone() {
        let bad = crate::genai::WordInfo {
            start_offset: Some(crate::wkt::Duration {
                seconds: 1,
                nanos: -1,
            }),
            ..Default::default()
        };
        let mut buffer = b"before".to_vec();
        assert_eq!(
            to_json_into(&bad, &mut buffer),
            Err(Error::Write {
                message: "genai.WordInfo",
                problem: "duration out of range".into()
            })
        );
        assert_eq!(buffer, b"before");
        to_json_into(&StepUpdate::default(), &mut buffer).unwrap();
        assert_eq!(buffer, b"before{}");
    }
}
