//! Requests that fail.

use std::time::Duration;

use harness_gemini::{Credential, GeminiModel, Transport};
use harness_types::{ModelError, ModelErrorKind, Quota, RetryClass, Secret};
use serde_json::json;

use crate::server::{OK, Server, ask, frame, play, text};

/// The error of an answer with this status line, headers and body, its host replaced by `HOST`.
async fn error(status: &str, headers: &str, body: &str) -> ModelError {
    let server = Server::bind().await;
    let model = server.model();
    let answer = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let (events, _) = tokio::join!(ask(&model), server.answer(answer.as_bytes()));
    let [Err(error)] = events.as_slice() else {
        panic!("{events:?}")
    };
    ModelError {
        message: error.message.replace(&server.address.to_string(), "HOST"),
        ..error.clone()
    }
}

fn status(code: u16, message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Status { code }, message)
}

#[tokio::test]
async fn every_error_status_keeps_its_code_and_its_words() {
    for (code, word, class) in [
        (400, "INVALID_ARGUMENT", RetryClass::Never),
        (401, "UNAUTHENTICATED", RetryClass::Never),
        (403, "PERMISSION_DENIED", RetryClass::Never),
        (404, "NOT_FOUND", RetryClass::Never),
        (429, "RESOURCE_EXHAUSTED", RetryClass::IfConfigured),
        (500, "INTERNAL", RetryClass::Backoff),
        (503, "UNAVAILABLE", RetryClass::Backoff),
        (504, "DEADLINE_EXCEEDED", RetryClass::Backoff),
    ] {
        let body = json!({"error": {"code": code, "status": word, "message": "why"}});
        let error = error(&format!("{code} x"), "", &body.to_string()).await;
        let expected = status(code, &format!("HTTP {code} {word} from HOST: why"));
        assert_eq!(error, expected);
        assert_eq!(error.retry_class(), class, "{code}");
    }
    assert_eq!(
        error("502 Bad Gateway", "content-type: text/html\r\n", "<p>oops").await,
        status(502, "HTTP 502 from HOST: <p>oops")
    );
}

#[tokio::test]
async fn f019_waits_are_taken_from_the_header_and_from_the_body() {
    let waits = |seconds| ModelError {
        retry_after: Some(Duration::from_secs(seconds)),
        ..status(429, "HTTP 429 from HOST: no")
    };
    assert_eq!(error("429 x", "Retry-After: 7\r\n", "no").await, waits(7));
    // 9999-12-31 is further away than anybody waits: it is read, and not waited for.
    let far = error(
        "429 x",
        "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n",
        "no",
    )
    .await;
    assert!(
        far.retry_after
            .is_some_and(|wait| wait > Duration::from_secs(1 << 30))
    );
    assert_eq!(far.retry_class(), RetryClass::Never);

    let body = json!({"error": {"message": "no", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9s"},
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
         "violations": [{"quotaId": "GenerateContentRequestsPerDay"}]},
    ]}});
    assert_eq!(
        error("429 x", "Retry-After: 1\r\n", &body.to_string()).await,
        ModelError {
            quota: Quota::Exhausted,
            ..waits(9)
        }
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Server::bind().await;
    let location = format!("location: http://{}/?key=secret\r\n", other.address);
    assert_eq!(
        error("307 Temporary Redirect", &location, "").await,
        status(307, "HTTP 307 from HOST: redirects are not followed")
    );
}

#[tokio::test]
async fn an_error_inside_a_stream_comes_after_what_was_said() {
    let broken = r#"data: {"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#;
    let answer = format!(
        "{OK}{}\n\n{broken}\n\n{}\n\n",
        frame("a"),
        frame("never read")
    );
    let events = play(answer.as_bytes()).await;
    let [first, Err(error)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(first, &text("a"));
    assert_eq!(error.kind, ModelErrorKind::Status { code: 503 });
    assert!(error.message.ends_with(": overloaded"), "{error}");
}

#[tokio::test]
async fn what_is_no_event_stream_is_named() {
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<title>Log in</title>\n";
    let events = play(page.as_bytes()).await;
    let [Err(error)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(
        error
            .message
            .ends_with(" sent no event stream but text/html: <title>Log in</title>"),
        "{error}"
    );
    let events = play(format!("{OK}data: {{oops\n\n").as_bytes()).await;
    let [Err(error)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(
        error.message.contains("cannot be read: key must be"),
        "{error}"
    );
}

#[tokio::test]
async fn f015_f038_a_refused_connection_names_the_cause_and_no_credential() {
    let server = Server::bind().await;
    let address = server.address;
    let config = server
        .config()
        .credential(Credential::ApiKey(Secret::new("AIza-very-secret")))
        .header("x-extra", Secret::new("extra-very-secret"));
    drop(server);
    for (scheme, cause) in [
        ("http", "Connection refused"),
        ("https", "Connection refused"),
    ] {
        let config = config.clone().base_url(format!("{scheme}://{address}"));
        let model = GeminiModel::with_transport(&config, Transport::new()).unwrap();
        let events = ask(&model).await;
        let [Err(error)] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!(error.kind, ModelErrorKind::Connect);
        let start = format!("no answer from {address}: {cause}");
        assert!(error.message.starts_with(&start), "{error}");
        for shown in [format!("{error:?}"), format!("{model:?}")] {
            assert!(!shown.contains("very-secret"), "{shown}");
            assert!(!shown.contains("alt=sse"), "{shown}");
        }
    }
}

#[tokio::test]
async fn f038_a_key_that_comes_back_in_an_error_is_masked() {
    let server = Server::bind().await;
    let config = server
        .config()
        .credential(Credential::Bearer(Secret::new("ya29.very-secret")));
    let model = GeminiModel::with_transport(&config, Transport::new()).unwrap();
    let body = "token ya29.very-secret is not valid";
    let answer = format!(
        "HTTP/1.1 401 x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let (events, received) = tokio::join!(ask(&model), server.answer(answer.as_bytes()));
    let expected = format!(
        "HTTP 401 from {}: token [secret] is not valid",
        server.address
    );
    assert_eq!(events, [Err(status(401, &expected))]);
    assert_eq!(
        received.header("authorization"),
        Some("bearer ya29.very-secret")
    );
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_is_no_answer() {
    let server = Server::bind().await;
    let model = server.model();
    let (events, _) = tokio::join!(ask(&model), server.answer(b""));
    let [Err(error)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(error.kind, ModelErrorKind::Connect);
    assert_eq!(error.retry_class(), RetryClass::Backoff);
}
