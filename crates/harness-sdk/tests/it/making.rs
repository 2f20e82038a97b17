//! What an agent can be made of.

use harness_sdk::types::{
    Budget, Config, Script, ScriptedModel, ScriptedTurn, StopReason, TurnEnd,
};
use harness_sdk::{Agent, AgentBuilder, BuiltIns, Error, tool};
use serde_json::json;

fn builder() -> AgentBuilder {
    Agent::builder(ScriptedModel::new(Script::new([
        ScriptedTurn::new().text("Hi.")
    ])))
}

fn touch() -> harness_sdk::FunctionTool {
    tool(
        "touch",
        "Touches.",
        json!({"type": "object"}),
        |_, _| async { Ok(String::new()) },
    )
}

#[tokio::test]
async fn a_tool_that_changes_something_needs_somebody_to_decide() {
    let error = builder().tool(touch()).open().await.unwrap_err();
    assert!(error.is_config());
    assert!(matches!(error, Error::Undecided { tool } if tool == "touch"));
    for decided in [
        builder().tool(touch().read_only()),
        builder().tool(touch()).deny("touch"),
        builder().tool(touch()).policy(Default::default()),
    ] {
        decided.open().await.unwrap().close().await;
    }
}

#[tokio::test]
async fn a_rule_about_no_tool_is_refused() {
    let error = builder()
        .tool(touch())
        .deny("tuoch")
        .open()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::UnknownTool { tool } if tool == "tuoch"));
}

#[tokio::test]
async fn two_tools_of_one_name_are_refused() {
    let twice = builder()
        .tool(touch())
        .tool(touch())
        .allow("*")
        .open()
        .await;
    assert!(matches!(twice.unwrap_err(), Error::Tool(_)));
}

#[tokio::test]
async fn a_workspace_has_to_be_there() {
    let error = builder().workspace("relative").open().await.unwrap_err();
    assert!(error.is_config(), "{error}");
}

#[tokio::test]
async fn anything_else_can_be_configured() {
    let budget = Budget {
        max_model_calls: Some(0),
        ..Budget::default()
    };
    let mut agent = builder()
        .configure(|config: &mut Config| config.budget = budget)
        .open()
        .await
        .unwrap();
    let (end, _) = agent.chat("Hi").await.unwrap().end().await.unwrap();
    let reason = StopReason::MaxModelCalls;
    assert_eq!(end, TurnEnd::Stopped { reason });
    agent.close().await;
}

#[cfg(feature = "built-ins")]
#[tokio::test]
async fn built_in_tools_stay_in_the_workspace() {
    use harness_sdk::Event;
    use harness_sdk::types::StepState;

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "hello\n").unwrap();
    let view = |path: &std::path::Path| {
        ScriptedTurn::new().call("view_file", json!({"AbsolutePath": path}))
    };
    let model = ScriptedModel::new(Script::new([
        view(&folder.path().join("a.txt")),
        view(std::path::Path::new("/etc/passwd")),
        ScriptedTurn::new().text("Seen."),
    ]));
    let mut agent = Agent::builder(model.clone())
        .built_ins(BuiltIns::Reading)
        .workspace(folder.path())
        .open()
        .await
        .unwrap();
    let mut turn = agent.chat("Look").await.unwrap();
    let mut ends = Vec::new();
    while let Some(event) = turn.next_event().await.unwrap() {
        if let Event::Tool(step) = event
            && step.state.is_final()
        {
            ends.push(step.state);
        }
    }
    drop(turn);
    assert_eq!(ends, [StepState::Done, StepState::Error]);
    let tools = model.requests()[0].tools.clone();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        ["find_by_name", "grep_search", "list_dir", "view_file"]
    );
    agent.close().await;
}

#[tokio::test]
async fn without_features_there_are_no_built_in_tools_to_decide_about() {
    let opened = builder().built_ins(BuiltIns::All).open().await;
    if cfg!(feature = "edit") {
        assert!(matches!(opened, Err(Error::Undecided { .. })));
    } else {
        opened.unwrap().close().await;
    }
}
