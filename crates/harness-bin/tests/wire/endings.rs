//! How the process ends: asked by its client or by a signal, idle or busy.

use std::time::{Duration, Instant};

use harness_testkit::process::{descendants, ended, is_alive};
use harness_testkit::{Outcome, WireClient};
use harness_types::{Gate, ScriptedTurn};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    Fifo, Harness, ask, assert_sound, assert_stream, commands, host_tools, input, millis,
    open_unread, reached, retries, signal, story, texts, until_member, with,
};

/// How a process is asked to end.
#[derive(Debug, Clone, Copy)]
enum Way {
    Stdin,
    Signal(Signal),
}

const WAYS: [Way; 3] = [
    Way::Stdin,
    Way::Signal(Signal::TERM),
    Way::Signal(Signal::INT),
];

/// No end may take longer, whatever is going on. An idle process takes a few milliseconds, which
/// is printed and not asserted: a loaded machine may be slow.
const LONGEST: Duration = Duration::from_secs(2);

/// Asks the process to end, reads what the client still gets, and returns that.
async fn end(harness: &mut Harness, client: &mut WireClient, way: Way, doing: &str) -> Vec<Value> {
    let children = descendants(harness.process.pid()).unwrap();
    let start = Instant::now();
    match way {
        Way::Stdin => harness.process.close_stdin(),
        Way::Signal(which) => signal(harness.process.pid(), which),
    }
    let (events, close) = client.until_closed().await.unwrap();
    // The answer to the close frame goes out when the client reads on.
    assert!(client.next_event().await.unwrap_err().is_closed());
    let status = harness.process.exit().await.unwrap();
    let took = start.elapsed();
    println!("{doing}, {way:?}: exit after {}", millis(took));
    assert_eq!(
        close, "code 1001, \"the harness is shutting down\"",
        "{doing}, {way:?}"
    );
    assert_eq!(status.code(), Some(0), "{doing}, {way:?}");
    assert!(took < LONGEST, "{doing}, {way:?}: {took:?}");
    for child in children {
        // Killed; the system may take a moment to remove it.
        ended(child).await.unwrap();
    }
    assert_sound(&harness.process.stderr());
    assert_stream(client.events());
    assert_eq!(harness.process.rest_of_stdout().await.unwrap(), b"");
    events
}

#[tokio::test]
async fn an_idle_process_says_goodbye_and_ends() {
    for way in WAYS {
        let mut harness = Harness::start([ScriptedTurn::new().text("hello")]).await;
        let mut client = harness.open().await;
        ask(&mut client, "hi").await;
        assert_eq!(
            end(&mut harness, &mut client, way, "idle").await,
            [Value::Null; 0]
        );
        assert_eq!(harness.process.stderr(), Vec::<String>::new());
        harness.model.verify();
    }
}

#[tokio::test]
async fn a_process_that_nobody_has_connected_to_ends() {
    let mut harness = Harness::start([]).await;
    assert!(harness.process.shut_down().await.unwrap().success());
    assert_eq!(harness.process.stderr(), Vec::<String>::new());
}

#[tokio::test]
async fn f014_a_connection_without_a_conversation_does_not_hold_the_process() {
    for way in WAYS {
        let mut harness = Harness::start([]).await;
        let mut silent = harness.process.connect().await.unwrap();
        // Not even a whole request head.
        let _mute = tokio::net::TcpStream::connect(("127.0.0.1", harness.process.port()))
            .await
            .unwrap();
        end(&mut harness, &mut silent, way, "no conversation").await;
    }
}

#[tokio::test]
async fn a_stream_is_broken_off() {
    for way in WAYS {
        let gate = Gate::new();
        let turn = ScriptedTurn::new()
            .text("begun")
            .gate(&gate)
            .text(" and not done");
        let mut harness = Harness::start([turn]).await;
        let mut client = harness.open().await;
        client.send(&input("go")).await.unwrap();
        reached(&gate, 1).await;
        end(&mut harness, &mut client, way, "stream").await;
        assert_eq!(harness.model.outcome(0).await.unwrap(), Outcome::ClientGone);
    }
}

