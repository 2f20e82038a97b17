use std::fmt;

use rustix::process::{Signal as OsSignal, WaitIdStatus};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExitStatus {
    /// It ended by itself with this exit code, 0 to 255.
    Code(i32),
    /// A signal of this number ended it.
    Signal(i32),
}

impl ExitStatus {
    /// Returns whether the command ended with exit code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// Returns the number a shell would show: the exit code, or 128 plus the signal's number.
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => number.saturating_add(128),
        }
    }

    pub(crate) fn from_wait(status: &WaitIdStatus) -> Option<Self> {
        status
            .exit_status()
            .map(Self::Code)
            .or_else(|| status.terminating_signal().map(Self::Signal))
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
        }
    }
}

/// A signal to send to a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// SIGINT: what Ctrl-C sends.
    Interrupt,
    /// SIGTERM: asks to end.
    Terminate,
    /// SIGKILL: ends at once, cannot be refused.
    Kill,
}

impl From<Signal> for OsSignal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Interrupt => Self::INT,
            Signal::Terminate => Self::TERM,
            Signal::Kill => Self::KILL,
        }
    }
}
