//! Linux: a pidfd tells that the leader has ended, `/proc` shows who belongs to a tree.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open,
    pidfd_send_signal,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::portable::signal_group;
use super::{Exit, peek_exit, portable, try_reap, wait_for};
use crate::{ExitStatus, TREE_VARIABLE};

/// The most that is read of a process's environment; the kernel's own limit for arguments and
/// environment together is 6 MiB with the usual stack.
const MOST_ENVIRONMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Reports the end of `leader` on `exit`.
///
/// Must be called on a runtime with I/O. Falls back to a waiting thread where there is no pidfd
/// (kernels before 5.4, some sandboxes).
pub(crate) fn watch_exit(leader: Pid, exit: watch::Sender<Exit>) -> io::Result<()> {
    let Some(fd) = waitable_pidfd(leader) else {
        return portable::watch_exit(leader, exit);
    };
    #[expect(
        unsafe_code,
        reason = "tokio leaves it to the caller that the descriptor stays open"
    )]
    // SAFETY: an `OwnedFd` is open, is the same one at every look, and is closed only when the
    // `AsyncFd`, which owns it, is dropped.
    let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
    tokio::spawn(async move { exit.send_replace(exit_of(&fd).await) });
    Ok(())
}

fn waitable_pidfd(leader: Pid) -> Option<OwnedFd> {
    let fd = pidfd_open(leader, PidfdFlags::empty()).ok()?;
    peek_exit_of(&fd).is_ok().then_some(fd)
}

/// Looks at the end of a child by descriptor: its id may name another one once it is collected.
fn peek_exit_of(fd: &OwnedFd) -> io::Result<Option<ExitStatus>> {
    wait_for(
        || WaitId::PidFd(fd.as_fd()),
        WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG,
    )
}

async fn exit_of(fd: &AsyncFd<OwnedFd>) -> Exit {
    loop {
        let Ok(mut ready) = fd.readable().await else {
            return Exit::Lost; // The runtime shuts down.
        };
        match peek_exit_of(fd.get_ref()) {
            Ok(Some(status)) => return Exit::Ended(status),
            Ok(None) => ready.clear_ready(),
            Err(_) => return Exit::Lost,
        }
    }
}

/// The members of a tree.
///
/// To be used only while we have not collected the leader: until then its number names no other
/// process, group or session. Should somebody else have collected it, only the mark counts.
#[derive(Debug)]
pub(crate) struct Members {
    leader: Pid,
    /// The tree's id in [`TREE_VARIABLE`].
    id: String,
    /// When the leader was started; no member is older. 0 when unknown.
    leader_started: u64,
    /// Members seen before, with their start times. They stay members when their parent ends.
    known: HashMap<i32, u64>,
    /// Members outside the group that were asked to end already.
    asked: HashSet<(i32, u64)>,
    group_was_asked: bool,
}

impl Members {
    pub(crate) fn new(leader: Pid, id: &str) -> Self {
        let started = Process::read(leader.as_raw_nonzero().get()).map(|leader| leader.started);
        Self {
            leader,
            id: id.to_owned(),
            leader_started: started.unwrap_or_default(),
            known: HashMap::new(),
            asked: HashSet::new(),
            group_was_asked: false,
        }
    }

    /// Sends SIGTERM to every member that did not get it before; returns who is alive.
    pub(crate) fn ask_to_end(&mut self) -> Vec<u32> {
        // Before the first signal, while parents are still there to lead to their children.
        let members = self.scan();
        if !self.group_was_asked {
            self.group_was_asked = true;
            signal_group(self.leader, Signal::TERM);
            // A stopped process takes the signal only when it goes on.
            signal_group(self.leader, Signal::CONT);
        }
        let group = self.leader.as_raw_nonzero().get();
        for process in members.iter().filter(|process| process.group != group) {
            if self.asked.insert((process.pid, process.started)) {
                process.signal(Signal::TERM);
                process.signal(Signal::CONT);
            }
        }
        pids(&members)
    }

    /// Sends SIGKILL to every member; returns who was alive just before.
    pub(crate) fn kill(&mut self) -> Vec<u32> {
        let members = self.scan();
        signal_group(self.leader, Signal::KILL);
        for process in &members {
            process.signal(Signal::KILL);
        }
        pids(&members)
    }

