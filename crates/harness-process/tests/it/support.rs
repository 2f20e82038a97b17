//! What several tests need: reading lines, and knowing when a foreign process has gone.

use std::os::fd::OwnedFd;
use std::time::Duration;

use harness_process::{CommandSpec, OutputReader, ProcessTree};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncBufReadExt, BufReader};

/// Long enough for the slowest machine; only a failing test takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A process that is not our child, held so that its number is not mistaken for another.
pub(crate) struct Witness {
    pub(crate) pid: u32,
    fd: OwnedFd,
}

impl Witness {
    pub(crate) fn of(pid: u32) -> Self {
        let raw = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        let fd = pidfd_open(raw, PidfdFlags::empty()).unwrap();
        Self { pid, fd }
    }

    pub(crate) fn kill(&self) {
        pidfd_send_signal(&self.fd, Signal::KILL).unwrap();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits for the process to end, without a look at the clock if it has.
    pub(crate) fn ends_within(&self, limit: Duration) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut fds, Some(&limit.try_into().unwrap())).unwrap() == 1
    }
}

/// Spawns a shell line that prints process ids on one line; other output may come before.
pub(crate) async fn spawn_with_pids(line: &str) -> (ProcessTree, Vec<Witness>, Lines) {
    let mut tree = ProcessTree::spawn(&CommandSpec::shell(line)).unwrap();
    let mut lines = Lines::new(tree.take_output().unwrap());
    let is_pids = |line: &str| {
        line.split_whitespace()
            .all(|word| word.parse::<u32>().is_ok())
    };
    let mut pids = lines.next().await.unwrap();
    while !is_pids(&pids) {
        pids = lines.next().await.unwrap();
    }
    let witnesses = pids
        .split_whitespace()
        .map(|pid| Witness::of(pid.parse().unwrap()))
        .collect();
    (tree, witnesses, lines)
}

pub(crate) struct Lines(tokio::io::Lines<BufReader<OutputReader>>);

impl Lines {
    pub(crate) fn new(reader: OutputReader) -> Self {
        Self(BufReader::new(reader).lines())
    }

    pub(crate) async fn next(&mut self) -> Option<String> {
        let line = tokio::time::timeout(PATIENCE, self.0.next_line()).await;
        line.expect("no line in time").unwrap()
    }
}

/// Reads to the end.
pub(crate) async fn read_all(reader: &mut OutputReader) -> String {
    let mut bytes = Vec::new();
    while let Some(chunk) = reader.next_chunk().await.unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).unwrap()
}

/// Runs a shell line and returns all it printed.
pub(crate) async fn output_of(spec: &CommandSpec) -> String {
    let mut tree = ProcessTree::spawn(spec).unwrap();
    let mut output = tree.take_output().unwrap();
    read_all(&mut output).await
}
