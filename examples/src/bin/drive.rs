//! Drives a harness process from Rust: ours, or the closed one of the Python package, whichever is
//! found first.
//!
//! ```sh
//! cargo build && export ANTIGRAVITY_HARNESS_PATH=target/debug/localharness
//! cargo run -p harness-examples --bin drive                             # a scripted model server
//! cargo run -p harness-examples --bin drive -- https://model.example/   # your own, with GEMINI_API_KEY
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use harness_client::wire::step_update::State;
use harness_client::{
    Builtin, ConversationConfig, Event, Handlers, HostTool, Launch, Model, Rule, SearchEnvironment,
    find_harness,
};
use harness_sdk::types::ScriptedTurn;
use harness_testkit::FakeModelServer;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let note = folder.path().join("note.txt");
    std::fs::write(&note, "The plants need water.\n")?;

    // Where the model answers.
    let server = FakeModelServer::start([
        ScriptedTurn::new().call("view_file", json!({"AbsolutePath": note})),
        ScriptedTurn::new().call("get_weather", json!({"city": "Oslo"})),
        ScriptedTurn::new().text("Water them: it stays dry in Oslo."),
    ])
    .await?;
    let (url, key) = match std::env::args().nth(1) {
        Some(url) => {
            server.discard_turns();
            (url, std::env::var("GEMINI_API_KEY").unwrap_or_default())
        }
        None => (server.base_url(), "none is needed".to_owned()),
    };
    let name = std::env::var("HARNESS_MODEL").unwrap_or_else(|_| "gemini-3-flash".to_owned());

    // The harness: a process of its own.
    let found = find_harness(None, &SearchEnvironment::current())?;
    println!("harness: found by {}", found.origin);
    let harness = Launch::new(found.program).start().await?;

    // The conversation: one built-in tool, one of ours.
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let weather = HostTool::new("get_weather", "Tells the weather of a city.", schema);
    let handlers = Handlers::new().tool(weather, |call| async move {
        let city = call
            .argument("city")
            .as_str()
            .unwrap_or("nowhere")
            .to_owned();
        println!("asked for the weather in {city}");
        Ok(format!("dry in {city}").into())
    });
    let config = ConversationConfig::new(Model::gemini(name).base_url(url).api_key(key.as_str()))
        .workspace(folder.path())
        .app_data_dir(folder.path().join("data"))
        .tools([Builtin::ViewFile])
        .rule(Rule::allow("view_file"))
        .rule(Rule::allow("get_weather"));
    let session = harness.session(config).handlers(handlers).open().await?;

    let mut turn = session
        .chat("Do the plants of note.txt need water today?")
        .await?;
    while let Some(event) = turn.next_event().await? {
        match event {
            Event::TextDelta { text, .. } => println!("agent: {text}"),
            // What a call shows before its end may be merged with it.
            Event::Step(step) if step.view_file.is_some() && step.state() == State::Done => {
                println!("step {}: view_file", step.step_index());
            }
            Event::Idle(end) => println!("ended: {:?}, answer: {:?}", end.outcome, end.text),
            _ => {}
        }
    }
    drop(turn);

    let status = harness.shutdown().await?;
    println!("harness: ended, success: {}", status.is_success());
    Ok(())
}
