//! Why a conversation cannot be had.

use harness_types::ConversationId;

/// A conversation that cannot be opened, or is gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be run.
    #[error("{message}")]
    Config {
        /// Which field is at fault, and why.
        message: String,
    },
    /// The conversation is open in this process already.
    #[error("conversation {id} is already open in this process; close that connection first")]
    AlreadyOpen {
        /// Its id.
        id: ConversationId,
    },
    /// The conversation to be resumed does not exist.
    #[error("conversation {id} does not exist, so it cannot be resumed")]
    NotFound {
        /// Its id.
        id: ConversationId,
    },
    /// The conversation to be created exists already.
    #[error("conversation {id} exists already, so it cannot be created")]
    Exists {
        /// Its id.
        id: ConversationId,
    },
    /// The process has as many conversations as it may have.
    #[error("{limit} conversations are open already, which is the limit of this process")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The host is shutting down.
    #[error("the harness is shutting down")]
    ShuttingDown,
    /// The conversation has ended.
    #[error("the conversation is closed")]
    Closed,
    /// Chance could not be asked for an id.
    #[error("no random bytes for a conversation id")]
    Random(#[from] getrandom::Error),
    /// A fault of the harness itself.
    #[error("a fault of the harness itself: {message}")]
    Fault {
        /// What happened.
        message: String,
    },
    /// The agent could not be started.
    #[error(transparent)]
    Agent(#[from] harness_agent::Error),
}

impl Error {
    /// An error about the configuration.
    pub fn config(message: impl Into<String>) -> Self {
        Self::Config {
            message: message.into(),
        }
    }

    /// Whether the caller's configuration is at fault, rather than the world.
    pub fn is_config(&self) -> bool {
        match self {
            Self::Config { .. }
            | Self::AlreadyOpen { .. }
            | Self::NotFound { .. }
            | Self::Exists { .. } => true,
            Self::Agent(error) => error.is_config(),
            _ => false,
        }
    }
}
