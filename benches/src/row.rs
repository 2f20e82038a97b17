//! The rows of the table: what is measured, and what is required.

/// A figure that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    Handshake,
    Initialise,
    MemoryInitialised,
    MemoryAfterTurns,
    BinarySize,
    Request,
    Idle,
    PingIdle,
    PingBusy,
    ChunksTime,
    ChunksCpu,
    ChunksBytes,
    ToolTurns,
    HostCalls,
    GrepTurn,
    FindTurn,
    GrepAlone,
    FindAlone,
    ConversationsOpen,
    ConversationsTime,
    ConversationsMemory,
    LongAnswerTime,
    LongAnswerMemory,
    Exit,
}

/// What the numbers of a row count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
}

/// What is required of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// Theirs is at least so many times ours.
    Less(f64),
    /// Ours is at most so many times theirs.
    Within(f64),
    /// Ours is at most this, whatever theirs is.
    AtMost(f64),
    /// Nothing: it is shown to be watched.
    Watched,
}

/// How a row is called, counted and judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    /// The name of the row in JSON; it never changes.
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    pub(crate) goal: Goal,
}

impl Row {
    /// All rows, in the order of the table.
    pub(crate) const ALL: [Self; 24] = [
        Self::Handshake,
        Self::Initialise,
        Self::MemoryInitialised,
        Self::MemoryAfterTurns,
        Self::BinarySize,
        Self::Request,
        Self::Idle,
        Self::PingIdle,
        Self::PingBusy,
        Self::ChunksTime,
        Self::ChunksCpu,
        Self::ChunksBytes,
        Self::ToolTurns,
        Self::HostCalls,
        Self::GrepTurn,
        Self::FindTurn,
        Self::GrepAlone,
        Self::FindAlone,
        Self::ConversationsOpen,
        Self::ConversationsTime,
        Self::ConversationsMemory,
        Self::LongAnswerTime,
        Self::LongAnswerMemory,
        Self::Exit,
    ];

    pub(crate) const fn spec(self) -> Spec {
        use Goal::{AtMost, Less, Watched, Within};
        use Unit::{Bytes, Seconds};
        let (key, title, unit, goal) = match self {
            Self::Handshake => ("handshake", "spawn → OutputConfig", Seconds, Less(25.0)),
            Self::Initialise => (
                "initialise",
                "spawn → initialize reply",
                Seconds,
                Less(20.0),
            ),
            Self::MemoryInitialised => (
                "memory_initialised",
                "resident memory after initialize",
                Bytes,
                Less(10.0),
            ),
            Self::MemoryAfterTurns => (
                "memory_after_turns",
                "resident memory after 50 tool turns",
                Bytes,
                Less(10.0),
            ),
            Self::BinarySize => ("binary_size", "size of the program", Bytes, Less(8.0)),
            Self::Request => (
                "request",
                "user input → request at the model",
                Seconds,
                Less(8.0),
            ),
            Self::Idle => (
                "idle",
                "last byte of the model → idle at the client",
                Seconds,
                Less(8.0),
            ),
            Self::PingIdle => ("ping_idle", "ping, nothing to do", Seconds, AtMost(1e-3)),
            Self::PingBusy => ("ping_busy", "ping, while grep runs", Seconds, AtMost(1e-3)),
            Self::ChunksTime => ("chunks_time", "4,000 fast chunks: time", Seconds, Less(4.0)),
            Self::ChunksCpu => (
                "chunks_cpu",
                "4,000 fast chunks: processor time",
                Seconds,
                Less(10.0),
            ),
            Self::ChunksBytes => (
                "chunks_bytes",
                "4,000 fast chunks: bytes to the client",
                Bytes,
                Less(20.0),
            ),
            Self::ToolTurns => ("tool_turns", "50 tool-call turns", Seconds, Less(8.0)),
            Self::HostCalls => (
                "host_calls",
                "4 host calls of 300 ms in one answer",
                Seconds,
                AtMost(0.35),
            ),
            Self::GrepTurn => (
                "grep_turn",
                "grep over 20,000 files, whole turn",
                Seconds,
                Less(1.5),
            ),
            Self::FindTurn => (
                "find_turn",
                "find over 20,000 files, whole turn",
                Seconds,
                Less(1.2),
            ),
            Self::GrepAlone => (
                "grep_alone",
                "grep: answer → next request, beside rg",
                Seconds,
                Within(1.25),
            ),
            Self::FindAlone => (
                "find_alone",
                "find: answer → next request, beside fd",
                Seconds,
                Within(1.25),
            ),
            Self::ConversationsOpen => (
                "conversations_open",
                "60 conversations in one process: opening",
                Seconds,
                Watched,
            ),
            Self::ConversationsTime => (
                "conversations_time",
                "60 conversations, one turn each: time",
                Seconds,
                Less(2.5),
            ),
            Self::ConversationsMemory => (
                "conversations_memory",
                "60 conversations, one turn each: memory",
                Bytes,
                Less(8.0),
            ),
            Self::LongAnswerTime => (
                "long_answer_time",
                "answer of 50 MB: time",
                Seconds,
                Watched,
            ),
            Self::LongAnswerMemory => (
                "long_answer_memory",
                "answer of 50 MB: peak memory",
                Bytes,
                Watched,
            ),
            Self::Exit => (
                "exit",
                "end of stdin → end of the process",
                Seconds,
                Watched,
            ),
        };
        Spec {
            key,
            title,
            unit,
            goal,
        }
    }
}
