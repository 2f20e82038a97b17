use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Expectation, Gate, variables};
use crate::{FinishReason, ModelError, Usage};

/// What a [`ScriptedModel`] says: one turn a request, in order.
///
/// # File format
///
/// A script is one JSON object. Unknown fields are errors that name the field. This one uses most
/// of what there is:
///
/// ```json
#[doc = include_str!("../../tests/data/script.json")]
/// ```
///
/// | field of the script | meaning |
/// |---|---|
/// | `version` | the format; 1 |
/// | `about` | optional; words for whoever reads the file |
/// | `turns` | the turns, each of the fields below, all optional |
///
/// | field of a turn | meaning |
/// |---|---|
/// | `expect` | what the request has to look like: see [`Expectation`] |
/// | `delay_ms` | wait before the first event, in milliseconds |
/// | `chunk_delay_ms` | wait before every later piece of the answer, in milliseconds |
/// | `thinking`, `text` | a string, or a list of strings that come one by one |
/// | `calls` | list of `{"name", "args", "id", "signature"}`; only `name` is needed |
/// | `parts` | instead of the last three, where the order matters: list of `{"thinking"}`, `{"text"}` (each with an optional `signature`), `{"call"}` and `{"wait_ms"}` |
/// | `usage` | token counts, named as in [`Usage`] |
/// | `finish` | `"stop"` (the default), `"max_tokens"`, `{"blocked": W}`, `{"malformed_call": W}` or `{"other": W}` with the provider's word W |
/// | `finish_message` | what the provider adds in words |
/// | `error` | the answer fails, after its parts: `{"status"}` (an HTTP code) or `{"kind"}` (`connect`, `cut`, `silent`, `malformed`, `config`, `script`), with optional `message`, `retry_after_ms`, `quota` (`exhausted`) |
/// | `cut` | `true`: the answer just ends, after its parts |
///
/// Without `parts`, a turn gives its thinking first, then its text, then its calls. A call without
/// an `id` gets `call_<turn>_<number>`, both counted from 1.
///
/// Where a string holds `${name}`, [`Script::with_variables`] puts a value; `$${` stands for a
/// plain `${`.
///
/// # Examples
///
/// ```
/// use harness_types::{Script, ScriptedTurn};
///
/// let script = Script::from_json(r#"{"version": 1, "turns": [{"text": "Hello."}]}"#)?;
/// assert_eq!(script, Script::new([ScriptedTurn::new().text("Hello.")]));
///
/// let typo = Script::from_json(r#"{"version": 1, "turns": [{"txt": "Hello."}]}"#);
/// let source = std::error::Error::source(&typo.unwrap_err()).unwrap().to_string();
/// assert!(source.starts_with("unknown field `txt`"));
/// # Ok::<(), harness_types::ScriptError>(())
/// ```
///
/// [`ScriptedModel`]: crate::ScriptedModel
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// Words for whoever reads the script.
    pub about: String,
    /// The turns: the first answers the first request.
    pub turns: Vec<ScriptedTurn>,
}

impl Script {
    /// Makes a script of these turns.
    pub fn new(turns: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        Self {
            about: String::new(),
            turns: turns.into_iter().collect(),
        }
    }

    /// Puts values where strings of the script hold `${name}`, and `${` where they hold `$${`.
    ///
    /// Texts, thoughts, arguments of calls (the values, not the keys), messages and expectations
    /// are looked through. A value is not looked through again. Values without a place are fine.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Turn`] for a name without a value, and for a `${` without a `}`.
    pub fn with_variables(self, values: &BTreeMap<String, String>) -> Result<Self, ScriptError> {
        variables::substitute(self, values)
    }
}

/// What is wrong with a script.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file is not JSON, or not of the right shape. The source says where, and names the
    /// field.
    #[error("the script cannot be read")]
    Json(#[from] serde_json::Error),
    /// The file is of another version of the format.
    #[error("the script has format version {found}, and only {supported} can be read")]
    Version {
        /// What the file says.
        found: u32,
        /// What can be read.
        supported: u32,
    },
    /// A turn contradicts itself.
    #[error("turn {turn} of the script: {problem}")]
    Turn {
        /// The turn, counted from 1.
        turn: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// One answer of a script: what is expected of the request, what is said, how it ends.
///
/// ```
/// use harness_types::ScriptedTurn;
/// use serde_json::json;
///
/// let turn = ScriptedTurn::new()
///     .thinking("The user wants a listing.")
///     .text("Let me look.")
///     .call("list_dir", json!({"DirectoryPath": "/work"}));
/// assert_eq!(turn.parts.len(), 3);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScriptedTurn {
    /// What the request has to look like.
    pub expect: Expectation,
    /// How long nothing comes at first; whole milliseconds in a file.
    pub delay: Duration,
    /// How long nothing comes before every later chunk or call; whole milliseconds in a file.
    pub chunk_delay: Duration,
    /// Held shut before every chunk or call. Cannot be written to a file.
    pub chunk_gate: Option<Gate>,
    /// What is said, in order.
    pub parts: Vec<ScriptedPart>,
    /// The token counts, given just before the end.
    pub usage: Option<Usage>,
    /// How the answer ends.
    pub end: ScriptedEnd,
}

/// A piece of a [`ScriptedTurn`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ScriptedPart {
    /// Thoughts.
    Thinking {
        /// The chunks they come in.
        chunks: Vec<String>,
        /// The signature, given with the last chunk.
        signature: Option<String>,
    },
    /// Text for the user.
    Text {
        /// The chunks it comes in.
        chunks: Vec<String>,
        /// The signature, given with the last chunk.
        signature: Option<String>,
    },
    /// A tool call.
    Call {
        /// Its id; `None` for a made-up one.
        id: Option<String>,
        /// The tool.
        name: String,
        /// The arguments.
        args: Map<String, Value>,
        /// The signature.
        signature: Option<String>,
    },
    /// Nothing comes for this long; whole milliseconds in a file.
    Wait(Duration),
    /// Nothing comes until the gate lets the answer pass. Cannot be written to a file.
    Gate(Gate),
}

