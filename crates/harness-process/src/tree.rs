use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs, thread};

use rustix::io::Errno;
use rustix::process::{Pid, kill_process_group};
use tokio::net::unix::pipe;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::environment::nested_mark;
use crate::os::{self, Exit, Members};
use crate::{
    CommandSpec, Error, ExitStatus, OutputMode, OutputReader, ParentExit, Signal, StdinMode,
    StdinWriter, TREE_VARIABLE, guard,
};

/// How long killed processes may take to go before they are reported as survivors.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// How long to wait between two looks at what is left of a tree: doubled from the first to the
/// last.
const FIRST_POLL: Duration = Duration::from_millis(2);
const LAST_POLL: Duration = Duration::from_millis(50);

/// How often dropping a tree looks for processes that were forked while it was killing.
const DROP_PASSES: usize = 8;

/// A running command and everything it started.
///
/// Dropping it kills all of it at once and collects the command: nothing is left running, nothing
/// is left as a zombie. [`terminate`](Self::terminate) does the same politely and says what came
/// of it. Which processes belong to the tree is told in the [crate documentation](crate).
///
/// Dropping looks through the process table, which takes a few milliseconds where there are many
/// processes. A program that cannot spare them calls [`terminate`](Self::terminate) first, even if
/// the command has ended: it looks on another thread, and dropping then does nothing.
#[derive(Debug)]
pub struct ProcessTree {
    leader: Pid,
    exit: watch::Receiver<Exit>,
    /// `None` once the tree has ended and the leader's id may name another process.
    members: Arc<Mutex<Option<Members>>>,
    stdin: Option<StdinWriter>,
    merged: Option<OutputReader>,
    stdout: Option<OutputReader>,
    stderr: Option<OutputReader>,
}

impl ProcessTree {
    /// Starts a command in a session of its own.
    ///
    /// The command has no controlling terminal, so that asking on `/dev/tty` fails at once.
    /// Returns when the program has been loaded, which takes a millisecond or so; the thread is
    /// blocked for that time.
    ///
    /// # Errors
    ///
    /// [`Error::WorkingDirectory`], [`Error::Start`], [`Error::Pipe`], [`Error::NoRuntime`]. No
    /// process is left behind then.
    ///
    /// # Panics
    ///
    /// When the tokio runtime was built without I/O. Reading and terminating panic when it was built
    /// without time.
    pub fn spawn(spec: &CommandSpec) -> Result<Self, Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let id = new_tree_id(spec.parent_exit);
        let mark = nested_mark(env::var_os(TREE_VARIABLE), &id);

        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .env_clear()
            .envs(spec.environment.resolve(env::vars_os()))
            .env(TREE_VARIABLE, mark);
        if let Some(path) = &spec.working_directory {
            check_directory(path)?;
            command.current_dir(path);
        }
        os::new_session(&mut command);

        let (exit_sender, exit) = watch::channel(Exit::Running);
        let reader = |pipe| OutputReader::new(pipe, exit.clone(), spec.drain);
        let stdin = match spec.stdin {
            StdinMode::Null => {
                command.stdin(Stdio::null());
                None
            }
            StdinMode::Piped => {
                let (theirs, ours) = io::pipe().map_err(Error::Pipe)?;
                command.stdin(theirs);
                let pipe = pipe::Sender::from_owned_fd(OwnedFd::from(ours));
                Some(StdinWriter::new(pipe.map_err(Error::Pipe)?))
            }
        };
        let (mut merged, mut stdout, mut stderr) = (None, None, None);
        match spec.output {
            OutputMode::Merged => {
                let (pipe, theirs) = output_pipe()?;
                command.stderr(theirs.try_clone().map_err(Error::Pipe)?);
                command.stdout(theirs);
                merged = Some(reader(pipe));
            }
            OutputMode::Separate => {
                let (pipe, theirs) = output_pipe()?;
                command.stdout(theirs);
                stdout = Some(reader(pipe));
                let (pipe, theirs) = output_pipe()?;
                command.stderr(theirs);
                stderr = Some(reader(pipe));
            }
        }

