//! Models that fail, in every way they do.

use harness_testkit::{ServerTurn, WireClient};
use harness_types::{FinishReason, Gate, ScriptedTurn};
use serde_json::{Value, json};

use super::support::{
    Harness, ask, assert_stream, host_tools, input, reached, retries, story, texts, with,
};

/// An answer in the provider's form for errors.
fn failure(code: u16, message: &str) -> ServerTurn {
    let body = json!({ "error": { "code": code, "message": message, "status": "SAID_SO" } });
    ServerTurn::status(code, body.to_string())
}

fn errors(events: &[Value]) -> Vec<(u64, String)> {
    let steps = events.iter().map(|event| &event["stepUpdate"]);
    steps
        .filter(|step| step["state"] == "STATE_ERROR")
        .map(|step| {
            let error = &step["error"];
            (
                error["httpCode"].as_u64().unwrap(),
                error["errorMessage"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

async fn close(client: WireClient, harness: Harness) {
    assert_stream(client.events());
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn errors_that_are_not_repeated_end_the_turn_and_the_session_goes_on() {
    let harness = Harness::start([]).await;
    let mut client = harness
        .open_with(with(harness.config(), retries(0, 1)))
        .await;
    for code in [400, 401, 403, 404, 429, 500, 503] {
        harness.model.push(failure(code, "no luck"));
        let events = ask(&mut client, "go").await;
        let errors = errors(&events);
        assert_eq!(errors.len(), 1, "{code}: {errors:?}");
        assert_eq!(errors[0].0, u64::from(code));
        assert!(errors[0].1.contains("no luck"), "{errors:?}");
        let idle = &events.last().unwrap()["trajectoryStateUpdate"];
        assert_eq!(idle["error"], errors[0].1.as_str());
        harness.model.push(ScriptedTurn::new().text("still here"));
        let events = ask(&mut client, "and now?").await;
        assert_eq!(story(&events).last().unwrap(), "FULLY_IDLE");
    }
    close(client, harness).await;
}

#[tokio::test]
async fn f015_a_request_that_is_repeated_shows_its_wait_first_and_no_code_that_clients_raise_on() {
    let harness = Harness::start([]).await;
    let mut client = harness
        .open_with(with(harness.config(), retries(5, 1)))
        .await;
    for code in [429, 500, 503, 504] {
        let gate = Gate::new();
        harness.model.push(failure(code, "later"));
        harness
            .model
            .push(ServerTurn::from(ScriptedTurn::new().text("now")).gated(&gate));
        client.send(&input("go")).await.unwrap();
        // The repeated request stands at the gate: what is read before it opens came before.
        reached(&gate, 1).await;
        let shown = client
            .until("the error", |event| {
                event["stepUpdate"]["state"] == "STATE_ERROR"
            })
            .await
            .unwrap();
        let shown = errors(&shown);
        assert!(shown[0].1.contains("asking again in 0.0 s"), "{shown:?}");
        assert!(![400, 401, 403].contains(&shown[0].0), "{shown:?}");
        gate.open();
        let events = client.until_idle().await.unwrap();
        assert_eq!(errors(&events), []);
        assert!(story(&events).iter().any(|line| line.ends_with("\"now\"")));
    }
    // Given up in the end, with the last code.
    for _ in 0..6 {
        harness.model.push(failure(503, "never"));
    }
    let errors = errors(&ask(&mut client, "go").await);
    assert_eq!(errors.len(), 6);
    assert_eq!(errors[5].0, 503);
    assert!(errors[5].1.contains("gave up after 6 tries"), "{errors:?}");
    close(client, harness).await;
}

#[tokio::test]
async fn a_refusal_inside_a_stream_that_is_not_repeated_is_shown_once() {
    let harness = Harness::start([]).await;
    let mut client = harness
        .open_with(with(harness.config(), retries(5, 1)))
        .await;
    for code in [400, 401, 403] {
        let part = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "I " }] } }] });
        let error = json!({ "error": { "code": code, "message": "no", "status": "SAID_SO" } });
        harness.model.push(ServerTurn::events([part, error]));
        let errors = errors(&ask(&mut client, "go").await);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].0, code);
    }
    close(client, harness).await;
}

