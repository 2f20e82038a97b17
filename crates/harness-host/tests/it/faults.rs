//! A conversation that ends by a fault ends alone.

use std::sync::Arc;

use harness_host::{Blueprint, Error, Limits};
use harness_types::{Model, ModelRequest, ModelStream, ScriptedTurn};

use crate::support::{host_of, lines, model, read_turn, say};

/// A model that is at fault itself.
#[derive(Debug)]
struct Panics;

impl Model for Panics {
    fn stream(&self, _: ModelRequest) -> ModelStream {
        panic!("a fault of the model")
    }

    fn name(&self) -> &str {
        "panics"
    }
}

#[tokio::test]
async fn a_conversation_whose_loop_panics_ends_and_the_others_go_on() {
    let good = model([ScriptedTurn::new().text("fine")]);
    let host = host_of(vec![Arc::new(Panics), good], Limits::default());
    let broken = host.open(Blueprint::default()).await.unwrap();
    let other = host.open(Blueprint::default()).await.unwrap();
    let (mut reader, mut others) = (broken.attach(), other.attach());

    broken.send(say("hi")).await.unwrap();
    let mut read = Vec::new();
    while let Some(update) = reader.next().await {
        read.push(update);
    }
    assert_eq!(
        lines(&read),
        ["turn started", r#"step 0 Done +"hi""#],
        "what was kept is told, and then the end"
    );
    assert!(reader.is_closed());
    let sent = broken.send(say("still there?")).await;
    assert!(matches!(sent, Err(Error::Closed)), "{sent:?}");

    other.send(say("hi")).await.unwrap();
    let turn = lines(&read_turn(&mut others).await);
    assert_eq!(
        turn.last().map(String::as_str),
        Some("turn ended Completed")
    );

    broken.close().await;
    assert_eq!(host.conversations(), 1);
    other.close().await;
    host.shutdown().await;
}
