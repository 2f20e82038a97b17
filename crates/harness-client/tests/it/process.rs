//! The process: its handshake, its last words, its end. Harnesses are played by shell scripts.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use harness_client::{
    ConversationConfig, Error, ExitStatus, HandshakeError, Harness, Launch, Limits,
};
use harness_proto::localharness::OutputConfig;
use harness_proto::prost::Message as _;
use tempfile::TempDir;

use crate::peer::{KEY, Listener, soon};

struct Script {
    folder: TempDir,
}

impl Script {
    fn new(body: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let script = Self { folder };
        fs::write(script.path(), format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(script.path(), fs::Permissions::from_mode(0o755)).unwrap();
        script
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("harness")
    }

    async fn start(&self, limits: Limits) -> Result<Harness, Error> {
        soon(Launch::new(self.path()).limits(limits).start()).await
    }

    async fn fails(&self, limits: Limits) -> (HandshakeError, Vec<String>) {
        match self.start(limits).await {
            Err(Error::Handshake { source, stderr }) => (source, stderr.lines().to_vec()),
            other => panic!("{other:?}"),
        }
    }
}

/// A command of the shell that answers as a harness at `port` does.
fn answer(port: u16) -> String {
    let message = OutputConfig {
        port: Some(port.into()),
        api_key: Some(KEY.into()),
    };
    let body = message.encode_to_vec();
    let mut command = "printf '".to_owned();
    for byte in u32::try_from(body.len())
        .unwrap()
        .to_le_bytes()
        .iter()
        .chain(&body)
    {
        write!(command, "\\{byte:03o}").unwrap();
    }
    command + "'"
}

fn brief() -> Limits {
    let mut limits = Limits::default();
    limits.exit = Duration::from_millis(50);
    limits.terminate = Duration::from_millis(50);
    limits
}

#[tokio::test]
async fn a_program_that_fails_is_quoted() {
    let script = Script::new("echo 'Failed to listen: busy' >&2; exit 1");
    let error = script.start(Limits::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the harness gave no usable answer on its standard output; its stderr ends with: \
         Failed to listen: busy"
    );
    let (source, stderr) = script.fails(Limits::default()).await;
    assert!(matches!(source, HandshakeError::Ended), "{source:?}");
    assert_eq!(stderr, ["Failed to listen: busy"]);
}

#[tokio::test]
async fn other_programs_are_recognised() {
    let script = Script::new("echo 'Usage: something else'; echo oops >&2; sleep 600");
    let (source, stderr) = script.fails(Limits::default()).await;
    assert!(
        matches!(&source, HandshakeError::Frame(error) if error.is_too_large()),
        "{source:?}"
    );
    assert_eq!(stderr, ["oops"]);
}

#[tokio::test]
async fn a_program_that_says_nothing_is_given_up() {
    let mut limits = Limits::default();
    limits.handshake = Duration::from_millis(50);
    let (source, _) = Script::new("exec sleep 600").fails(limits).await;
    assert!(matches!(source, HandshakeError::Timeout(_)), "{source:?}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let error = Launch::new("/nowhere/harness").start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot start the harness /nowhere/harness"
    );
    assert!(
        matches!(&error, Error::Start { source, .. } if source.is_program_not_found()),
        "{error:?}"
    );
}

#[tokio::test]
async fn it_ends_at_the_end_of_its_input_and_the_status_is_told() {
    for (code, expected) in [(0, ExitStatus::Code(0)), (3, ExitStatus::Code(3))] {
        let script = Script::new(&format!("{}; cat >/dev/null; exit {code}", answer(1)));
        let harness = script.start(Limits::default()).await.unwrap();
        assert_eq!(harness.port(), 1);
        assert_eq!(soon(harness.shutdown()).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_harness_that_ignores_the_end_of_its_input_is_terminated() {
    let script = Script::new(&format!("{}; exec sleep 600", answer(1)));
    let harness = script.start(brief()).await.unwrap();
    let status = soon(harness.shutdown()).await.unwrap();
    assert_eq!(status, ExitStatus::Signal(15));
}

#[tokio::test]
async fn a_harness_that_ignores_everything_is_killed() {
    let body = format!("trap '' TERM; {}; while :; do sleep 600; done", answer(1));
    let harness = Script::new(&body).start(brief()).await.unwrap();
    let status = soon(harness.shutdown()).await.unwrap();
    assert_eq!(status, ExitStatus::Signal(9));
}

#[tokio::test]
async fn a_dropped_harness_does_not_live_on() {
    let folder = TempDir::new().unwrap();
    let fifo = folder.path().join("alive");
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    // The child holds the pipe open as long as it lives.
    let body = format!(
        "exec 9<>'{}'; {}; sleep 600 & wait",
        fifo.display(),
        answer(1)
    );
    let harness = Script::new(&body).start(Limits::default()).await.unwrap();
    let alive = tokio::net::unix::pipe::OpenOptions::new()
        .open_sender(&fifo)
        .unwrap();
    drop(harness);
    // Writing fails once nobody can read any more.
    let gone = async {
        loop {
            alive.writable().await.unwrap();
            match alive.try_write(b"x") {
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    soon(gone).await;
}

#[tokio::test]
async fn a_harness_may_talk_on() {
    // More than the pipes hold.
    let noise = "i=0; while [ $i -lt 3000 ]; do \
                 echo 'a line of some sixty characters, to fill the pipe of a program'; \
                 echo \"line $i\" >&2; i=$((i+1)); done";
    let script = Script::new(&format!("{}; {noise}; exit 5", answer(1)));
    let harness = script.start(Limits::default()).await.unwrap();
    assert_eq!(soon(harness.exited()).await.unwrap(), ExitStatus::Code(5));
    assert_eq!(soon(harness.shutdown()).await.unwrap(), ExitStatus::Code(5));
}

#[tokio::test]
async fn a_connection_that_fails_quotes_the_process_without_its_key() {
    let listener = Listener::bind().await;
    let body = format!(
        "echo 'my key is {KEY}' >&2; {}; cat >/dev/null",
        answer(listener.port())
    );
    let harness = Script::new(&body).start(Limits::default()).await.unwrap();
    let refusing = async {
        let mut peer = listener.accept().await.unwrap();
        peer.receive_raw().await;
        drop(peer);
    };
    let opening = harness.session(ConversationConfig::default()).open();
    let (result, ()) = soon(async { tokio::join!(opening, refusing) }).await;
    let error = result.unwrap_err();
    assert_eq!(error.stderr().unwrap().lines(), ["my key is [redacted]"]);
    assert!(error.is_closed());
}

#[tokio::test]
async fn shutdown_closes_the_sessions_first() {
    let listener = Listener::bind().await;
    let body = format!("{}; cat >/dev/null", answer(listener.port()));
    let harness = Script::new(&body).start(Limits::default()).await.unwrap();
    let opening = harness.session(ConversationConfig::default()).open();
    let accepting = async {
        let mut peer = listener.accept().await.unwrap();
        peer.confirm().await;
        peer
    };
    let (session, peer) = soon(async { tokio::join!(opening, accepting) }).await;
    let session = session.unwrap();
    let ending = harness.shutdown();
    let (status, good_bye) = soon(async { tokio::join!(ending, peer.said_good_bye()) }).await;
    assert!(good_bye);
    assert_eq!(status.unwrap(), ExitStatus::Code(0));
    assert!(session.chat("hello").await.unwrap_err().is_closed());
}
