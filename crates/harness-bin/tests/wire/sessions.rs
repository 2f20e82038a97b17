//! Conversations that are taken up again, also after the process was killed.

use harness_testkit::WireClient;
use harness_testkit::process::ended;
use harness_types::{Gate, ScriptedTurn, Usage};
use serde_json::{Value, json};

use super::support::{
    Fifo, Harness, ask, assert_stream, cascade_id, commands, host_tools, input, program, reached,
    storage, stored, story, until_member, until_text, with,
};

fn resume(config: Value, id: &str) -> Value {
    with(
        config,
        json!({ "cascadeId": id, "sessionContinuationMode": "RESUME" }),
    )
}

fn counted(prompt: u64) -> Usage {
    Usage {
        prompt_tokens: prompt,
        total_tokens: prompt,
        ..Usage::default()
    }
}

/// The history a client was given.
fn history(client: &WireClient) -> Vec<Value> {
    let steps = &client.events()[0]["initializeConversationResponse"]["history"];
    steps.as_array().cloned().unwrap_or_default()
}

/// A history in words, as a story of its steps.
fn told(client: &WireClient) -> Vec<String> {
    let events: Vec<_> = history(client)
        .into_iter()
        .map(|step| json!({ "stepUpdate": step }))
        .collect();
    story(&events)
}

/// Kills the process and starts another one in its home.
async fn crash(harness: &mut Harness) {
    let pid = harness.process.pid();
    harness.process.kill().await.unwrap();
    ended(pid).await.unwrap();
    harness.restart().await;
}

