//! What a front end tells the loop.

use crate::{Input, RequestAnswer, RequestId};

/// Something a front end wants. None of these waits for the loop to finish anything.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Command {
    /// Say something to the agent. While a turn runs it is taken at the next step boundary.
    Input(Input),
    /// Answer a request. A second, late or unfitting answer is ignored with a note.
    Answer {
        /// The request.
        request: RequestId,
        /// The answer.
        answer: RequestAnswer,
    },
    /// End the running turn now. Does nothing when none runs.
    Halt,
    /// Tell whoever reads the conversation that something a client said could not be used. A
    /// running turn goes on; when none runs, the client is told that none will.
    Refuse {
        /// What, and why.
        message: String,
    },
    /// Run the session-end hook, if one is wanted, and say when it is done. The conversation stays
    /// usable.
    EndSession,
}

/// Something the loop did not act on, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(String);

impl Note {
    /// Wraps a message: what was ignored, and why.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
