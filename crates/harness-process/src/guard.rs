//! One small shell process for the whole program that kills the trees still open when the program
//! has ended, however it ended.
//!
//! It reads lines from a pipe whose only writing end is ours: `+ <leader>` for a tree that was
//! spawned, `- <leader>` for one that has been ended, and `? 0` before the first one is spawned: a
//! program that dies before it has told who leads a tree still has it found by its mark. The end of the pipe is the end of the
//! program. A shell needs no code after `fork`, which would have to do without memory allocation
//! and would share the program's locks and descriptors.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, PipeWriter, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::process::Pid;

use crate::os::new_session;

/// `$1` is what the ids of the trees to kill begin with. It may stand anywhere in a mark.
///
/// Plain POSIX: `kill -KILL -- -7`, for one, is an error in dash. Groups first, because that needs
/// no other program. The scan is repeated while it finds anything (a process may be forking just
/// then), but not for ever: some processes cannot be killed.
const SCRIPT: &str = r#"
open=' '
soon=
while read -r op leader; do
  case $op in
    +) open="$open$leader " ;;
    -) open="${open%% $leader *} ${open#* $leader }" ;;
    '?') soon=1 ;;
  esac
done
[ -n "${open# }$soon" ] || exit 0
for leader in $open; do kill -s KILL -- "-$leader"; done
for pass in 1 2 3 4 5; do
  found=$(grep -lF -- "$1" /proc/[0-9]*/environ)
  [ -n "$found" ] || [ "$pass" -lt 3 ] || exit 0
  for file in $found; do
    pid=${file#/proc/}
    kill -s KILL "${pid%/environ}"
  done
done
"#;

static GUARD: Mutex<Guard> = Mutex::new(Guard {
    open: BTreeSet::new(),
    process: None,
});

struct Guard {
    /// The leaders of the trees to kill.
    open: BTreeSet<i32>,
    process: Option<Process>,
}

struct Process {
    child: Child,
    lifeline: PipeWriter,
}

/// Returns what the id of every tree of this program begins with: unique, but no secret.
pub(crate) fn program_id() -> &'static str {
    static ID: LazyLock<String> = LazyLock::new(|| {
        let random = RandomState::new().build_hasher().finish();
        format!("{random:016x}")
    });
    &ID
}

/// Starts the guard, if there is none, for a tree that is about to be spawned.
pub(crate) fn prepare() {
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.process.is_none()
        && let Err(error) = guard.start()
    {
        tracing::debug!(%error, "no guard: commands outlive this program if it is killed");
    }
}

/// Has the tree of `leader` killed when this program ends.
///
/// Starts the guard if there is none. Without one the tree is not guarded, which is no reason not
/// to run a command.
pub(crate) fn add(leader: Pid) {
    let leader = leader.as_raw_nonzero().get();
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    guard.open.insert(leader);
    if guard.tell('+', leader).is_err()
        && let Err(error) = guard.start()
    {
        tracing::debug!(%error, "no guard: commands outlive this program if it is killed");
    }
}

/// Ends what [`add`] began. To be called before the leader's id is given up.
pub(crate) fn remove(leader: Pid) {
    let leader = leader.as_raw_nonzero().get();
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.open.remove(&leader) {
        // A guard that cannot be told is replaced by the next `add`.
        let _ = guard.tell('-', leader);
    }
}

impl Guard {
    fn tell(&mut self, op: char, leader: i32) -> io::Result<()> {
        let Some(process) = &mut self.process else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // Short enough to be written whole or not at all. The pipe does not block, so a guard that
        // somebody has stopped cannot stop us.
        let told = process
            .lifeline
            .write_all(format!("{op} {leader}\n").as_bytes());
        if told.is_err()
            && let Some(mut process) = self.process.take()
        {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        told
    }

    fn start(&mut self) -> io::Result<()> {
        let (reader, lifeline) = io::pipe()?;
        rustix::io::ioctl_fionbio(&lifeline, true)?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "harness-guard", &format!("{}.", program_id())])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        new_session(&mut command);
        self.process = Some(Process {
            child: command.spawn()?,
            lifeline,
        });
        self.tell('?', 0)?;
        for leader in self.open.clone() {
            self.tell('+', leader)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process in a session of its own, and so the leader of a group.
    fn leader() -> Child {
        let mut command = Command::new("sleep");
        command.arg("600");
        new_session(&mut command);
        command.spawn().unwrap()
    }

    #[test]
    fn groups_that_were_not_taken_back_are_killed() {
        let mut leaders: Vec<Child> = (0..4).map(|_| leader()).collect();
        let ids: Vec<u32> = leaders.iter().map(Child::id).collect();
        let mut guard = Command::new("/bin/sh")
            .args([
                "-c",
                SCRIPT,
                "harness-guard",
                "no process has this in its environment",
            ])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lifeline = guard.stdin.take().unwrap();
        for id in &ids {
            writeln!(lifeline, "+ {id}").unwrap();
        }
        writeln!(lifeline, "- {}\n- {}", ids[0], ids[2]).unwrap();
        drop(lifeline);
        assert!(guard.wait().unwrap().success());

        for (number, leader) in leaders.iter_mut().enumerate() {
            if number % 2 == 0 {
                assert!(leader.try_wait().unwrap().is_none(), "{number} was killed");
                leader.kill().unwrap();
            }
            leader.wait().unwrap();
        }
    }
}
