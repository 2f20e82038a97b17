//! Models: what they are asked, what they answer, how they fail.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use serde::{Deserialize, Serialize};

use crate::{ConversationId, GenerationOptions, Message, ModelPart, RetryClass, ToolSpec, Usage};

/// One request to a model: everything it may base its answer on.
///
/// The prompt and the tools are shared; the history is this request's own.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The conversation, for providers that keep a cache per session.
    pub conversation: ConversationId,
    /// The system prompt.
    pub system: Arc<str>,
    /// The tools, in a fixed order.
    pub tools: Arc<[ToolSpec]>,
    /// The history, oldest first, valid as [`Message`] says.
    pub messages: Vec<Message>,
    /// How to generate.
    pub options: GenerationOptions,
}

/// What a model says while it answers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// The next piece of the answer. A [`ModelPart::Call`] is always whole.
    Part(ModelPart),
    /// Token counts of this request so far; a later one replaces an earlier one.
    Usage(Usage),
    /// The answer has ended, and why. Usage may still follow.
    Finish {
        /// Why.
        reason: FinishReason,
        /// What the provider adds in words.
        message: Option<String>,
    },
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model had said what it wanted to say.
    Stop,
    /// It reached the limit of output tokens.
    MaxTokens,
    /// A filter stopped it; the provider's word for which one.
    Blocked(String),
    /// It made a call that cannot be read; the provider's word for how.
    MalformedCall(String),
    /// Another reason, which counts as [`FinishReason::Stop`].
    Other(String),
}

/// The events of one answer. It ends after the last event; an answer that ends with neither
/// [`ModelEvent::Finish`] nor an error was cut.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// Something that answers requests.
pub trait Model: Send + Sync + fmt::Debug {
    /// Asks. Nothing is sent before the stream is polled, and dropping it ends the request.
    fn stream(&self, request: ModelRequest) -> ModelStream;

    /// The name people know the model by.
    fn name(&self) -> &str;
}

/// Where a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The provider answered with an HTTP status other than 200, or named one inside a stream.
    Status {
        /// The HTTP status code.
        code: u16,
    },
    /// No connection could be made, or it broke before an answer began.
    Connect,
    /// The answer broke off.
    Cut,
    /// Nothing came for too long.
    Silent,
    /// What came could not be read.
    Malformed,
    /// The request could not be built: the configuration is wrong.
    Config,
    /// A script has no turn for this request, or the request broke the script's expectations.
    Script,
}

/// A request that failed. The message is for a reader and holds no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelError {
    /// Where it failed.
    pub kind: ModelErrorKind,
    /// What went wrong.
    pub message: String,
    /// How long the provider asked to wait before asking again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// Whether a quota that does not refill within minutes is used up.
    #[serde(default, skip_serializing_if = "is_transient")]
    pub quota: Quota,
}

fn is_transient(quota: &Quota) -> bool {
    *quota == Quota::NotNamed
}

/// Whether the provider named a used-up quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quota {
    /// None was named.
    #[default]
    NotNamed,
    /// A daily (or longer) quota is used up; asking again soon is pointless.
    Exhausted,
}

impl ModelError {
    /// An error with nothing but a kind and a message.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            quota: Quota::NotNamed,
        }
    }

    /// The HTTP status code, when there was one.
    pub fn http_code(&self) -> Option<u16> {
        match self.kind {
            ModelErrorKind::Status { code } => Some(code),
            _ => None,
        }
    }

    /// Whether, and when, asking again makes sense.
    ///
    /// A 429 is waited for only when the provider says for how long, at most
    /// [`RetryClass::LONGEST_NAMED_WAIT`], and no daily quota is used up; otherwise the caller
    /// should hear of it. 500, 502, 503, 504, 408 and broken connections are worth another try.
    pub fn retry_class(&self) -> RetryClass {
        let named = self
            .retry_after
            .filter(|wait| *wait <= RetryClass::LONGEST_NAMED_WAIT);
        match &self.kind {
            _ if self.quota == Quota::Exhausted => RetryClass::Never,
            ModelErrorKind::Status { code: 429 } => match (named, self.retry_after) {
                (Some(wait), _) => RetryClass::After(wait),
                (None, Some(_)) => RetryClass::Never,
                (None, None) => RetryClass::IfConfigured,
            },
            ModelErrorKind::Status {
                code: 408 | 500 | 502 | 503 | 504,
            } => match (named, self.retry_after) {
                (Some(wait), _) => RetryClass::After(wait),
                (None, Some(_)) => RetryClass::Never,
                (None, None) => RetryClass::Backoff,
            },
            ModelErrorKind::Connect
            | ModelErrorKind::Cut
            | ModelErrorKind::Silent
            | ModelErrorKind::Malformed => RetryClass::Backoff,
            ModelErrorKind::Status { .. } | ModelErrorKind::Config | ModelErrorKind::Script => {
                RetryClass::Never
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, retry_after: Option<u64>) -> ModelError {
        ModelError {
            retry_after: retry_after.map(Duration::from_secs),
            ..ModelError::new(ModelErrorKind::Status { code }, "x")
        }
    }

    #[test]
    fn f019_a_named_wait_is_obeyed_up_to_a_minute() {
        let wait = |s| RetryClass::After(Duration::from_secs(s));
        assert_eq!(status(503, Some(9)).retry_class(), wait(9));
        assert_eq!(status(429, Some(60)).retry_class(), wait(60));
        assert_eq!(status(429, Some(61)).retry_class(), RetryClass::Never);
        assert_eq!(status(429, None).retry_class(), RetryClass::IfConfigured);
        let daily = ModelError {
            quota: Quota::Exhausted,
            ..status(429, Some(1))
        };
        assert_eq!(daily.retry_class(), RetryClass::Never);
    }

    #[test]
    fn client_errors_are_final_and_server_errors_are_not() {
        for code in [400, 401, 403, 404, 413] {
            assert_eq!(
                status(code, None).retry_class(),
                RetryClass::Never,
                "{code}"
            );
        }
        for code in [408, 500, 502, 503, 504] {
            assert_eq!(
                status(code, None).retry_class(),
                RetryClass::Backoff,
                "{code}"
            );
        }
    }
}
