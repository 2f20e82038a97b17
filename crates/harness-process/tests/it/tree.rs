//! Spawning, waiting, pipes.

use std::io;

use harness_process::{
    CommandSpec, Environment, Error, ExitStatus, OutputEnd, OutputMode, ProcessTree, Signal,
    StdinMode, TREE_VARIABLE,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{PATIENCE, output_of, read_all};

#[tokio::test]
async fn exit_codes_and_signals() {
    let status = async |line: &str| {
        let tree = ProcessTree::spawn(&CommandSpec::shell(line)).unwrap();
        tree.wait().await.unwrap()
    };
    assert_eq!(status("exit 0").await, ExitStatus::Code(0));
    assert_eq!(status("exit 255").await, ExitStatus::Code(255));
    let killed = status("kill -KILL $$").await;
    assert_eq!(killed, ExitStatus::Signal(9));
    assert_eq!((killed.shell_code(), killed.is_success()), (137, false));
    assert_eq!(killed.to_string(), "signal 9");
    assert_eq!(ExitStatus::Code(3).to_string(), "exit code 3");
}

#[tokio::test]
async fn waiting_can_be_given_up_and_repeated() {
    let spec = CommandSpec::shell("read line; exit 7").stdin(StdinMode::Piped);
    let mut tree = ProcessTree::spawn(&spec).unwrap();
    assert_eq!(tree.try_wait().unwrap(), None);
    // Polled once and dropped.
    tokio::select! { biased; _ = tree.wait() => panic!("not yet"), () = async {} => {} }
    tree.take_stdin().unwrap().write_all(b"go\n").await.unwrap();
    let both = tokio::join!(tree.wait(), tree.wait());
    assert_eq!(
        (both.0.unwrap(), both.1.unwrap()),
        (ExitStatus::Code(7), ExitStatus::Code(7))
    );
    assert_eq!(tree.try_wait().unwrap(), Some(ExitStatus::Code(7)));
}

#[tokio::test]
async fn standard_input_is_empty_unless_piped() {
    assert_eq!(
        output_of(&CommandSpec::shell("cat; echo end")).await,
        "end\n"
    );

    let spec = CommandSpec::new("cat").stdin(StdinMode::Piped);
    let mut tree = ProcessTree::spawn(&spec).unwrap();
    let (mut stdin, mut output) = (tree.take_stdin().unwrap(), tree.take_output().unwrap());
    stdin.write_all(b"there and back").await.unwrap();
    stdin.shutdown().await.unwrap();
    assert_eq!(read_all(&mut output).await, "there and back");
    assert_eq!(
        stdin.write(b"more").await.unwrap_err().kind(),
        io::ErrorKind::BrokenPipe
    );
    assert!(tree.take_stdin().is_none());
}

#[tokio::test]
async fn merged_output_keeps_the_order() {
    let spec = CommandSpec::shell("echo 1; echo 2 >&2; echo 3; echo 4 >&2");
    assert_eq!(output_of(&spec).await, "1\n2\n3\n4\n");
}

#[tokio::test]
async fn separate_outputs_and_handshake() {
    let spec = CommandSpec::shell("read name; echo \"hello $name\"; echo log >&2")
        .stdin(StdinMode::Piped)
        .output(OutputMode::Separate);
    let mut tree = ProcessTree::spawn(&spec).unwrap();
    assert!(tree.take_output().is_none());
    let mut stdin = tree.take_stdin().unwrap();
    let mut stdout = tree.take_stdout().unwrap();
    let mut stderr = tree.take_stderr().unwrap();
    stdin.write_all(b"you\n").await.unwrap();
    let mut reply = [0; 9];
    stdout.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"hello you");
    assert_eq!(read_all(&mut stdout).await, "\n");
    assert_eq!(read_all(&mut stderr).await, "log\n");
}

