use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use harness_framing::{Decoder, FrameCodec};
use harness_proto::localharness::{ClientInfo, InputConfig, OutputConfig};
use prost::Message as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::WireClient;
use crate::{DEADLINE, EmptyHome, Error};

/// How a harness is started: which program, with which environment and arguments.
///
/// A child gets no environment but what is given here.
#[derive(Debug, Clone)]
pub struct Spawn {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    current_dir: Option<PathBuf>,
}

impl Spawn {
    /// Starts this program.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            current_dir: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Adds the environment of an empty home.
    #[must_use]
    pub fn home(mut self, home: &EmptyHome) -> Self {
        self.env.extend(home.env());
        self
    }

    /// Starts it in this folder.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(folder.into());
        self
    }

    /// Starts the program without a handshake.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when it cannot be started.
    pub fn launch(&self) -> Result<WireProcess, Error> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(folder) = &self.current_dir {
            command.current_dir(folder);
        }
        let starting = format!("starting {:?}", self.program);
        let mut child = command.spawn().map_err(Error::io(starting))?;
        let lines = Arc::new(Lines::default());
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(drain(stderr, Arc::clone(&lines)));
        }
        Ok(WireProcess {
            pid: child.id().unwrap_or_default(),
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            child,
            lines,
            output: OutputConfig::default(),
        })
    }

    /// Starts the program and makes the handshake as the newest Python SDK does, with nothing
    /// stored.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when it cannot be started, otherwise as [`WireProcess::handshake`].
    pub async fn start(&self) -> Result<WireProcess, Error> {
        self.start_with(&python_sdk("0.1.22")).await
    }

    /// Starts the program and makes the handshake with this configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when it cannot be started, otherwise as [`WireProcess::handshake`].
    pub async fn start_with(&self, input: &InputConfig) -> Result<WireProcess, Error> {
        let mut process = self.launch()?;
        process.handshake(input).await?;
        Ok(process)
    }
}

/// The configuration a Python SDK of this version sends, with nothing stored.
fn python_sdk(version: &str) -> InputConfig {
    InputConfig {
        client_info: Some(ClientInfo {
            language: Some("python".into()),
            version: Some(version.into()),
            language_version: Some("3.11.0".into()),
            os: Some("linux".into()),
            os_version: Some("6.0".into()),
        }),
        ..InputConfig::default()
    }
}

/// A harness that was started by a test. It is killed when the value is dropped.
///
/// Its standard error is always read, so that it never waits for a reader.
pub struct WireProcess {
    pid: u32,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    lines: Arc<Lines>,
    output: OutputConfig,
}

struct Lines {
    seen: Mutex<Vec<String>>,
    changed: watch::Sender<State>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    Ended,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            seen: Mutex::default(),
            changed: watch::Sender::new(State::Open),
        }
    }
}

impl Lines {
    fn all(&self) -> Vec<String> {
        let seen = self.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, line: String) {
        let seen = self.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).push(line);
        self.changed.send_replace(State::Open);
    }
}

async fn drain(stderr: ChildStderr, lines: Arc<Lines>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(1..) = reader.read_until(b'\n', &mut line).await {
        let text = String::from_utf8_lossy(&line);
        lines.push(text.trim_end_matches(['\n', '\r']).to_owned());
        line.clear();
    }
    lines.changed.send_replace(State::Ended);
}

impl WireProcess {
    /// Writes the configuration and reads the answer.
    ///
    /// # Errors
    ///
    /// [`Error::Handshake`] when the process ends, breaks the framing, or answers with something
    /// else; [`Error::Deadline`] after [`DEADLINE`].
    pub async fn handshake(&mut self, input: &InputConfig) -> Result<(), Error> {
        let mut frame = bytes::BytesMut::new();
        FrameCodec::default()
            .encode(&input.encode_to_vec(), &mut frame)
            .map_err(|error| self.handshake_error(error))?;
        // A process that has ended already cannot be written to; reading tells why it ended.
        let written = self.write_stdin(&frame).await;
        let reading = tokio::time::timeout(DEADLINE, self.read_output()).await;
        self.output = reading.map_err(|_| Error::Deadline {
            what: "the answer to the handshake".into(),
            after: DEADLINE,
            so_far: format!("stderr: {:?}", self.stderr()),
        })??;
        written
    }

    async fn read_output(&mut self) -> Result<OutputConfig, Error> {
        let mut decoder = Decoder::new(FrameCodec::default());
        let mut buffer = [0; 4096];
        loop {
            if let Some(body) = decoder.next_frame().map_err(|e| self.handshake_error(e))? {
                if decoder.buffered_bytes() > 0 {
                    return Err(self.handshake_error("there is more than one message"));
                }
                return OutputConfig::decode(body).map_err(|e| self.handshake_error(e));
            }
            let Some(stdout) = &mut self.stdout else {
                return Err(self.handshake_error("standard output was taken"));
            };
            let count = stdout
                .read(&mut buffer)
                .await
                .map_err(Error::io("reading the standard output of the harness"))?;
            if count == 0 {
                // The reason is on stderr; wait for all of it.
                self.rest_of_stderr().await;
                return Err(self.handshake_error("standard output ended"));
            }
            decoder.push(&buffer[..count]);
        }
    }