#[tokio::test]
async fn a_command_ends_with_all_its_children() {
    for way in WAYS {
        let turn =
            |line: &str| ScriptedTurn::new().call("run_command", json!({ "CommandLine": line }));
        let mut harness = Harness::start([]).await;
        let workspace = harness.workspace();
        let mut fifo = Fifo::new(&workspace);
        harness.model.push(turn(
            "sleep 1001 & a=$!; setsid sleep 1002 & b=$!; (setsid nohup sleep 1003 & echo $! > c); \
             trap '' TERM; echo $a $b $(cat c) > fifo; sleep 1004",
        ));
        let mut client = harness
            .open_with(with(harness.config(), commands(&workspace)))
            .await;
        client.send(&input("go")).await.unwrap();
        let line = fifo.line().await;
        let pids: Vec<u32> = line.split(' ').map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 3, "{line}");
        assert!(pids.iter().all(|pid| is_alive(*pid)), "{line}");
        end(&mut harness, &mut client, way, "command").await;
        for pid in pids {
            ended(pid).await.unwrap();
        }
        harness.model.verify();
    }
}

#[tokio::test]
async fn a_host_call_and_the_wait_before_a_retry_hold_nobody() {
    for way in WAYS {
        let call = ScriptedTurn::new().call("lookup", json!({}));
        let mut harness = Harness::start([call]).await;
        let mut client = harness
            .open_with(with(harness.config(), host_tools(&["lookup"])))
            .await;
        client.send(&input("go")).await.unwrap();
        until_member(&mut client, "toolCall").await;
        end(&mut harness, &mut client, way, "host call").await;
        harness.model.verify();

        let mut harness = Harness::start([]).await;
        let busy = || harness_testkit::ServerTurn::status(503, "busy");
        harness.model.push(busy());
        let mut client = harness
            .open_with(with(harness.config(), retries(3, 600_000)))
            .await;
        client.send(&input("go")).await.unwrap();
        client
            .until("the error", |event| {
                event["stepUpdate"]["state"] == "STATE_ERROR"
            })
            .await
            .unwrap();
        end(&mut harness, &mut client, way, "retry wait").await;
        harness.model.verify();
    }
}

#[tokio::test]
async fn f064_what_has_happened_is_sent_before_the_goodbye() {
    let long = "0123456789abcdef".repeat(5 * 64 * 1024);
    let mut harness = Harness::start([]).await;
    let workspace = harness.workspace();
    let mut fifo = Fifo::new(&workspace);
    let line = json!({ "CommandLine": "echo running > fifo; sleep 1001" });
    harness.model.push(
        ScriptedTurn::new()
            .text(long.as_str())
            .call("run_command", line),
    );
    let config = with(harness.config(), commands(&workspace));
    let mut client = harness.open_with(config).await;
    client.send(&input("go")).await.unwrap();
    // The call runs when the answer has come to its end.
    assert_eq!(fifo.line().await, "running");
    // Nothing was read of the 5 MB so far.
    harness.process.close_stdin();
    let (events, close) = client.until_closed().await.unwrap();
    assert_eq!(close, "code 1001, \"the harness is shutting down\"");
    assert_stream(client.events());
    assert_eq!(
        story(&events).last().map(String::as_str),
        Some("FULLY_IDLE")
    );
    assert!(texts(&events)[&1].0 == long);
    assert!(harness.process.exit().await.unwrap().success());
}

#[tokio::test]
async fn a_client_that_never_reads_its_long_history_holds_nobody() {
    let long = "x".repeat(30 * 1024 * 1024);
    let mut harness = Harness::start_stored([ScriptedTurn::new().text(long)]).await;
    let mut client = harness.open().await;
    ask(&mut client, "go").await;
    let id = super::support::cascade_id(&client);
    client.close().await.unwrap();
    assert!(harness.process.shut_down().await.unwrap().success());

    harness.restart().await;
    let config = with(harness.config(), json!({ "cascadeId": id }));
    let _stalled = open_unread(&harness, &config).await;
    let start = Instant::now();
    harness.process.close_stdin();
    assert!(harness.process.exit().await.unwrap().success());
    println!("unread history: exit after {}", millis(start.elapsed()));
    assert!(start.elapsed() < LONGEST, "{:?}", start.elapsed());
}

#[tokio::test]
async fn f023_a_client_may_kill_the_process_right_after_idle() {
    let mut harness = Harness::start_stored([ScriptedTurn::new().text("kept")]).await;
    let mut client = harness.open().await;
    ask(&mut client, "go").await;
    let id = super::support::cascade_id(&client);
    let pid = harness.process.pid();
    harness.process.kill().await.unwrap();
    ended(pid).await.unwrap();

    harness.restart().await;
    let config = with(harness.config(), json!({ "cascadeId": id }));
    let client = harness.open_with(config).await;
    let history = &client.events()[0]["initializeConversationResponse"]["history"];
    let shown: Vec<_> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["text"])
        .collect();
    assert_eq!(shown, ["go", "kept"]);
    client.close().await.unwrap();
    harness.end().await;
}
