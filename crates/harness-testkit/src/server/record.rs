use std::time::Instant;

use serde_json::Value;

use super::check;
use super::connection::find_header;

/// A request a [`FakeModelServer`] has got.
///
/// [`FakeModelServer`]: crate::FakeModelServer
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// Its number, from 0 over all routes.
    pub index: usize,
    /// The route it took; empty for the default one.
    pub route: String,
    /// The model it asked for.
    pub model: String,
    /// Path and query.
    pub target: String,
    /// Headers, in order, with the names as they were sent.
    pub headers: Vec<(String, String)>,
    /// The body; null if it was not JSON.
    pub body: Value,
    /// How long the body was, in bytes.
    pub body_bytes: usize,
    /// When the last byte of the request was there.
    pub at: Instant,
    /// The connection it came on, counted from 0 in the order they were accepted.
    pub connection: usize,
}

impl RecordedRequest {
    /// The first header of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// The history as it was sent.
    pub fn contents(&self) -> &[Value] {
        check::contents(&self.body)
    }

    /// The system prompt.
    pub fn system_text(&self) -> String {
        check::system_text(&self.body)
    }

    /// The names of the declared functions, in order.
    pub fn tool_names(&self) -> Vec<&str> {
        check::tool_names(&self.body)
    }

    /// The `functionResponse`s since the model's last answer, in order.
    pub fn last_responses(&self) -> Vec<&Value> {
        check::last_responses(&self.body)
    }

    /// Every text of the last content.
    pub fn last_text(&self) -> String {
        let last = self.contents().last().unwrap_or(&Value::Null);
        let parts = last["parts"].as_array().map(Vec::as_slice);
        parts
            .unwrap_or_default()
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect()
    }
}

/// How an answer came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It has not.
    Running,
    /// It was sent as a whole.
    Answered,
    /// The server broke it off, as the turn said.
    Cut,
    /// The client went away before that.
    ClientGone,
}
