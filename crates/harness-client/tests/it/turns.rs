//! Turns: which frames are theirs, how they end, how they are ended.

use std::time::Duration;

use futures_util::StreamExt as _;
use harness_client::{CloseCause, Error, Event, Handlers, Input, Limits, Outcome, TurnEnd};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::peer::{Peer, said, soon};

#[tokio::test]
async fn events_come_as_they_happen() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let mut turn = session.chat("hello").await.unwrap();
    assert_eq!(peer.receive().await, said("hello"));

    peer.running().await;
    peer.echo(0).await;
    peer.answer(1, "STATE_ACTIVE", "Hi", "Hi").await;
    let mut deltas = Vec::new();
    while deltas.is_empty() {
        if let Event::TextDelta { step, text } = soon(turn.next_event()).await.unwrap().unwrap() {
            deltas.push((step.index, text));
        }
    }
    peer.answer(1, "STATE_DONE", "Hi there", " there").await;
    peer.send(json!({"usageUpdate": {"total": {"totalTokenCount": "7"}}}))
        .await;
    peer.idle().await;
    let mut end = None;
    while let Some(event) = soon(turn.next_event()).await.unwrap() {
        match event {
            Event::TextDelta { step, text } => deltas.push((step.index, text)),
            Event::Idle(it) => end = Some(*it),
            _ => {}
        }
    }
    assert_eq!(deltas, [(1, "Hi".to_owned()), (1, " there".to_owned())]);
    let TurnEnd {
        outcome,
        text,
        usage,
        ..
    } = end.unwrap();
    assert_eq!((outcome, text.as_str()), (Outcome::Completed, "Hi there"));
    assert_eq!(usage.unwrap().total_token_count(), 7);
    assert_eq!(session.usage().unwrap().total_token_count(), 7);
    assert!(turn.next().await.is_none());
    assert!(matches!(turn.end().await, Err(Error::EndRead)));
}

#[tokio::test]
async fn each_turn_has_its_own_frames() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    for (index, word) in (0..).step_by(2).zip(["one", "two", "three"]) {
        let turn = session.chat(word).await.unwrap();
        assert_eq!(peer.receive().await, said(word));
        peer.turn(index, word).await;
        assert_eq!(soon(turn.text()).await.unwrap(), word);
    }
}

#[tokio::test]
async fn a_turn_that_is_not_read_goes_on_and_loses_nothing() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let first = session.chat("one").await.unwrap();
    peer.receive().await;
    peer.turn(0, "first").await;
    let second = soon(session.chat("two")).await.unwrap();
    assert_eq!(peer.receive().await, said("two"));
    peer.turn(2, "second").await;
    assert_eq!(soon(second.text()).await.unwrap(), "second");
    assert_eq!(soon(first.text()).await.unwrap(), "first");
}

#[tokio::test]
async fn a_dropped_turn_is_halted_and_leaves_nothing_behind() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let first = session.chat("one").await.unwrap();
    peer.receive().await;
    peer.running().await;
    peer.echo(0).await;
    peer.answer(1, "STATE_ACTIVE", "old", "old").await;
    peer.sync().await;
    drop(first);

    let next = tokio::spawn({
        let session = session.clone();
        async move { session.chat("two").await }
    });
    assert_eq!(peer.receive().await, json!({"haltRequest": true}));
    // Still from the first turn.
    peer.answer(1, "STATE_DONE", "old text", " text").await;
    assert!(!next.is_finished());
    peer.idle().await;
    assert_eq!(peer.receive().await, said("two"));
    peer.turn(2, "new").await;
    let second = soon(next).await.unwrap().unwrap();
    assert_eq!(soon(second.text()).await.unwrap(), "new");
}

