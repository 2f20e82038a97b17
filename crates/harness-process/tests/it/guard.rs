//! F013: nothing is left when the program itself is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use harness_process::{CommandSpec, ParentExit, ProcessTree};

use crate::support::{PATIENCE, Witness};

/// A process that left its session and lost its parent, so that only its mark tells whose it is.
const ESCAPED: &str = "echo $$ $(setsid sleep 60 >/dev/null 2>&1 & echo $!); sleep 60";

/// Not a test: the program that is killed, run as a process of its own. It runs the shell line in
/// `GUARD_LINE`, with `GUARD_LEAVE` another one first that is to be left alone, and holds both.
#[tokio::test]
#[ignore = "run by the other tests of this module"]
async fn program() {
    let mut trees = Vec::new();
    let mut hold = async |spec: CommandSpec| {
        let mut tree = ProcessTree::spawn(&spec).unwrap();
        let mut output = tree.take_output().unwrap();
        let first = output.next_chunk().await.unwrap().unwrap();
        println!("pids {}", String::from_utf8_lossy(&first));
        trees.push((tree, output));
    };
    if std::env::var_os("GUARD_LEAVE").is_some() {
        hold(CommandSpec::shell(ESCAPED).parent_exit(ParentExit::Leave)).await;
    }
    hold(CommandSpec::shell(std::env::var("GUARD_LINE").unwrap())).await;
    for (tree, _) in &trees {
        tree.wait().await.unwrap();
    }
}

/// Starts `program` and returns it with the processes of each tree it reported.
fn start<const TREES: usize>(
    line: &str,
    variables: &[(&str, &str)],
) -> (Child, [Vec<Witness>; TREES]) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guard::program", "--ignored", "--nocapture"])
        .env("GUARD_LINE", line)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut trees = lines.map(Result::unwrap).filter_map(|line| {
        let (_, pids) = line.split_once("pids ")?;
        Some(
            pids.split_whitespace()
                .map(|pid| Witness::of(pid.parse().unwrap()))
                .collect(),
        )
    });
    let trees = std::array::from_fn(|_| trees.next().unwrap());
    (child, trees)
}

#[test]
fn a_killed_program_takes_its_trees_along() {
    for line in [
        "sleep 60 & echo $! $$; wait",
        ESCAPED,
        // Without the mark, but in the group.
        "env -i sleep 60 & echo $! $$; wait",
    ] {
        let (mut program, [witnesses]) = start(line, &[]);
        assert_eq!(witnesses.len(), 2);
        assert!(!witnesses.iter().any(Witness::has_ended));
        program.kill().unwrap();
        program.wait().unwrap();
        for witness in &witnesses {
            assert!(witness.ends_within(PATIENCE), "{} of {line}", witness.pid);
        }
    }
}

#[test]
fn a_tree_can_be_left_to_itself() {
    let (mut program, [left, guarded]) = start(ESCAPED, &[("GUARD_LEAVE", "1")]);
    program.kill().unwrap();
    program.wait().unwrap();
    for witness in &guarded {
        assert!(witness.ends_within(PATIENCE));
    }
    assert!(!left.iter().any(Witness::has_ended));
    for witness in &left {
        witness.kill();
    }
}

/// Returns the guards among the children of this process.
fn guards() -> Vec<u32> {
    let own = format!("PPid:\t{}\n", std::process::id());
    let mut pids: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
            read("cmdline").contains("\0harness-guard\0") && read("status").contains(&own)
        })
        .collect();
    pids.sort_unstable();
    pids
}

#[tokio::test]
async fn one_guard_serves_the_whole_program() {
    let tree = ProcessTree::spawn(&CommandSpec::shell("sleep 60")).unwrap();
    let first = guards();
    assert_eq!(first.len(), 1);
    drop(tree);
    let _tree = ProcessTree::spawn(&CommandSpec::shell("sleep 60")).unwrap();
    assert_eq!(guards(), first);
}
