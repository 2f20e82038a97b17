//! Answers to what the harness asks: right, wrong, twice, and to what it never asked.

use harness_testkit::WireClient;
use harness_types::ScriptedTurn;
use serde_json::{Value, json};

use super::support::{
    Harness, ask, assert_stream, count_lines, host_tools, input, lines_with, question, questions,
    story, until_member, with,
};

/// Sends an answer and waits for the line that says that it was ignored.
async fn ignored(harness: &Harness, client: &mut WireClient, answer: Value, line: &str) {
    let before = count_lines(&harness.process, line);
    client.send(&answer).await.unwrap();
    lines_with(&harness.process, line, before + 1).await;
}

#[tokio::test]
async fn unsolicited_answers_kill_nothing() {
    let turns = (0..2).map(|_| ScriptedTurn::new().text("here"));
    let harness = Harness::start(turns).await;
    let mut client = harness.open().await;
    let strays = [
        (
            json!({ "policyDecisionResponse": { "requestId": "1", "outcome": "POLICY_EVALUATION_OUTCOME_ALLOW" } }),
            "an answer to request 1 was ignored: it is not open",
        ),
        (
            json!({ "policyDecisionResponse": { "requestId": "first" } }),
            "a policyDecisionResponse for \"first\" was ignored",
        ),
        (
            json!({ "policyDecisionResponse": {} }),
            "a policyDecisionResponse for \"\" was ignored",
        ),
        (
            json!({ "callHookResponse": { "requestId": "hook_request_77", "emptyResult": {} } }),
            "an answer to request 77 was ignored: it is not open",
        ),
        (
            json!({ "callHookResponse": { "requestId": "other_78" } }),
            "a callHookResponse for \"other_78\" was ignored",
        ),
        (
            json!({ "toolResponse": { "id": "nothing", "responseJson": "{}" } }),
            "a toolResponse for \"nothing\" was ignored",
        ),
        (
            json!({ "questionResponse": { "trajectoryId": "elsewhere", "stepIndex": 9, "cancelled": true } }),
            "a questionResponse for step 9 was ignored",
        ),
        (
            json!({ "toolConfirmation": { "trajectoryId": "x", "stepIndex": 1, "accepted": true } }),
            "a toolConfirmation that was not asked for was ignored",
        ),
    ];
    for (answer, line) in strays {
        ignored(&harness, &mut client, answer, line).await;
    }
    let events = ask(&mut client, "still here?").await;
    assert_eq!(story(&events).len(), 4);
    client
        .send(&json!({ "sessionEndRequest": true }))
        .await
        .unwrap();
    let end = client.next_event().await.unwrap();
    assert_eq!(end["sessionEndResponse"], true);
    ask(&mut client, "and after the end?").await;
    assert_stream(client.events());
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn the_first_answer_to_a_host_call_counts() {
    let harness = Harness::start([
        ScriptedTurn::new().call_with_id("c", "lookup", json!({})),
        ScriptedTurn::new().text("done"),
        ScriptedTurn::new().text("again"),
    ])
    .await;
    let mut client = harness
        .open_with(with(harness.config(), host_tools(&["lookup"])))
        .await;
    client.send(&input("go")).await.unwrap();
    until_member(&mut client, "toolCall").await;
    let answer = |n: u32| json!({ "toolResponse": { "id": "c", "responseJson": json!({ "n": n }).to_string() } });
    client.send(&answer(1)).await.unwrap();
    ignored(
        &harness,
        &mut client,
        answer(2),
        "a toolResponse for \"c\" was ignored",
    )
    .await;
    client.until_idle().await.unwrap();
    ignored(
        &harness,
        &mut client,
        answer(3),
        "a toolResponse for \"c\" was ignored",
    )
    .await;
    ask(&mut client, "go on").await;
    let requests = harness.model.requests();
    assert_eq!(
        requests[1].last_responses()[0]["response"],
        json!({ "n": 1 })
    );
    assert_eq!(
        requests[2]
            .body
            .to_string()
            .matches("functionResponse")
            .count(),
        1
    );
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn every_form_of_a_host_answer_reaches_the_model() {
    // What is answered, and what the model is told.
    let cases = [
        (
            json!({ "responseJson": "{\"a\": [1, null]}" }),
            json!({ "a": [1, null] }),
        ),
        (
            json!({ "responseJson": "[1, 2]" }),
            json!({ "result": [1, 2] }),
        ),
        (json!({ "responseJson": "7" }), json!({ "result": 7 })),
        (
            json!({ "responseJson": "no json" }),
            json!({ "output": "no json" }),
        ),
        (json!({}), json!({})),
        (
            json!({ "response": { "fields": [{ "name": "k", "value": { "stringValue": "v" } }] } }),
            json!({ "k": "v" }),
        ),
        (
            json!({ "errorMessage": "boom", "responseJson": "{}" }),
            json!({ "error": "boom" }),
        ),
        (
            json!({ "responseJson": "{\"error\": \"boom\"}" }),
            json!({ "error": "boom" }),
        ),
    ];
    let harness = Harness::start([]).await;
    let mut client = harness
        .open_with(with(harness.config(), host_tools(&["lookup"])))
        .await;
    for (n, (answer, told)) in cases.into_iter().enumerate() {
        let id = format!("c{n}");
        harness.model.push(ScriptedTurn::new().call_with_id(
            id.as_str(),
            "lookup",
            json!({ "n": n }),
        ));
        harness.model.push(ScriptedTurn::new().text("ok"));
        client.send(&input("go")).await.unwrap();
        until_member(&mut client, "toolCall").await;
        let response = with(answer.clone(), json!({ "id": id }));
        client
            .send(&json!({ "toolResponse": response }))
            .await
            .unwrap();
        client.until_idle().await.unwrap();
        let request = harness.model.requests().pop().unwrap();
        assert_eq!(request.last_responses()[0]["response"], told, "{answer}");
    }
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn an_answer_of_the_wrong_kind_leaves_the_hook_open() {
    let harness = Harness::start([
        ScriptedTurn::new().call_with_id("c", "lookup", json!({})),
        ScriptedTurn::new().text("done"),
    ])
    .await;
    let hooks = json!({ "enabledHooks": ["LIFECYCLE_HOOK_PRE_TOOL", "LIFECYCLE_HOOK_STOP"] });
    let config = with(with(harness.config(), host_tools(&["lookup"])), hooks);
    let mut client = harness.open_with(config).await;
    client.send(&input("go")).await.unwrap();
    let hook = until_member(&mut client, "callHookRequest").await;
    assert_eq!(hook["type"], "LIFECYCLE_HOOK_PRE_TOOL");
    assert_eq!(hook["preToolArgs"]["callId"], "c");
    let id = hook["requestId"].as_str().unwrap().to_owned();
    let number = id.strip_prefix("hook_request_").unwrap();
    let wrong = [
        (
            json!({ "callHookResponse": { "requestId": id, "stopResult": { "decision": "CONTINUE" } } }),
            "that verdict does not belong to this hook",
        ),
        (
            json!({ "callHookResponse": { "requestId": id, "onToolErrorResult": { "customErrorMessage": "x" } } }),
            "that verdict does not belong to this hook",
        ),
        (
            json!({ "policyDecisionResponse": { "requestId": number, "outcome": "POLICY_EVALUATION_OUTCOME_ALLOW" } }),
            "it is not a Hook answer",
        ),
    ];
    for (answer, line) in wrong {
        ignored(&harness, &mut client, answer, line).await;
    }
    // F022: an empty answer is no opinion.
    let empty = json!({ "callHookResponse": { "requestId": id, "emptyResult": {} } });
    client.send(&empty).await.unwrap();
    until_member(&mut client, "toolCall").await;
    ignored(&harness, &mut client, empty, "it is not open").await;
    client
        .send(&json!({ "toolResponse": { "id": "c", "responseJson": "{}" } }))
        .await
        .unwrap();
    let stop = until_member(&mut client, "callHookRequest").await;
    assert_eq!(stop["type"], "LIFECYCLE_HOOK_STOP");
    let stop = json!({ "callHookResponse": { "requestId": stop["requestId"], "stopResult": { "decision": "ALLOW_STOP" } } });
    client.send(&stop).await.unwrap();
    client.until_idle().await.unwrap();
    assert_stream(client.events());
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn f063_a_decision_in_an_unknown_word_is_no_permission() {
    let hooks = json!({ "enabledHooks": ["LIFECYCLE_HOOK_PRE_TOOL"] });
    let rules = json!({ "policyConfig": { "rules": [{
        "tool": "*", "name": "ask", "ruleId": "r1",
        "decision": "POLICY_DECISION_ASK_USER", "isDynamic": true,
    }] } });
    for (more, asked) in [(hooks, "callHookRequest"), (rules, "policyDecisionRequest")] {
        for unknown in [json!("MAYBE"), json!(99)] {
            let harness = Harness::start([
                ScriptedTurn::new().call_with_id("c", "lookup", json!({})),
                ScriptedTurn::new().text("done"),
            ])
            .await;
            let config = with(
                with(harness.config(), host_tools(&["lookup"])),
                more.clone(),
            );
            let mut client = harness.open_with(config).await;
            client.send(&input("go")).await.unwrap();
            let request = until_member(&mut client, asked).await;
            let answer = if asked == "callHookRequest" {
                json!({ "callHookResponse": { "requestId": request["requestId"],
                    "preToolResult": { "decision": unknown } } })
            } else {
                json!({ "policyDecisionResponse": { "requestId": request["requestId"], "outcome": unknown } })
            };
            client.send(&answer).await.unwrap();
            let events = client.until_idle().await.unwrap();
            let denied = |event: &Value| {
                event["stepUpdate"]["stepIndex"] == 1
                    && event["stepUpdate"]["state"] == "STATE_ERROR"
            };
            assert!(
                events.iter().any(denied),
                "{asked} {unknown}: {:#?}",
                story(&events)
            );
            assert!(
                events.iter().all(|event| event["toolCall"].is_null()),
                "{asked} {unknown}"
            );
            client.close().await.unwrap();
            harness.end().await;
        }
    }
}

#[tokio::test]
async fn a_policy_decision_is_asked_with_what_is_known_and_obeyed() {
    let rules = json!({ "policyConfig": { "rules": [{
        "tool": "lookup", "name": "ask", "ruleId": "r1",
        "decision": "POLICY_DECISION_ASK_USER", "isDynamic": true,
    }] } });
    // The answer, and whether the call runs.
    let cases = [("ALLOW", true), ("DENY", false), ("NO_MATCH", false)];
    let harness = Harness::start([]).await;
    let config = with(with(harness.config(), host_tools(&["lookup"])), rules);
    let mut client = harness.open_with(config).await;
    for (n, (word, runs)) in cases.into_iter().enumerate() {
        let id = format!("c{n}");
        harness.model.push(ScriptedTurn::new().call_with_id(
            id.as_str(),
            "lookup",
            json!({ "n": n }),
        ));
        harness.model.push(ScriptedTurn::new().text("ok"));
        client.send(&input("go")).await.unwrap();
        let request = until_member(&mut client, "policyDecisionRequest").await;
        assert_eq!(request["ruleId"], "r1");
        assert_eq!(request["toolArgs"]["toolName"], "lookup");
        assert_eq!(
            request["toolArgs"]["argumentsJson"],
            json!({ "n": n }).to_string()
        );
        assert_eq!(request["toolArgs"]["callId"], id.as_str());
        let outcome = format!("POLICY_EVALUATION_OUTCOME_{word}");
        let answer = json!({ "policyDecisionResponse": {
            "requestId": request["requestId"], "outcome": outcome, "denyReason": "because",
        } });
        client.send(&answer).await.unwrap();
        if runs {
            until_member(&mut client, "toolCall").await;
            client
                .send(&json!({ "toolResponse": { "id": id, "responseJson": "{}" } }))
                .await
                .unwrap();
        }
        let events = client.until_idle().await.unwrap();
        let asked = events.iter().any(|event| !event["toolCall"].is_null());
        assert!(!asked, "{word}");
        let told = harness.model.requests().pop().unwrap().last_responses()[0].to_string();
        assert_eq!(told.contains("error"), !runs, "{word}: {told}");
    }
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn odd_answers_to_a_question_are_told_as_they_are() {
    let cases = [
        (
            json!({ "response": { "answers": [{ "multipleChoiceAnswer": { "selectedChoiceIndices": [-1, 7] } }] } }),
            "not among the options",
        ),
        (json!({ "response": { "answers": [] } }), "skipped"),
        (
            json!({ "response": { "answers": [{ "unanswered": true }] } }),
            "skipped",
        ),
        (
            json!({ "response": { "answers": [{ "multipleChoiceAnswer": { "freeformResponse": "green" } }] } }),
            "green",
        ),
        (json!({ "cancelled": true }), "dismissed"),
        (json!({}), "dismissed"),
    ];
    let harness = Harness::start([]).await;
    let mut client = harness.open_with(with(harness.config(), questions())).await;
    for (answer, told) in cases {
        harness
            .model
            .push(ScriptedTurn::new().call("ask_question", question()));
        harness.model.push(ScriptedTurn::new().text("ok"));
        client.send(&input("go")).await.unwrap();
        let events = client
            .until("the question", |event| {
                event["stepUpdate"]["state"] == "STATE_WAITING_FOR_USER"
            })
            .await
            .unwrap();
        let step = &events.last().unwrap()["stepUpdate"];
        let place = json!({ "trajectoryId": step["trajectoryId"], "stepIndex": step["stepIndex"] });
        let elsewhere = json!({ "trajectoryId": step["trajectoryId"], "stepIndex": 4_000_000 });
        let wrong = json!({ "questionResponse": with(answer.clone(), elsewhere) });
        ignored(
            &harness,
            &mut client,
            wrong,
            "a questionResponse for step 4000000 was ignored",
        )
        .await;
        let right = json!({ "questionResponse": with(answer.clone(), place) });
        client.send(&right).await.unwrap();
        client.until_idle().await.unwrap();
        let line = format!(
            "a questionResponse for step {} was ignored",
            step["stepIndex"]
        );
        ignored(&harness, &mut client, right, &line).await;
        let text = harness.model.requests().pop().unwrap().last_responses()[0].to_string();
        assert!(text.contains(told), "{answer}: {text}");
    }
    client.close().await.unwrap();
    harness.end().await;
}
