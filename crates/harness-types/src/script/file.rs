//! The JSON form of a script. It is apart from [`Script`] so that a file may be short where the
//! type is uniform: it has shorthands, and its durations are milliseconds.

use std::fmt;
use std::time::Duration;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::{Map, Value};

use super::{Expectation, Script, ScriptError, ScriptedEnd, ScriptedPart, ScriptedTurn};
use crate::{FinishReason, ModalityCount, ModelError, ModelErrorKind, Quota, Usage};

/// The version of the format that is read and written.
const VERSION: u32 = 1;

impl Script {
    /// Reads a script from the text of a file.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] says what is wrong and where; the source of [`ScriptError::Json`] names
    /// the line, the column and the field.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        // The version comes first: a file of another version is better called that than told off
        // for its fields.
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let head: Head = serde_json::from_str(text)?;
        check_version(head.version)?;
        serde_json::from_str::<FileScript>(text)?.try_into()
    }

    /// Writes the script as the text of a file. Reading it gives an equal script.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Turn`] for a script with gates, which have no form in a file.
    pub fn to_json(&self) -> Result<String, ScriptError> {
        Ok(serde_json::to_string_pretty(&FileScript::try_from(self)?)?)
    }
}

impl Serialize for Script {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        FileScript::try_from(self)
            .map_err(ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Script {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FileScript::deserialize(deserializer)?
            .try_into()
            .map_err(serde::de::Error::custom)
    }
}

fn check_version(found: u32) -> Result<(), ScriptError> {
    if found == VERSION {
        return Ok(());
    }
    Err(ScriptError::Version {
        found,
        supported: VERSION,
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileScript {
    version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    about: String,
    turns: Vec<FileTurn>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FileTurn {
    #[serde(skip_serializing_if = "is_default")]
    expect: Expectation,
    #[serde(skip_serializing_if = "is_default")]
    delay_ms: u64,
    #[serde(skip_serializing_if = "is_default")]
    chunk_delay_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Chunks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Chunks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<Vec<FileCall>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<FilePart>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<FileUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<FinishReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FileError>,
    #[serde(skip_serializing_if = "is_default")]
    cut: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCall {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    #[serde(default)]
    args: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FilePart {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Chunks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Chunks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<FileCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileError {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<FileErrorKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    quota: Quota,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileErrorKind {
    Connect,
    Cut,
    Silent,
    Malformed,
    Config,
    Script,
}

/// [`Usage`] where a misspelt field is an error.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FileUsage {
    #[serde(skip_serializing_if = "is_default")]
    prompt_tokens: u64,
    #[serde(skip_serializing_if = "is_default")]
    cached_tokens: u64,
    #[serde(skip_serializing_if = "is_default")]
    candidates_tokens: u64,
    #[serde(skip_serializing_if = "is_default")]
    thoughts_tokens: u64,
    #[serde(skip_serializing_if = "is_default")]
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prompt_details: Vec<FileModality>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cache_details: Vec<FileModality>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates_details: Vec<FileModality>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileModality {
    modality: String,
    tokens: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A string, or a list of strings.
struct Chunks(Vec<String>);

impl Serialize for Chunks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_one_or_many(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Chunks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        one_or_many(deserializer).map(Self)
    }
}

pub(super) fn write_one_or_many<S: Serializer>(
    texts: &[String],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match texts {
        [one] => serializer.serialize_str(one),
        many => many.serialize(serializer),
    }
}

pub(super) fn one_or_many<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    struct OneOrMany;

    impl<'de> Visitor<'de> for OneOrMany {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a list of strings")
        }

        fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
            let mut texts = Vec::new();
            while let Some(text) = seq.next_element()? {
                texts.push(text);
            }
            Ok(texts)
        }
    }

    deserializer.deserialize_any(OneOrMany)
}

impl TryFrom<FileScript> for Script {
    type Error = ScriptError;

    fn try_from(file: FileScript) -> Result<Self, ScriptError> {
        check_version(file.version)?;
        let turn = |(index, turn): (usize, FileTurn)| {
            turn.read().map_err(|problem| ScriptError::Turn {
                turn: index + 1,
                problem,
            })
        };
        Ok(Self {
            about: file.about,
            turns: file
                .turns
                .into_iter()
                .enumerate()
                .map(turn)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl TryFrom<&Script> for FileScript {
    type Error = ScriptError;

    fn try_from(script: &Script) -> Result<Self, ScriptError> {
        let turn = |(index, turn): (usize, &ScriptedTurn)| {
            FileTurn::write(turn).ok_or_else(|| ScriptError::Turn {
                turn: index + 1,
                problem: "a gate has no form in a file".into(),
            })
        };
        Ok(Self {
            version: VERSION,
            about: script.about.clone(),
            turns: script
                .turns
                .iter()
                .enumerate()
                .map(turn)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl FileTurn {
    fn read(self) -> Result<ScriptedTurn, String> {
        let end = match (self.finish, self.error, self.cut) {
            (finish, None, false) => ScriptedEnd::Finish {
                reason: finish.unwrap_or(FinishReason::Stop),
                message: self.finish_message,
            },
            (None, Some(error), false) if self.finish_message.is_none() => {
                ScriptedEnd::Error(error.read()?)
            }
            (None, None, true) if self.finish_message.is_none() => ScriptedEnd::Cut,
            _ => return Err("`finish`, `error` and `cut` exclude each other".into()),
        };
        let short = self.thinking.is_some() || self.text.is_some() || self.calls.is_some();
        let parts = match self.parts {
            Some(_) if short => {
                return Err("`parts` excludes `thinking`, `text` and `calls`".into());
            }
            Some(parts) => parts
                .into_iter()
                .map(FilePart::read)
                .collect::<Result<_, _>>()?,
            None => {
                let thinking = self.thinking.map(|Chunks(chunks)| ScriptedPart::Thinking {
                    chunks,
                    signature: None,
                });
                let text = self.text.map(|Chunks(chunks)| ScriptedPart::Text {
                    chunks,
                    signature: None,
                });
                let calls = self.calls.unwrap_or_default();
                let calls = calls.into_iter().map(ScriptedPart::from);
                thinking.into_iter().chain(text).chain(calls).collect()
            }
        };
        Ok(ScriptedTurn {
            expect: self.expect,
            delay: Duration::from_millis(self.delay_ms),
            chunk_delay: Duration::from_millis(self.chunk_delay_ms),
            chunk_gate: None,
            parts,
            usage: self.usage.map(Usage::from),
            end,
        })
    }

    /// `None` for a turn with gates.
    fn write(turn: &ScriptedTurn) -> Option<Self> {
        if turn.chunk_gate.is_some() {
            return None;
        }
        let mut file = Self {
            expect: turn.expect.clone(),
            delay_ms: millis(turn.delay),
            chunk_delay_ms: millis(turn.chunk_delay),
            parts: Some(
                turn.parts
                    .iter()
                    .map(FilePart::write)
                    .collect::<Option<_>>()?,
            ),
            usage: turn.usage.clone().map(FileUsage::from),
            ..Self::default()
        };
        match &turn.end {
            ScriptedEnd::Finish { reason, message } => {
                file.finish = Some(reason.clone());
                file.finish_message.clone_from(message);
            }
            ScriptedEnd::Error(error) => file.error = Some(FileError::write(error)),
            ScriptedEnd::Cut => file.cut = true,
        }
        Some(file)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl From<FileCall> for ScriptedPart {
    fn from(call: FileCall) -> Self {
        Self::Call {
            id: call.id,
            name: call.name,
            args: call.args,
            signature: call.signature,
        }
    }
}

impl FilePart {
    fn read(self) -> Result<ScriptedPart, String> {
        let signature = self.signature;
        match (
            self.thinking,
            self.text,
            self.call,
            self.wait_ms,
            &signature,
        ) {
            (Some(Chunks(chunks)), None, None, None, _) => {
                Ok(ScriptedPart::Thinking { chunks, signature })
            }
            (None, Some(Chunks(chunks)), None, None, _) => {
                Ok(ScriptedPart::Text { chunks, signature })
            }
            (None, None, Some(call), None, None) => Ok(call.into()),
            (None, None, None, Some(wait), None) => {
                Ok(ScriptedPart::Wait(Duration::from_millis(wait)))
            }
            (None, None, Some(_), None, Some(_)) => {
                Err("the `signature` of a call stands inside `call`".into())
            }
            (None, None, None, Some(_), Some(_)) => Err("a `wait_ms` has no `signature`".into()),
            _ => Err("a part is one of `thinking`, `text`, `call` and `wait_ms`".into()),
        }
    }

    fn write(part: &ScriptedPart) -> Option<Self> {
        let mut file = Self::default();
        match part {
            ScriptedPart::Thinking { chunks, signature } => {
                file.thinking = Some(Chunks(chunks.clone()));
                file.signature.clone_from(signature);
            }
            ScriptedPart::Text { chunks, signature } => {
                file.text = Some(Chunks(chunks.clone()));
                file.signature.clone_from(signature);
            }
            ScriptedPart::Call {
                id,
                name,
                args,
                signature,
            } => {
                file.call = Some(FileCall {
                    id: id.clone(),
                    name: name.clone(),
                    args: args.clone(),
                    signature: signature.clone(),
                });
            }
            ScriptedPart::Wait(wait) => file.wait_ms = Some(millis(*wait)),
            ScriptedPart::Gate(_) => return None,
        }
        Some(file)
    }
}

impl FileError {
    fn read(self) -> Result<ModelError, String> {
        let kind = match (self.status, self.kind) {
            (Some(code), None) => ModelErrorKind::Status { code },
            (None, Some(FileErrorKind::Connect)) => ModelErrorKind::Connect,
            (None, Some(FileErrorKind::Cut)) => ModelErrorKind::Cut,
            (None, Some(FileErrorKind::Silent)) => ModelErrorKind::Silent,
            (None, Some(FileErrorKind::Malformed)) => ModelErrorKind::Malformed,
            (None, Some(FileErrorKind::Config)) => ModelErrorKind::Config,
            (None, Some(FileErrorKind::Script)) => ModelErrorKind::Script,
            _ => return Err("an `error` has a `status` or a `kind`".into()),
        };
        let message = self.message.unwrap_or_else(|| match self.status {
            Some(code) => format!("scripted error with status {code}"),
            None => "scripted error".into(),
        });
        Ok(ModelError {
            kind,
            message,
            retry_after: self.retry_after_ms.map(Duration::from_millis),
            quota: self.quota,
        })
    }

    fn write(error: &ModelError) -> Self {
        let (status, kind) = match error.kind {
            ModelErrorKind::Status { code } => (Some(code), None),
            ModelErrorKind::Connect => (None, Some(FileErrorKind::Connect)),
            ModelErrorKind::Cut => (None, Some(FileErrorKind::Cut)),
            ModelErrorKind::Silent => (None, Some(FileErrorKind::Silent)),
            ModelErrorKind::Malformed => (None, Some(FileErrorKind::Malformed)),
            ModelErrorKind::Config => (None, Some(FileErrorKind::Config)),
            ModelErrorKind::Script => (None, Some(FileErrorKind::Script)),
        };
        Self {
            status,
            kind,
            message: Some(error.message.clone()),
            retry_after_ms: error.retry_after.map(millis),
            quota: error.quota,
        }
    }
}

impl From<FileUsage> for Usage {
    fn from(file: FileUsage) -> Self {
        let counts = |details: Vec<FileModality>| {
            let count = |FileModality { modality, tokens }| ModalityCount { modality, tokens };
            details.into_iter().map(count).collect()
        };
        Self {
            prompt_tokens: file.prompt_tokens,
            cached_tokens: file.cached_tokens,
            candidates_tokens: file.candidates_tokens,
            thoughts_tokens: file.thoughts_tokens,
            total_tokens: file.total_tokens,
            service_tier: file.service_tier,
            prompt_details: counts(file.prompt_details),
            cache_details: counts(file.cache_details),
            candidates_details: counts(file.candidates_details),
        }
    }
}

impl From<Usage> for FileUsage {
    fn from(usage: Usage) -> Self {
        let counts = |details: Vec<ModalityCount>| {
            let count = |ModalityCount { modality, tokens }| FileModality { modality, tokens };
            details.into_iter().map(count).collect()
        };
        Self {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            candidates_tokens: usage.candidates_tokens,
            thoughts_tokens: usage.thoughts_tokens,
            total_tokens: usage.total_tokens,
            service_tier: usage.service_tier,
            prompt_details: counts(usage.prompt_details),
            cache_details: counts(usage.cache_details),
            candidates_details: counts(usage.candidates_details),
        }
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