#[tokio::test]
async fn a_turn_dropped_before_it_runs_is_halted_again() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    drop(session.chat("one").await.unwrap());
    assert_eq!(peer.receive().await, said("one"));
    assert_eq!(peer.receive().await, json!({"haltRequest": true}));
    // The closed harness passes over a halt that comes before the turn runs.
    peer.running().await;
    assert_eq!(peer.receive().await, json!({"haltRequest": true}));
    peer.echo(0).await;
    peer.idle().await;
    let turn = soon(session.chat("two")).await.unwrap();
    assert_eq!(peer.receive().await, said("two"));
    peer.turn(1, "fine").await;
    assert_eq!(soon(turn.text()).await.unwrap(), "fine");
}

#[tokio::test]
async fn a_dropped_turn_that_does_not_end_is_reported() {
    let mut limits = Limits::default();
    limits.drain = Duration::from_millis(20);
    let (session, mut peer) = Peer::open_with(Handlers::new(), limits).await;
    drop(session.chat("one").await.unwrap());
    let error = soon(session.chat("two")).await.unwrap_err();
    assert!(
        matches!(error, Error::Draining { .. }) && error.is_timeout(),
        "{error:?}"
    );

    assert_eq!(peer.receive().await, said("one"));
    assert_eq!(peer.receive().await, json!({"haltRequest": true}));
    peer.idle().await;
    // Once it has ended, all is well again. The idle may still be on its way.
    let turn = soon(async {
        loop {
            match session.chat("three").await {
                Err(Error::Draining { .. }) => {}
                other => break other,
            }
        }
    });
    let turn = turn.await.unwrap();
    assert_eq!(peer.receive().await, said("three"));
    peer.turn(0, "fine").await;
    assert_eq!(soon(turn.text()).await.unwrap(), "fine");
}

#[tokio::test]
async fn a_turn_can_be_halted_while_it_is_waited_for() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let turn = session.chat("write a book").await.unwrap();
    peer.receive().await;
    let waiting = tokio::spawn(turn.end());
    peer.running().await;
    peer.echo(0).await;
    peer.answer(1, "STATE_ACTIVE", "Chapter 1", "Chapter 1")
        .await;
    soon(session.halt()).await.unwrap();
    assert_eq!(peer.receive().await, json!({"haltRequest": true}));
    peer.idle().await;
    let end = soon(waiting).await.unwrap().unwrap();
    let expected = TurnEndShape(Outcome::Halted, "Chapter 1".into());
    assert_eq!(TurnEndShape(end.outcome, end.text), expected);
}

#[derive(Debug, PartialEq)]
struct TurnEndShape(Outcome, String);

#[tokio::test]
async fn a_closed_connection_is_an_error() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let turn = session.chat("hello").await.unwrap();
    peer.receive().await;
    peer.running().await;
    let closing = peer.close(1011, "out of luck");
    let (result, ()) = soon(async { tokio::join!(turn.text(), closing) }).await;
    let error = result.unwrap_err();
    assert!(error.is_closed());
    assert_eq!(
        error.to_string(),
        "the harness closed the connection with code 1011 (out of luck); its stderr is empty"
    );

    let closed = soon(session.closed()).await;
    let cause = CloseCause::Peer {
        code: 1011,
        reason: "out of luck".into(),
    };
    assert_eq!(closed.cause, cause);
    for error in [
        session.chat("again").await.unwrap_err(),
        session.send("again").await.unwrap_err(),
        session.halt().await.unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::Closed(it) if it.cause == cause),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_an_error() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let turn = session.chat("hello").await.unwrap();
    peer.receive().await;
    drop(peer);
    let error = soon(turn.text()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Closed(closed) if matches!(closed.cause, CloseCause::Lost { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn broken_messages_end_the_connection() {
    for broken in [
        Message::text("{\"stepUpdate\": 1}"),
        Message::text("no JSON"),
        Message::binary(vec![0xff]),
    ] {
        let (session, mut peer) = Peer::open(Handlers::new()).await;
        peer.send_message(broken).await;
        let cause = soon(session.closed()).await.cause;
        assert!(matches!(cause, CloseCause::Protocol { .. }), "{cause:?}");
    }
}

#[tokio::test]
async fn events_of_later_versions_are_passed_over() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let turn = session.chat("hello").await.unwrap();
    peer.receive().await;
    peer.send(json!({"seqNum": "1", "brandNew": {"a": [1, 2]}}))
        .await;
    peer.turn(0, "fine").await;
    assert_eq!(soon(turn.text()).await.unwrap(), "fine");
}

#[tokio::test]
async fn messages_over_the_limit_are_refused_both_ways() {
    let mut limits = Limits::default();
    limits.max_message_bytes = 1000;
    let (session, mut peer) = Peer::open_with(Handlers::new(), limits).await;
    let error = session.chat("x".repeat(1000)).await.unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { limit: 1000, .. }),
        "{error:?}"
    );

    let turn = session.chat("hello").await.unwrap();
    peer.receive().await;
    peer.answer(1, "STATE_DONE", &"x".repeat(1000), "").await;
    assert!(soon(turn.text()).await.unwrap_err().is_closed());
}