    /// Returns the living members, which are those that are not waiting to be collected.
    fn scan(&mut self) -> Vec<Process> {
        let processes = snapshot();
        let leader = self.leader.as_raw_nonzero().get();
        let own = getpid().as_raw_nonzero().get();
        let is_ours = peek_exit(self.leader).is_ok();
        let mut members: HashSet<i32> = processes
            .iter()
            .filter(|process| {
                process.pid != own
                    && process.started >= self.leader_started
                    && (is_ours && (process.group == leader || process.session == leader)
                        || self.known.get(&process.pid) == Some(&process.started)
                        || process.has_mark(&self.id))
            })
            .map(|process| process.pid)
            .collect();
        loop {
            let before = members.len();
            for process in &processes {
                if process.pid != own && members.contains(&process.parent) {
                    members.insert(process.pid);
                }
            }
            if members.len() == before {
                break;
            }
        }

        let mut living = Vec::new();
        for process in processes
            .into_iter()
            .filter(|process| members.contains(&process.pid))
        {
            self.known.insert(process.pid, process.started);
            if !process.ended {
                living.push(process);
            } else if process.parent == own && process.pid != leader {
                // Orphans come to a program that is process 1 or a subreaper.
                if let Some(pid) = Pid::from_raw(process.pid) {
                    let _ = try_reap(pid);
                }
            }
        }
        living
    }
}

fn pids(members: &[Process]) -> Vec<u32> {
    let mut pids: Vec<u32> = members
        .iter()
        .map(|process| process.pid.unsigned_abs())
        .collect();
    pids.sort_unstable();
    pids
}

/// A line of the process table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// In clock ticks since the system's start. With the pid it names a process for good.
    started: u64,
    /// Only its exit status is left.
    ended: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses `/proc/<pid>/stat`, see proc_pid_stat(5).
    fn parse(stat: &[u8]) -> Option<Self> {
        // The name in parentheses may hold anything, parentheses and blanks included.
        let open = stat.iter().position(|byte| *byte == b'(')?;
        let close = stat.iter().rposition(|byte| *byte == b')')?;
        let pid = str::from_utf8(&stat[..open])
            .ok()?
            .trim_end()
            .parse()
            .ok()?;
        let rest = str::from_utf8(stat.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Numbered from 3 on in the manual page: state is 3.
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |at: usize| field(at)?.parse().ok();
        let threads: i64 = field(20)?.parse().ok()?;
        Some(Self {
            pid,
            parent: number(4)?,
            group: number(5)?,
            session: number(6)?,
            started: field(22)?.parse().ok()?,
            // A first thread that has ended before the others looks like a zombie, too.
            ended: matches!(field(3)?, "Z" | "X") && threads <= 1,
        })
    }

    /// Returns whether the process was started with this tree's mark.
    fn has_mark(&self, id: &str) -> bool {
        let Ok(file) = fs::File::open(format!("/proc/{}/environ", self.pid)) else {
            return false; // Another user's, or it has ended.
        };
        let mut environment = Vec::new();
        // What was read before an error counts all the same.
        let _ = file
            .take(MOST_ENVIRONMENT_BYTES)
            .read_to_end(&mut environment);
        mark_is_in(&environment, id)
    }

    fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        // Fails only when the process has ended or may not be signalled; the next scan shows.
        let _ = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => {
                // The descriptor names one process for good: check that it is still the same one.
                match Self::read(self.pid) {
                    Some(now) if now.started == self.started => pidfd_send_signal(fd, signal),
                    _ => Ok(()),
                }
            }
            Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(_) => kill_process(pid, signal),
        };
    }
}

fn mark_is_in(environment: &[u8], id: &str) -> bool {
    environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| {
            entry
                .strip_prefix(TREE_VARIABLE.as_bytes())?
                .strip_prefix(b"=")
        })
        .any(|mark| {
            mark.split(|byte| *byte == b':')
                .any(|part| part == id.as_bytes())
        })
}

/// Returns the process table; empty where `/proc` is not mounted, so that only the group is known.
fn snapshot() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(Process::read)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_with_odd_names() {
        let line = b"42 (a) b (c)) S 7 42 40 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 3 0 9001 1 2 3\n";
        let expected = Process {
            pid: 42,
            parent: 7,
            group: 42,
            session: 40,
            started: 9001,
            ended: false,
        };
        assert_eq!(Process::parse(line), Some(expected));
    }

    #[test]
    fn zombies_are_ended_unless_threads_run_on() {
        let line = |threads| {
            let line = format!("9 (x) Z 1 9 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 5 0");
            Process::parse(line.as_bytes()).unwrap().ended
        };
        assert_eq!((line(1), line(4)), (true, false));
    }

    #[test]
    fn broken_stat_lines_are_no_process() {
        for line in [
            "",
            "1",
            "1 (",
            "1 (x)",
            "1 (x) S 2 3",
            ") 1 (",
            "x (y) S 1 1 1",
        ] {
            assert_eq!(Process::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn marks_are_whole_parts_of_the_variable() {
        let has = |environment: &[u8]| mark_is_in(environment, "ab.1");
        assert!(has(b"A=1\0HARNESS_PROCESS_TREE=ab.1\0"));
        assert!(has(b"HARNESS_PROCESS_TREE=x.4:ab.1:y.2"));
        assert!(!has(b"HARNESS_PROCESS_TREE=ab.12\0"));
        assert!(!has(b"OTHER=ab.1\0XHARNESS_PROCESS_TREE=ab.1\0"));
        assert!(!has(b""));
    }
}
