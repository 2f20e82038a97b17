//! Answers as bytes on a socket.

use futures_util::StreamExt as _;
use harness_types::{FinishReason, Model as _, ModelErrorKind, ModelEvent, ModelPart};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::server::{Event, OK, STOP, Server, ask, frame, hello, play, receive, text};

fn stop() -> Event {
    Ok(ModelEvent::Finish {
        reason: FinishReason::Stop,
        message: None,
    })
}

#[tokio::test]
async fn f067_comments_other_fields_and_every_line_end() {
    for end in ["\n", "\r\n", "\r"] {
        let lines = [
            ": keep-alive",
            "",
            "event: message",
            "id: 1",
            &frame("a"),
            "",
            "data: {\"candidates\":",
            "data: [{\"content\":{\"parts\":[{\"text\":\"é\"}]}}]}",
            "",
            STOP,
            "",
            "data: [DONE]",
            "",
        ]
        .join(end);
        let answer = format!("{OK}{lines}");
        assert_eq!(
            play(answer.as_bytes()).await,
            [text("a"), text("é"), stop()],
            "{end:?}"
        );
    }
}

#[tokio::test]
async fn f067_text_split_inside_a_character_arrives_whole() {
    let server = Server::bind().await;
    let model = server.model();
    let bytes = format!("{}\n\n{STOP}\n\n", frame("größe 🦀"));
    let serve = async {
        let (mut socket, _) = server.request().await;
        socket.write_all(OK.as_bytes()).await.unwrap();
        for byte in bytes.as_bytes() {
            socket.write_all(&[*byte]).await.unwrap();
            socket.flush().await.unwrap();
        }
        socket.shutdown().await.unwrap();
    };
    let (events, ()) = tokio::join!(ask(&model), serve);
    assert_eq!(events, [text("größe 🦀"), stop()]);
}

#[tokio::test]
async fn f067_the_last_frame_needs_no_end_mark_but_an_end_is_no_finish() {
    let whole = format!("{OK}{}\n\n{STOP}", frame("a"));
    assert_eq!(play(whole.as_bytes()).await, [text("a"), stop()]);
    let unfinished = format!("{OK}{}\n\n", frame("a"));
    assert_eq!(play(unfinished.as_bytes()).await, [text("a")]);
    let half = format!("{OK}{}\n\n{}", frame("a"), &frame("b")[..40]);
    assert_eq!(play(half.as_bytes()).await, [text("a")]);
    assert_eq!(play(OK.as_bytes()).await, []);
}

#[tokio::test]
async fn f015_a_chunked_answer_that_breaks_off_is_cut() {
    let server = Server::bind().await;
    let data = format!("{}\n\n", frame("a"));
    let answer = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{data}\r\n",
        data.len()
    );
    let model = server.model();
    let (events, _) = tokio::join!(ask(&model), server.answer(answer.as_bytes()));
    let [first, Err(error)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(first, &text("a"));
    assert_eq!(error.kind, ModelErrorKind::Cut);
    let start = format!("the answer of {} broke off: ", server.address);
    assert!(error.message.starts_with(&start), "{error}");
}

#[tokio::test]
async fn f015_a_reset_connection_is_cut() {
    let server = Server::bind().await;
    let model = server.model();
    let mut stream = model.stream(hello());
    let serve = async {
        let (mut socket, _) = server.request().await;
        let start = format!("{OK}{}\n\n", frame("a"));
        socket.write_all(start.as_bytes()).await.unwrap();
        socket
    };
    let (first, socket) = tokio::join!(stream.next(), serve);
    assert_eq!(first, Some(text("a")));
    // Closing without waiting for what is unsent sends a reset.
    socket.set_zero_linger().unwrap();
    drop(socket);
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Cut);
    assert!(error.message.contains("broke off"), "{error}");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn signatures_come_byte_for_byte() {
    let frame = r#"{"candidates":[{"content":{"parts":[
        {"functionCall":{"id":"c","name":"f","args":{}},"thoughtSignature":"EtQBCtEB+/=="}]}},
        {"content":{"parts":[{"text":"another candidate"}]}}]}"#
        .replace('\n', " ");
    let late = r#"{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"bGF0ZQ=="}]},"finishReason":"STOP"}]}"#;
    let answer = format!("{OK}data: {frame}\n\ndata: {late}\n\n");
    let events = play(answer.as_bytes()).await;
    let signatures: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Ok(ModelEvent::Part(
                ModelPart::Call { signature, .. } | ModelPart::Text { signature, .. },
            )) => signature.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(signatures, ["EtQBCtEB+/==", "bGF0ZQ=="]);
    assert_eq!(events.len(), 3, "{events:?}");
}