#[tokio::test]
async fn history_usage_and_numbers_go_on() {
    let mut harness = Harness::start_stored([
        ScriptedTurn::new()
            .thinking("hm")
            .text("one")
            .usage(counted(10)),
        ScriptedTurn::new().text("two").usage(counted(20)),
    ])
    .await;
    let mut client = harness.open().await;
    ask(&mut client, "first").await;
    let id = cascade_id(&client);
    client.close().await.unwrap();
    assert!(harness.process.shut_down().await.unwrap().success());

    harness.restart().await;
    let mut client = harness.open_with(resume(harness.config(), &id)).await;
    let first = &client.events()[0]["initializeConversationResponse"];
    assert_eq!(first["cascadeId"], id.as_str());
    assert_eq!(
        first["cumulativeUsage"],
        json!({ "promptTokenCount": "10", "totalTokenCount": "10" })
    );
    let entry = json!([{ "trajectoryId": id, "usage": first["cumulativeUsage"] }]);
    assert_eq!(first["trajectoryUsage"], entry);
    let steps = history(&client);
    assert_eq!(
        told(&client),
        [
            "step 0 DONE USER>MODEL \"first\"",
            "step 1 DONE MODEL>USER \"one\""
        ]
    );
    assert_eq!(steps[1]["thinking"], "hm");
    // Replayed text is not new text.
    assert!(
        steps
            .iter()
            .all(|step| step["textDelta"] == "" && step["thinkingDelta"] == "")
    );

    let events = ask(&mut client, "second").await;
    let expected = [
        "RUNNING",
        "step 2 DONE USER>MODEL \"second\"",
        "step 3 DONE MODEL>USER \"two\"",
        "usage 30",
        "FULLY_IDLE",
    ];
    assert_eq!(story(&events), expected);
    assert_stream(client.events());
    let request = &harness.model.requests()[1];
    assert!(
        request.contents()[0].to_string().contains("first"),
        "{}",
        request.body
    );
    assert!(
        request.contents()[1].to_string().contains("one"),
        "{}",
        request.body
    );
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn continuation_modes_mean_what_they_say() {
    let harness = Harness::start_stored([ScriptedTurn::new().text("there")]).await;
    let id = "00112233445566778899aabbccddeeff";
    let refusal = |mode: &str, id: &str| {
        let config = with(
            harness.config(),
            json!({ "cascadeId": id, "sessionContinuationMode": mode }),
        );
        let connecting = harness.process.connect();
        async move {
            let mut client = connecting.await.unwrap();
            client.send(&json!({ "config": config })).await.unwrap();
            client.until_closed().await.unwrap().1
        }
    };
    let missing = format!(
        "code 1008, \"the conversation cannot be opened: conversation {id} does not exist, so it"
    );
    let unspecified = "SESSION_CONTINUATION_MODE_UNSPECIFIED";
    for mode in ["RESUME", unspecified] {
        let close = refusal(mode, id).await;
        assert!(close.starts_with(&missing), "{mode}: {close}");
    }
    let create = with(
        harness.config(),
        json!({ "cascadeId": id, "sessionContinuationMode": "CREATE_ONLY" }),
    );
    let mut client = harness.open_with(create).await;
    assert_eq!(cascade_id(&client), id);
    ask(&mut client, "are you there?").await;
    client.close().await.unwrap();
    let close = refusal("CREATE_ONLY", id).await;
    let exists =
        format!("code 1008, \"the conversation cannot be opened: conversation {id} exists already");
    assert!(close.starts_with(&exists), "{close}");
    for mode in ["RESUME", "CREATE_OR_RESUME", unspecified] {
        let config = with(
            harness.config(),
            json!({ "cascadeId": id, "sessionContinuationMode": mode }),
        );
        let client = harness.open_with(config).await;
        assert_eq!(told(&client).len(), 2, "{mode}");
        client.close().await.unwrap();
    }
    harness.end().await;
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_stream_leaves_what_came() {
    let gate = Gate::new();
    let mut harness = Harness::start_stored([ScriptedTurn::new().text("so far").gate(&gate)]).await;
    let mut client = harness.open().await;
    client.send(&input("go")).await.unwrap();
    until_text(&mut client, "so far").await;
    let id = cascade_id(&client);
    crash(&mut harness).await;
    harness.model.push(ScriptedTurn::new().text("going on"));
    let mut client = harness.open_with(resume(harness.config(), &id)).await;
    let told = told(&client);
    assert_eq!(told[0], "step 0 DONE USER>MODEL \"go\"");
    assert!(told.iter().all(|step| !step.contains("ACTIVE")), "{told:?}");
    // Resumed work waits for the user.
    assert_eq!(harness.model.requests().len(), 1);
    let events = ask(&mut client, "go on").await;
    assert!(
        story(&events)
            .iter()
            .any(|line| line.ends_with("\"going on\""))
    );
    assert_stream(client.events());
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_command_repeats_nothing() {
    let mut harness = Harness::start_stored([]).await;
    let workspace = harness.workspace();
    let mut fifo = Fifo::new(&workspace);
    let line = "echo once >> witness; echo $$ > fifo; echo started; exec sleep 1001";
    harness.model.push(ScriptedTurn::new().call_with_id(
        "c",
        "run_command",
        json!({ "CommandLine": line }),
    ));
    let config = with(harness.config(), commands(&workspace));
    let mut client = harness.open_with(config.clone()).await;
    client.send(&input("go")).await.unwrap();
    let pid: u32 = fifo.line().await.parse().unwrap();
    let id = cascade_id(&client);
    // Output that is shown comes from a command that is guarded: from here on it ends with the
    // process, however that ends.
    let output = |event: &Value| {
        let output = event["stepUpdate"]["runCommand"]["combinedOutput"].as_str();
        output.is_some_and(|text| text.contains("started"))
    };
    client.until("the output", output).await.unwrap();
    crash(&mut harness).await;
    ended(pid).await.unwrap();
    harness.model.push(ScriptedTurn::new().text("checked"));
    let mut client = harness.open_with(resume(config, &id)).await;
    ask(&mut client, "what happened?").await;
    let request = harness.model.requests().pop().unwrap();
    let answers = request.body.to_string();
    assert_eq!(
        answers.matches("\"functionResponse\"").count(),
        1,
        "{answers}"
    );
    assert!(answers.contains("outcome unknown"), "{answers}");
    let witness = std::fs::read_to_string(workspace.join("witness")).unwrap();
    assert_eq!(witness, "once\n");
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_host_call_asks_nobody_again() {
    let call = ScriptedTurn::new().call_with_id("c", "lookup", json!({}));
    let mut harness = Harness::start_stored([call]).await;
    let config = with(harness.config(), host_tools(&["lookup"]));
    let mut client = harness.open_with(config.clone()).await;
    client.send(&input("go")).await.unwrap();
    until_member(&mut client, "toolCall").await;
    let id = cascade_id(&client);
    crash(&mut harness).await;
    let gate = Gate::new();
    harness
        .model
        .push(ScriptedTurn::new().text("I see").gate(&gate));
    let mut client = harness.open_with(resume(config, &id)).await;
    let late = json!({ "toolResponse": { "id": "c", "responseJson": "{}" } });
    client.send(&late).await.unwrap();
    harness
        .process
        .stderr_line("a toolResponse for \"c\" was ignored")
        .await
        .unwrap();
    client.send(&input("and?")).await.unwrap();
    reached(&gate, 1).await;
    gate.open();
    let events = client.until_idle().await.unwrap();
    assert!(events.iter().all(|event| event["toolCall"].is_null()));
    assert_stream(client.events());
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn two_processes_cannot_have_one_conversation() {
    let harness = Harness::start_stored([ScriptedTurn::new().text("mine")]).await;
    let mut client = harness.open().await;
    ask(&mut client, "go").await;
    let id = cascade_id(&client);
    let mut second = program(&harness.home)
        .start_with(&stored(&harness.home))
        .await
        .unwrap();
    let mut other = second.connect().await.unwrap();
    other
        .send(&json!({ "config": resume(harness.config(), &id) }))
        .await
        .unwrap();
    let (_, close) = other.until_closed().await.unwrap();
    assert!(
        close.starts_with("code 1008, \"the conversation cannot be opened: "),
        "{close}"
    );
    let line = second.stderr_line(&id).await.unwrap();
    let holder = harness.process.pid().to_string();
    assert!(
        line.contains(&holder),
        "{line} does not name process {holder}"
    );
    client.close().await.unwrap();
    // Free when its owner has closed it.
    let mut other = second.connect().await.unwrap();
    other
        .send(&json!({ "config": resume(harness.config(), &id) }))
        .await
        .unwrap();
    other.next_event().await.unwrap();
    assert_eq!(told(&other).len(), 2);
    other.close().await.unwrap();
    assert!(second.shut_down().await.unwrap().success());
    harness.end().await;
}

#[tokio::test]
async fn a_damaged_file_is_kept_aside_and_the_client_is_told() {
    let mut harness = Harness::start_stored([ScriptedTurn::new().text("one")]).await;
    let mut client = harness.open().await;
    ask(&mut client, "first").await;
    let id = cascade_id(&client);
    client.close().await.unwrap();
    assert!(harness.process.shut_down().await.unwrap().success());
    let path = storage(&harness.home).join(format!("{id}.session.db"));
    let garbage = b"this is no database, and it never was one".repeat(200);
    std::fs::write(&path, &garbage).unwrap();

    harness.restart().await;
    harness
        .model
        .push(ScriptedTurn::new().text("starting over"));
    let mut client = harness.open_with(resume(harness.config(), &id)).await;
    let told = told(&client);
    assert!(
        told.iter()
            .any(|step| step.contains("ERROR") && step.contains("was damaged")),
        "{told:?}"
    );
    let line = harness.process.stderr_line("was damaged").await.unwrap();
    assert!(line.contains("is kept as"), "{line}");
    let kept = std::fs::read_dir(storage(&harness.home))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|found| std::fs::read(found).unwrap() == garbage)
        .count();
    assert_eq!(kept, 1);
    ask(&mut client, "again").await;
    client.close().await.unwrap();
    harness.end().await;
}
