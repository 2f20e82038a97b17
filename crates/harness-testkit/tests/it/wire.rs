use std::time::Duration;

use harness_proto::localharness::InputConfig;
use harness_testkit::{EmptyHome, Error, Spawn, WireClient, binary_path, is_idle, process};
use serde_json::{Value, json};

fn fake() -> Spawn {
    Spawn::new(env!("CARGO_BIN_EXE_fake-harness"))
}

fn input(text: &str) -> Value {
    json!({ "userInput": { "parts": [{ "text": text }] } })
}

#[test]
fn a_program_of_the_workspace_is_found_beside_the_tests() {
    assert_eq!(
        binary_path("fake-harness").unwrap(),
        std::path::Path::new(env!("CARGO_BIN_EXE_fake-harness"))
    );
    let error = binary_path("no-such-program").unwrap_err();
    assert!(error.to_string().contains("no-such-program"), "{error}");
}

#[tokio::test]
async fn a_conversation_from_spawn_to_exit() {
    let home = EmptyHome::new().unwrap();
    let mut harness = fake().home(&home).start().await.unwrap();
    assert!(process::is_alive(harness.pid()));
    assert!(process::resident_bytes(harness.pid()).unwrap() > 0);
    let mut client = harness.connect().await.unwrap();
    client.send(&json!({ "config": {} })).await.unwrap();
    assert_eq!(
        client.next_event().await.unwrap(),
        json!({
            "initializeConversationResponse": {
                "cascadeId": "00000000000000000000000000000001",
            },
            "seqNum": "1",
        })
    );
    client.send(&input("hi")).await.unwrap();
    let events = client.until_idle().await.unwrap();
    assert_eq!(events.len(), 3);
    assert_eq!(events[1]["stepUpdate"]["text"], "hi");
    assert!(is_idle(&events[2]) && !is_idle(&events[0]));
    assert_eq!(client.events().len(), 4);
    client.send(&input("ahead")).await.unwrap();
    assert!(client.ping().await.unwrap() < Duration::from_secs(20));
    let events = client.until_idle().await.unwrap();
    assert_eq!(events[1]["stepUpdate"]["text"], "ahead");
    client.close().await.unwrap();
    harness.stderr_line("connection closed").await.unwrap();

    assert!(harness.shut_down().await.unwrap().success());
    assert_eq!(harness.rest_of_stdout().await.unwrap(), b"");
    assert!(!process::is_alive(harness.pid()));
    assert_eq!(
        harness.stderr(),
        ["client python 0.1.22", "connection closed", "stdin closed"]
    );
    assert_eq!(
        home.left_behind().unwrap(),
        Vec::<std::path::PathBuf>::new()
    );
}

#[tokio::test]
async fn a_wrong_key_and_no_key_are_refused() {
    let harness = fake().start_with(&InputConfig::default()).await.unwrap();
    for headers in [&[][..], &[("x-goog-api-key", "wrong")]] {
        let error = WireClient::connect(harness.port(), headers)
            .await
            .unwrap_err();
        assert_eq!(error.refused_status(), Some(401));
    }
}

#[tokio::test]
async fn what_is_missing_is_shown_with_what_came() {
    let harness = fake().start().await.unwrap();
    let mut client = harness
        .connect()
        .await
        .unwrap()
        .with_deadline(Duration::from_millis(50));
    client.send(&input("seen")).await.unwrap();
    let error = client.until("the impossible", |_| false).await.unwrap_err();
    assert!(error.is_deadline());
    let shown = format!("{error:?}");
    assert!(
        shown.contains("for the impossible; 3 events so far"),
        "{shown}"
    );
    assert!(shown.contains("\"text\":\"seen\""), "{shown}");
}

#[tokio::test]
async fn bad_frames_and_aborts_reach_the_harness() {
    let mut harness = fake().start().await.unwrap();
    let mut client = harness.connect().await.unwrap();
    client.send_text("{").await.unwrap();
    harness.stderr_line("not JSON").await.unwrap();
    client.send_binary(&b"\0"[..]).await.unwrap();
    // A frame of a client has to be masked; this one is not.
    client.send_raw(b"\x81\x02{}").await.unwrap();
    harness.stderr_line("connection failed").await.unwrap();
    let (events, close) = client.until_closed().await.unwrap();
    assert_eq!(
        (events.as_slice(), close.as_str()),
        (&[][..], "no close frame")
    );

    let mut client = harness.connect().await.unwrap();
    client.send(&input("a")).await.unwrap();
    client.until_idle().await.unwrap();
    let before = harness.stderr().len();
    client.abort().unwrap();
    while harness.stderr().len() == before {
        tokio::task::yield_now().await;
    }
    harness.kill().await.unwrap();
    assert!(!harness.exit().await.unwrap().success());
    process::ended(harness.pid()).await.unwrap();
}

#[tokio::test]
async fn a_harness_that_fails_to_start_is_quoted() {
    let error = fake().arg("--refuse").start().await.unwrap_err();
    let Error::Handshake { problem, stderr } = error else {
        panic!("{error:?}");
    };
    assert_eq!(problem, "standard output ended");
    assert!(stderr[0].contains("told to refuse"), "{stderr:?}");
    let error = Spawn::new("/no/such/harness").start().await.unwrap_err();
    assert!(error.to_string().contains("/no/such/harness"), "{error}");
}
