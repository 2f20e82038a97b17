//! Opening, limits, shutting down.

use std::sync::Arc;
use std::task::{Context, Waker};

use harness_host::{Blueprint, Continuation, Error, Host, Limits, Session};
use harness_types::{Model, ScriptedTurn};

use crate::support::{host_of, id, model, read_turn, say};

fn silent(count: usize) -> Vec<Arc<dyn Model>> {
    (0..count)
        .map(|_| model([ScriptedTurn::new().text("hello")]))
        .collect()
}

async fn create(host: &Host, byte: u8) -> Result<Session, Error> {
    let continuation = Continuation::CreateOrResume;
    host.open(Blueprint {
        id: Some(id(byte)),
        continuation,
        ..Blueprint::default()
    })
    .await
}

#[tokio::test]
async fn a_conversation_gets_the_id_it_asks_for_or_one_of_its_own() {
    let host = host_of(silent(3), Limits::default());
    let named = create(&host, 1).await.unwrap();
    let first = host.open(Blueprint::default()).await.unwrap();
    let second = host.open(Blueprint::default()).await.unwrap();
    assert_eq!(named.id(), &id(1));
    assert_ne!(first.id(), second.id());
    assert_eq!(host.conversations(), 3);
}

#[tokio::test]
async fn f029_a_conversation_is_open_once() {
    let host = host_of(silent(3), Limits::default());
    let session = create(&host, 1).await.unwrap();
    let again = create(&host, 1).await.unwrap_err();
    assert!(
        matches!(&again, Error::AlreadyOpen { id: open } if *open == id(1)),
        "{again}"
    );
    assert!(again.is_config());
    session.close().await;
    assert_eq!(host.conversations(), 0);
    create(&host, 1).await.unwrap();
}

#[tokio::test]
async fn one_conversation_too_many_is_refused_until_another_closes() {
    let host = host_of(silent(3), Limits { conversations: 2 });
    let first = create(&host, 1).await.unwrap();
    let _second = create(&host, 2).await.unwrap();
    let third = create(&host, 3).await.unwrap_err();
    assert!(matches!(third, Error::TooMany { limit: 2 }), "{third}");
    assert!(!third.is_config());
    first.close().await;
    create(&host, 3).await.unwrap();
}

/// Its loop may still be writing its last records: nobody may open it before that is over.
#[tokio::test]
async fn a_dropped_session_gives_its_place_back_when_its_loop_has_ended() {
    let host = host_of(silent(2), Limits::default());
    let session = create(&host, 1).await.unwrap();
    let mut reader = session.attach();
    drop(session);
    let early = create(&host, 1).await.unwrap_err();
    assert!(matches!(early, Error::AlreadyOpen { .. }), "{early}");
    while reader.next().await.is_some() {}
    host.shutdown().await;
    assert_eq!(host.conversations(), 0);
}

#[tokio::test]
async fn an_opening_that_fails_keeps_no_place() {
    let host = host_of(Vec::new(), Limits { conversations: 1 });
    for _ in 0..3 {
        let error = create(&host, 1).await.unwrap_err();
        assert_eq!(error.to_string(), "models: there is none");
    }
    let mut blueprint = Blueprint::default();
    blueprint.config.workspaces = vec!["relative".into()];
    let host = host_of(silent(2), Limits { conversations: 1 });
    let error = host.open(blueprint).await.unwrap_err();
    assert!(error.is_config());
    assert_eq!(
        error.to_string(),
        "workspace \"relative\" is relative; give an absolute path"
    );
    assert_eq!(host.conversations(), 0);
}

#[tokio::test]
async fn a_shutdown_asks_all_to_close_and_waits_until_they_have() {
    let host = host_of(silent(3), Limits::default());
    let (first, second) = (
        create(&host, 1).await.unwrap(),
        create(&host, 2).await.unwrap(),
    );
    let shutdown = host.shutdown();
    tokio::pin!(shutdown);
    let mut context = Context::from_waker(Waker::noop());
    assert!(shutdown.as_mut().poll(&mut context).is_pending());
    let late = create(&host, 3).await.unwrap_err();
    assert!(matches!(late, Error::ShuttingDown), "{late}");
    first.shutdown_requested().await;
    first.close().await;
    assert!(
        shutdown.as_mut().poll(&mut context).is_pending(),
        "one is still open"
    );
    second.shutdown_requested().await;
    drop(second);
    shutdown.await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_shutdown_of_an_empty_host_is_over_at_once() {
    host_of(Vec::new(), Limits::default()).shutdown().await;
}

#[tokio::test]
async fn continuations_say_whether_a_conversation_may_or_must_exist() {
    let host = host_of(silent(8), Limits::default());
    let open = async |continuation| {
        host.open(Blueprint {
            id: Some(id(1)),
            continuation,
            ..Blueprint::default()
        })
        .await
    };
    for continuation in [Continuation::Resume, Continuation::Automatic] {
        let missing = open(continuation).await.unwrap_err();
        assert!(matches!(&missing, Error::NotFound { .. }), "{missing}");
        assert!(missing.is_config());
    }
    let session = open(Continuation::Create).await.unwrap();
    let mut reader = session.attach();
    session.send(say("hi")).await.unwrap();
    read_turn(&mut reader).await;
    session.close().await;

    let exists = open(Continuation::Create).await.unwrap_err();
    assert!(matches!(&exists, Error::Exists { .. }), "{exists}");
    for continuation in [
        Continuation::Resume,
        Continuation::Automatic,
        Continuation::CreateOrResume,
    ] {
        let session = open(continuation).await.unwrap();
        let steps: Vec<_> = session
            .history()
            .steps
            .into_iter()
            .map(|(_, step)| step.text)
            .collect();
        assert_eq!(steps, ["hi", "hello"], "{continuation:?}");
        session.close().await;
    }
}
