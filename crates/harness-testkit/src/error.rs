use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What can go wrong with a fixture.
///
/// `Debug` prints what `Display` does, and the sources, so that the panic of an `unwrap` in a test
/// reads well.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something did not happen in time.
    #[error("waited {after:?} for {what}; {so_far}")]
    Deadline {
        /// What did not happen.
        what: String,
        /// How long it was waited for.
        after: Duration,
        /// What did happen.
        so_far: String,
    },
    /// The peer closed the connection.
    #[error("the connection was closed while waiting for {what} ({close}); {so_far}")]
    Closed {
        /// What was waited for.
        what: String,
        /// Code and reason of the close frame, or that there was none.
        close: String,
        /// What came before.
        so_far: String,
    },
    /// The harness did not answer the start-up handshake.
    #[error("the handshake failed: {problem}; stderr: {stderr:?}")]
    Handshake {
        /// How.
        problem: String,
        /// What the process said on its standard error so far.
        stderr: Vec<String>,
    },
    /// The WebSocket could not be opened with this HTTP status.
    #[error("the server refused the WebSocket with status {status}")]
    Refused {
        /// The HTTP status code.
        status: u16,
        /// The body of the answer, as far as it came along.
        body: String,
    },
    /// The WebSocket protocol was broken.
    #[error("the WebSocket failed")]
    WebSocket(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    /// A program that tests need has not been built.
    #[error("there is no program at {path:?}; `cargo build` builds it, HARNESS_BIN_DIR moves it")]
    NoBinary {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// An operation of the system failed.
    #[error("{what} failed")]
    Io {
        /// The operation, with its object.
        what: String,
        /// How.
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Whether the reason is that the peer closed the connection, with a close frame or without.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// Whether something did not happen in time.
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::Deadline { .. })
    }

    /// The HTTP status a WebSocket was refused with, if that is what happened.
    pub fn refused_status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl From<tokio_tungstenite::tungstenite::Error> for Error {
    fn from(error: tokio_tungstenite::tungstenite::Error) -> Self {
        use tokio_tungstenite::tungstenite::Error as Ws;
        match error {
            Ws::Http(response) => Self::Refused {
                status: response.status().as_u16(),
                body: response
                    .body()
                    .as_deref()
                    .map(|body| String::from_utf8_lossy(body).into_owned())
                    .unwrap_or_default(),
            },
            other => Self::WebSocket(Box::new(other)),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

/// How long fixtures wait for something before they give up: long enough for a loaded machine, as
/// a test that works never waits.
pub const DEADLINE: Duration = Duration::from_secs(20);
