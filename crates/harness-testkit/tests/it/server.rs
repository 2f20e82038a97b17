use std::time::{Duration, Instant};

use harness_testkit::{FakeModelServer, Outcome, ServerTurn};
use harness_types::{Expectation, Gate, ModelError, ModelErrorKind, ScriptedTurn, Usage};
use serde_json::{Value, json};

use crate::http::{Http, hello};

fn stop(usage: Option<Value>) -> Value {
    let mut event = json!({ "candidates": [{ "finishReason": "STOP", "index": 0 }] });
    if let Some(usage) = usage {
        event["usageMetadata"] = usage;
    }
    event
}

fn part(part: Value) -> Value {
    json!({ "candidates": [{ "content": { "role": "model", "parts": [part] }, "index": 0 }] })
}

#[tokio::test]
async fn a_scripted_turn_comes_as_events_on_a_connection_that_stays_open() {
    let server = FakeModelServer::start([
        ScriptedTurn::new()
            .thinking("hm")
            .text_chunks(["a", "b"])
            .call("look", json!({"at": 1}))
            .signed("c2ln")
            .usage(Usage {
                total_tokens: 5,
                ..Usage::default()
            }),
        ScriptedTurn::new().text("second"),
    ])
    .await
    .unwrap();
    let mut http = Http::connect(server.address()).await;
    let answer = http.ask("", &hello()).await;
    assert_eq!((answer.status, answer.whole), (200, true));
    assert!(
        answer
            .headers
            .contains(&"Content-Type: text/event-stream".to_owned())
    );
    assert_eq!(
        answer.events(),
        [
            part(json!({ "text": "hm", "thought": true })),
            part(json!({ "text": "a" })),
            part(json!({ "text": "b" })),
            part(json!({
                "functionCall": { "name": "look", "args": { "at": 1 } },
                "thoughtSignature": "c2ln",
            })),
            stop(Some(json!({ "totalTokenCount": 5 }))),
        ]
    );
    assert_eq!(http.ask("", &hello()).await.text(), "second");

    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].body, hello());
    assert_eq!(requests[1].header("x-goog-api-key"), Some("k"));
    assert_eq!(requests[1].model, "fake");
    assert_eq!(requests[1].system_text(), "You are an assistant.");
    assert_eq!(requests[1].last_text(), "hello");
    assert!(requests[0].at <= requests[1].at);
    assert_eq!((requests[0].connection, requests[1].connection), (0, 0));
    assert_eq!(server.connections(), 1);
    server.verify();
}

#[tokio::test]
async fn routes_have_scripts_of_their_own() {
    let server = FakeModelServer::start([ScriptedTurn::new().text("default")])
        .await
        .unwrap();
    server.route(
        "c1",
        [
            ScriptedTurn::new().text("one"),
            ScriptedTurn::new().text("two"),
        ],
    );
    let echo = server.respond("echo", |request| {
        ScriptedTurn::new().text(request.last_text()).into()
    });
    assert_eq!(echo, format!("{}/echo", server.base_url()));
    let mut http = Http::connect(server.address()).await;
    assert_eq!(http.ask("/c1", &hello()).await.text(), "one");
    assert_eq!(http.ask("/other", &hello()).await.text(), "default");
    assert_eq!(http.ask("/echo", &hello()).await.text(), "hello");
    assert_eq!(http.ask("/echo", &hello()).await.text(), "hello");
    assert_eq!(http.ask("/c1", &hello()).await.text(), "two");
    let indexes: Vec<_> = server.requests_of("c1").iter().map(|r| r.index).collect();
    assert_eq!(indexes, [0, 4]);

    server.route("fake", [ScriptedTurn::new().text("by model")]);
    assert_eq!(http.ask("", &hello()).await.text(), "by model");
    server.push(ScriptedTurn::new().text("pushed"));
    assert_eq!(server.turns_left(), 1);
    server.discard_turns();
    server.verify();
}

