//! Opening and closing a conversation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use harness_client::{
    CloseCause, ConnectError, ConversationConfig, Dialect, Endpoint, Error, Handlers, HostTool,
    Limits, PolicyVerdict,
};
use serde_json::json;

use crate::peer::{Listener, Peer, ROOT, soon};

#[tokio::test]
async fn handlers_declare_themselves() {
    let listener = Listener::bind().await;
    let endpoint = listener.endpoint();
    let parameters = json!({"type": "object"});
    let tool = HostTool::new("t", "Does t.", parameters).response_schema(json!(true));
    let handlers = Handlers::new()
        .tool(tool, |_| async { Ok("x".into()) })
        .on_session_end(|()| async { Ok(()) })
        .post_turn(|_| async { Ok(()) })
        .policy(|_| async { Ok(PolicyVerdict::NoMatch) });
    let opening = endpoint
        .session(ConversationConfig::default())
        .handlers(handlers)
        .open();
    let accepting = async {
        let mut peer = listener.accept().await.unwrap();
        (peer.confirm().await, peer)
    };
    let (session, (config, _peer)) = soon(async { tokio::join!(opening, accepting) }).await;
    let expected = json!({"config": {
        "tools": [{"name": "t", "description": "Does t.",
                   "parametersJsonSchema": "{\"type\":\"object\"}",
                   "responseJsonSchema": "true"}],
        "enabledHooks": ["LIFECYCLE_HOOK_ON_SESSION_END", "LIFECYCLE_HOOK_POST_TURN"],
    }});
    assert_eq!(config, expected);
    assert_eq!(session.unwrap().id().as_deref(), Some(ROOT));
}