#[tokio::test]
async fn dropping_a_stream_closes_its_connection() {
    let server = Server::bind().await;
    let model = server.model();

    // While the answer is awaited.
    let mut stream = model.stream(hello());
    let (mut socket, _) = tokio::select! {
        event = stream.next() => panic!("{event:?}"),
        request = server.request() => request,
    };
    drop(stream);
    assert_eq!(socket.read(&mut [0; 1]).await.unwrap(), 0);

    // While it is read.
    let mut stream = model.stream(hello());
    let serve = async {
        let (mut socket, _) = server.request().await;
        let start = format!("{OK}{}\n\n", frame("a"));
        socket.write_all(start.as_bytes()).await.unwrap();
        socket
    };
    let (first, mut socket) = tokio::join!(stream.next(), serve);
    assert_eq!(first, Some(text("a")));
    drop(stream);
    assert_eq!(socket.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_polled() {
    let server = Server::bind().await;
    let model = server.model();
    let never_polled = model.stream(hello());
    let polled = model.stream(hello()).collect::<Vec<Event>>();
    let answer = format!("{OK}{STOP}\n\n");
    let (events, _) = tokio::join!(polled, server.answer(answer.as_bytes()));
    assert_eq!(events, [stop()]);
    drop(never_polled);
    // The only other connection there can be is the one made here.
    let probe = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    let accepted = server.accept().await;
    assert_eq!(accepted.peer_addr().unwrap(), probe.local_addr().unwrap());
}

#[tokio::test]
async fn the_next_turn_uses_the_same_connection() {
    let server = Server::bind().await;
    let model = server.model();
    let data = format!("{STOP}\n\n");
    let answer = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{data}\r\n0\r\n\r\n",
        data.len()
    );
    let turns = async {
        for _ in 0..3 {
            assert_eq!(ask(&model).await, [stop()]);
        }
    };
    let serve = async {
        let mut socket = server.accept().await;
        for _ in 0..3 {
            receive(&mut socket).await;
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    tokio::join!(turns, serve);
}

#[tokio::test]
async fn an_answer_of_50_mb_in_one_frame_and_in_many() {
    let piece = "x".repeat(1 << 20);
    let many = async {
        let server = Server::bind().await;
        let model = server.model();
        let frame = format!("{}\n\n", frame(&piece));
        let serve = async {
            let (mut socket, _) = server.request().await;
            socket.write_all(OK.as_bytes()).await.unwrap();
            for _ in 0..50 {
                socket.write_all(frame.as_bytes()).await.unwrap();
            }
            socket.write_all(STOP.as_bytes()).await.unwrap();
        };
        let read = async {
            let mut stream = model.stream(hello());
            let mut bytes = 0;
            while let Some(event) = stream.next().await {
                if let ModelEvent::Part(ModelPart::Text { text, .. }) = event.unwrap() {
                    // Parts are handed out as they come, not gathered.
                    assert_eq!(text.len(), 1 << 20);
                    bytes += text.len();
                }
            }
            bytes
        };
        tokio::join!(read, serve).0
    };
    assert_eq!(many.await, 50 << 20);

    let one = format!("{OK}{}\n\n{STOP}\n\n", frame(&"x".repeat(50_000_000)));
    let events = play(one.as_bytes()).await;
    let [Ok(ModelEvent::Part(ModelPart::Text { text, .. })), last] = events.as_slice() else {
        panic!("{} events", events.len())
    };
    assert_eq!(text.len(), 50_000_000);
    assert_eq!(last, &stop());
}

#[tokio::test]
async fn a_frame_beyond_the_bound_is_refused() {
    let server = Server::bind().await;
    let model = server.model();
    let serve = async {
        let (mut socket, _) = server.request().await;
        socket.write_all(OK.as_bytes()).await.unwrap();
        socket.write_all(b"data: ").await.unwrap();
        let piece = vec![b'x'; 1 << 20];
        // Until the other end closes.
        while socket.write_all(&piece).await.is_ok() {}
    };
    let (events, ()) = tokio::join!(ask(&model), serve);
    let [Err(error)] = events.as_slice() else {
        panic!("{} events", events.len())
    };
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert_eq!(
        error.message,
        format!(
            "the answer of {} is unusable: an event is longer than 67108864 bytes",
            server.address
        )
    );
}
