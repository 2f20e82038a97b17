//! What a client sees of a turn, and what the model is told.

use harness_types::{CallId, Gate, ModalityCount, ScriptedTurn, Usage};
use serde_json::{Value, json};

use super::support::{
    Harness, ask, assert_stream, host_tools, input, question, questions, reached, story, texts,
    until_member, until_text, with,
};

fn usage(prompt: u64, cached: u64, thoughts: u64, candidates: u64) -> Usage {
    Usage {
        prompt_tokens: prompt,
        cached_tokens: cached,
        thoughts_tokens: thoughts,
        candidates_tokens: candidates,
        total_tokens: prompt + thoughts + candidates,
        ..Usage::default()
    }
}

#[tokio::test]
async fn a_turn_has_its_events_in_order() {
    let harness = Harness::start([
        ScriptedTurn::new()
            .thinking("Let me see.")
            .text("I look. ")
            .call_with_id(
                "call-a",
                "lookup",
                json!({ "key": 7, "toolSummary": "Looking" }),
            )
            .usage(usage(100, 80, 5, 10)),
        ScriptedTurn::new()
            .text("It is blue.")
            .usage(usage(150, 100, 0, 4)),
    ])
    .await;
    let mut client = harness
        .open_with(with(harness.config(), host_tools(&["lookup"])))
        .await;
    client.send(&input("What is it?")).await.unwrap();
    let call = until_member(&mut client, "toolCall").await;
    assert_eq!(call["id"], "call-a");
    assert_eq!(call["argumentsJson"], "{\"key\":7}");
    let response =
        json!({ "toolResponse": { "id": "call-a", "responseJson": "{\"colour\": \"blue\"}" } });
    client.send(&response).await.unwrap();
    client.until_idle().await.unwrap();
    let expected = [
        "initialized",
        "RUNNING",
        "step 0 DONE USER>MODEL \"What is it?\"",
        "step 1 DONE MODEL>USER \"I look. \"",
        "usage 115",
        "step 2 ACTIVE MODEL>ENVIRONMENT \"Looking\"",
        "call lookup",
        "step 2 DONE MODEL>ENVIRONMENT \"Looking\"",
        "step 3 DONE MODEL>USER \"It is blue.\"",
        "usage 269",
        "FULLY_IDLE",
    ];
    assert_eq!(story(client.events()), expected);
    assert_stream(client.events());
    assert_eq!(texts(client.events())[&1].1, "Let me see.");

    // F018: a count is the last one of its call, and calls are added up.
    let total = client
        .events()
        .iter()
        .rev()
        .find(|event| !event["usageUpdate"].is_null());
    let total = &total.unwrap()["usageUpdate"]["total"];
    let counts = json!({
        "promptTokenCount": "250", "cachedContentTokenCount": "180", "thoughtsTokenCount": "5",
        "candidatesTokenCount": "14", "totalTokenCount": "269",
    });
    assert_eq!(*total, counts);
    let request = &harness.model.requests()[1];
    let responses = request.last_responses();
    let answer = json!({ "id": "call-a", "name": "lookup", "response": { "colour": "blue" } });
    assert_eq!(responses, [&answer]);
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn f018_usage_of_a_stream_is_its_last_not_its_sum() {
    let harness = Harness::start([]).await;
    let chunk = |text: &str, thoughts: u64| {
        json!({
            "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] } }],
            "usageMetadata": { "promptTokenCount": 100, "cachedContentTokenCount": 80,
                "thoughtsTokenCount": thoughts, "candidatesTokenCount": thoughts,
                "totalTokenCount": 100 + 2 * thoughts,
                "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": 100 }] },
        })
    };
    let mut events: Vec<Value> = (1..=5).map(|n| chunk("x", n * 5)).collect();
    events[4]["candidates"][0]["finishReason"] = json!("STOP");
    harness
        .model
        .push(harness_testkit::ServerTurn::events(events));
    let counted = Usage {
        prompt_details: vec![ModalityCount {
            modality: "TEXT".into(),
            tokens: 7,
        }],
        ..usage(7, 0, 0, 3)
    };
    harness
        .model
        .push(ScriptedTurn::new().text("y").usage(counted));
    let mut client = harness.open().await;
    for (prompt, thoughts, candidates, total) in
        [("100", "25", "25", "150"), ("107", "25", "28", "160")]
    {
        let events = ask(&mut client, "go").await;
        let last = events
            .iter()
            .rev()
            .find(|event| !event["usageUpdate"].is_null())
            .unwrap();
        let expected = json!({
            "promptTokenCount": prompt, "cachedContentTokenCount": "80",
            "thoughtsTokenCount": thoughts, "candidatesTokenCount": candidates,
            "totalTokenCount": total,
            "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": prompt }],
        });
        assert_eq!(last["usageUpdate"]["total"], expected);
        let agents = last["usageUpdate"]["agents"].as_array().unwrap();
        assert!(
            agents.len() == 1 && agents[0]["usage"] == expected,
            "{agents:?}"
        );
    }
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn deltas_join_exactly_at_any_pace() {
    // Characters of one to four bytes, cut anywhere between them.
    let words = [
        "a",
        "ü",
        "€",
        "𝄞",
        "e\u{301}",
        "\n",
        "\"\\",
        "\u{1f468}\u{200d}\u{1f469}",
    ];
    let chunks: Vec<String> = (0..4000)
        .map(|n| words[n * 7 % words.len()].repeat(n % 3))
        .collect();
    let whole = chunks.concat();
    let gate = Gate::new();
    let slow = ScriptedTurn::new()
        .text_chunks(["one ", "two ", "three"])
        .gated(&gate);
    let harness = Harness::start([ScriptedTurn::new().text_chunks(chunks), slow]).await;
    let mut client = harness.open().await;
    let events = ask(&mut client, "fast").await;
    assert_eq!(texts(&events)[&1].0, whole);

    client.send(&input("slow")).await.unwrap();
    for text in ["one ", "one two ", "one two three"] {
        gate.let_one_pass();
        // Each piece is shown before the next one comes.
        until_text(&mut client, text).await;
    }
    client.until_idle().await.unwrap();
    assert_stream(client.events());
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn thoughts_and_signatures_are_echoed_byte_for_byte() {
    let signature = "c2lnbmF0dXJlLe+/vS8rPT0=";
    let harness = Harness::start([
        ScriptedTurn::new()
            .thinking("First thought.")
            .signed("dGhvdWdodA==")
            .text("So: ")
            .signed("dGV4dA==")
            .call_with_id(
                "x1",
                "lookup",
                json!({ "z": 1, "a": { "b": [1.5, null, "ü"] } }),
            )
            .signed(signature),
        ScriptedTurn::new().text("done"),
    ])
    .await;
    let mut client = harness
        .open_with(with(harness.config(), host_tools(&["lookup"])))
        .await;
    client.send(&input("go")).await.unwrap();
    until_member(&mut client, "toolCall").await;
    let answer = json!({ "toolResponse": { "id": "x1", "responseJson": "{}" } });
    client.send(&answer).await.unwrap();
    client.until_idle().await.unwrap();
    let request = &harness.model.requests()[1];
    let said = request
        .contents()
        .iter()
        .find(|content| content["role"] == "model")
        .unwrap();
    let expected = json!([
        { "text": "First thought.", "thought": true, "thoughtSignature": "dGhvdWdodA==" },
        { "text": "So: ", "thoughtSignature": "dGV4dA==" },
        {
            "functionCall": { "id": "x1", "name": "lookup", "args": { "z": 1, "a": { "b": [1.5, null, "ü"] } } },
            "thoughtSignature": signature,
        },
    ]);
    assert_eq!(said["parts"], expected);
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn inputs_said_meanwhile_are_answered_together() {
    let gate = Gate::new();
    let harness = Harness::start([
        ScriptedTurn::new().text("first").gate(&gate),
        ScriptedTurn::new().text("both"),
    ])
    .await;
    let mut client = harness.open().await;
    client.send(&input("one")).await.unwrap();
    until_text(&mut client, "first").await;
    client.send(&input("two")).await.unwrap();
    client
        .send(&json!({ "automatedTrigger": "tick" }))
        .await
        .unwrap();
    // Answered in order, so what was sent before it has been taken.
    client.send(&json!({ "nothing": 1 })).await.unwrap();
    client
        .until("the error", |event| {
            event["stepUpdate"]["state"] == "STATE_ERROR"
        })
        .await
        .unwrap();
    gate.open();
    let events = client.until_idle().await.unwrap();
    let story = story(&events);
    let expected = [
        "step 1 DONE MODEL>USER \"first\"",
        "step 3 DONE USER>MODEL \"two\"",
        "step 4 DONE SYSTEM>MODEL \"tick\"",
        "step 5 DONE MODEL>USER \"both\"",
        "FULLY_IDLE",
    ];
    assert_eq!(story, expected);
    let request = &harness.model.requests()[1];
    let text = request.last_text();
    assert!(text.contains("two") && text.contains("tick"), "{text}");
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn a_trigger_is_one_turn_with_one_model_call() {
    let harness = Harness::start([ScriptedTurn::new().text("seen")]).await;
    let mut client = harness.open().await;
    client
        .send(&json!({ "automatedTrigger": "the build is done" }))
        .await
        .unwrap();
    let events = client.until_idle().await.unwrap();
    let expected = [
        "RUNNING",
        "step 0 DONE SYSTEM>MODEL \"the build is done\"",
        "step 1 DONE MODEL>USER \"seen\"",
        "FULLY_IDLE",
    ];
    assert_eq!(story(&events), expected);
    assert_eq!(harness.model.requests().len(), 1);
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn text_and_images_reach_the_model_in_their_order() {
    let harness = Harness::start([ScriptedTurn::new().text("a cat")]).await;
    let mut client = harness.open().await;
    let parts = json!([
        { "text": "Compare " },
        { "media": { "mimeType": "image/png", "data": "iVBORw0=", "description": "one" } },
        { "text": " with " },
        { "media": { "mimeType": "image/jpeg", "data": "_9j_4A", "description": "two" } },
        { "text": "." },
    ]);
    client
        .send(&json!({ "userInput": { "parts": parts } }))
        .await
        .unwrap();
    client.until_idle().await.unwrap();
    let request = &harness.model.requests()[0];
    let sent: Vec<String> = request.contents()[0]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| match part["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!(
                "{} {}",
                part["inlineData"]["mimeType"], part["inlineData"]["data"]
            ),
        })
        .filter(|part| {
            ["Compare ", " with ", "."].contains(&part.as_str()) || part.contains("image")
        })
        .collect();
    let expected = [
        "Compare ",
        "\"image/png\" \"iVBORw0=\"",
        " with ",
        "\"image/jpeg\" \"/9j/4A==\"",
        ".",
    ];
    assert_eq!(sent, expected);
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn a_question_is_asked_and_its_answer_told() {
    let harness = Harness::start([
        ScriptedTurn::new().call("ask_question", question()),
        ScriptedTurn::new().text("blue it is"),
    ])
    .await;
    let mut client = harness.open_with(with(harness.config(), questions())).await;
    client.send(&input("go")).await.unwrap();
    let waiting = client
        .until("the question", |event| {
            event["stepUpdate"]["state"] == "STATE_WAITING_FOR_USER"
        })
        .await
        .unwrap();
    let step = &waiting.last().unwrap()["stepUpdate"];
    let asked = json!([{ "multipleChoice": {
        "question": "Which colour?", "choices": ["red", "blue"], "isMultiSelect": false,
    } }]);
    assert_eq!(step["questionsRequest"]["questions"], asked);
    let answer = json!({ "questionResponse": {
        "trajectoryId": step["trajectoryId"], "stepIndex": step["stepIndex"],
        "response": { "answers": [{ "multipleChoiceAnswer": { "selectedChoiceIndices": [1] } }] },
    } });
    client.send(&answer).await.unwrap();
    let events = client.until_idle().await.unwrap();
    assert_eq!(story(&events).last().unwrap(), "FULLY_IDLE");
    let told = harness.model.requests()[1].last_responses()[0].to_string();
    assert!(
        told.contains("Which colour?") && told.contains("blue"),
        "{told}"
    );
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn a_finished_task_ends_the_turn_without_another_model_call() {
    let schema = json!({
        "type": "object", "required": ["answer"],
        "properties": { "answer": { "type": "integer" } },
    });
    let harness = Harness::start([
        ScriptedTurn::new().call("finish", json!({ "answer": "six" })),
        ScriptedTurn::new().call("finish", json!({ "answer": 6 })),
    ])
    .await;
    let config = with(
        harness.config(),
        json!({ "finishToolSchemaJson": schema.to_string() }),
    );
    let mut client = harness.open_with(config).await;
    let events = ask(&mut client, "go").await;
    let finish: Vec<_> = events
        .iter()
        .map(|event| &event["stepUpdate"])
        .filter(|step| step["state"] == "STATE_DONE" && !step["finish"].is_null())
        .collect();
    assert_eq!(finish.len(), 1, "{:#?}", story(&events));
    let output: Value =
        serde_json::from_str(finish[0]["finish"]["outputString"].as_str().unwrap()).unwrap();
    assert_eq!(output, json!({ "answer": 6 }));
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn host_calls_of_one_answer_run_together_and_are_told_in_call_order() {
    let four = (0..4).fold(ScriptedTurn::new(), |turn, n| {
        turn.call_with_id(format!("c{n}"), "lookup", json!({ "n": n }))
    });
    let harness = Harness::start([four, ScriptedTurn::new().text("done")]).await;
    let mut client = harness
        .open_with(with(harness.config(), host_tools(&["lookup"])))
        .await;
    client.send(&input("go")).await.unwrap();
    let mut calls = Vec::new();
    // All four are asked before any is answered.
    for _ in 0..4 {
        let call = until_member(&mut client, "toolCall").await;
        calls.push(CallId::new(call["id"].as_str().unwrap()));
    }
    for id in ["c2", "c0", "c3", "c1"] {
        assert!(calls.contains(&CallId::new(id)));
        let response = json!({ "id": id, "responseJson": json!({ "of": id }).to_string() });
        client
            .send(&json!({ "toolResponse": response }))
            .await
            .unwrap();
    }
    client.until_idle().await.unwrap();
    let request = &harness.model.requests()[1];
    let told: Vec<_> = request
        .last_responses()
        .iter()
        .map(|r| (&r["id"], &r["response"]))
        .collect();
    let expected = [0, 1, 2, 3].map(|n| (json!(format!("c{n}")), json!({ "of": format!("c{n}") })));
    let expected: Vec<_> = expected.iter().map(|(id, of)| (id, of)).collect();
    assert_eq!(told, expected);
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn f025_a_host_call_may_stay_open_while_other_things_happen() {
    let gate = Gate::new();
    let harness = Harness::start([
        ScriptedTurn::new().call_with_id("c", "lookup", json!({})),
        ScriptedTurn::new().gate(&gate).text("done"),
    ])
    .await;
    let mut client = harness
        .open_with(with(harness.config(), host_tools(&["lookup"])))
        .await;
    client.send(&input("go")).await.unwrap();
    until_member(&mut client, "toolCall").await;
    let url = harness.model.route(
        "other",
        (0..20).map(|n| ScriptedTurn::new().text(format!("{n}"))),
    );
    let mut other = harness.open_with(super::support::config(&url)).await;
    for n in 0..20 {
        let events = ask(&mut other, "go").await;
        assert_eq!(texts(&events)[&(2 * n + 1)].0, n.to_string());
        client.ping().await.unwrap();
    }
    client.send(&input("and this too")).await.unwrap();
    let answer = json!({ "toolResponse": { "id": "c", "responseJson": "{\"at\": \"last\"}" } });
    client.send(&answer).await.unwrap();
    reached(&gate, 1).await;
    gate.open();
    client.until_idle().await.unwrap();
    let request = harness.model.requests_of("").pop().unwrap();
    assert!(
        request.last_text().contains("and this too"),
        "{}",
        request.body
    );
    assert_stream(client.events());
    other.close().await.unwrap();
    client.close().await.unwrap();
    harness.end().await;
}