#[tokio::test]
async fn f015_a_stream_that_breaks_is_asked_again() {
    let harness = Harness::start([]).await;
    let mut client = harness
        .open_with(with(harness.config(), retries(5, 1)))
        .await;
    harness.model.push(ServerTurn::raw(""));
    harness.model.push(ScriptedTurn::new().cut());
    harness
        .model
        .push(ScriptedTurn::new().text("It is b").cut());
    harness.model.push(ScriptedTurn::new().text("It is blue."));
    let events = ask(&mut client, "what is it?").await;
    let errors = errors(&events);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors.iter().all(|(code, _)| *code == 0), "{errors:?}");
    let texts = texts(&events);
    let said: Vec<_> = texts.values().map(|(text, _)| text.as_str()).collect();
    assert!(
        said.contains(&"It is b\n\n") && said.contains(&"It is blue."),
        "{said:?}"
    );
    // What was cut is no part of the history.
    harness.model.push(ScriptedTurn::new().text("yes"));
    ask(&mut client, "sure?").await;
    let request = harness.model.requests().pop().unwrap();
    let history: Vec<_> = request
        .contents()
        .iter()
        .filter(|c| c["role"] == "model")
        .collect();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0]["parts"], json!([{ "text": "It is blue." }]));
    close(client, harness).await;
}

#[tokio::test]
async fn a_cut_answer_whose_call_has_started_is_not_asked_again() {
    let harness = Harness::start([]).await;
    let workspace = harness.workspace();
    std::fs::write(workspace.join("a"), "content of a").unwrap();
    let tools = json!({
        "harnessSideTools": { "viewFile": { "enabled": true } },
        "workspaces": [{ "filesystemWorkspace": { "directory": workspace } }],
    });
    let config = with(with(harness.config(), tools), retries(5, 1));
    let mut client = harness.open_with(config).await;
    let path = workspace.join("a");
    let gate = Gate::new();
    harness.model.push(
        ScriptedTurn::new()
            .call("view_file", json!({ "AbsolutePath": path }))
            .gate(&gate)
            .cut(),
    );
    harness.model.push(ScriptedTurn::new().text("read"));
    client.send(&input("read a")).await.unwrap();
    client
        .until("the file", |event| {
            event["stepUpdate"]["state"] == "STATE_DONE"
                && !event["stepUpdate"]["viewFile"].is_null()
        })
        .await
        .unwrap();
    gate.open();
    client.until_idle().await.unwrap();
    let requests = harness.model.requests();
    let told = requests[1].last_responses();
    assert_eq!(told.len(), 1);
    assert!(told[0].to_string().contains("content of a"), "{told:?}");
    close(client, harness).await;
}