        if spec.parent_exit == ParentExit::Kill {
            guard::prepare();
        }
        // Dropping the handle neither ends nor collects the child: both are done here.
        let child = command.spawn().map_err(|source| Error::Start {
            program: spec.program.clone(),
            source,
        })?;
        let leader = Pid::from_child(&child);
        // Our copies of the command's ends; with them open the readers would never see the end.
        drop(command);
        if spec.parent_exit == ParentExit::Kill {
            guard::add(leader);
        }
        let tree = Self {
            leader,
            exit,
            members: Arc::new(Mutex::new(Some(Members::new(leader, &id)))),
            stdin,
            merged,
            stdout,
            stderr,
        };
        os::watch_exit(leader, exit_sender).map_err(Error::Wait)?;
        Ok(tree)
    }

    /// Returns the process id of the command itself, which is also that of its group and session.
    ///
    /// Until the tree is terminated or dropped the number names no other process.
    pub fn id(&self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns the writing end of standard input, once, for [`StdinMode::Piped`].
    pub fn take_stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// Returns the reader of both outputs, once, for [`OutputMode::Merged`].
    pub fn take_output(&mut self) -> Option<OutputReader> {
        self.merged.take()
    }

    /// Returns the reader of standard output, once, for [`OutputMode::Separate`].
    pub fn take_stdout(&mut self) -> Option<OutputReader> {
        self.stdout.take()
    }

    /// Returns the reader of standard error, once, for [`OutputMode::Separate`].
    pub fn take_stderr(&mut self) -> Option<OutputReader> {
        self.stderr.take()
    }

    /// Returns how the command itself ended, `None` while it runs.
    ///
    /// # Errors
    ///
    /// [`Error::Wait`].
    pub fn try_wait(&self) -> Result<Option<ExitStatus>, Error> {
        match *self.exit.borrow() {
            Exit::Ended(status) => Ok(Some(status)),
            Exit::Lost => Err(lost()),
            Exit::Running if self.is_over() => Err(lost()),
            Exit::Running => os::peek_exit(self.leader).map_err(Error::Wait),
        }
    }

    /// Waits for the command itself to end; other processes of the tree may run on.
    ///
    /// Standard input that was not taken stays open meanwhile. Output must be read meanwhile, lest
    /// the command blocks on a full pipe. May be called again, and returns the same.
    ///
    /// # Errors
    ///
    /// [`Error::Wait`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn wait(&self) -> Result<ExitStatus, Error> {
        let mut exit = self.exit.clone();
        let seen = exit
            .wait_for(|exit| *exit != Exit::Running)
            .await
            .map(|exit| *exit);
        match seen {
            Ok(Exit::Ended(status)) => Ok(status),
            Ok(Exit::Running | Exit::Lost) => Err(lost()),
            // The runtime that watched the command is gone.
            Err(_) => self.try_wait()?.ok_or_else(lost),
        }
    }

    /// Sends a signal to the command's process group.
    ///
    /// Does nothing when no process of the group is left. Processes that have left the group do
    /// not get the signal; ending those as well is what [`terminate`](Self::terminate) and
    /// dropping do.
    ///
    /// # Errors
    ///
    /// [`Error::Signal`], for instance because the processes belong to another user.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        // Held so that the leader is not collected meanwhile.
        let members = lock(&self.members);
        if members.is_none() || os::peek_exit(self.leader).is_err() {
            return Ok(());
        }
        match kill_process_group(self.leader, signal.into()) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(Error::Signal(error.into())),
        }
    }

    /// Ends every process of the tree and returns how the command itself ended.
    ///
    /// Sends SIGTERM, gives the processes up to `grace` to end, then sends SIGKILL to those left.
    /// With a `grace` of zero, SIGKILL comes first. Returns as soon as nothing is left. A command
    /// that had ended by itself keeps its status; what it left in the background is ended. May be
    /// called again, and returns the same.
    ///
    /// # Errors
    ///
    /// [`Error::Survivors`] when something is still there 5 s after SIGKILL; the tree can be
    /// terminated again then. [`Error::Wait`] when all has ended but the status is not known.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped the tree may have been signalled in part; calling again, or
    /// dropping the tree, finishes the work.
    pub async fn terminate(&mut self, grace: Duration) -> Result<ExitStatus, Error> {
        if !grace.is_zero() {
            self.end_members(Members::ask_to_end, grace).await;
        }
        let pids = self.end_members(Members::kill, KILL_WAIT).await;
        if !pids.is_empty() {
            return Err(Error::Survivors { pids });
        }
        let Ok(status) = timeout(KILL_WAIT, self.wait()).await else {
            return Err(Error::Survivors {
                pids: vec![self.id()],
            });
        };
        if lock(&self.members).take().is_some() {
            self.release_leader();
        }
        status
    }

    /// Does `act`, which returns who is alive, until nobody is or the time is over.
    async fn end_members(&self, act: fn(&mut Members) -> Vec<u32>, limit: Duration) -> Vec<u32> {
        let begun = Instant::now();
        let mut pause = FIRST_POLL;
        loop {
            let alive = self.look(act).await;
            let left = limit.saturating_sub(begun.elapsed());
            if alive.is_empty() || left.is_zero() {
                return alive;
            }
            let leader = self.exit.clone();
            let next = pause.min(left);
            if *leader.borrow() == Exit::Running {
                // Most trees are over with their leader: look again at once.
                let _ = timeout(next, self.wait()).await;
            } else {
                tokio::time::sleep(next).await;
            }
            pause = (pause * 2).min(LAST_POLL);
        }
    }

    /// Looks through the process table, on a thread that may block.
    async fn look(&self, act: fn(&mut Members) -> Vec<u32>) -> Vec<u32> {
        let members = Arc::clone(&self.members);
        let look = move || lock(&members).as_mut().map(act).unwrap_or_default();
        match spawn_blocking(look.clone()).await {
            Ok(alive) => alive,
            // The runtime shuts down and takes no more work.
            Err(_) => look(),
        }
    }

    fn is_over(&self) -> bool {
        lock(&self.members).is_none()
    }

    /// Collects the leader, which gives its id up.
    fn release_leader(&self) {
        let leader = self.leader;
        guard::remove(leader);
        if matches!(os::try_reap(leader), Ok(None)) {
            // Killed, but not gone yet. A process in the middle of a system call may take a
            // moment; whoever drops the tree is not made to wait for it.
            let reaper = thread::Builder::new().name("harness-reap".to_owned());
            if let Err(error) = reaper.stack_size(64 * 1024).spawn(move || os::reap(leader)) {
                tracing::debug!(%error, "a killed command stays a zombie");
            }
        }
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        let Some(mut members) = lock(&self.members).take() else {
            return;
        };
        let mut seen = HashSet::new();
        for _ in 0..DROP_PASSES {
            let found = members.kill();
            if found.into_iter().filter(|pid| seen.insert(*pid)).count() == 0 {
                break;
            }
        }
        self.release_leader();
    }
}

