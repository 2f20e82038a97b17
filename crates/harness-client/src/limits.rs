use std::time::Duration;

/// How long the steps of a harness's life may take, and how large things may get.
///
/// Nothing here limits a turn: a model may think and a user may be asked for as long as they
/// like. A turn is ended with [`Session::halt`](crate::Session::halt) or by dropping it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// From the start of the process to the end of its answer on standard output: 30 s.
    pub handshake: Duration,
    /// One attempt to connect, the WebSocket handshake included: 5 s.
    pub connect: Duration,
    /// From the configuration to its confirmation, MCP servers included: 60 s.
    pub initialize: Duration,
    /// How long a session-end hook is waited for: 10 s.
    pub session_end: Duration,
    /// How long the closing handshake of the connection is waited for: 0.5 s.
    pub close: Duration,
    /// How long the process may take to end after the end of its input: 5 s.
    pub exit: Duration,
    /// How long it may take to end after SIGTERM, before SIGKILL: 1 s.
    pub terminate: Duration,
    /// How long the next turn waits for one that was dropped to come to its end: 10 s.
    pub drain: Duration,
    /// The longest answer on standard output, in bytes: 64 KiB.
    pub max_handshake_bytes: usize,
    /// The longest message of the connection, in bytes, in either direction: 64 MiB.
    pub max_message_bytes: usize,
    /// How many requests of the harness may be open at once: 1024. One more ends the session.
    pub max_open_requests: usize,
    /// How many events a turn keeps for a slow reader: 65,536. Text of a step and repeated
    /// states of a step count once. One more ends the turn for its reader.
    pub max_queued_events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(30),
            connect: Duration::from_secs(5),
            initialize: Duration::from_secs(60),
            session_end: Duration::from_secs(10),
            close: Duration::from_millis(500),
            exit: Duration::from_secs(5),
            terminate: Duration::from_secs(1),
            drain: Duration::from_secs(10),
            max_handshake_bytes: 64 * 1024,
            max_message_bytes: 64 * 1024 * 1024,
            max_open_requests: 1024,
            max_queued_events: 65_536,
        }
    }
}
