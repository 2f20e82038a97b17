//! Turns: events, ends, halting, resuming.

use std::sync::Arc;

use harness_sdk::types::{
    Gate, MemoryStore, ModelError, ModelErrorKind, Script, ScriptedModel, ScriptedTurn, StepState,
    TurnEnd, Usage,
};
use harness_sdk::{Agent, Error, Event, tool};
use serde_json::json;

fn model(turns: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
    ScriptedModel::new(Script::new(turns))
}

#[tokio::test]
async fn a_turn_is_told_in_order() {
    let usage = Usage {
        prompt_tokens: 7,
        total_tokens: 9,
        ..Usage::default()
    };
    let model = model([
        ScriptedTurn::new()
            .thinking("A sum.")
            .text("Let me see.")
            .call("add", json!({"a": 1, "b": 2})),
        ScriptedTurn::new().text("It is 3.").usage(usage.clone()),
    ]);
    let parameters = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    });
    let add = tool("add", "Adds.", parameters, |_, args| async move {
        let sum = args["a"].as_i64().unwrap() + args["b"].as_i64().unwrap();
        Ok(sum.to_string())
    });
    let mut agent = Agent::builder(model.clone())
        .tool(add.read_only())
        .system("Add.")
        .open()
        .await
        .unwrap();

    let mut turn = agent.chat("1 + 2?").await.unwrap();
    let (mut text, mut thinking, mut tools, mut last) = <(String, String, Vec<_>, _)>::default();
    while let Some(event) = turn.next_event().await.unwrap() {
        match &event {
            Event::Text(more) => text.push_str(more),
            Event::Thinking(more) => thinking.push_str(more),
            Event::Tool(step) => tools.push(step.state),
            Event::Error(error) => panic!("{error:?}"),
            _ => {}
        }
        last = Some(event);
    }
    assert_eq!(last, Some(Event::Ended(Box::new(TurnEnd::Completed))));
    assert_eq!(turn.next_event().await.unwrap(), None);
    assert_eq!(turn.text_so_far(), "Let me see.\n\nIt is 3.");
    drop(turn);
    assert_eq!(
        (text.as_str(), thinking.as_str()),
        ("Let me see.It is 3.", "A sum.")
    );
    assert_eq!(tools.last(), Some(&StepState::Done));
    assert_eq!(&*model.requests()[0].system, "Add.");
    assert_eq!(agent.history().usage, usage);
    agent.close().await;
}

#[tokio::test]
async fn a_failed_turn_is_an_error_and_the_agent_goes_on() {
    let failure = ModelError::new(ModelErrorKind::Status { code: 400 }, "no such model");
    let model = model([
        ScriptedTurn::new().error(failure),
        ScriptedTurn::new().text("Better."),
    ]);
    let mut agent = Agent::builder(model).open().await.unwrap();

    let error = agent.chat("a").await.unwrap().text().await.unwrap_err();
    assert!(matches!(&error, Error::Turn { end, .. } if matches!(**end, TurnEnd::Failed { .. })));
    assert!(error.to_string().contains("no such model"), "{error}");
    assert!(!error.is_config());
    assert_eq!(
        agent.chat("b").await.unwrap().text().await.unwrap(),
        "Better."
    );
    agent.close().await;
}

#[tokio::test]
async fn a_stopper_halts_from_elsewhere() {
    let gate = Gate::new();
    let model = model([ScriptedTurn::new()
        .text("Once upon")
        .gate(&gate)
        .text(" a time")]);
    let mut agent = Agent::builder(model).open().await.unwrap();
    let stopper = agent.stopper();

    let turn = agent.chat("Tell me").await.unwrap();
    gate.reached(1).await;
    stopper.halt().await;
    assert_eq!(
        turn.end().await.unwrap(),
        (TurnEnd::Halted, "Once upon".to_owned())
    );

    agent.close().await;
    // Nothing is left to be halted, and that is fine.
    stopper.halt().await;
}

#[tokio::test]
async fn a_dropped_turn_is_halted_before_the_next_begins() {
    let gate = Gate::new();
    let model = model([
        ScriptedTurn::new().text("Never heard").gate(&gate),
        ScriptedTurn::new().text("Second."),
    ]);
    let mut agent = Agent::builder(model).open().await.unwrap();

    let turn = agent.chat("first").await.unwrap();
    gate.reached(1).await;
    drop(turn);
    let (end, text) = agent.chat("second").await.unwrap().end().await.unwrap();
    assert_eq!((end, text.as_str()), (TurnEnd::Completed, "Second."));
    agent.close().await;
}

#[tokio::test]
async fn a_structured_answer_is_its_json() {
    let model = model([ScriptedTurn::new().call("finish", json!({"mark": 2}))]);
    let schema = json!({"type": "object", "properties": {"mark": {"type": "integer"}}});
    let mut agent = Agent::builder(model)
        .finish_schema(schema)
        .open()
        .await
        .unwrap();
    let text = agent.chat("Mark it").await.unwrap().text().await.unwrap();
    assert_eq!(text, r#"{"mark":2}"#);
    agent.close().await;
}

#[tokio::test]
async fn a_conversation_is_resumed_by_its_id() {
    let store = Arc::new(MemoryStore::new());
    let mut agent = Agent::builder(model([ScriptedTurn::new().text("Noted.")]))
        .store(store.clone())
        .open()
        .await
        .unwrap();
    let id = agent.id().clone();
    assert_eq!(
        agent.chat("I am Ada").await.unwrap().text().await.unwrap(),
        "Noted."
    );
    agent.close().await;

    let second = model([ScriptedTurn::new().text("Ada.")]);
    let mut agent = Agent::builder(second.clone())
        .store(store.clone())
        .resume(id.clone())
        .open()
        .await
        .unwrap();
    assert_eq!(agent.id(), &id);
    let texts: Vec<_> = agent
        .history()
        .steps
        .into_iter()
        .map(|(_, step)| step.text)
        .collect();
    assert_eq!(texts, ["I am Ada", "Noted."]);
    assert_eq!(
        agent.chat("Who am I?").await.unwrap().text().await.unwrap(),
        "Ada."
    );
    assert_eq!(second.requests()[0].messages.len(), 3);
    agent.close().await;

    let other = "f".repeat(32).parse().unwrap();
    let missing = Agent::builder(model([]))
        .store(store)
        .resume(other)
        .open()
        .await;
    assert!(missing.unwrap_err().is_config());
}