/// Nothing panics while it holds the lock, and if so, the table of members is still usable.
fn lock(members: &Mutex<Option<Members>>) -> MutexGuard<'_, Option<Members>> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lost() -> Error {
    Error::Wait(Errno::CHILD.into())
}

/// Returns a name for a tree that no other has.
///
/// The guard kills what has its prefix in the mark, so trees that are to be left alone get
/// another one.
fn new_tree_id(parent_exit: ParentExit) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let program = guard::program_id();
    match parent_exit {
        ParentExit::Kill => format!("{program}.{number}"),
        ParentExit::Leave => format!("{program}-{number}"),
    }
}

/// A missing directory would otherwise look like a missing program.
fn check_directory(path: &Path) -> Result<(), Error> {
    let checked = fs::metadata(path).and_then(|metadata| {
        if metadata.is_dir() {
            Ok(())
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    });
    checked.map_err(|source| Error::WorkingDirectory {
        path: path.to_owned(),
        source,
    })
}

fn output_pipe() -> Result<(pipe::Receiver, io::PipeWriter), Error> {
    let (ours, theirs) = io::pipe().map_err(Error::Pipe)?;
    let ours = pipe::Receiver::from_owned_fd(OwnedFd::from(ours)).map_err(Error::Pipe)?;
    Ok((ours, theirs))
}
