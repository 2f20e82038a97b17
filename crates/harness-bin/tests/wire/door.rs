//! Who may come in: the answers to HTTP requests.

use harness_testkit::WireClient;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::support::{Harness, soon};

/// Sends a request of these lines and returns the whole answer. `{key}` stands for the key.
async fn request(harness: &Harness, lines: &[&str], after: &[u8]) -> String {
    let head = format!("{}\r\n\r\n", lines.join("\r\n"));
    let head = head.replace("{key}", harness.process.key());
    let mut stream = TcpStream::connect(("127.0.0.1", harness.process.port()))
        .await
        .unwrap();
    // The harness may have answered before it has read everything.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(after).await;
    let mut answer = Vec::new();
    soon("the answer", stream.read_to_end(&mut answer))
        .await
        .unwrap();
    String::from_utf8(answer).unwrap()
}

const GOOD: [&str; 7] = [
    "GET / HTTP/1.1",
    "Host: localhost",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "x-goog-api-key: {key}",
];

#[tokio::test]
async fn f062_who_may_not_come_in_is_told_why_and_the_process_lives() {
    let harness = Harness::start([]).await;
    let cases = [
        (6, "X-Other: 1", "401 Unauthorized"),
        (
            6,
            "x-goog-api-key: 00000000000000000000000000000000",
            "401 Unauthorized",
        ),
        (6, "x-goog-api-key: short", "401 Unauthorized"),
        (6, "Authorization: Bearer {key}", "401 Unauthorized"),
        (1, "Host: evil.example", "403 Forbidden"),
        (1, "Host: evil.example:80", "403 Forbidden"),
        (0, "POST / HTTP/1.1", "405 Method Not Allowed"),
        (2, "Upgrade: h2c", "400 Bad Request"),
        (3, "Connection: close", "400 Bad Request"),
        (4, "Sec-WebSocket-Version: 8", "400 Bad Request"),
        (5, "Sec-WebSocket-Key: short", "400 Bad Request"),
        (0, "nonsense", "400 Bad Request"),
    ];
    for (place, line, status) in cases {
        let mut lines = GOOD;
        lines[place] = line;
        let answer = request(&harness, &lines, b"").await;
        let expected = format!("HTTP/1.1 {status}\r\n");
        assert!(answer.starts_with(&expected), "{line}: {answer}");
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
    }
    let mut page = GOOD.to_vec();
    page.push("Origin: http://localhost");
    let answer = request(&harness, &page, b"").await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");

    // The key decides first: without it nothing else is told.
    let mut nosy = GOOD;
    (nosy[0], nosy[6]) = ("POST /?key={key}&x-goog-api-key={key} HTTP/1.1", "X: 1");
    let answer = request(&harness, &nosy, b"").await;
    assert!(
        answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"),
        "{answer}"
    );
    // The version that is served is named.
    let mut old = GOOD;
    old[4] = "Sec-WebSocket-Version: 8";
    let answer = request(&harness, &old, b"").await;
    assert!(answer.contains("Sec-WebSocket-Version: 13\r\n"), "{answer}");

    harness.open().await.close().await.unwrap();
    assert!(
        !harness
            .process
            .stderr()
            .join("\n")
            .contains(harness.process.key())
    );
    harness.end().await;
}

#[tokio::test]
async fn answers_arrive_although_the_request_was_not_read_to_its_end() {
    let harness = Harness::start([]).await;
    let body = vec![b'x'; 300 * 1024];
    let post = [
        "POST / HTTP/1.1",
        "Host: localhost",
        "Content-Length: 307200",
        "x-goog-api-key: {key}",
    ];
    let answer = request(&harness, &post, &body).await;
    assert!(
        answer.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"),
        "{answer}"
    );
    let endless = ["GET / HTTP/1.1", "Host: localhost"];
    let mut head = endless.join("\r\n");
    head.push_str("\r\nX-Long: ");
    head.push_str(&"x".repeat(300 * 1024));
    let answer = request(&harness, &[&head], b"").await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    harness.end().await;
}

#[tokio::test]
async fn any_path_and_both_kinds_of_messages_are_served() {
    let harness = Harness::start([]).await;
    let headers = [("x-goog-api-key", harness.process.key())];
    let mut client = WireClient::connect_to(harness.process.port(), "/a/b?c", &headers)
        .await
        .unwrap();
    let first = json!({ "config": harness.config() }).to_string();
    client.send_binary(first.into_bytes()).await.unwrap();
    let answer = client.next_event().await.unwrap();
    assert!(
        answer["initializeConversationResponse"].is_object(),
        "{answer}"
    );
    client.ping().await.unwrap();
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn a_head_in_pieces_with_a_frame_behind_it_is_understood() {
    let harness = Harness::start([]).await;
    let port = harness.process.port();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let head = format!("{}\r\n\r\n", GOOD.join("\r\n"));
    let head = head.replace("{key}", harness.process.key());
    let mut bytes = head.into_bytes();
    // A masked ping of four bytes, in the same segment as the end of the head.
    bytes.extend_from_slice(b"\x89\x84\x00\x00\x00\x00ping");
    for piece in bytes.chunks(97) {
        stream.write_all(piece).await.unwrap();
    }
    let mut answer = Vec::new();
    while !answer.ends_with(b"\x8a\x04ping") {
        let read = soon("the pong", stream.read_buf(&mut answer))
            .await
            .unwrap();
        assert!(read > 0, "{:?}", String::from_utf8_lossy(&answer));
    }
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
        "{text}"
    );
    assert!(
        text.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
        "{text}"
    );
    drop(stream);
    harness.end().await;
}
