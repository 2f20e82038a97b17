//! How the program ends.

use std::process::ExitCode;

use harness_types::TurnEnd;

/// The exit codes. They are part of the program's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All was done.
    Done,
    /// The turn failed, or something is broken.
    Failed,
    /// The command line or the configuration cannot be used; nothing was begun.
    Usage,
    /// A limit ended the turn.
    Stopped,
    /// The turn is done, but calls were refused because nobody could be asked.
    Unanswered,
    /// Somebody interrupted it.
    Interrupted,
    /// The reader of standard output went away.
    Closed,
}

impl Exit {
    /// What the end of a turn amounts to.
    pub(crate) fn of_turn(end: &TurnEnd, unanswered: u64) -> Self {
        match end {
            TurnEnd::Completed | TurnEnd::Finished { .. } if unanswered > 0 => Self::Unanswered,
            TurnEnd::Completed | TurnEnd::Finished { .. } => Self::Done,
            TurnEnd::Halted => Self::Interrupted,
            TurnEnd::Stopped { .. } => Self::Stopped,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Stopped => 3,
            Exit::Unanswered => 4,
            // As shells count a program that SIGINT or SIGPIPE ended.
            Exit::Interrupted => 130,
            Exit::Closed => 141,
        })
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user has to change something on the command line, in the environment or in a file.
    Usage(String),
    /// Something went wrong on the way.
    Broken(anyhow::Error),
}

impl Failure {
    /// A mistake of the user.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// How the program ends for it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Broken(_) => Exit::Failed,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(message) => f.write_str(message),
            Self::Broken(error) => write!(f, "{error:#}"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Broken(error)
    }
}

impl From<harness_host::Error> for Failure {
    fn from(error: harness_host::Error) -> Self {
        if error.is_config() {
            Self::Usage(format!("{:#}", anyhow::Error::from(error)))
        } else {
            Self::Broken(error.into())
        }
    }
}
