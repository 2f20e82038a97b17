//! Witnesses of a process, by its id and without its help. They read Linux's `/proc`.

use std::fs;
use std::time::Duration;

use crate::{DEADLINE, Error};

/// Whether the process exists and has not ended. One that has ended but was not waited for counts
/// as ended.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Its resident memory in bytes.
///
/// # Errors
///
/// [`Error::Io`] when there is no such process.
pub fn resident_bytes(pid: u32) -> Result<u64, Error> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(Error::io(format!("reading {path}")))?;
    // A process that has ended has no such line, and no memory.
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib
        .and_then(|kib| kib.trim().parse::<u64>().ok())
        .unwrap_or(0)
        * 1024)
}

/// The processor time it has used, in user and kernel mode, over all its threads. The resolution
/// is 10 ms.
///
/// # Errors
///
/// [`Error::Io`] when there is no such process.
pub fn cpu_time(pid: u32) -> Result<Duration, Error> {
    let stat = stat(pid)?;
    // The unit shown to programs is 1/100 s on every Linux, whatever the kernel's own is.
    Ok(Duration::from_millis(
        10 * (stat.user_ticks + stat.system_ticks),
    ))
}

/// The processes it has started that are alive, and theirs, in no order.
///
/// # Errors
///
/// [`Error::Io`] when `/proc` cannot be read.
pub fn descendants(pid: u32) -> Result<Vec<u32>, Error> {
    let listing = fs::read_dir("/proc").map_err(Error::io("reading /proc"))?;
    let all: Vec<(u32, u32)> = listing
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| is_alive(*pid))
        .filter_map(|pid| Some((pid, stat(pid).ok()?.parent)))
        .collect();
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(
            all.iter()
                .filter(|(_, p)| *p == parent)
                .map(|(pid, _)| *pid),
        );
        at += 1;
    }
    found.remove(0);
    Ok(found)
}

/// Waits until the process has ended. Nothing tells a stranger of that, so it is looked at every
/// few milliseconds.
///
/// # Errors
///
/// [`Error::Deadline`] after [`DEADLINE`].
pub async fn ended(pid: u32) -> Result<(), Error> {
    let looking = async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, looking)
        .await
        .map_err(|_| Error::Deadline {
            what: format!("the end of process {pid}"),
            after: DEADLINE,
            so_far: "it is still alive".into(),
        })
}

struct Stat {
    state: char,
    parent: u32,
    user_ticks: u64,
    system_ticks: u64,
}

fn stat(pid: u32) -> Result<Stat, Error> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(Error::io(format!("reading {path}")))?;
    parse_stat(&text).ok_or_else(|| {
        Error::io(format!("understanding {path}"))(std::io::ErrorKind::InvalidData.into())
    })
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name stands in parentheses and may hold any character, also those: the last one counts.
    let (_, rest) = text.rsplit_once(')')?;
    let words: Vec<_> = rest.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    // proc(5) counts from 1, and the first word here is field 3.
    Some(Stat {
        state: words.first()?.chars().next()?,
        parent: words.get(1)?.parse().ok()?,
        user_ticks: number(11)?,
        system_ticks: number(12)?,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_is_seen() {
        let pid = std::process::id();
        assert!(is_alive(pid));
        assert!(resident_bytes(pid).unwrap() > 100_000);
        let before = cpu_time(pid).unwrap();
        while cpu_time(pid).unwrap() == before {
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
    }

    #[test]
    fn a_name_with_parentheses_is_understood() {
        let rest = "S 7 1 1 0 -1 4194304 100 0 0 0 21 13 0 0 20 0 1 0 5 1 1";
        let stat = parse_stat(&format!("42 (a) b) {rest}")).unwrap();
        assert_eq!(
            (stat.state, stat.parent, stat.user_ticks, stat.system_ticks),
            ('S', 7, 21, 13)
        );
    }

    #[tokio::test]
    async fn a_child_is_seen_until_it_has_ended() {
        // `cat` lives until its input ends.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        assert!(is_alive(pid));
        assert!(descendants(std::process::id()).unwrap().contains(&pid));
        drop(child.stdin.take());
        // It is a zombie until it is waited for, and that counts as ended.
        ended(pid).await.unwrap();
        assert!(!is_alive(pid));
        child.wait().unwrap();
        assert!(!is_alive(pid) && resident_bytes(pid).is_err());
    }
}
