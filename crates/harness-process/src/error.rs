use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// What can go wrong with a process tree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program could not be started.
    #[error("cannot start `{}`", .program.display())]
    Start {
        /// The program as it was given.
        program: OsString,
        /// Why the system refused.
        source: io::Error,
    },

    /// The working directory does not exist, is no directory or may not be entered.
    #[error("cannot use `{}` as working directory", .path.display())]
    WorkingDirectory {
        /// The directory as it was given.
        path: PathBuf,
        /// Why the system refused.
        source: io::Error,
    },

    /// There is no tokio runtime to drive the pipes.
    #[error("no tokio runtime is running on this thread")]
    NoRuntime,

    /// A pipe to the command could not be made.
    #[error("cannot open a pipe to the command")]
    Pipe(#[source] io::Error),

    /// The system does not tell how the command ended, for instance because another part of the
    /// program collected its exit status.
    #[error("cannot learn how the command ended")]
    Wait(#[source] io::Error),

    /// A signal could not be sent.
    #[error("cannot send a signal to the command")]
    Signal(#[source] io::Error),

    /// Processes of the tree are still there although they were killed, for instance because they
    /// hang in the kernel or belong to another user.
    #[error("processes survived being killed: {pids:?}")]
    Survivors {
        /// Their process ids, ascending.
        pids: Vec<u32>,
    },
}

impl Error {
    /// Returns whether the program to start does not exist.
    ///
    /// A missing working directory is not meant: see [`Error::WorkingDirectory`].
    pub fn is_program_not_found(&self) -> bool {
        matches!(self, Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether the system does not let this user start the program or enter the directory.
    pub fn is_permission_denied(&self) -> bool {
        match self {
            Self::Start { source, .. } | Self::WorkingDirectory { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}
