//! F002: reading ends with the command, not with whoever holds the pipe.

use std::time::Duration;

use harness_process::{CommandSpec, ExitStatus, OutputEnd, ProcessTree};

use crate::support::{Lines, PATIENCE, Witness, read_all};

#[tokio::test]
async fn a_silent_grandchild_does_not_hold_the_reader() {
    let spec = CommandSpec::shell("sleep 600 & echo begun").drain(Duration::from_millis(1));
    let mut tree = ProcessTree::spawn(&spec).unwrap();
    let mut output = tree.take_output().unwrap();
    assert_eq!(output.end(), None);
    assert_eq!(read_all(&mut output).await, "begun\n");
    assert_eq!(output.end(), Some(OutputEnd::Abandoned));
    assert_eq!(output.next_chunk().await.unwrap(), None);
}

#[tokio::test]
async fn an_endless_grandchild_does_not_hold_the_reader() {
    let spec = CommandSpec::shell("yes & echo $!").drain(Duration::from_millis(1));
    let mut tree = ProcessTree::spawn(&spec).unwrap();
    let mut output = tree.take_output().unwrap();
    let reading = async { while output.next_chunk().await.unwrap().is_some() {} };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    assert_eq!(output.end(), Some(OutputEnd::Abandoned));
}

/// What the command wrote is complete even if it is read long after the drain time.
#[tokio::test]
async fn a_late_reader_gets_all_the_command_wrote() {
    let spec = CommandSpec::shell("sleep 600 & head -c 60000 /dev/zero | tr '\\0' x")
        .drain(Duration::ZERO);
    let mut tree = ProcessTree::spawn(&spec).unwrap();
    assert_eq!(tree.wait().await.unwrap(), ExitStatus::Code(0));
    let mut output = tree.take_output().unwrap();
    assert_eq!(read_all(&mut output).await.len(), 60_000);
    assert_eq!(output.end(), Some(OutputEnd::Abandoned));
}

#[tokio::test]
async fn output_after_the_command_is_read_while_draining() {
    let spec = CommandSpec::shell("(read go < fifo; echo late) & echo early").drain(PATIENCE);
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    let spec = spec.working_directory(folder.path());
    let mut tree = ProcessTree::spawn(&spec).unwrap();
    let mut output = tree.take_output().unwrap();
    tree.wait().await.unwrap();
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "go\n"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read_all(&mut output).await, "early\nlate\n");
    assert_eq!(output.end(), Some(OutputEnd::Closed));
}

#[tokio::test]
async fn the_end_is_closed_when_all_writers_are_gone() {
    let mut tree = ProcessTree::spawn(&CommandSpec::shell("printf abc")).unwrap();
    let mut output = tree.take_output().unwrap();
    assert_eq!(read_all(&mut output).await, "abc");
    assert_eq!(output.end(), Some(OutputEnd::Closed));
}

#[tokio::test]
async fn readers_outlive_their_tree() {
    let mut tree = ProcessTree::spawn(&CommandSpec::shell("echo $$; sleep 600")).unwrap();
    let mut lines = Lines::new(tree.take_output().unwrap());
    let leader = Witness::of(lines.next().await.unwrap().parse().unwrap());
    drop(tree);
    assert_eq!(lines.next().await, None);
    assert!(leader.ends_within(PATIENCE));
}
