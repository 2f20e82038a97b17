//! The first bytes, and starts that are none.

use harness_framing::FrameCodec;
use harness_proto::localharness::{InputConfig, OutputConfig};
use harness_testkit::{EmptyHome, Error, WireClient};
use harness_types::ScriptedTurn;
use prost::Message as _;
use serde_json::json;

use super::support::{Harness, ask, assert_stream, config, input, program, story};

/// Starts the program with arguments and an open stdin that says nothing, and returns its exit
/// code, its stdout and its stderr.
async fn run(args: &[&str]) -> (Option<i32>, String, Vec<String>) {
    let home = EmptyHome::new().unwrap();
    let spawn = args
        .iter()
        .fold(program(&home), |spawn, arg| spawn.arg(*arg));
    let mut process = spawn.launch().unwrap();
    let status = process.exit().await.unwrap();
    let stdout = process.rest_of_stdout().await.unwrap();
    assert_eq!(
        home.left_behind().unwrap(),
        Vec::<std::path::PathBuf>::new()
    );
    let stdout = String::from_utf8(stdout).unwrap();
    (status.code(), stdout, process.stderr())
}

#[tokio::test]
async fn f065_help_and_version_are_told_with_stdin_held_open() {
    let (code, stdout, stderr) = run(&["--help"]).await;
    assert_eq!((code, stderr), (Some(0), vec![]));
    assert!(stdout.contains("ANTIGRAVITY_HARNESS_PATH"), "{stdout}");
    let version = format!("localharness {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["--version"]).await, (Some(0), version, vec![]));
}

#[tokio::test]
async fn f065_an_unknown_argument_is_named() {
    let (code, stdout, stderr) = run(&["--port=1"]).await;
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    let line = "localharness: unknown argument \"--port=1\"; localharness takes none (see --help)";
    assert_eq!(stderr, [line]);
}

#[tokio::test]
async fn f065_bad_first_bytes_end_the_process_with_one_line() {
    let eof = "localharness: no InputConfig on stdin: it ended at once";
    // What is written, whether stdin is closed after it, and how the line begins.
    let cases: [(&[u8], bool, &str); 6] = [
        (b"", true, eof),
        (
            b"\x00\x00",
            true,
            "localharness: cannot read the InputConfig from stdin: ",
        ),
        (
            b"\x09\x00\x00\x00abc",
            true,
            "localharness: cannot read the InputConfig from stdin: ",
        ),
        (
            b"\x02\x00\x00\x00\xff\xff",
            false,
            "localharness: stdin holds no InputConfig: ",
        ),
        (
            b"\xff\xff\xff\xff",
            false,
            "localharness: cannot read the InputConfig from stdin: ",
        ),
        (
            b"GET / HTTP/1.1\r\n",
            false,
            "localharness: cannot read the InputConfig from stdin: ",
        ),
    ];
    for (bytes, closed, beginning) in cases {
        let home = EmptyHome::new().unwrap();
        let mut process = program(&home).launch().unwrap();
        process.write_stdin(bytes).await.unwrap();
        if closed {
            process.close_stdin();
        }
        let status = process.exit().await.unwrap();
        let stderr = process.stderr();
        assert_eq!(status.code(), Some(1), "{bytes:?}: {stderr:?}");
        assert_eq!(stderr.len(), 1, "{bytes:?}: {stderr:?}");
        assert!(stderr[0].starts_with(beginning), "{bytes:?}: {stderr:?}");
        assert_eq!(process.rest_of_stdout().await.unwrap(), b"");
        assert_eq!(
            home.left_behind().unwrap(),
            Vec::<std::path::PathBuf>::new()
        );
    }
}

#[tokio::test]
async fn an_empty_config_and_unknown_fields_are_accepted() {
    // Field 100 as a text, which no version knows.
    for body in [&b""[..], b"\xa2\x06\x03abc"] {
        let home = EmptyHome::new().unwrap();
        let mut process = program(&home).launch().unwrap();
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        process.write_stdin(&length).await.unwrap();
        process.write_stdin(body).await.unwrap();
        process
            .write_stdin(b"what follows is ignored")
            .await
            .unwrap();
        assert!(process.shut_down().await.unwrap().success());
        let stdout = process.rest_of_stdout().await.unwrap();
        let mut stdout = stdout.as_slice();
        let frame = FrameCodec::default().read_frame(&mut stdout).unwrap();
        let answer = OutputConfig::decode(frame.unwrap()).unwrap();
        assert_eq!(answer.api_key().len(), 32);
        assert!(answer.port() > 0 && stdout.is_empty());
        assert_eq!(process.stderr(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_busy_port_is_named_and_ends_the_process() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let home = EmptyHome::new().unwrap();
    let mut process = program(&home).launch().unwrap();
    let asked = InputConfig {
        port: Some(port.into()),
        ..InputConfig::default()
    };
    let error = process.handshake(&asked).await.unwrap_err();
    let Error::Handshake { stderr, .. } = error else {
        panic!("{error}")
    };
    let beginning = format!("localharness: cannot listen on 127.0.0.1:{port}: ");
    assert_eq!(stderr.len(), 1, "{stderr:?}");
    assert!(stderr[0].starts_with(&beginning), "{stderr:?}");
    assert_eq!(process.exit().await.unwrap().code(), Some(1));
}

#[tokio::test]
async fn a_port_that_is_asked_for_is_used() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let asked = InputConfig {
        port: Some(port.into()),
        ..InputConfig::default()
    };
    let harness = Harness::start_with([], &asked).await;
    assert_eq!(harness.process.port(), port);
    harness.open().await.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn stdout_holds_the_output_config_and_nothing_else_for_a_whole_session() {
    let turns = [
        ScriptedTurn::new().text("one"),
        ScriptedTurn::new().text("two"),
    ];
    let mut harness = Harness::start(turns).await;
    assert_eq!(harness.process.key().len(), 32);
    let mut client = harness.open().await;
    ask(&mut client, "first").await;
    client.send(&json!({ "nonsense": 1 })).await.unwrap();
    client.until_idle().await.unwrap();
    ask(&mut client, "second").await;
    assert_stream(client.events());
    harness
        .process
        .write_stdin(b"ignored as well")
        .await
        .unwrap();
    client.close().await.unwrap();
    // Checks stdout.
    harness.end().await;
}

#[tokio::test]
async fn f084_eight_processes_share_a_home_and_a_folder_for_data() {
    let home = EmptyHome::new().unwrap();
    let app_data = home.root().join("data");
    let model = harness_testkit::FakeModelServer::start(Vec::<ScriptedTurn>::new())
        .await
        .unwrap();
    model.respond("", |_| ScriptedTurn::new().text("here").into());
    let mut running = Vec::new();
    for _ in 0..8 {
        let process = program(&home)
            .start_with(&super::support::stored(&home))
            .await
            .unwrap();
        let mut client: WireClient = process.connect().await.unwrap();
        let mut config = config(&model.base_url());
        config["appDataDir"] = json!(app_data);
        client.send(&json!({ "config": config })).await.unwrap();
        client.send(&input("are you there?")).await.unwrap();
        running.push((process, client));
    }
    for (process, client) in &mut running {
        let events = client.until_idle().await.unwrap();
        let expected = [
            "initialized",
            "RUNNING",
            "step 0 DONE USER>MODEL \"are you there?\"",
            "step 1 DONE MODEL>USER \"here\"",
            "FULLY_IDLE",
        ];
        assert_eq!(story(&events), expected);
        assert!(process.shut_down().await.unwrap().success());
    }
}
