//! Requests as they come over the wire.

use harness_gemini::{Credential, Endpoint, GeminiConfig, GeminiModel, Transport};
use harness_types::{Model as _, Secret};

use crate::server::{OK, Received, STOP, Server, ask};

/// What the server is sent by a model with this configuration.
async fn sent(change: impl FnOnce(GeminiConfig) -> GeminiConfig) -> Received {
    let server = Server::bind().await;
    let config = change(server.config());
    let model = GeminiModel::with_transport(&config, Transport::new()).unwrap();
    let answer = format!("{OK}{STOP}\n\n");
    let (events, received) = tokio::join!(ask(&model), server.answer(answer.as_bytes()));
    assert_eq!(events.len(), 1, "{events:?}");
    received
}

#[tokio::test]
async fn the_gemini_api() {
    let received = sent(|config| {
        config
            .credential(Credential::ApiKey(Secret::new("k")))
            .user_agent("agent/1 (x)")
            .header("X-Extra", Secret::new("e"))
    })
    .await;
    assert_eq!(
        received.line,
        "POST /v1beta/models/gemini-x:streamGenerateContent?alt=sse HTTP/1.1"
    );
    for (name, value) in [
        ("x-goog-api-key", Some("k")),
        ("user-agent", Some("agent/1 (x)")),
        ("x-extra", Some("e")),
        ("content-type", Some("application/json")),
        ("accept-encoding", Some("identity")),
        ("authorization", None),
        ("transfer-encoding", None),
    ] {
        assert_eq!(received.header(name), value, "{name}");
    }
    assert_eq!(
        String::from_utf8(received.body).unwrap(),
        concat!(
            r#"{"systemInstruction":{"parts":[{"text":"Be brief."}]},"sessionId":"95275530947985237","#,
            r#""contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#
        )
    );
}

#[tokio::test]
async fn an_empty_key_is_none_and_added_headers_win() {
    let received = sent(|config| config.credential(Credential::ApiKey(Secret::new("")))).await;
    assert_eq!(received.header("x-goog-api-key"), None);
    let agent = concat!("harness-gemini/", env!("CARGO_PKG_VERSION"));
    assert_eq!(received.header("user-agent"), Some(agent));

    let received = sent(|config| {
        config
            .credential(Credential::ApiKey(Secret::new("ours")))
            .header("X-Goog-Api-Key", Secret::new("theirs"))
            .header("Authorization", Secret::new("basic x"))
    })
    .await;
    assert_eq!(received.header("x-goog-api-key"), Some("theirs"));
    assert_eq!(received.header("authorization"), Some("basic x"));
}

#[tokio::test]
async fn vertex() {
    let vertex = Endpoint::Vertex {
        project: "p-1".into(),
        location: "europe-west4".into(),
    };
    let received = sent(|config| {
        config
            .endpoint(vertex)
            .credential(Credential::Bearer(Secret::new("t")))
    })
    .await;
    assert_eq!(
        received.line,
        "POST /v1beta1/projects/p-1/locations/europe-west4/publishers/google/models/gemini-x\
         :streamGenerateContent?alt=sse HTTP/1.1"
    );
    assert_eq!(received.header("authorization"), Some("bearer t"));
    assert_eq!(received.header("x-goog-api-key"), None);

    let received = sent(|config| {
        config
            .endpoint(Endpoint::VertexExpress)
            .credential(Credential::ApiKey(Secret::new("k")))
    })
    .await;
    assert_eq!(
        received.line,
        "POST /v1beta1/publishers/google/models/gemini-x:streamGenerateContent?alt=sse HTTP/1.1"
    );
    assert_eq!(received.header("x-goog-api-key"), Some("k"));
}

#[tokio::test]
async fn roots_are_loaded_by_the_first_https_request_alone() {
    let server = Server::bind().await;
    let transport = Transport::new();
    let plain = GeminiModel::with_transport(&server.config(), transport.clone()).unwrap();
    let config = server
        .config()
        .base_url(format!("https://{}", server.address));
    let secure = GeminiModel::with_transport(&config, transport.clone()).unwrap();
    assert!(!transport.has_loaded_roots());

    let answer = format!("{OK}{STOP}\n\n");
    let (events, _) = tokio::join!(ask(&plain), server.answer(answer.as_bytes()));
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(!transport.has_loaded_roots());

    drop(server);
    let events = ask(&secure).await;
    assert!(events[0].is_err(), "{events:?}");
    assert!(transport.has_loaded_roots());
}

#[test]
fn a_model_is_made_without_a_runtime_and_shows_its_name() {
    let model = GeminiModel::new(&GeminiConfig::new("models/gemini-x")).unwrap();
    assert_eq!(model.name(), "models/gemini-x");
    assert_eq!(
        format!("{model:?}"),
        r#"GeminiModel { name: "models/gemini-x", host: "generativelanguage.googleapis.com", .. }"#
    );
}