#[tokio::test]
async fn failures_of_every_kind_look_like_the_real_ones() {
    let error = |kind| ScriptedTurn::new().error(ModelError::new(kind, "busy"));
    let overloaded = ModelErrorKind::Status { code: 503 };
    let body = json!({ "error": { "code": 503, "message": "busy", "status": "UNAVAILABLE" } });
    let server = FakeModelServer::start([
        ServerTurn::from(error(overloaded.clone())),
        error(overloaded).text("half").into(),
        error(ModelErrorKind::Malformed).into(),
        ServerTurn::status(429, "slow down").header("Retry-After", "7"),
        ScriptedTurn::new().text("half").cut().into(),
    ])
    .await
    .unwrap();
    let mut http = Http::connect(server.address()).await;
    let answer = http.ask("", &hello()).await;
    assert_eq!(
        (answer.status, &answer.chunks),
        (503, &vec![body.to_string()])
    );
    let answer = http.ask("", &hello()).await;
    assert_eq!(answer.events(), [part(json!({ "text": "half" })), body]);
    let answer = http.ask("", &hello()).await;
    assert_eq!(answer.chunks, ["data: {\"candidates\": [\r\n\r\n"]);
    let answer = http.ask("", &hello()).await;
    assert_eq!(
        (answer.status, &*answer.chunks),
        (429, &["slow down".to_owned()][..])
    );
    assert!(answer.headers.contains(&"Retry-After: 7".to_owned()));
    let answer = http.ask("", &hello()).await;
    assert_eq!((answer.text(), answer.whole), ("half".to_owned(), false));
    assert_eq!(server.outcome(4).await.unwrap(), Outcome::Cut);

    for turn in [
        ServerTurn::from(error(ModelErrorKind::Connect)),
        ServerTurn::raw(""),
        ServerTurn::raw("HTTP/1.1 2"),
    ] {
        server.push(turn);
        let mut http = Http::connect(server.address()).await;
        http.send("", &hello()).await;
        assert_eq!(http.answer().await, None);
    }
    server.push(ServerTurn::pieces(["data: {\"a\"", ": 1}\n\n"]));
    server.push(ServerTurn::events([json!({"a": 1})]).cut());
    let mut http = Http::connect(server.address()).await;
    let answer = http.ask("", &hello()).await;
    assert_eq!(
        (answer.chunks.concat(), answer.whole),
        ("data: {\"a\": 1}\n\n".into(), true)
    );
    let answer = http.ask("", &hello()).await;
    assert_eq!(
        (answer.events(), answer.whole),
        (vec![json!({"a": 1})], false)
    );
    server.verify();
}

#[tokio::test]
async fn gates_hold_an_answer_and_a_client_that_leaves_is_seen() {
    let (head, chunks) = (Gate::new(), Gate::new());
    let turn = ScriptedTurn::new()
        .gated(&chunks)
        .text_chunks(["a", "b", "c"]);
    let server = FakeModelServer::start([ServerTurn::from(turn).gated(&head)])
        .await
        .unwrap();
    let mut http = Http::connect(server.address()).await;
    http.send("", &hello()).await;
    head.reached(1).await;
    assert_eq!(chunks.arrivals(), 0);
    head.open();
    chunks.reached(1).await;
    chunks.let_one_pass();
    assert_eq!(http.head().await.unwrap().status, 200);
    assert!(http.chunk().await.unwrap().contains("\"a\""));
    chunks.reached(2).await;
    drop(http);
    assert_eq!(server.outcome(0).await.unwrap(), Outcome::ClientGone);
    assert_eq!(chunks.arrivals(), 2);

    server.push(ServerTurn::silence());
    let mut http = Http::connect(server.address()).await;
    http.send("", &hello()).await;
    server.request(1).await.unwrap();
    drop(http);
    assert_eq!(server.outcome(1).await.unwrap(), Outcome::ClientGone);
    server.verify();
}

