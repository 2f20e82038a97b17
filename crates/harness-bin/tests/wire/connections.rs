//! Several connections in one process, first messages, and messages that mean nothing.

use harness_testkit::Outcome;
use harness_testkit::process::is_alive;
use harness_types::{Gate, ScriptedTurn};
use serde_json::{Value, json};

use super::support::{
    Fifo, Harness, KEY, ask, assert_stream, cascade_id, commands, config, host_tools, input,
    lines_with, reached, story, until_member, until_text, with,
};

#[tokio::test]
async fn each_connection_is_a_conversation_of_its_own() {
    let harness = Harness::start([]).await;
    let mut clients = Vec::new();
    for name in ["a", "b", "c"] {
        let turns = ["one", "two"].map(|word| ScriptedTurn::new().text(format!("{name} {word}")));
        let url = harness.model.route(name, turns);
        clients.push((name, harness.open_with(config(&url)).await));
    }
    for round in ["one", "two"] {
        for (_, client) in &mut clients {
            client.send(&input(round)).await.unwrap();
        }
        for (name, client) in &mut clients {
            let events = client.until_idle().await.unwrap();
            let at = if round == "one" { 0 } else { 2 };
            let expected = [
                "RUNNING".to_owned(),
                format!("step {at} DONE USER>MODEL {round:?}"),
                format!("step {} DONE MODEL>USER \"{name} {round}\"", at + 1),
                "FULLY_IDLE".to_owned(),
            ];
            assert_eq!(story(&events), expected);
        }
    }
    let ids: std::collections::BTreeSet<_> = clients.iter().map(|(_, c)| cascade_id(c)).collect();
    assert_eq!(ids.len(), 3);
    for (_, client) in clients {
        assert_stream(client.events());
        let id = cascade_id(&client);
        assert!(
            id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
            "{id}"
        );
        client.close().await.unwrap();
    }
    harness.end().await;
}

/// How a client leaves.
#[derive(Debug, Clone, Copy)]
enum Leaving {
    CloseFrame,
    Abort,
}

#[tokio::test]
async fn a_closing_socket_ends_its_own_turn_and_nothing_else() {
    for leaving in [Leaving::CloseFrame, Leaving::Abort] {
        let harness = Harness::start([]).await;
        let workspace = harness.workspace();
        let mut fifo = Fifo::new(&workspace);
        let gate = Gate::new();
        let bystander = harness.model.route(
            "by",
            [ScriptedTurn::new().text("still ").gate(&gate).text("here")],
        );
        let mut bystander = harness.open_with(config(&bystander)).await;
        bystander.send(&input("wait")).await.unwrap();
        until_text(&mut bystander, "still ").await;

        let line = "setsid sleep 1001 & echo $! $$ > fifo; sleep 1002";
        let command = ScriptedTurn::new().call("run_command", json!({ "CommandLine": line }));
        let runs = harness.model.route("command", [command]);
        let mut runs = harness
            .open_with(with(config(&runs), commands(&workspace)))
            .await;
        runs.send(&input("run")).await.unwrap();
        let pids: Vec<u32> = fifo
            .line()
            .await
            .split(' ')
            .map(|p| p.parse().unwrap())
            .collect();
        assert!(pids.len() == 2 && pids.iter().all(|pid| is_alive(*pid)));

        let never = Gate::new();
        let streams = harness
            .model
            .route("stream", [ScriptedTurn::new().text("begun").gate(&never)]);
        let mut streams = harness.open_with(config(&streams)).await;
        streams.send(&input("stream")).await.unwrap();
        reached(&never, 1).await;
        let asks = [ScriptedTurn::new().call("lookup", json!({}))];
        let asks = harness.model.route("asks", asks);
        let mut asks = harness
            .open_with(with(config(&asks), host_tools(&["lookup"])))
            .await;
        asks.send(&input("ask")).await.unwrap();
        until_member(&mut asks, "toolCall").await;

        for client in [runs, streams, asks] {
            match leaving {
                Leaving::CloseFrame => client.close().await.unwrap(),
                Leaving::Abort => client.abort().unwrap(),
            }
        }
        for pid in pids {
            harness_testkit::process::ended(pid).await.unwrap();
        }
        let cut = harness.model.requests_of("stream")[0].index;
        assert_eq!(
            harness.model.outcome(cut).await.unwrap(),
            Outcome::ClientGone,
            "{leaving:?}"
        );

        gate.open();
        let events = bystander.until_idle().await.unwrap();
        let expected = ["step 1 DONE MODEL>USER \"still here\"", "FULLY_IDLE"];
        assert_eq!(story(&events), expected, "{leaving:?}");
        // A newcomer is served as ever.
        let late = harness
            .model
            .route("late", [ScriptedTurn::new().text("welcome")]);
        let mut late = harness.open_with(config(&late)).await;
        ask(&mut late, "hello").await;
        late.close().await.unwrap();
        bystander.close().await.unwrap();
        harness.end().await;
    }
}