#[tokio::test]
async fn f066_f067_a_stream_in_odd_pieces_is_read_as_it_was_meant() {
    let harness = Harness::start([]).await;
    let mut client = harness
        .open_with(with(harness.config(), retries(1, 1)))
        .await;
    let text = |text: &str| json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] } }] });
    let end = json!({ "candidates": [{ "finishReason": "STOP" }] });
    let counts = json!({ "usageMetadata": { "promptTokenCount": 3, "totalTokenCount": 4 } });
    let body = format!(
        ": a comment\n\nevent: message\nid: 1\ndata: {}\n\ndata:{}\r\n\r\n: keepalive\r\n\r\n\
         data: {{\"candidates\": [{{\"content\":\ndata: {{\"role\": \"model\", \"parts\": [{{\"text\": \"drei\"}}]}}}}]}}\n\n\
         data: {end}\n\ndata: {counts}\n\ndata: [DONE]\n\n",
        text("eins "),
        text("zwölf € "),
    );
    // One byte a piece, so that characters, lines and events are cut everywhere.
    let pieces: Vec<Vec<u8>> = body
        .into_bytes()
        .into_iter()
        .map(|byte| vec![byte])
        .collect();
    harness.model.push(ServerTurn::pieces(pieces));
    let events = ask(&mut client, "go").await;
    let expected = [
        "RUNNING",
        "step 0 DONE USER>MODEL \"go\"",
        "step 1 DONE MODEL>USER \"eins zwölf € drei\"",
        "usage 4",
        "FULLY_IDLE",
    ];
    assert_eq!(story(&events), expected);

    // The last event without its blank line counts; an end without a reason does not.
    let unended = format!("data: {}\n\ndata: {end}", text("last"));
    harness.model.push(ServerTurn::pieces([unended]));
    let events = ask(&mut client, "go").await;
    assert_eq!(errors(&events), []);
    harness.model.push(ServerTurn::events([text("half")]));
    harness.model.push(ScriptedTurn::new().text("whole"));
    let events = ask(&mut client, "go").await;
    assert_eq!(errors(&events).len(), 1);
    assert!(
        story(&events)
            .iter()
            .any(|line| line.ends_with("\"whole\""))
    );
    close(client, harness).await;
}

#[tokio::test]
async fn f016_f017_an_unusable_answer_is_asked_again_and_an_empty_one_after_work_is_an_end() {
    let harness = Harness::start([
        ScriptedTurn::new().finish(FinishReason::MalformedCall(
            "MALFORMED_FUNCTION_CALL".into(),
        )),
        ScriptedTurn::new().finish(FinishReason::MalformedCall("UNEXPECTED_TOOL_CALL".into())),
        ScriptedTurn::new().text("good"),
        ScriptedTurn::new().call_with_id("c", "lookup", json!({})),
        ScriptedTurn::new(),
    ])
    .await;
    let mut client = harness
        .open_with(with(harness.config(), host_tools(&["lookup"])))
        .await;
    let events = ask(&mut client, "go").await;
    assert_eq!(errors(&events).len(), 2);
    assert!(story(&events).iter().any(|line| line.ends_with("\"good\"")));

    client.send(&input("work")).await.unwrap();
    super::support::until_member(&mut client, "toolCall").await;
    client
        .send(&json!({ "toolResponse": { "id": "c", "responseJson": "{}" } }))
        .await
        .unwrap();
    let events = client.until_idle().await.unwrap();
    assert_eq!(errors(&events), []);
    close(client, harness).await;
}

#[tokio::test]
async fn a_daily_quota_is_not_waited_for() {
    let harness = Harness::start([]).await;
    let mut client = harness
        .open_with(with(harness.config(), retries(5, 1)))
        .await;
    let body = json!({ "error": {
        "code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED",
        "details": [
            { "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{ "quotaId": "GenerateRequestsPerDayPerProjectPerModel" }] },
            { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s" },
        ],
    } });
    harness
        .model
        .push(ServerTurn::status(429, body.to_string()));
    let errors = errors(&ask(&mut client, "go").await);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].0, 429);
    close(client, harness).await;
}

#[tokio::test]
async fn f068_no_retries_means_none_and_a_named_wait_is_obeyed() {
    let harness = Harness::start([]).await;
    let mut client = harness
        .open_with(with(harness.config(), retries(1, 600_000)))
        .await;
    // The provider's own wait counts, not the ten minutes of the configuration.
    let busy = || failure(503, "busy").header("Retry-After", "1");
    harness.model.push(busy());
    harness.model.push(ScriptedTurn::new().text("there"));
    let events = ask(&mut client, "go").await;
    let shown = errors(&events);
    assert!(shown[0].1.contains("asking again in 1.0 s"), "{shown:?}");
    let requests = harness.model.requests();
    let waited = requests[1].at - requests[0].at;
    assert!(waited.as_millis() >= 1000, "{waited:?}");
    close(client, harness).await;
}