#[tokio::test]
async fn tools_need_names_of_their_own() {
    let endpoint = Endpoint::new("127.0.0.1", 1, "k");
    let open = |names: &[&str]| {
        let handlers = names.iter().fold(Handlers::new(), |handlers, name| {
            let tool = HostTool::new(*name, "", json!({}));
            handlers.tool(tool, |_| async { Ok("x".into()) })
        });
        let session = endpoint.session(ConversationConfig::default());
        session.handlers(handlers).open()
    };
    for (names, problem) in [
        (["a", "a"], "two host tools are named \"a\""),
        (["a", ""], "a host tool has no name"),
    ] {
        let error = open(&names).await.unwrap_err();
        let text = format!("the configuration cannot be used: {problem}");
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn a_wrong_key_is_refused_at_once() {
    let listener = Listener::bind().await;
    let endpoint = Endpoint::new("127.0.0.1", listener.port(), "wrong");
    let opening = endpoint.session(ConversationConfig::default()).open();
    let (result, peer) = soon(async { tokio::join!(opening, listener.accept()) }).await;
    assert!(peer.is_none());
    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Connect {
                attempts: 1,
                source: ConnectError::Status { status: 401 },
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn connecting_is_tried_five_times() {
    // A port that was free a moment ago.
    let port = Listener::bind().await.port();
    let endpoint = Endpoint::new("127.0.0.1", port, "k");
    let begun = tokio::time::Instant::now();
    let error = endpoint
        .session(ConversationConfig::default())
        .open()
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Connect {
                attempts: 5,
                source: ConnectError::Io(_),
                ..
            }
        ),
        "{error:?}"
    );
    let pauses = Duration::from_millis(100 + 200 + 400 + 800);
    assert!(begun.elapsed() >= pauses, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_harness_that_does_not_confirm_is_given_up() {
    let listener = Listener::bind().await;
    let endpoint = listener.endpoint();
    let mut limits = Limits::default();
    limits.initialize = Duration::from_millis(20);
    let opening = endpoint.session(ConversationConfig::default());
    let opening = opening.limits(limits).open();
    let (result, _peer) = soon(async { tokio::join!(opening, listener.accept()) }).await;
    let error = result.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}

#[tokio::test]
async fn a_configuration_that_is_refused_is_an_error_with_the_reason() {
    let listener = Listener::bind().await;
    let endpoint = listener.endpoint();
    let opening = endpoint.session(ConversationConfig::default()).open();
    let refusing = async {
        let mut peer = listener.accept().await.unwrap();
        peer.receive_raw().await;
        peer.close(1008, "no text model").await;
    };
    let (result, ()) = soon(async { tokio::join!(opening, refusing) }).await;
    let error = result.unwrap_err();
    let expected = CloseCause::Peer {
        code: 1008,
        reason: "no text model".into(),
    };
    assert!(
        matches!(&error, Error::Closed(closed) if closed.cause == expected),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_resumed_conversation_has_its_history() {
    let listener = Listener::bind().await;
    let endpoint = listener.endpoint();
    let opening = endpoint.session(ConversationConfig::default()).open();
    let accepting = async {
        let mut peer = listener.accept().await.unwrap();
        peer.receive_raw().await;
        peer.send(json!({"initializeConversationResponse": {
            "cascadeId": ROOT,
            "history": [{"trajectoryId": ROOT, "stepIndex": 0, "text": "old"}],
            "cumulativeUsage": {"totalTokenCount": "5"},
            "sandboxStatus": {"available": true},
        }}))
        .await;
        peer
    };
    let (session, mut peer) = soon(async { tokio::join!(opening, accepting) }).await;
    let session = session.unwrap();
    let texts: Vec<_> = session.history().iter().map(|step| step.text()).collect();
    assert_eq!(texts, ["old"]);
    assert_eq!(session.usage().unwrap().total_token_count(), 5);
    assert!(session.sandbox_status().unwrap().available());

    let turn = session.chat("next").await.unwrap();
    peer.receive().await;
    peer.turn(1, "new").await;
    assert_eq!(soon(turn.text()).await.unwrap(), "new");
}

#[tokio::test]
async fn old_harnesses_confirm_nothing_and_read_strings() {
    let listener = Listener::bind().await;
    let endpoint = listener.endpoint();
    let opening = endpoint.session(ConversationConfig::default());
    let opening = opening.dialect(Dialect::UpTo014).open();
    let (session, peer) = soon(async { tokio::join!(opening, listener.accept()) }).await;
    let (session, mut peer) = (session.unwrap(), peer.unwrap());
    assert_eq!(peer.receive_raw().await, json!({"config": {}}));
    let turn = session.chat("hello").await.unwrap();
    assert_eq!(peer.receive_raw().await, json!({"userInput": "hello"}));
    peer.send(json!({"toolCall": {"id": "1", "name": "nope"}}))
        .await;
    let error = r#"{"error":"there is no tool \"nope\" in this program"}"#;
    assert_eq!(
        peer.receive().await,
        json!({"toolResponse": {"id": "1", "responseJson": error}})
    );
    peer.turn(0, "hi").await;
    assert_eq!(soon(turn.text()).await.unwrap(), "hi");
}

#[tokio::test]
async fn closing_runs_the_session_end_hook_first() {
    let ran = Arc::new(AtomicU32::new(0));
    let handlers = {
        let ran = Arc::clone(&ran);
        Handlers::new().on_session_end(move |()| {
            ran.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        })
    };
    let (session, mut peer) = Peer::open(handlers).await;
    let harness = async {
        assert_eq!(peer.receive().await, json!({"sessionEndRequest": true}));
        let hook = json!({"callHookRequest": {
            "requestId": "h", "type": "LIFECYCLE_HOOK_ON_SESSION_END"}});
        peer.send(hook).await;
        let answer = json!({"callHookResponse": {"requestId": "h", "emptyResult": {}}});
        assert_eq!(peer.receive().await, answer);
        peer.send(json!({"sessionEndResponse": true})).await;
        peer.said_good_bye().await
    };
    let ((), good_bye) = soon(async { tokio::join!(session.close(), harness) }).await;
    assert!(good_bye);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(soon(session.closed()).await.cause, CloseCause::Local);
    soon(session.close()).await;
}

#[tokio::test]
async fn closing_does_not_wait_for_ever() {
    let mut limits = Limits::default();
    limits.session_end = Duration::from_millis(20);
    limits.close = Duration::from_millis(20);
    let handlers = Handlers::new().on_session_end(|()| async { Ok(()) });
    // A peer that reads nothing.
    let (session, _peer) = Peer::open_with(handlers, limits).await;
    let turn = session.chat("hello").await.unwrap();
    soon(session.close()).await;
    let error = soon(turn.text()).await.unwrap_err();
    assert_eq!(error.to_string(), "the session was closed by this program");
}