#[tokio::test]
async fn lines_may_begin_with_a_dash() {
    let text = output_of(&CommandSpec::shell("-x; echo $?")).await;
    assert!(text.ends_with("\n127\n"), "{text}");
}

#[tokio::test]
async fn commands_have_a_session_without_a_terminal() {
    let line = "echo $$; cut -d' ' -f5,6 /proc/$$/stat; (: </dev/tty) 2>/dev/null || echo none";
    let mut tree = ProcessTree::spawn(&CommandSpec::shell(line)).unwrap();
    let id = tree.id();
    let mut output = tree.take_output().unwrap();
    assert_eq!(
        read_all(&mut output).await,
        format!("{id}\n{id} {id}\nnone\n")
    );
}

#[tokio::test]
async fn directory_and_environment_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let spec = CommandSpec::new("sh")
        .args([
            "-c",
            "pwd; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort",
        ])
        .working_directory(&path)
        .environment(
            Environment::empty()
                .set("PATH", "/usr/bin:/bin")
                .set("Z", "1"),
        );
    let text = output_of(&spec).await;
    let mark = text
        .lines()
        .find_map(|line| line.strip_prefix("HARNESS_PROCESS_TREE="))
        .unwrap();
    let expected = format!(
        "{}\n{TREE_VARIABLE}={mark}\nPATH=/usr/bin:/bin\nZ=1\n",
        path.display()
    );
    assert_eq!(text, expected);
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let error = ProcessTree::spawn(&CommandSpec::new("no-such-program-here")).unwrap_err();
    assert!(error.is_program_not_found(), "{error:?}");
    assert_eq!(error.to_string(), "cannot start `no-such-program-here`");

    let spec = CommandSpec::new("true").working_directory("/no/such/folder");
    let error = ProcessTree::spawn(&spec).unwrap_err();
    assert!(matches!(error, Error::WorkingDirectory { .. }) && !error.is_program_not_found());
    assert_eq!(
        error.to_string(),
        "cannot use `/no/such/folder` as working directory"
    );

    let spec = CommandSpec::new("true").working_directory("/dev/null");
    assert!(matches!(
        ProcessTree::spawn(&spec),
        Err(Error::WorkingDirectory { .. })
    ));

    let error = ProcessTree::spawn(&CommandSpec::new("/dev/null")).unwrap_err();
    assert!(error.is_permission_denied(), "{error:?}");
}

#[test]
fn without_a_runtime_nothing_is_started() {
    let error = ProcessTree::spawn(&CommandSpec::new("true")).unwrap_err();
    assert!(matches!(error, Error::NoRuntime));
}

#[test]
fn arguments_are_not_shown() {
    let text = format!(
        "{:?}",
        CommandSpec::new("curl")
            .arg("--oauth2-bearer")
            .arg("hunter2")
    );
    assert!(
        text.contains(r#"program: "curl", args: 2"#) && !text.contains("hunter2"),
        "{text}"
    );
}

#[tokio::test]
async fn signals_reach_the_group() {
    // The child says that it is ready only once it is a program of its own: before, it is a copy of
    // the shell that would take the signal for itself.
    let line = r#"trap 'exit 4' TERM; sh -c 'echo ready; exec sleep 600' & wait"#;
    let mut tree = ProcessTree::spawn(&CommandSpec::shell(line).drain(PATIENCE)).unwrap();
    let mut output = tree.take_output().unwrap();
    assert_eq!(
        output.next_chunk().await.unwrap().as_deref(),
        Some(&b"ready\n"[..])
    );
    tree.signal(Signal::Terminate).unwrap();
    assert_eq!(tree.wait().await.unwrap(), ExitStatus::Code(4));
    assert_eq!(output.next_chunk().await.unwrap(), None);
    assert_eq!(output.end(), Some(OutputEnd::Closed));
    tree.signal(Signal::Kill).unwrap();
    assert_eq!(tree.wait().await.unwrap(), ExitStatus::Code(4));
}
