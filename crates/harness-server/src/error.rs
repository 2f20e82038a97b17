//! What can go wrong before a client is connected.

use std::io;

/// A process that cannot begin to serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// stdin ended before it held an `InputConfig`.
    #[error("no InputConfig on stdin: it ended at once")]
    NoInput,
    /// What stdin held is no frame, or broke off.
    #[error("cannot read the InputConfig from stdin")]
    Frame(#[from] harness_framing::Error),
    /// The frame is no `InputConfig`.
    #[error("stdin holds no InputConfig")]
    Decode(#[from] prost::DecodeError),
    /// The configuration names something that cannot be done.
    #[error("InputConfig.{field}: {message}")]
    Config {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// No socket could be opened.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The `OutputConfig` could not be written.
    #[error("cannot write the OutputConfig to stdout")]
    Output(#[source] io::Error),
    /// Chance could not be asked for a key.
    #[error("no random bytes for the connection key")]
    Random(#[from] getrandom::Error),
    /// The runtime refused the sockets.
    #[error("cannot serve the socket")]
    Serve(#[source] io::Error),
}

impl Error {
    /// Whether what came on stdin is at fault, rather than the machine.
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            Self::NoInput | Self::Frame(_) | Self::Decode(_) | Self::Config { .. }
        )
    }
}
