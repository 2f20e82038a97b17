//! The error of the crate.

use std::fmt;

/// What can go wrong when messages are read, written or converted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A JSON text is not a message of the wanted type. The sender is at fault.
    #[error(transparent)]
    Json(Box<JsonError>),

    /// A message cannot be written as JSON. The caller is at fault: a duration out of range, or a
    /// `google.protobuf` number that is not finite.
    #[error("cannot write {message} as JSON: {problem}")]
    Write {
        /// Full name of the message type.
        message: &'static str,
        /// What is wrong.
        problem: String,
    },

    /// A value is nested deeper than [`MAX_DEPTH`](crate::convert::MAX_DEPTH).
    #[error("value is nested deeper than {} levels", crate::convert::MAX_DEPTH)]
    TooDeep,

    /// NaN or an infinity, where JSON is to be written.
    #[error("number is not finite")]
    NotFinite,

    /// A content or function value, where plain JSON is to be written.
    #[error("a {kind} value has no JSON counterpart")]
    NoJsonForm {
        /// `content` or `function`.
        kind: &'static str,
    },

    /// A text is no SDK version.
    #[error("an SDK version is three numbers with dots")]
    Version,
}

impl Error {
    /// Returns the details if a peer sent JSON that does not parse.
    pub fn as_json(&self) -> Option<&JsonError> {
        match self {
            Self::Json(error) => Some(error),
            _ => None,
        }
    }
}

/// Where and why a JSON text is not a message of the wanted type.
///
/// The text quotes field names and numbers of the input, never its strings: a string in a wrong
/// place may be a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonError {
    /// Full name of the wanted message type.
    pub message: &'static str,
    /// The field, such as `config.models[0].name`; empty at the top.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1; 0 before the first character of a line.
    pub column: usize,
    /// What is wrong.
    pub problem: String,
    /// Which kind of wrong.
    pub kind: JsonErrorKind,
}

/// Kinds of [`JsonError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The text is not JSON.
    Syntax,
    /// The text ends too early.
    Incomplete,
    /// The text is JSON, but a value has the wrong type or is out of range.
    Value,
    /// Nested deeper than the reader goes: 128 arrays and objects.
    TooDeep,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid {}", self.message)?;
        if !self.path.is_empty() {
            write!(f, " at {}", self.path)?;
        }
        write!(
            f,
            " (line {}, column {}): {}",
            self.line, self.column, self.problem
        )
    }
}

impl std::error::Error for JsonError {}
