//! An agent inside this program: an own tool, somebody who approves, a conversation that is kept
//! and taken up again. The model plays a script, so nothing leaves the machine.
//!
//! ```sh
//! cargo run -p harness-examples --bin embed
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use harness_sdk::session::SqliteStore;
use harness_sdk::types::{Script, ScriptedModel, ScriptedTurn};
use harness_sdk::{Agent, BuiltIns, Decision, Event, FunctionTool, PendingCall, tool};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let note = folder.path().join("note.txt");
    std::fs::write(&note, "water the plants on Friday\n")?;
    let kept = folder.path().join("conversations");

    // The model asks for a file, sets a reminder, and answers.
    let model = ScriptedModel::new(Script::new([
        ScriptedTurn::new()
            .text("Let me read it.")
            .call("view_file", json!({"AbsolutePath": note})),
        ScriptedTurn::new().call(
            "set_reminder",
            json!({"day": "Friday", "text": "water the plants"}),
        ),
        ScriptedTurn::new().text("I will remind you on Friday."),
    ]));
    let mut agent = Agent::builder(model)
        .workspace(folder.path())
        .built_ins(BuiltIns::Reading)
        .tool(set_reminder())
        .approve(approve)
        .store(Arc::new(SqliteStore::new(&kept)))
        .open()
        .await?;
    let id = agent.id().clone();

    let mut turn = agent.chat("Remind me of what my note says").await?;
    while let Some(event) = turn.next_event().await? {
        match event {
            Event::Text(text) => println!("agent: {text}"),
            Event::Tool(step) if step.state.is_final() => println!("tool:  {:?}", step.state),
            Event::Ended(end) => println!("ended: {end:?}"),
            _ => {}
        }
    }
    drop(turn);
    agent.close().await;

    // Another day, another process: only the id is needed.
    let model = ScriptedModel::new(Script::new([ScriptedTurn::new().text("On Friday.")]));
    let mut agent = Agent::builder(model)
        .tool(set_reminder())
        .approve(approve)
        .store(Arc::new(SqliteStore::new(&kept)))
        .resume(id)
        .open()
        .await?;
    println!("resumed with {} steps", agent.history().steps.len());
    println!(
        "agent: {}",
        agent.chat("When was that?").await?.text().await?
    );
    agent.close().await;
    Ok(())
}

fn set_reminder() -> FunctionTool {
    let parameters = json!({
        "type": "object",
        "properties": {"day": {"type": "string"}, "text": {"type": "string"}},
        "required": ["day", "text"],
    });
    tool(
        "set_reminder",
        "Sets a reminder.",
        parameters,
        |_, args| async move {
            // Only arguments that satisfy the schema get here.
            Ok(format!("set: {} on {}", args["text"], args["day"]))
        },
    )
}

/// A program with a user would ask the user.
async fn approve(pending: PendingCall) -> Decision {
    let args = serde_json::Value::from(pending.call.args);
    println!("may {} run with {args}?", pending.tool);
    match pending.tool.as_str() {
        "set_reminder" => Decision::Allow,
        _ => Decision::Deny("only reminders, please".to_owned()),
    }
}
