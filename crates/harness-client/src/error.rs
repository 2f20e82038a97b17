use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use harness_framing as framing;
use harness_process as process;

use crate::{NotFound, StderrTail};

/// Why something with a harness failed.
///
/// Errors about a process carry the last lines of its standard error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No harness program was found, or the one that was named cannot be used.
    #[error(transparent)]
    NotFound(#[from] NotFound),

    /// The program could not be started.
    #[error("cannot start the harness {}", .program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: process::Error,
    },

    /// The program did not say where it listens.
    #[error("the harness gave no usable answer on its standard output; {stderr}")]
    Handshake {
        /// What was wrong.
        source: HandshakeError,
        /// What it said.
        stderr: StderrTail,
    },

    /// No connection to the harness came about.
    #[error("cannot connect to the harness at port {port}, tried {attempts} times; {stderr}")]
    Connect {
        /// The port it said it listens on.
        port: u16,
        /// How many attempts were made.
        attempts: u32,
        /// Why the last one failed.
        source: ConnectError,
        /// What the harness said.
        stderr: StderrTail,
    },

    /// The harness did not confirm the configuration.
    #[error("the harness did not confirm the configuration within {within:?}; {stderr}")]
    InitializeTimeout {
        /// How long it had.
        within: Duration,
        /// What it said.
        stderr: StderrTail,
    },

    /// The configuration cannot be sent.
    #[error("the configuration cannot be used: {problem}")]
    Config {
        /// What is wrong with it.
        problem: String,
    },

    /// The connection is closed.
    #[error(transparent)]
    Closed(#[from] Closed),

    /// A turn ended with an error. The session may be used further, unless the harness closes it.
    #[error(transparent)]
    Turn(#[from] TurnError),

    /// A turn that was dropped did not end, so that no other can begin.
    #[error("the turn before was dropped and has not ended within {within:?}")]
    Draining {
        /// How long was waited.
        within: Duration,
    },

    /// The events of a turn were not read.
    #[error("more than {limit} events of the turn were not read")]
    Lagging {
        /// How many are kept.
        limit: usize,
    },

    /// The end of the turn was read before, as an event.
    #[error("the end of the turn was read before")]
    EndRead,

    /// A message is longer than the limit.
    #[error("a message of {length} bytes is over the limit of {limit}")]
    TooLarge {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },

    /// A message could not be written as JSON.
    #[error("cannot write the message")]
    Encode(#[source] harness_proto::Error),

    /// The process did not end.
    #[error("the harness did not end")]
    Shutdown(#[source] process::Error),
}

impl Error {
    /// Whether the connection is gone: nothing can be sent any more.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// Whether a time limit of this crate ran out.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::InitializeTimeout { .. } | Self::Draining { .. } => true,
            Self::Handshake { source, .. } => matches!(source, HandshakeError::Timeout(_)),
            Self::Connect { source, .. } => matches!(source, ConnectError::Timeout(_)),
            _ => false,
        }
    }

    /// The last lines of the harness's standard error, where the error carries them.
    pub fn stderr(&self) -> Option<&StderrTail> {
        match self {
            Self::Handshake { stderr, .. }
            | Self::Connect { stderr, .. }
            | Self::InitializeTimeout { stderr, .. } => Some(stderr),
            Self::Closed(closed) => Some(&closed.stderr),
            _ => None,
        }
    }
}

/// What was wrong with the answer on standard output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// It did not come in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The harness closed its output, or ended, before it answered.
    #[error("the output ended before the answer")]
    Ended,
    /// The answer is not framed, too long, or cut off.
    #[error("the answer is not framed as agreed")]
    Frame(#[source] framing::Error),
    /// The frame holds no `OutputConfig`.
    #[error("the answer is no valid message")]
    Message(#[source] prost::DecodeError),
    /// The message names no port from 1 to 65535.
    #[error("the answer names no usable port")]
    Port,
    /// The message has no key, or one that fits into no header.
    #[error("the answer has no usable key")]
    Key,
}

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The attempt took too long.
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// The network refused.
    #[error("the connection failed")]
    Io(#[source] std::io::Error),
    /// The harness answered, but did not switch to the WebSocket protocol.
    #[error("the harness answered with HTTP status {status}")]
    Status {
        /// The HTTP status; 401 is a wrong key.
        status: u16,
    },
    /// The answer was no WebSocket handshake.
    #[error("the WebSocket handshake failed")]
    Protocol(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ConnectError {
    /// Whether another attempt may go better.
    pub(crate) fn is_retryable(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Io(_))
    }
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Who ended it, and why.
    pub cause: CloseCause,
    /// What the harness had said by then.
    pub stderr: StderrTail,
}

/// Who ended a connection, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseCause {
    /// This program did, by [`Session::close`](crate::Session::close) or by dropping the session.
    Local,
    /// The harness said good-bye.
    Peer {
        /// The WebSocket close code; 1005 when none was given.
        code: u16,
        /// Its reason; often empty.
        reason: String,
    },
    /// The connection broke off without a good-bye.
    Lost {
        /// What the transport said; empty when it just ended.
        problem: String,
    },
    /// The harness sent something this crate cannot go on after.
    Protocol {
        /// What.
        problem: String,
    },
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            // Not the harness's doing: what it said has nothing to do with it.
            CloseCause::Local => return f.write_str("the session was closed by this program"),
            CloseCause::Peer { code, reason } if reason.is_empty() => {
                write!(f, "the harness closed the connection with code {code}")?;
            }
            CloseCause::Peer { code, reason } => {
                write!(
                    f,
                    "the harness closed the connection with code {code} ({reason})"
                )?;
            }
            CloseCause::Lost { problem } if problem.is_empty() => {
                f.write_str("the connection to the harness broke off")?;
            }
            CloseCause::Lost { problem } => {
                write!(f, "the connection to the harness broke off ({problem})")?;
            }
            CloseCause::Protocol { problem } => {
                write!(f, "the harness broke the protocol: {problem}")?;
            }
        }
        write!(f, "; {}", self.stderr)
    }
}

impl std::error::Error for Closed {}

/// The error a turn ended with, in the words of the harness.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the turn failed: {message}")]
#[non_exhaustive]
pub struct TurnError {
    /// What the harness says.
    pub message: String,
    /// Its code for the error, from harnesses that have codes (SDK 0.1.20).
    pub code: Option<String>,
    /// The HTTP status of the model, when the failure came from there.
    pub http_status: Option<u32>,
}
