//! Who decides about calls.

use harness_sdk::types::{
    Choice, Gate, Message, Question, QuestionAnswer, ResultContent, Script, ScriptedModel,
    ScriptedTurn, ToolResultStatus, TurnEnd,
};
use harness_sdk::{Agent, AgentBuilder, Decision, FunctionTool, PendingCall, tool};
use serde_json::json;

fn nothing(name: &str) -> FunctionTool {
    let answer = format!("{name} ran");
    tool(
        name,
        "Does nothing.",
        json!({"type": "object"}),
        move |_, _| {
            let answer = answer.clone();
            async move { Ok(answer) }
        },
    )
}

/// What the model is told about one call of `look` and one of `touch`.
async fn results(
    make: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Vec<(ToolResultStatus, String)> {
    let model = ScriptedModel::new(Script::new([
        ScriptedTurn::new()
            .call("look", json!({}))
            .call("touch", json!({})),
        ScriptedTurn::new().text("Done."),
    ]));
    let builder = Agent::builder(model.clone())
        .tool(nothing("look").read_only())
        .tool(nothing("touch"));
    let mut agent = make(builder).open().await.unwrap();
    assert_eq!(
        agent.chat("Go").await.unwrap().text().await.unwrap(),
        "Done."
    );
    agent.close().await;
    let requests = model.requests();
    let Some(Message::ToolResults(results)) = requests[1].messages.last() else {
        panic!("{requests:?}");
    };
    let results = results.iter().map(|result| match &result.content {
        ResultContent::Text(text) => (result.status, text.clone()),
        other => panic!("{other:?}"),
    });
    results.collect()
}

fn ran(name: &str) -> (ToolResultStatus, String) {
    (ToolResultStatus::Succeeded, format!("{name} ran"))
}

fn denied(why: &str, results: &[(ToolResultStatus, String)], call: usize) {
    assert_eq!(results[call].0, ToolResultStatus::Denied);
    assert!(results[call].1.contains(why), "{results:?}");
}

#[tokio::test]
async fn looking_needs_no_word_and_touching_does() {
    let results = results(|agent| {
        agent.approve(|pending: PendingCall| async move {
            assert_eq!(
                (pending.tool.as_str(), pending.call.name.as_str()),
                ("touch", "touch")
            );
            Decision::Allow
        })
    })
    .await;
    assert_eq!(results, [ran("look"), ran("touch")]);
}

#[tokio::test]
async fn a_refusal_tells_the_model_why() {
    let results =
        results(|agent| agent.approve(|_| async { Decision::Deny("not on Sundays".into()) })).await;
    assert_eq!(results[0], ran("look"));
    denied("not on Sundays", &results, 1);
}

#[tokio::test]
async fn whoever_is_asked_and_fails_permits_nothing() {
    let in_the_future = results(|agent| agent.approve(|_| async { panic!("on purpose") })).await;
    denied("whoever was asked failed", &in_the_future, 1);
    let before_it = results(|agent| {
        agent.approve(|pending| {
            assert_eq!(pending.tool, "something else", "on purpose");
            async { Decision::Allow }
        })
    })
    .await;
    denied("whoever was asked failed", &before_it, 1);
}

#[tokio::test]
async fn rules_decide_before_anybody_is_asked() {
    assert_eq!(
        results(|agent| agent.allow("touch")).await,
        [ran("look"), ran("touch")]
    );
    assert_eq!(
        results(|agent| agent.allow("*")).await,
        [ran("look"), ran("touch")]
    );

    let all = results(|agent| agent.deny("*")).await;
    assert_eq!(
        (all[0].0, all[1].0),
        (ToolResultStatus::Denied, ToolResultStatus::Denied)
    );

    // A rule that asks, and nobody there.
    let nobody = results(|agent| agent.ask("look").allow("touch")).await;
    assert_eq!(
        (nobody[0].0, &nobody[1]),
        (ToolResultStatus::Denied, &ran("touch"))
    );
}

#[tokio::test]
async fn a_halt_takes_the_question_back() {
    let asked = Gate::new();
    let model = ScriptedModel::new(Script::new([ScriptedTurn::new().call("touch", json!({}))]));
    let (gate, gone) = (asked.clone(), std::sync::Arc::new(()));
    let held = std::sync::Arc::downgrade(&gone);
    let mut agent = Agent::builder(model)
        .tool(nothing("touch"))
        .approve(move |_| {
            let (gate, gone) = (gate.clone(), gone.clone());
            async move {
                gate.pass().await;
                drop(gone);
                Decision::Allow
            }
        })
        .open()
        .await
        .unwrap();
    let stopper = agent.stopper();
    let turn = agent.chat("Go").await.unwrap();
    asked.reached(1).await;
    stopper.halt().await;
    assert_eq!(turn.end().await.unwrap().0, TurnEnd::Halted);
    agent.close().await;
    // Neither the closure nor a future of it is left.
    assert_eq!(held.strong_count(), 0);
}

#[tokio::test]
async fn a_question_is_answered() {
    let model = ScriptedModel::new(Script::new([
        ScriptedTurn::new().call(
            "ask_question",
            json!({"questions": [{"question": "Which?", "options": ["a", "b"]}]}),
        ),
        ScriptedTurn::new().text("b it is."),
    ]));
    let expected = Question {
        question: "Which?".into(),
        options: vec!["a".into(), "b".into()],
        choice: Choice::One,
    };
    let mut agent = Agent::builder(model.clone())
        .questions(move |questions| {
            assert_eq!(questions, std::slice::from_ref(&expected));
            async {
                Some(vec![QuestionAnswer::Chosen {
                    options: vec![1],
                    text: String::new(),
                }])
            }
        })
        .open()
        .await
        .unwrap();
    assert_eq!(
        agent.chat("Go").await.unwrap().text().await.unwrap(),
        "b it is."
    );
    let Some(Message::ToolResults(results)) = model.requests()[1].messages.last().cloned() else {
        panic!();
    };
    assert_eq!(results[0].status, ToolResultStatus::Succeeded);
    agent.close().await;
}
