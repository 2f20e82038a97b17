//! Ending whole trees: F002, F013, F043.

use std::path::Path;
use std::time::Duration;

use harness_process::{CommandSpec, ExitStatus, ProcessTree};

use crate::support::{PATIENCE, Witness, spawn_with_pids};

fn all_ended(witnesses: &[Witness]) -> bool {
    witnesses.iter().all(Witness::has_ended)
}

/// The two commands of F002, and harder ones. Each prints the ids of its processes first.
const TREES: [&str; 6] = [
    "(while true; do echo x; sleep 1; done) & echo $! $$; sleep 60",
    "setsid sleep 60 & echo $! $$; wait",
    // The parent of the process that left is gone, too.
    "echo $$ $(setsid sleep 60 >/dev/null 2>&1 & echo $!); sleep 60",
    // The mark is gone, but the parent is there.
    "env -i setsid sleep 60 & echo $! $$; wait",
    // Its own group in the same session, made by job control.
    "set -m; sleep 60 & echo $! $$; wait",
    // Stopped processes cannot answer SIGTERM.
    "sleep 60 & kill -STOP $!; echo $! $$; wait",
];

#[tokio::test]
async fn terminate_returns_when_nothing_is_left() {
    for line in TREES {
        let (mut tree, witnesses, _lines) = spawn_with_pids(line).await;
        assert_eq!(witnesses.len(), 2, "{line}");
        let status = tree.terminate(PATIENCE).await.unwrap();
        assert_eq!(status, ExitStatus::Signal(15), "{line}");
        assert!(all_ended(&witnesses), "{line}");
        assert_eq!(tree.terminate(PATIENCE).await.unwrap(), status);
        assert_eq!(tree.try_wait().unwrap(), Some(status));
    }
}

#[tokio::test]
async fn no_grace_means_kill() {
    for line in TREES {
        let (mut tree, witnesses, _lines) = spawn_with_pids(line).await;
        let status = tree.terminate(Duration::ZERO).await.unwrap();
        assert_eq!(status, ExitStatus::Signal(9), "{line}");
        assert!(all_ended(&witnesses), "{line}");
    }
}

#[tokio::test]
async fn dropping_kills_the_tree() {
    for line in TREES {
        let (tree, witnesses, _lines) = spawn_with_pids(line).await;
        drop(tree);
        for witness in &witnesses {
            assert!(witness.ends_within(PATIENCE), "{} of {line}", witness.pid);
        }
    }
}

#[tokio::test]
async fn those_who_ignore_the_request_are_killed() {
    let line = "trap '' TERM; sleep 60 & setsid sleep 60 & echo $$ $!; while :; do wait; done";
    let (mut tree, witnesses, _lines) = spawn_with_pids(line).await;
    let status = tree.terminate(Duration::from_millis(20)).await.unwrap();
    assert_eq!(status, ExitStatus::Signal(9));
    assert!(all_ended(&witnesses));
}

#[tokio::test]
async fn processes_may_clean_up_within_the_grace() {
    // See `signals_reach_the_group` for why the child prints the line.
    let line = r#"trap 'echo cleaned; exit 6' TERM; sh -c 'echo $PPID; exec sleep 60' & wait"#;
    let (mut tree, _witnesses, mut lines) = spawn_with_pids(line).await;
    assert_eq!(tree.terminate(PATIENCE).await.unwrap(), ExitStatus::Code(6));
    assert_eq!(lines.next().await.as_deref(), Some("cleaned"));
}

#[tokio::test]
async fn what_an_ended_command_left_behind_is_ended() {
    let (mut tree, witnesses, _lines) = spawn_with_pids("setsid sleep 60 & echo $!; exit 2").await;
    assert_eq!(tree.wait().await.unwrap(), ExitStatus::Code(2));
    assert!(!all_ended(&witnesses));
    assert_eq!(tree.terminate(PATIENCE).await.unwrap(), ExitStatus::Code(2));
    assert!(all_ended(&witnesses));
}

#[tokio::test]
async fn giving_up_on_terminate_leaves_it_to_drop() {
    let line = "trap '' TERM; setsid sleep 60 & echo $$ $!; while :; do wait; done";
    let (mut tree, witnesses, _lines) = spawn_with_pids(line).await;
    tokio::select! {
        biased;
        _ = tree.terminate(PATIENCE) => panic!("ended although it ignores SIGTERM"),
        () = tokio::task::yield_now() => {}
    }
    drop(tree);
    for witness in &witnesses {
        assert!(witness.ends_within(PATIENCE));
    }
}

#[tokio::test]
async fn others_are_left_alone() {
    let (other, witnesses, _lines) = spawn_with_pids("setsid sleep 60 & echo $$ $!; wait").await;
    let (mut tree, _, _) = spawn_with_pids("sleep 60 & echo $$; wait").await;
    tree.terminate(Duration::ZERO).await.unwrap();
    assert!(!witnesses.iter().any(Witness::has_ended));
    drop(other);
}

/// A zombie keeps its entry in `/proc`; the id of a collected process has none.
#[tokio::test]
async fn no_zombie_is_left() {
    let gone = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();

    let mut tree = ProcessTree::spawn(&CommandSpec::shell("exit 0")).unwrap();
    let pid = tree.id();
    tree.wait().await.unwrap();
    assert!(
        !gone(pid),
        "the id must stay taken until the tree is dropped"
    );
    tree.terminate(Duration::ZERO).await.unwrap();
    assert!(gone(pid));

    let tree = ProcessTree::spawn(&CommandSpec::shell("exit 0")).unwrap();
    let pid = tree.id();
    tree.wait().await.unwrap();
    drop(tree);
    assert!(gone(pid));

    // Killed by the drop: collected by a thread as soon as it is gone.
    let tree = ProcessTree::spawn(&CommandSpec::shell("sleep 60")).unwrap();
    let pid = tree.id();
    drop(tree);
    let collected = async {
        while !gone(pid) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, collected).await.unwrap();
}
