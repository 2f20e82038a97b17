//! F023: the order to stop, in the middle of everything, and the turn after it.

use harness_testkit::process::ended;
use harness_testkit::{Outcome, ServerTurn, WireClient};
use harness_types::{Gate, ScriptedTurn};
use serde_json::{Value, json};

use super::support::{
    Fifo, Harness, ask, assert_stream, commands, halt, host_tools, input, question, questions,
    reached, retries, story, until_member, until_text, with,
};

/// Opens a conversation with more configuration and says something.
async fn begin(harness: &Harness, more: Value) -> WireClient {
    let mut client = harness.open_with(with(harness.config(), more)).await;
    client.send(&input("go")).await.unwrap();
    client
}

/// Halts, reads to the end of the turn, and has another turn; returns how the halted one ended.
async fn stop_and_go_on(harness: Harness, mut client: WireClient) -> Vec<String> {
    // Twice: the second one finds nothing to halt, and says nothing.
    client.send(&halt()).await.unwrap();
    client.send(&halt()).await.unwrap();
    let story = story(&client.until_idle().await.unwrap());
    assert_eq!(
        story
            .iter()
            .filter(|line| line.starts_with("FULLY_IDLE"))
            .count(),
        1
    );
    harness.model.push(ScriptedTurn::new().text("going on"));
    // The model checks that the history is one it can take.
    let events = ask(&mut client, "and now?").await;
    let after = super::support::story(&events);
    assert_eq!(
        after.first().map(String::as_str),
        Some("RUNNING"),
        "{after:?}"
    );
    assert!(
        after
            .iter()
            .any(|line| line.ends_with("MODEL>USER \"going on\"")),
        "{after:?}"
    );
    assert_stream(client.events());
    client.close().await.unwrap();
    harness.end().await;
    story
}

#[tokio::test]
async fn a_stream() {
    let gate = Gate::new();
    let harness = Harness::start([ScriptedTurn::new()
        .text("so far")
        .gate(&gate)
        .text(" no more")])
    .await;
    let mut client = begin(&harness, json!({})).await;
    until_text(&mut client, "so far").await;
    client.send(&halt()).await.unwrap();
    assert_eq!(harness.model.outcome(0).await.unwrap(), Outcome::ClientGone);
    let story = stop_and_go_on(harness, client).await;
    assert_eq!(story, ["step 1 DONE MODEL>USER \"so far\"", "FULLY_IDLE"]);
}

#[tokio::test]
async fn a_model_that_says_nothing() {
    let gate = Gate::new();
    let harness = Harness::start([]).await;
    harness.model.push(ServerTurn::silence().gated(&gate));
    let client = begin(&harness, json!({})).await;
    reached(&gate, 1).await;
    let story = stop_and_go_on(harness, client).await;
    assert_eq!(
        story,
        ["RUNNING", "step 0 DONE USER>MODEL \"go\"", "FULLY_IDLE"]
    );
}

#[tokio::test]
async fn a_command() {
    let harness = Harness::start([]).await;
    let workspace = harness.workspace();
    let mut fifo = Fifo::new(&workspace);
    let line = "setsid sleep 1001 & echo $! $$ > fifo; sleep 1002";
    harness
        .model
        .push(ScriptedTurn::new().call("run_command", json!({ "CommandLine": line })));
    let client = begin(&harness, commands(&workspace)).await;
    let line = fifo.line().await;
    let story = stop_and_go_on(harness, client).await;
    for pid in line.split(' ') {
        ended(pid.parse().unwrap()).await.unwrap();
    }
    assert_eq!(story.last().unwrap(), "FULLY_IDLE");
    assert!(
        story
            .iter()
            .any(|line| line.starts_with("step 1 ERROR MODEL>ENVIRONMENT")),
        "{story:?}"
    );
}

#[tokio::test]
async fn a_host_call_whose_late_answer_is_dropped() {
    let call = ScriptedTurn::new().call_with_id("c", "lookup", json!({}));
    let harness = Harness::start([call]).await;
    let mut client = begin(&harness, host_tools(&["lookup"])).await;
    until_member(&mut client, "toolCall").await;
    client.send(&halt()).await.unwrap();
    client.until_idle().await.unwrap();
    let late = json!({ "toolResponse": { "id": "c", "responseJson": "{\"word\": \"belated\"}" } });
    client.send(&late).await.unwrap();
    harness
        .process
        .stderr_line("a toolResponse for \"c\" was ignored")
        .await
        .unwrap();
    harness.model.push(ScriptedTurn::new().text("going on"));
    ask(&mut client, "and now?").await;
    let request = harness.model.requests().pop().unwrap();
    let body = request.body.to_string();
    // Exactly one answer for the call, and not the late one.
    assert_eq!(body.matches("\"functionResponse\"").count(), 1, "{body}");
    assert!(!body.contains("belated"), "{body}");
    assert_stream(client.events());
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn a_question() {
    let harness = Harness::start([ScriptedTurn::new().call("ask_question", question())]).await;
    let mut client = begin(&harness, questions()).await;
    client
        .until("the question", |event| {
            event["stepUpdate"]["state"] == "STATE_WAITING_FOR_USER"
        })
        .await
        .unwrap();
    let story = stop_and_go_on(harness, client).await;
    assert_eq!(story.last().unwrap(), "FULLY_IDLE");
    assert!(
        story.iter().any(|line| line.starts_with("step 1 ERROR")),
        "{story:?}"
    );
}

#[tokio::test]
async fn the_wait_before_a_retry() {
    let harness = Harness::start([]).await;
    harness.model.push(ServerTurn::status(503, "busy"));
    let mut client = begin(&harness, retries(5, 600_000)).await;
    client
        .until("the error", |event| {
            event["stepUpdate"]["state"] == "STATE_ERROR"
        })
        .await
        .unwrap();
    let story = stop_and_go_on(harness, client).await;
    assert_eq!(story, ["FULLY_IDLE"]);
}

#[tokio::test]
async fn a_hook_and_a_policy_decision() {
    let call = || ScriptedTurn::new().call("lookup", json!({}));
    let hooks = json!({ "enabledHooks": ["LIFECYCLE_HOOK_PRE_TOOL"] });
    let rules = json!({ "policyConfig": { "rules": [{
        "tool": "*", "name": "ask", "ruleId": "r1",
        "decision": "POLICY_DECISION_ASK_USER", "isDynamic": true,
    }] } });
    for (more, asked) in [(hooks, "callHookRequest"), (rules, "policyDecisionRequest")] {
        let harness = Harness::start([call()]).await;
        let mut client = begin(&harness, with(host_tools(&["lookup"]), more)).await;
        until_member(&mut client, asked).await;
        let story = stop_and_go_on(harness, client).await;
        assert_eq!(story.last().unwrap(), "FULLY_IDLE", "{asked}");
    }
}

#[tokio::test]
async fn nothing_at_all() {
    let harness = Harness::start([]).await;
    let mut client = harness.open().await;
    client.send(&halt()).await.unwrap();
    client.ping().await.unwrap();
    harness.model.push(ScriptedTurn::new().text("hello"));
    let events = ask(&mut client, "hi").await;
    let expected = [
        "RUNNING",
        "step 0 DONE USER>MODEL \"hi\"",
        "step 1 DONE MODEL>USER \"hello\"",
        "FULLY_IDLE",
    ];
    assert_eq!(story(&events), expected);
    client.close().await.unwrap();
    harness.end().await;
}