    fn handshake_error(&self, problem: impl fmt::Display) -> Error {
        Error::Handshake {
            problem: problem.to_string(),
            stderr: self.stderr(),
        }
    }

    /// Writes bytes to its standard input.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when it is closed on either side.
    pub async fn write_stdin(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let writing = "writing to the standard input of the harness";
        let Some(stdin) = &mut self.stdin else {
            return Err(Error::io(writing)(std::io::ErrorKind::BrokenPipe.into()));
        };
        stdin.write_all(bytes).await.map_err(Error::io(writing))?;
        stdin.flush().await.map_err(Error::io(writing))
    }

    /// Closes its standard input: the way a client asks a harness to end.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Reads its standard output to the end, which comes when the process has ended. After a
    /// handshake there should be nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when reading fails, [`Error::Deadline`] after [`DEADLINE`].
    pub async fn rest_of_stdout(&mut self) -> Result<Vec<u8>, Error> {
        let mut rest = Vec::new();
        if let Some(stdout) = &mut self.stdout {
            tokio::time::timeout(DEADLINE, stdout.read_to_end(&mut rest))
                .await
                .map_err(|_| Error::Deadline {
                    what: "the end of standard output".into(),
                    after: DEADLINE,
                    so_far: "it is still open".into(),
                })?
                .map_err(Error::io("reading the standard output of the harness"))?;
        }
        Ok(rest)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The port of its WebSocket; 0 before the handshake.
    pub fn port(&self) -> u16 {
        u16::try_from(self.output.port.unwrap_or_default()).unwrap_or_default()
    }

    /// The key its WebSocket wants; empty before the handshake.
    pub fn key(&self) -> &str {
        self.output.api_key.as_deref().unwrap_or_default()
    }

    /// Opens a WebSocket, as a client that knows the key.
    ///
    /// # Errors
    ///
    /// As [`WireClient::connect`].
    pub async fn connect(&self) -> Result<WireClient, Error> {
        WireClient::connect(self.port(), &[("x-goog-api-key", self.key())]).await
    }

    /// The lines it has written to its standard error so far.
    pub fn stderr(&self) -> Vec<String> {
        self.lines.all()
    }

    /// Waits for a line on its standard error, which may have come already.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] after [`DEADLINE`], and at once when standard error has ended without
    /// it; both with the lines that came.
    pub async fn stderr_line(&self, containing: &str) -> Result<String, Error> {
        self.stderr_until(|line| line.contains(containing))
            .await
            .map_err(|after| Error::Deadline {
                what: format!("a line with {containing:?} on stderr"),
                after,
                so_far: format!("stderr: {:?}", self.stderr()),
            })
    }

    async fn stderr_until(&self, wanted: impl Fn(&str) -> bool) -> Result<String, Duration> {
        let start = tokio::time::Instant::now();
        let mut changed = self.lines.changed.subscribe();
        let waiting = async {
            loop {
                let state = *changed.borrow_and_update();
                if let Some(line) = self.lines.all().into_iter().find(|line| wanted(line)) {
                    return Some(line);
                }
                if state == State::Ended || changed.changed().await.is_err() {
                    return None;
                }
            }
        };
        let found = tokio::time::timeout(DEADLINE, waiting).await;
        found.ok().flatten().ok_or_else(|| start.elapsed())
    }

    /// Waits until standard error has ended. A grandchild may hold it open for ever; then what
    /// came is all there is.
    async fn rest_of_stderr(&self) {
        let all = self.stderr_until(|_| false);
        let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
    }

    /// Waits until it has ended, and until all of its standard error was read.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] after [`DEADLINE`], [`Error::Io`] when it cannot be waited for.
    pub async fn exit(&mut self) -> Result<ExitStatus, Error> {
        let status = tokio::time::timeout(DEADLINE, self.child.wait())
            .await
            .map_err(|_| Error::Deadline {
                what: "the end of the harness".into(),
                after: DEADLINE,
                so_far: format!("stderr: {:?}", self.stderr()),
            })?
            .map_err(Error::io("waiting for the harness"))?;
        self.rest_of_stderr().await;
        Ok(status)
    }

    /// Closes its standard input and waits until it has ended.
    ///
    /// # Errors
    ///
    /// As [`WireProcess::exit`].
    pub async fn shut_down(&mut self) -> Result<ExitStatus, Error> {
        self.close_stdin();
        self.exit().await
    }

    /// Ends it without asking.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when that fails.
    pub async fn kill(&mut self) -> Result<(), Error> {
        let killed = self.child.kill().await;
        killed.map_err(Error::io("killing the harness"))
    }
}

impl fmt::Debug for WireProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireProcess")
            .field("pid", &self.pid)
            .field("port", &self.port())
            .finish_non_exhaustive()
    }
}
