use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::Environment;

/// How long output is still read after the command itself has ended, unless
/// [`CommandSpec::drain`] says otherwise.
pub const DEFAULT_DRAIN: Duration = Duration::from_millis(250);

/// Where shells live; the first that exists is used. Looked for in fixed places, because `PATH`
/// may name folders that a command could write to.
const SHELLS: [&str; 4] = [
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/bin/sh",
];

/// What a command's standard input is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StdinMode {
    /// `/dev/null`: a program that asks for a password or a key press fails at once instead of
    /// waiting.
    #[default]
    Null,
    /// A pipe, see [`ProcessTree::take_stdin`](crate::ProcessTree::take_stdin).
    Piped,
}

/// How a command's standard output and standard error are captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputMode {
    /// Both go to one pipe, in the order they were written; see
    /// [`ProcessTree::take_output`](crate::ProcessTree::take_output).
    #[default]
    Merged,
    /// Each has a pipe of its own; see
    /// [`ProcessTree::take_stdout`](crate::ProcessTree::take_stdout) and
    /// [`ProcessTree::take_stderr`](crate::ProcessTree::take_stderr).
    Separate,
}

/// What becomes of a tree when this program ends without dropping it, for instance by SIGKILL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParentExit {
    /// It is killed, see the crate documentation for how and where.
    #[default]
    Kill,
    /// It is left to itself.
    Leave,
}

/// A command to run: program, arguments, working directory, environment, pipes.
///
/// `Debug` shows neither arguments nor environment values: they may be secrets.
#[derive(Clone)]
#[must_use = "a specification runs nothing until it is spawned"]
pub struct CommandSpec {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) working_directory: Option<PathBuf>,
    pub(crate) environment: Environment,
    pub(crate) stdin: StdinMode,
    pub(crate) output: OutputMode,
    pub(crate) drain: Duration,
    pub(crate) parent_exit: ParentExit,
}

impl CommandSpec {
    /// Returns a command that runs `program` without arguments.
    ///
    /// A name without a slash is looked for in the `PATH` the command will have.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            working_directory: None,
            environment: Environment::default(),
            stdin: StdinMode::default(),
            output: OutputMode::default(),
            drain: DEFAULT_DRAIN,
            parent_exit: ParentExit::default(),
        }
    }

    /// Returns a command that has the shell run `line`.
    ///
    /// The shell is `bash` from one of the system's folders where there is one, otherwise
    /// `/bin/sh`. It is neither a login nor an interactive shell: no start-up file of the user is
    /// read.
    pub fn shell(line: impl AsRef<OsStr>) -> Self {
        let line = line.as_ref();
        let mut argument = OsString::new();
        // The shell would take a leading dash or plus for an option.
        if matches!(line.as_encoded_bytes().first(), Some(b'-' | b'+')) {
            argument.push(" ");
        }
        argument.push(line);
        Self::new(system_shell()).arg("-c").arg(argument)
    }

    /// Appends an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Appends arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the working directory; without it, the command has this program's.
    pub fn working_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.working_directory = Some(path.into());
        self
    }

    /// Sets the environment; without it, the command has all of this program's.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets what standard input is.
    pub fn stdin(mut self, mode: StdinMode) -> Self {
        self.stdin = mode;
        self
    }

    /// Sets how output is captured.
    pub fn output(mut self, mode: OutputMode) -> Self {
        self.output = mode;
        self
    }

    /// Sets how long output is read after the command itself has ended, when other processes hold
    /// the pipe open. What the command had written before its end is read in any case.
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Sets what becomes of the tree when this program ends without dropping it.
    pub fn parent_exit(mut self, parent_exit: ParentExit) -> Self {
        self.parent_exit = parent_exit;
        self
    }
}

impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSpec")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("working_directory", &self.working_directory)
            .field("environment", &self.environment)
            .field("stdin", &self.stdin)
            .field("output", &self.output)
            .field("drain", &self.drain)
            .field("parent_exit", &self.parent_exit)
            .finish()
    }
}

fn system_shell() -> &'static Path {
    static SHELL: OnceLock<&'static Path> = OnceLock::new();
    SHELL.get_or_init(|| {
        let mut candidates = SHELLS.iter().map(Path::new);
        candidates
            .find(|path| path.exists())
            .unwrap_or_else(|| Path::new("/bin/sh"))
    })
}