#[tokio::test]
async fn f064_a_close_frame_is_answered_with_one() {
    let harness = Harness::start([]).await;
    // With a conversation and without; masked with zeros, code 1000.
    let mut open = harness.open().await;
    let mut bare = harness.process.connect().await.unwrap();
    for client in [&mut open, &mut bare] {
        client
            .send_raw(b"\x88\x82\x00\x00\x00\x00\x03\xe8")
            .await
            .unwrap();
        let (events, close) = client.until_closed().await.unwrap();
        assert_eq!((events, close.as_str()), (vec![], "code 1000, \"\""));
    }
    harness.end().await;
}

#[tokio::test]
async fn a_first_message_that_cannot_be_used_is_refused_by_name() {
    let harness = Harness::start([]).await;
    let url = harness.model.base_url();
    let good = config(&url);
    let cases = [
        (json!([]).to_string(), "the first message cannot be read: "),
        ("{\"config\": {".to_owned(), "the first message cannot be read: "),
        ("".to_owned(), "the first message cannot be read: "),
        ("{}".to_owned(), "the first message holds no config"),
        (input("hi").to_string(), "the first message holds no config"),
        (json!({ "config": {} }).to_string(), "the configuration cannot be used: models: there is no model for text"),
        (
            json!({ "config": { "models": [{ "name": "m" }] } }).to_string(),
            "the configuration cannot be used: models[0] (\"m\") names no endpoint",
        ),
        (
            json!({ "config": with(good.clone(), json!({ "cascadeId": "short" })) }).to_string(),
            "the configuration cannot be used: cascadeId: must be at least 32 characters long, got 5",
        ),
        (
            json!({ "config": with(good.clone(), json!({ "mcpServers": [{ "name": "m" }] })) }).to_string(),
            "the configuration cannot be used: mcpServers: ",
        ),
        (
            json!({ "config": with(good.clone(), json!({ "policyConfig": { "rules": [{ "tool": "*" }] } })) }).to_string(),
            "the configuration cannot be used: policyConfig.rules[0] (\"\") decides nothing",
        ),
        (
            json!({ "config": with(good.clone(), json!({ "workspaces": [{ "filesystemWorkspace": { "directory": "/no/such/folder" } }] })) }).to_string(),
            "the conversation cannot be opened: workspace \"/no/such/folder\" is not an existing directory",
        ),
        (
            json!({ "config": with(good.clone(), host_tools(&["same", "same"])) }).to_string(),
            "the conversation cannot be opened: tool name \"same\" is declared twice",
        ),
        (
            json!({ "config": with(good.clone(), json!({ "sessionContinuationMode": "RESUME" })) }).to_string(),
            "the conversation cannot be opened: the conversation to be resumed is not named",
        ),
    ];
    for (n, (message, beginning)) in cases.iter().enumerate() {
        let mut client = harness.process.connect().await.unwrap();
        client.send_text(message.clone()).await.unwrap();
        let (events, close) = client.until_closed().await.unwrap();
        assert_eq!(events, [Value::Null; 0], "{message}");
        // The reason is cut to what a close frame holds.
        let reason = format!("code 1008, {beginning:?}");
        let reason = reason.trim_end_matches('"');
        let reason = &reason[..reason.len().min(100)];
        assert!(close.starts_with(reason), "{message}: {close}");
        lines_with(&harness.process, "", n + 1).await;
        let line = harness.process.stderr().pop().unwrap();
        assert!(line.starts_with(&format!("ERROR {beginning}")), "{line}");
    }
    assert_eq!(harness.process.stderr().len(), cases.len());
    assert!(!harness.process.stderr().join("\n").contains(KEY));
    harness.open().await.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn one_conversation_cannot_be_open_twice_in_a_process() {
    let harness = Harness::start([ScriptedTurn::new().text("mine")]).await;
    let id = "0123456789abcdef0123456789abcdef";
    let config = with(
        harness.config(),
        json!({ "cascadeId": id, "sessionContinuationMode": "CREATE_OR_RESUME" }),
    );
    let mut first = harness.open_with(config.clone()).await;
    assert_eq!(cascade_id(&first), id);
    let mut second = harness.process.connect().await.unwrap();
    second.send(&json!({ "config": config })).await.unwrap();
    let (_, close) = second.until_closed().await.unwrap();
    let reason = format!(
        "code 1008, \"the conversation cannot be opened: conversation {id} is already open in this proc"
    );
    assert!(close.starts_with(&reason[..100]), "{close}");
    ask(&mut first, "still mine?").await;
    first.close().await.unwrap();
    // Free again as soon as its connection has ended.
    harness.open_with(config).await.close().await.unwrap();
    harness.end().await;
}

/// Messages that mean nothing, with how their error begins.
fn useless() -> Vec<(String, &'static str)> {
    let texts = [
        ("nonsense", "a message cannot be read: "),
        ("", "a message cannot be read: "),
        ("[]", "a message cannot be read: "),
        ("null", "a message cannot be read: "),
        ("{}", "the message holds no known event"),
        (
            r#"{"newThing": {"a": 1}}"#,
            "the message holds no known event",
        ),
        (r#"{"haltRequest": false}"#, "haltRequest is false"),
        (
            r#"{"sessionEndRequest": false}"#,
            "sessionEndRequest is false",
        ),
        (r#"{"userInput": {}}"#, "userInput holds no parts"),
        (
            r#"{"userInput": {"parts": [{}]}}"#,
            "userInput: a part holds nothing",
        ),
        (
            r#"{"userInput": {"parts": [{"media": {"mimeType": "application/zip", "data": "AA=="}}]}}"#,
            "userInput: the MIME type \"application/zip\" is not supported",
        ),
        (
            r#"{"userInput": {"parts": [{"text": 5}]}}"#,
            "a message cannot be read: ",
        ),
        (
            r#"{"haltRequest": true, "automatedTrigger": "x"}"#,
            "a message cannot be read: ",
        ),
    ];
    let mut all: Vec<_> = texts.map(|(text, why)| (text.to_owned(), why)).into();
    all.push((
        format!("{}1{}", "[".repeat(5000), "]".repeat(5000)),
        "a message cannot be read: ",
    ));
    all
}

#[tokio::test]
async fn later_messages_that_cannot_be_used_are_told_while_idle_and_while_running() {
    let gate = Gate::new();
    let turns = [
        ScriptedTurn::new().text("be").gate(&gate).text("gun"),
        ScriptedTurn::new().text("fine"),
    ];
    let harness = Harness::start(turns).await;
    let mut client = harness.open().await;
    let told = |event: &Value, why: &str| {
        let step = &event["stepUpdate"];
        step["state"] == "STATE_ERROR"
            && step["errorMessage"]
                .as_str()
                .is_some_and(|m| m.starts_with(why))
    };
    // Idle: an error and the end that the client waits for.
    for (message, why) in useless() {
        client.send_text(message.clone()).await.unwrap();
        let events = client.until_idle().await.unwrap();
        assert!(
            events.len() == 2 && told(&events[0], why),
            "{message}: {events:#?}"
        );
        assert_eq!(
            events[1]["trajectoryStateUpdate"]["error"],
            events[0]["stepUpdate"]["errorMessage"]
        );
    }
    client
        .send_binary(&b"{\"haltRequest\": \xff}"[..])
        .await
        .unwrap();
    assert!(told(
        &client.until_idle().await.unwrap()[0],
        "a message cannot be read: "
    ));

    // Running: the error alone, and the turn goes on.
    client.send(&input("go")).await.unwrap();
    until_text(&mut client, "be").await;
    for (message, why) in useless() {
        client.send_text(message.clone()).await.unwrap();
        let event = client.next_event().await.unwrap();
        assert!(told(&event, why), "{message}: {event}");
    }
    client
        .send(&json!({ "config": harness.config() }))
        .await
        .unwrap();
    assert!(told(
        &client.next_event().await.unwrap(),
        "the message holds no known event"
    ));
    gate.open();
    let events = client.until_idle().await.unwrap();
    assert_eq!(
        story(&events).last().map(String::as_str),
        Some("FULLY_IDLE")
    );
    ask(&mut client, "well?").await;
    assert_stream(client.events());
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn frames_that_are_no_websocket_close_their_connection_alone() {
    let harness = Harness::start([ScriptedTurn::new().text("here")]).await;
    let mut bystander = harness.open().await;
    // Not masked; a reserved opcode; a text that is no UTF-8; a frame of 2^62 bytes.
    let cases: [(&[u8], &str); 4] = [
        (b"\x81\x02hi", "code 1002, "),
        (b"\x83\x80\x00\x00\x00\x00", "code 1002, "),
        (b"\x81\x81\x00\x00\x00\x00\xff", "code 1007, "),
        (
            b"\x82\xff\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            "code 1009, ",
        ),
    ];
    for (bytes, code) in cases {
        let mut client = harness.open_with(harness.config()).await;
        client.send_raw(bytes).await.unwrap();
        let (_, close) = client.until_closed().await.unwrap();
        assert!(close.starts_with(code), "{bytes:?}: {close}");
    }
    ask(&mut bystander, "there?").await;
    bystander.close().await.unwrap();
    harness.end().await;
}