#[tokio::test]
async fn every_violation_is_answered_with_400_and_kept() {
    let expecting = ScriptedTurn::new().expecting(Expectation {
        last_input_contains: vec!["bye".into()],
        ..Expectation::default()
    });
    let server = FakeModelServer::start([
        ServerTurn::from(ScriptedTurn::new()),
        expecting.into(),
        ServerTurn::status(200, "")
            .expecting(|request| Err(format!("the body has {} bytes", request.body_bytes))),
    ])
    .await
    .unwrap();
    let mut http = Http::connect(server.address()).await;
    let mut orphan = hello();
    orphan["contents"].as_array_mut().unwrap().push(json!({
        "role": "user", "parts": [{ "functionResponse": { "name": "look", "id": "a" } }],
    }));
    for body in [&orphan, &hello(), &hello(), &hello()] {
        assert_eq!(http.ask("", body).await.status, 400);
    }
    http.write(b"GET /v1beta/models HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(http.answer().await.unwrap().status, 400);
    assert_eq!(
        server.take_violations(),
        [
            "request 0 of route \"\": contents[1]: the response for \"look\" (\"a\") answers no \
             call"
                .to_owned(),
            "request 1 of route \"\": last_input_contains: \"bye\" is not in [\"hello\"]".into(),
            format!(
                "request 2 of route \"\": the body has {} bytes",
                hello().to_string().len()
            ),
            "request 3 of route \"\": its route has 3 turns; this is request 4".into(),
            "request 4 of route \"\": GET /v1beta/models is not served here".into(),
        ]
    );
    server.verify();
}

#[tokio::test]
async fn what_is_not_served_is_a_violation() {
    let server = FakeModelServer::start([ServerTurn::status(200, "")])
        .await
        .unwrap();
    let mut http = Http::connect(server.address()).await;
    http.write(b"GET /v1beta/models HTTP/1.1\r\n\r\n").await;
    assert_eq!(http.answer().await.unwrap().status, 400);
    http.write(b"POST /x HTTP/1.0\r\n\r\n").await;
    assert_eq!(http.answer().await, None);
    assert_eq!(
        server.take_violations(),
        [
            "request 0 of route \"\": GET /v1beta/models is not served here",
            "an unreadable HTTP request: the request line is not one of HTTP/1.1",
        ]
    );
    assert_eq!(server.turns_left(), 1);
}

#[tokio::test]
async fn a_body_may_come_in_chunks() {
    let server = FakeModelServer::start([ScriptedTurn::new().text("a")])
        .await
        .unwrap();
    let mut http = Http::connect(server.address()).await;
    let body = hello().to_string();
    let (one, two) = body.split_at(10);
    http.write(
        format!(
            "POST /v1beta/models/fake:streamGenerateContent?alt=sse HTTP/1.1\r\n\
             Transfer-Encoding: chunked\r\n\r\n\
             a\r\n{one}\r\n{:x};x=y\r\n{two}\r\n0\r\n\r\n",
            two.len()
        )
        .as_bytes(),
    )
    .await;
    assert_eq!(http.answer().await.unwrap().text(), "a");
    assert_eq!(server.requests()[0].body, hello());
    server.verify();
}

#[tokio::test]
#[should_panic(expected = "systemInstruction holds no text")]
async fn a_violation_makes_the_drop_panic() {
    let server = FakeModelServer::start([ScriptedTurn::new()]).await.unwrap();
    let mut http = Http::connect(server.address()).await;
    http.ask("", &json!({})).await;
}

#[tokio::test]
#[should_panic(expected = "1 turns of the model were not asked for")]
async fn an_unused_turn_makes_verify_panic() {
    let server = FakeModelServer::start([ScriptedTurn::new()]).await.unwrap();
    server.verify();
}

#[tokio::test]
async fn many_small_chunks_and_one_large_answer_stream_fast() {
    let small: Vec<_> = (0..4_000).map(|n| format!("word{n} ")).collect();
    let large = "x".repeat(64 * 1024);
    let server = FakeModelServer::start([
        ScriptedTurn::new().text_chunks(&small),
        ScriptedTurn::new().text_chunks(vec![large; 800]),
    ])
    .await
    .unwrap();
    let mut http = Http::connect(server.address()).await;
    let start = Instant::now();
    let answer = http.ask("", &hello()).await;
    assert_eq!(answer.chunks.len(), 4_001);
    assert_eq!(answer.text(), small.concat());
    let answer = http.ask("", &hello()).await;
    assert_eq!(answer.chunks.len(), 801);
    assert!(answer.chunks.concat().len() > 50 * 1024 * 1024);
    // Each takes well under a second; the bound only has to catch a wait for each chunk.
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
    server.verify();
}

#[tokio::test]
async fn scripted_waits_are_waited() {
    let ms = Duration::from_millis;
    let turn = ScriptedTurn::new()
        .delay(ms(5))
        .chunk_delay(ms(5))
        .text_chunks(["a", "b", "c"]);
    let server = FakeModelServer::start([turn]).await.unwrap();
    let mut http = Http::connect(server.address()).await;
    let start = Instant::now();
    assert_eq!(http.ask("", &hello()).await.text(), "abc");
    assert!(start.elapsed() >= ms(15));
    server.verify();
}
