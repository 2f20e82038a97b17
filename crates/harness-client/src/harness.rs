use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use harness_process::{
    CommandSpec, Environment, ExitStatus, OutputMode, OutputReader, ProcessTree, StdinMode,
    StdinWriter,
};
use harness_proto::localharness::{ClientInfo, InputConfig};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::connect::hosts;
use crate::endpoint::Endpoint;
use crate::handshake::exchange;
use crate::opening::SessionBuilder;
use crate::stderr::Stderr;
use crate::{ConversationConfig, Error, Limits, StderrTail};

/// A harness process about to be started.
///
/// `Debug` shows names of environment variables, not their values.
#[derive(Clone)]
#[must_use = "nothing happens before start()"]
pub struct Launch {
    program: PathBuf,
    working_directory: Option<PathBuf>,
    environment: Environment,
    input: InputConfig,
    limits: Limits,
    problem: Option<String>,
}

impl Launch {
    /// Returns a launch of `program`, for instance what
    /// [`find_harness`](crate::find_harness) found.
    ///
    /// The process gets this program's environment and working directory, and no arguments.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let client = ClientInfo {
            // The version counts for language "python" alone; any other is served as the newest.
            language: Some("rust".into()),
            version: Some(env!("CARGO_PKG_VERSION").into()),
            os: Some(std::env::consts::OS.into()),
            ..ClientInfo::default()
        };
        Self {
            program: program.into(),
            working_directory: None,
            environment: Environment::inherited(),
            input: InputConfig {
                client_info: Some(client),
                ..InputConfig::default()
            },
            limits: Limits::default(),
            problem: None,
        }
    }

    /// Sets the folder conversations are stored in; without it they are not.
    pub fn storage_directory(mut self, folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        match folder.to_str() {
            Some(text) => self.input.storage_directory = Some(text.to_owned()),
            None => self.problem = Some(format!("the path {} is not UTF-8", folder.display())),
        }
        self
    }

    /// Sets the working directory of the process.
    pub fn working_directory(mut self, folder: impl Into<PathBuf>) -> Self {
        self.working_directory = Some(folder.into());
        self
    }

    /// Replaces the environment of the process. Variables set with [`env`](Self::env) so far are
    /// lost.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self.input.env.clear();
        self
    }

    /// Sets a variable for the harness and the commands it runs.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.environment = self
            .environment
            .set(OsString::from(&name), OsString::from(&value));
        // SDKs say it twice, and harnesses rely on either.
        self.input.env.insert(name, value);
        self
    }

    /// Says who this program is. A client of language "python" is served as the SDK of its
    /// version.
    pub fn client_info(mut self, client: ClientInfo) -> Self {
        self.input.client_info = Some(client);
        self
    }

    /// Sets the limits of the process, and of sessions unless they have their own.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Changes the message the process is started with.
    pub fn edit(mut self, change: impl FnOnce(&mut InputConfig)) -> Self {
        change(&mut self.input);
        self
    }

    /// Starts the process and waits until it listens.
    ///
    /// # Errors
    ///
    /// [`Error::Config`], [`Error::Start`], [`Error::Handshake`]. No process is left behind then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the process.
    pub async fn start(self) -> Result<Harness, Error> {
        if let Some(problem) = self.problem {
            return Err(Error::Config { problem });
        }
        let mut command = CommandSpec::new(&self.program)
            .environment(self.environment)
            .stdin(StdinMode::Piped)
            .output(OutputMode::Separate);
        if let Some(folder) = &self.working_directory {
            command = command.working_directory(folder);
        }
        let failed = |source| Error::Start {
            program: self.program.clone(),
            source,
        };
        let mut tree = ProcessTree::spawn(&command).map_err(failed)?;
        let pipes = (tree.take_stdin(), tree.take_stdout(), tree.take_stderr());
        let (Some(mut stdin), Some(mut stdout), Some(stderr)) = pipes else {
            unreachable!("asked for above");
        };
        let stderr = Stderr::drain(stderr);
        match exchange(&mut stdin, &mut stdout, &self.input, &self.limits).await {
            Ok(address) => {
                stderr.hide(&address.key);
                let hosts = hosts(&self.input);
                Ok(Harness {
                    endpoint: Endpoint::of_process(hosts, address, stderr, self.limits),
                    stdin: Some(stdin),
                    stdout: tokio::spawn(discard(stdout)).abort_handle(),
                    tree,
                })
            }
            Err(source) => Err(Error::Handshake {
                source,
                stderr: stderr.last_words().await,
            }),
        }
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("program", &self.program)
            .field("working_directory", &self.working_directory)
            .field("environment", &self.environment)
            .field("storage_directory", &self.input.storage_directory)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A running harness process. It serves any number of conversations.
///
/// Dropping it kills the process and everything it started; [`shutdown`](Self::shutdown) ends it
/// politely. Its standard error is read all the time; the last lines are kept for errors.
#[derive(Debug)]
pub struct Harness {
    endpoint: Endpoint,
    /// The harness ends when this is closed.
    stdin: Option<StdinWriter>,
    stdout: AbortHandle,
    tree: ProcessTree,
}

impl Harness {
    /// Begins to open a conversation.
    pub fn session(&self, config: ConversationConfig) -> SessionBuilder<'_> {
        self.endpoint.session(config)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.endpoint.address.port
    }

    /// The process id.
    pub fn process_id(&self) -> u32 {
        self.tree.id()
    }

    /// The last lines of its standard error.
    pub fn stderr(&self) -> StderrTail {
        self.endpoint.stderr.tail()
    }

    /// Waits for the process to end by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Shutdown`] when the system does not tell how it ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn exited(&self) -> Result<ExitStatus, Error> {
        self.tree.wait().await.map_err(Error::Shutdown)
    }

    /// Ends the process and returns how it ended: exit code 0 from a healthy harness.
    ///
    /// In steps, each with its limit: runs the session-end hooks of open sessions, stops their
    /// handlers, closes their connections; closes the standard input, upon which a harness ends
    /// by itself; sends SIGTERM; sends SIGKILL. What the harness left running ends as well.
    ///
    /// # Errors
    ///
    /// [`Error::Shutdown`] when processes survive all that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the process.
    pub async fn shutdown(mut self) -> Result<ExitStatus, Error> {
        self.endpoint.close_sessions().await;
        self.stdin = None;
        let limits = &self.endpoint.limits;
        let grace = match timeout(limits.exit, self.tree.wait()).await {
            // Only what it left running is to be ended; nobody waits for that to be polite.
            Ok(_) => std::time::Duration::ZERO,
            Err(_) => limits.terminate,
        };
        self.tree.terminate(grace).await.map_err(Error::Shutdown)
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.stdout.abort();
    }
}

/// A harness is silent after its answer. Should it not be, it must not block on a full pipe.
async fn discard(mut stdout: OutputReader) {
    while let Ok(Some(_)) = stdout.next_chunk().await {}
}
