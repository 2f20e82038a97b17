use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use harness_types::{Gate, ScriptedTurn};
use serde_json::Value;

use super::RecordedRequest;

/// What a request has to satisfy besides the general rules.
pub(crate) type Check = Arc<dyn Fn(&RecordedRequest) -> Result<(), String> + Send + Sync>;

/// How a [`FakeModelServer`] answers one request.
///
/// A [`ScriptedTurn`] converts into one, so most tests write none of this.
///
/// [`FakeModelServer`]: crate::FakeModelServer
#[derive(Clone)]
pub struct ServerTurn {
    pub(crate) reply: Reply,
    pub(crate) gate: Option<Gate>,
    pub(crate) check: Option<Check>,
}

#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A scripted answer in Gemini form.
    Scripted(Box<ScriptedTurn>),
    /// A whole HTTP answer.
    Http {
        status: u16,
        headers: Vec<(String, String)>,
        body: Bytes,
    },
    /// A 200 whose body comes in these pieces.
    Stream { pieces: Vec<Bytes>, end: StreamEnd },
    /// Bytes on the connection, which is closed then.
    Raw(Bytes),
    /// Nothing, until the client gives up.
    Silence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    Whole,
    Cut,
}

impl ServerTurn {
    fn new(reply: Reply) -> Self {
        Self {
            reply,
            gate: None,
            check: None,
        }
    }

    /// An HTTP answer with this status and body.
    pub fn status(status: u16, body: impl Into<Bytes>) -> Self {
        Self::new(Reply::Http {
            status,
            headers: Vec::new(),
            body: body.into(),
        })
    }

    /// A stream of these JSON documents, each one event.
    pub fn events(events: impl IntoIterator<Item = Value>) -> Self {
        Self::pieces(events.into_iter().map(|event| sse(&event)))
    }

    /// A stream that comes in these pieces, each one HTTP chunk; they need not be whole events.
    pub fn pieces<B: Into<Bytes>>(pieces: impl IntoIterator<Item = B>) -> Self {
        Self::new(Reply::Stream {
            pieces: pieces.into_iter().map(Into::into).collect(),
            end: StreamEnd::Whole,
        })
    }

    /// These bytes in place of an HTTP answer; the connection is closed after them. No bytes at
    /// all is a server that hangs up.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::new(Reply::Raw(bytes.into()))
    }

    /// No answer, for as long as the client waits.
    pub fn silence() -> Self {
        Self::new(Reply::Silence)
    }

    /// Adds a header; only an answer made with [`ServerTurn::status`] has room for one.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Reply::Http { headers, .. } = &mut self.reply {
            headers.push((name.into(), value.into()));
        }
        self
    }

    /// Breaks the connection after the pieces, in the middle of the HTTP body. Only a stream made
    /// with [`ServerTurn::pieces`] or [`ServerTurn::events`] can be cut; scripted turns have
    /// [`ScriptedTurn::cut`].
    #[must_use]
    pub fn cut(mut self) -> Self {
        if let Reply::Stream { end, .. } = &mut self.reply {
            *end = StreamEnd::Cut;
        }
        self
    }

    /// Holds the whole answer, its head included, until the gate lets it pass.
    #[must_use]
    pub fn gated(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Checks the request; what the check returns as an error is a violation.
    #[must_use]
    pub fn expecting(
        mut self,
        check: impl Fn(&RecordedRequest) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }
}

impl From<ScriptedTurn> for ServerTurn {
    fn from(turn: ScriptedTurn) -> Self {
        Self::new(Reply::Scripted(Box::new(turn)))
    }
}

impl fmt::Debug for ServerTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTurn")
            .field("reply", &self.reply)
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

/// One server-sent event, with the line ends the provider uses.
pub(crate) fn sse(event: &Value) -> Bytes {
    Bytes::from(format!("data: {event}\r\n\r\n"))
}
