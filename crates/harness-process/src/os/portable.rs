//! The plain Unix way: a thread waits for the leader, and the tree is its process group.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use rustix::process::{Pid, Signal, WaitIdOptions, kill_process_group, setsid};
use tokio::sync::watch;

use super::Exit;

/// Reports the end of `leader` on `exit`, from a thread that ends with it.
pub(crate) fn watch_exit(leader: Pid, exit: watch::Sender<Exit>) -> io::Result<()> {
    thread::Builder::new()
        .name("harness-wait".to_owned())
        .stack_size(64 * 1024)
        .spawn(move || {
            let status = super::wait(leader, WaitIdOptions::NOWAIT);
            exit.send_replace(match status {
                Ok(Some(status)) => Exit::Ended(status),
                _ => Exit::Lost,
            });
        })
        .map(drop)
}

/// The members of a tree as far as the process group knows them.
///
/// Whether anybody but the leader is left cannot be told, so that time to end counts for the
/// leader alone.
#[cfg(any(not(target_os = "linux"), test))]
#[derive(Debug)]
pub(crate) struct Members {
    leader: Pid,
    was_asked: bool,
}

#[cfg(any(not(target_os = "linux"), test))]
impl Members {
    pub(crate) fn new(leader: Pid, _id: &str) -> Self {
        Self {
            leader,
            was_asked: false,
        }
    }

    /// Sends SIGTERM once; returns who is alive.
    pub(crate) fn ask_to_end(&mut self) -> Vec<u32> {
        let alive = self.alive();
        if !self.was_asked {
            self.was_asked = true;
            signal_group(self.leader, Signal::TERM);
            signal_group(self.leader, Signal::CONT);
        }
        alive
    }

    /// Sends SIGKILL; returns who was alive just before.
    pub(crate) fn kill(&mut self) -> Vec<u32> {
        let alive = self.alive();
        signal_group(self.leader, Signal::KILL);
        alive
    }

    fn alive(&self) -> Vec<u32> {
        match super::peek_exit(self.leader) {
            Ok(None) => vec![self.leader.as_raw_nonzero().get().unsigned_abs()],
            _ => Vec::new(),
        }
    }
}

/// Makes the command the leader of a new session and process group, without a terminal.
pub(crate) fn new_session(command: &mut Command) {
    let enter = || {
        setsid()?;
        Ok(())
    };
    #[expect(
        unsafe_code,
        reason = "std has no stable way to call setsid in a child"
    )]
    // SAFETY: between fork and exec the closure may only do what is async-signal-safe. It makes
    // one system call, which POSIX lists as such, and allocates nothing: an error is a number.
    unsafe {
        command.pre_exec(enter);
    }
}

/// Sends a signal to the group of `leader`.
///
/// Only while its exit status has not been collected, by us or by anybody else: afterwards the
/// number may mean another group.
pub(crate) fn signal_group(leader: Pid, signal: Signal) {
    if super::peek_exit(leader).is_ok() {
        // Fails when no member is left, or none may be signalled; the caller looks at who is left.
        let _ = kill_process_group(leader, signal);
    }
}

#[cfg(test)]
#[expect(clippy::zombie_processes, reason = "`reap` collects them by number")]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;
    use crate::ExitStatus;

    /// A shell with a child, both of which hold the pipe that is returned; it has printed a line.
    fn two_processes() -> (Pid, std::process::ChildStdout) {
        let mut command = Command::new("sh");
        command
            .args(["-c", "sleep 600 & echo; wait"])
            .stdout(Stdio::piped());
        new_session(&mut command);
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        (Pid::from_child(&child), stdout)
    }

    #[test]
    fn the_group_is_asked_and_then_killed() {
        for act in [Members::ask_to_end, Members::kill] {
            let (leader, mut stdout) = two_processes();
            let mut members = Members::new(leader, "");
            assert_eq!(act(&mut members).len(), 1);
            // The pipe is closed once both processes are gone.
            assert_eq!(stdout.read(&mut [0]).unwrap(), 0);
            assert!(matches!(
                crate::os::reap(leader).unwrap(),
                Some(ExitStatus::Signal(9 | 15))
            ));
            assert_eq!(act(&mut members), [0; 0]);
        }
    }

    #[tokio::test]
    async fn a_thread_reports_the_end() {
        let child = Command::new("sh").args(["-c", "exit 5"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let (sender, mut receiver) = watch::channel(Exit::Running);
        watch_exit(pid, sender).unwrap();
        let exit = *receiver
            .wait_for(|exit| *exit != Exit::Running)
            .await
            .unwrap();
        assert_eq!(exit, Exit::Ended(ExitStatus::Code(5)));
        assert_eq!(crate::os::reap(pid).unwrap(), Some(ExitStatus::Code(5)));
    }
}