#[tokio::test]
async fn an_agent_that_fails_is_an_error() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let turn = session.chat("hello").await.unwrap();
    peer.receive().await;
    peer.running().await;
    peer.echo(0).await;
    peer.state(json!({"state": "STATE_FULLY_IDLE", "error": "no such model", "errorCode": "404"}))
        .await;
    let error = soon(turn.text()).await.unwrap_err();
    let Error::Turn(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (error.message.as_str(), error.code.as_deref()),
        ("no such model", Some("404"))
    );

    let turn = soon(session.chat("again")).await.unwrap();
    peer.receive().await;
    peer.turn(1, "better").await;
    assert_eq!(soon(turn.text()).await.unwrap(), "better");
}

#[tokio::test]
async fn inputs_can_be_added_to_a_running_turn() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let turn = session.chat("one").await.unwrap();
    session.send("two").await.unwrap();
    assert_eq!(peer.receive().await, said("one"));
    assert_eq!(peer.receive().await, said("two"));
    peer.running().await;
    peer.echo(0).await;
    peer.echo(1).await;
    peer.answer(2, "STATE_DONE", "both", "both").await;
    peer.idle().await;
    assert_eq!(soon(turn.text()).await.unwrap(), "both");
}

#[tokio::test]
async fn a_turn_waits_for_work_that_nobody_reads() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    session.send("unread").await.unwrap();
    peer.receive().await;
    peer.running().await;
    peer.echo(0).await;
    peer.sync().await;
    let next = tokio::spawn({
        let session = session.clone();
        async move { session.chat("read").await }
    });
    peer.answer(1, "STATE_DONE", "unread answer", "").await;
    peer.idle().await;
    assert_eq!(peer.receive().await, said("read"));
    peer.turn(2, "read answer").await;
    let turn = soon(next).await.unwrap().unwrap();
    assert_eq!(soon(turn.text()).await.unwrap(), "read answer");
}

#[tokio::test]
async fn triggers_and_parts_have_their_form() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let turn = session
        .chat(Input::trigger("the timer rang"))
        .await
        .unwrap();
    assert_eq!(
        peer.receive().await,
        json!({"automatedTrigger": "the timer rang"})
    );
    peer.running().await;
    peer.answer(0, "STATE_DONE", "noted", "noted").await;
    peer.idle().await;
    assert_eq!(soon(turn.text()).await.unwrap(), "noted");

    let input = Input::slash_command("plan")
        .and_text("now")
        .and_media("image/png", vec![1, 2]);
    session.send(input).await.unwrap();
    assert_eq!(
        peer.receive().await,
        json!({"userInput": {"parts": [
            {"slashCommand": {"name": "plan"}},
            {"text": "now"},
            {"media": {"mimeType": "image/png", "data": "AQI="}},
        ]}})
    );
}

#[tokio::test]
async fn the_connection_lives_as_long_as_a_turn() {
    let (session, mut peer) = Peer::open(Handlers::new()).await;
    let turn = session.chat("hello").await.unwrap();
    drop(session);
    peer.receive().await;
    peer.turn(0, "still here").await;
    assert_eq!(soon(turn.text()).await.unwrap(), "still here");
    peer.said_good_bye().await;
}