/// How a [`ScriptedTurn`] ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptedEnd {
    /// Well, as far as the transport goes.
    Finish {
        /// Why.
        reason: FinishReason,
        /// What the provider adds in words.
        message: Option<String>,
    },
    /// With an error.
    Error(ModelError),
    /// Without a word.
    Cut,
}

impl Default for ScriptedEnd {
    fn default() -> Self {
        Self::Finish {
            reason: FinishReason::Stop,
            message: None,
        }
    }
}

impl ScriptedTurn {
    /// An answer with nothing in it that ends with [`FinishReason::Stop`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a thought that comes in one chunk.
    #[must_use]
    pub fn thinking(self, text: impl Into<String>) -> Self {
        self.part(ScriptedPart::Thinking {
            chunks: vec![text.into()],
            signature: None,
        })
    }

    /// Adds text that comes in one chunk.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.text_chunks([text])
    }

    /// Adds text that comes in these chunks.
    #[must_use]
    pub fn text_chunks<S: Into<String>>(self, chunks: impl IntoIterator<Item = S>) -> Self {
        self.part(ScriptedPart::Text {
            chunks: chunks.into_iter().map(Into::into).collect(),
            signature: None,
        })
    }

    /// Adds a call with a made-up id.
    ///
    /// # Panics
    ///
    /// If `args` is not a JSON object.
    #[must_use]
    pub fn call(self, name: impl Into<String>, args: Value) -> Self {
        self.part(ScriptedPart::Call {
            id: None,
            name: name.into(),
            args: object(args),
            signature: None,
        })
    }

    /// Adds a call with this id.
    ///
    /// # Panics
    ///
    /// If `args` is not a JSON object.
    #[must_use]
    pub fn call_with_id(self, id: impl Into<String>, name: impl Into<String>, args: Value) -> Self {
        self.part(ScriptedPart::Call {
            id: Some(id.into()),
            name: name.into(),
            args: object(args),
            signature: None,
        })
    }

    /// Signs the thought, text or call added last; does nothing where there is none.
    #[must_use]
    pub fn signed(mut self, by: impl Into<String>) -> Self {
        if let Some(
            ScriptedPart::Thinking { signature, .. }
            | ScriptedPart::Text { signature, .. }
            | ScriptedPart::Call { signature, .. },
        ) = self.parts.last_mut()
        {
            *signature = Some(by.into());
        }
        self
    }

    /// Adds any part.
    #[must_use]
    pub fn part(mut self, part: ScriptedPart) -> Self {
        self.parts.push(part);
        self
    }

    /// Holds the answer at this point until `gate` lets it pass.
    #[must_use]
    pub fn gate(self, gate: &Gate) -> Self {
        self.part(ScriptedPart::Gate(gate.clone()))
    }

    /// Holds the answer before every chunk and every call until `gate` lets it pass.
    #[must_use]
    pub fn gated(mut self, gate: &Gate) -> Self {
        self.chunk_gate = Some(gate.clone());
        self
    }

    /// Waits this long before the first event.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits this long before every later chunk or call.
    #[must_use]
    pub fn chunk_delay(mut self, delay: Duration) -> Self {
        self.chunk_delay = delay;
        self
    }

    /// Says what the request has to look like.
    #[must_use]
    pub fn expecting(mut self, expect: Expectation) -> Self {
        self.expect = expect;
        self
    }

    /// Gives these token counts.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Ends the answer for this reason.
    #[must_use]
    pub fn finish(mut self, reason: FinishReason) -> Self {
        self.end = ScriptedEnd::Finish {
            reason,
            message: None,
        };
        self
    }

    /// Ends the answer with an error.
    #[must_use]
    pub fn error(mut self, error: ModelError) -> Self {
        self.end = ScriptedEnd::Error(error);
        self
    }

    /// Ends the answer without a word.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.end = ScriptedEnd::Cut;
        self
    }
}

fn object(args: Value) -> Map<String, Value> {
    match args {
        Value::Object(args) => args,
        other => panic!("arguments of a call are a JSON object, not {other}"),
    }
}
