//! 20,000 changed messages: nothing a client says may hurt the process, or anybody else in it.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use harness_framing::FrameCodec;
use harness_proto::json::from_json_slice;
use harness_proto::localharness::{
    ClientInfo, InitializeConversationEvent, InputConfig, InputEvent,
};
use harness_testkit::process::{is_alive, resident_bytes};
use harness_testkit::{EmptyHome, RecordedRequest, ServerTurn, WireClient};
use harness_types::ScriptedTurn;
use prost::Message as _;
use serde_json::{Value, json};

use super::mutate::{self, Chance};
use super::support::{
    Harness, ask, assert_sound, cascade_id, config, halt, host_tools, input, program, question,
    questions, texts, until_member, with,
};

/// Where chance begins. A failure is repeated with the same number.
const SEED: u64 = 0x20_000;

const SPAWNED: usize = 300;
const IN_PROCESS: usize = 4_700;
const FIRST_MESSAGES: usize = 3_000;
const LATER_MESSAGES: usize = 12_000;

/// No more memory may be in use, whatever is said.
const RESIDENT: u64 = 400 * 1024 * 1024;

/// A message on its own may not take longer.
const PATIENCE: Duration = Duration::from_secs(10);

fn input_configs() -> Vec<InputConfig> {
    let client = |language: &str, version: &str| ClientInfo {
        language: Some(language.into()),
        version: Some(version.into()),
        language_version: Some("3.11".into()),
        os: Some("linux".into()),
        os_version: Some("6.0".into()),
    };
    vec![
        InputConfig::default(),
        InputConfig {
            storage_directory: Some("/nonexistent/storage".into()),
            client_info: Some(client("python", "0.1.22")),
            env: [("A".to_owned(), "B".to_owned())].into(),
            ..InputConfig::default()
        },
        InputConfig {
            port: Some(0),
            client_info: Some(client("rust", "0.1.14")),
            use_interactions_api: Some(false),
            ..InputConfig::default()
        },
    ]
}

fn change_config(chance: &mut Chance, config: &mut InputConfig) {
    let text = "ü\u{0}/..\n".repeat(chance.below(300));
    match chance.below(6) {
        0 => config.storage_directory = Some(text),
        1 => config.use_interactions_api = Some(chance.below(2) == 0),
        2 => config.client_info = None,
        3 => {
            let client = config.client_info.get_or_insert_default();
            client.language = Some(text.clone());
            client.version = Some(text);
        }
        4 => {
            let names = (0..chance.below(200)).map(|n| (format!("{n}{text}"), text.clone()));
            config.env = names.collect();
        }
        _ => config.port = Some(0),
    }
}

/// A changed handshake, and whether its body is still an `InputConfig`.
fn handshake_bytes(chance: &mut Chance) -> (Vec<u8>, bool) {
    let configs = input_configs();
    loop {
        let mut config = chance.pick(&configs).clone();
        let other = chance.pick(&configs).encode_to_vec();
        let mut whole = Vec::new();
        // Half of the changes are to the values, the others to the bytes.
        let body = if chance.below(2) == 0 {
            change_config(chance, &mut config);
            config.encode_to_vec()
        } else {
            mutate::bytes(chance, config.encode_to_vec(), &other)
        };
        FrameCodec::default()
            .write_frame(&mut whole, &body)
            .unwrap();
        let decoded = InputConfig::decode(body.as_slice()).ok();
        // Names are looked up, which is not for a test; and a port may be somebody else's.
        if let Some(decoded) = &decoded
            && (!decoded.bind_address().is_empty() || decoded.port() != 0)
        {
            continue;
        }
        // Every fifth length is wrong as well.
        let wrong_length = chance.below(5) == 0;
        if wrong_length {
            let at = chance.below(4);
            whole[at] ^= 1 << chance.below(8);
        }
        return (whole, decoded.is_some() && !wrong_length);
    }
}

#[test]
fn changed_handshakes_are_answered_or_refused_in_process() {
    let mut chance = Chance::new(SEED);
    let (mut accepted, mut understood) = (0, 0);
    for n in 0..IN_PROCESS {
        let (bytes, good) = handshake_bytes(&mut chance);
        let mut stdout = Vec::new();
        let bound = harness_server::handshake(bytes.as_slice(), &mut stdout);
        assert_eq!(
            bound.is_ok(),
            !stdout.is_empty(),
            "seed {SEED:#x}, message {n}: {bytes:?}"
        );
        accepted += usize::from(bound.is_ok());
        understood += usize::from(good);
    }
    println!(
        "seed {SEED:#x}: {IN_PROCESS} handshakes, {understood} understood, {accepted} accepted"
    );
    assert!(understood * 100 >= IN_PROCESS * 30, "{understood}");
}

#[tokio::test]
async fn changed_handshakes_end_a_process_well_or_with_one_line() {
    let mut chance = Chance::new(SEED + 1);
    let home = EmptyHome::new().unwrap();
    let mut codes = [0; 2];
    for n in 0..SPAWNED {
        let (bytes, _) = handshake_bytes(&mut chance);
        let mut process = program(&home).launch().unwrap();
        // It may have ended before all was written.
        let _ = process.write_stdin(&bytes).await;
        process.close_stdin();
        let status = process.exit().await.unwrap();
        let stderr = process.stderr();
        assert_sound(&stderr);
        match status.code() {
            Some(0) => codes[0] += 1,
            Some(1) => {
                codes[1] += 1;
                assert_eq!(stderr.len(), 1, "seed {SEED:#x}, message {n}: {stderr:?}");
            }
            _ => panic!("seed {SEED:#x}, message {n}: {status}: {stderr:?}"),
        }
    }
    println!(
        "{SPAWNED} processes: {} served, {} refused",
        codes[0], codes[1]
    );
    assert!(codes[0] * 100 >= SPAWNED * 30, "{codes:?}");
    assert_eq!(
        home.left_behind().unwrap(),
        Vec::<std::path::PathBuf>::new()
    );
}

fn everything(base_url: &str) -> Value {
    let more = json!({
        "enabledHooks": [
            "LIFECYCLE_HOOK_ON_SESSION_START", "LIFECYCLE_HOOK_PRE_TURN", "LIFECYCLE_HOOK_PRE_TOOL",
            "LIFECYCLE_HOOK_POST_TOOL", "LIFECYCLE_HOOK_STOP",
        ],
        "policyConfig": { "workspaceContainment": "WORKSPACE_CONTAINMENT_ENABLED", "rules": [
            { "tool": "lookup", "name": "asks", "ruleId": "r1", "isDynamic": true,
                "decision": "POLICY_DECISION_ASK_USER" },
            { "tool": "*", "name": "allows", "decision": "POLICY_DECISION_ALLOW" },
        ] },
        "retryConfig": { "apiRetry": { "maxRetries": 1, "initialSleepDurationMs": 1,
            "exponentialMultiplier": 1.0, "jitterRange": 0.5 } },
        "budgetConfig": { "maxModelCalls": 1000, "maxTotalTokens": "100000" },
        "systemInstructions": { "appended": { "customIdentity": "You test.",
            "appendedSections": [{ "title": "a", "content": "b" }] } },
        "finishToolSchemaJson": "{\"type\":\"object\"}",
        "compactionThreshold": 1000,
    });
    with(
        with(with(config(base_url), host_tools(&["lookup"])), questions()),
        more,
    )
}

/// Calls tools until they have been answered.
fn busy_model(request: &RecordedRequest) -> ServerTurn {
    let turn = if request.last_responses().is_empty() {
        ScriptedTurn::new()
            .text("I ask.")
            .call_with_id("c1", "lookup", json!({ "key": "value" }))
            .call("ask_question", question())
    } else {
        ScriptedTurn::new().text("I know.")
    };
    turn.into()
}

/// A whole session, in which everything is asked and answered; returns what the client has sent.
async fn recorded(harness: &Harness, url: &str) -> Vec<Value> {
    let mut client = harness.open_with(everything(url)).await;
    let mut sent = Vec::new();
    let first = json!({ "userInput": { "parts": [
        { "text": "go" },
        { "media": { "mimeType": "image/png", "description": "d", "data": "iVBORw0=" } },
        { "slashCommand": { "name": "plan" } },
    ] } });
    let mut next = vec![first];
    loop {
        for message in next.drain(..) {
            client.send(&message).await.unwrap();
            sent.push(message);
        }
        let event = client.next_event().await.unwrap();
        let hook = &event["callHookRequest"];
        let step = &event["stepUpdate"];
        let reply = if hook.is_object() {
            let result = match hook["type"].as_str().unwrap() {
                "LIFECYCLE_HOOK_PRE_TURN" => json!({ "preTurnResult": { "decision": "ALLOW" } }),
                "LIFECYCLE_HOOK_PRE_TOOL" => json!({ "preToolResult": { "decision": "ALLOW",
                    "modifiedArgs": { "fields": [{ "name": "k", "value": { "numberValue": 1.0 } }] } } }),
                "LIFECYCLE_HOOK_STOP" => json!({ "stopResult": { "decision": "ALLOW_STOP" } }),
                _ => json!({ "emptyResult": {} }),
            };
            json!({ "callHookResponse": with(result, json!({ "requestId": hook["requestId"] })) })
        } else if event["policyDecisionRequest"].is_object() {
            json!({ "policyDecisionResponse": {
                "requestId": event["policyDecisionRequest"]["requestId"],
                "outcome": "POLICY_EVALUATION_OUTCOME_ALLOW", "denyReason": "",
            } })
        } else if event["toolCall"].is_object() {
            json!({ "toolResponse": {
                "id": event["toolCall"]["id"],
                "response": { "fields": [{ "name": "k", "value": { "listValue": { "values": [{ "nullValue": "NULL_VALUE" }] } } }] },
                "supplementalMedia": [{ "mimeType": "image/png", "data": "iVBORw0=" }],
            } })
        } else if step["state"] == "STATE_WAITING_FOR_USER" {
            json!({ "questionResponse": {
                "trajectoryId": step["trajectoryId"], "stepIndex": step["stepIndex"],
                "response": { "answers": [{ "multipleChoiceAnswer": {
                    "selectedChoiceIndices": [0], "freeformResponse": "more" } }] },
            } })
        } else if harness_testkit::is_idle(&event) {
            break;
        } else {
            continue;
        };
        next.push(reply);
    }
    client.close().await.unwrap();
    sent.extend([
        json!({ "toolResponse": { "id": "c1", "responseJson": "{\"a\": 1}", "errorMessage": "" } }),
        json!({ "automatedTrigger": "tick" }),
        json!({ "sessionEndRequest": true }),
        json!({ "toolConfirmation": { "trajectoryId": "t", "stepIndex": 1, "accepted": true } }),
        input("hello"),
        halt(),
    ]);
    sent
}

/// Sends bytes as what they are: text when they are UTF-8.
async fn send_frame(client: &mut WireClient, frame: Vec<u8>) {
    match String::from_utf8(frame) {
        Ok(text) => client.send_text(text).await.unwrap(),
        Err(bytes) => client.send_binary(bytes.into_bytes()).await.unwrap(),
    }
}

fn assert_well(harness: &Harness, what: &str) -> u64 {
    let pid = harness.process.pid();
    assert!(
        is_alive(pid),
        "seed {SEED:#x}, {what}: the process is gone: {:?}",
        harness.process.stderr()
    );
    let resident = resident_bytes(pid).unwrap();
    assert!(
        resident < RESIDENT,
        "seed {SEED:#x}, {what}: {resident} bytes resident"
    );
    resident
}

#[tokio::test]
async fn changed_messages_on_sockets_hurt_nobody() {
    let start = Instant::now();
    let harness = Harness::start_stored([]).await;
    let busy = harness.model.respond("busy", busy_model);
    let calm = harness
        .model
        .respond("calm", |_| ScriptedTurn::new().text("fine").into());
    let mut bystander = harness.open_with(config(&calm)).await;
    let frames = recorded(&harness, &busy).await;
    assert!(frames.len() >= 14, "{frames:#?}");
    let mut chance = Chance::new(SEED + 2);
    let mut largest = 0;

    // First messages. Nothing is said in these conversations, so that no address in them is used.
    let id = cascade_id(&bystander);
    let stored = json!({ "cascadeId": id, "sessionContinuationMode": "CREATE_OR_RESUME",
        "appDataDir": "/nonexistent", "workspaces": [{ "filesystemWorkspace": { "directory": "/tmp" } }] });
    let firsts = [
        json!({ "config": everything(&busy) }),
        json!({ "config": config(&busy) }),
        json!({ "config": with(everything(&busy), stored) }),
    ];
    let (mut understood, mut opened) = (0, 0);
    for n in 0..FIRST_MESSAGES {
        let frame = mutate::json_frame(&mut chance, &firsts);
        understood += usize::from(from_json_slice::<InitializeConversationEvent>(&frame).is_ok());
        let mut client = harness
            .process
            .connect()
            .await
            .unwrap()
            .with_deadline(PATIENCE);
        send_frame(&mut client, frame).await;
        match client.next_event().await {
            Ok(event) => {
                assert!(
                    event["initializeConversationResponse"].is_object(),
                    "{event}"
                );
                opened += 1;
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    error.is_closed() && text.contains("code 1008, \""),
                    "seed {SEED:#x}, first message {n}: {error}"
                );
            }
        }
        if n % 500 == 0 {
            largest = largest.max(assert_well(&harness, "first messages"));
        }
    }
    println!(
        "seed {SEED:#x}: {FIRST_MESSAGES} first messages, {understood} understood, {opened} opened, after {:?}",
        start.elapsed()
    );
    assert!(understood * 100 >= FIRST_MESSAGES * 30, "{understood}");

    // Later messages, while the conversation is asked things and asks things.
    let (mut understood, mut sent) = (0, 0);
    while sent < LATER_MESSAGES {
        let mut client = harness
            .open_with(everything(&busy))
            .await
            .with_deadline(PATIENCE);
        for n in 0..200 {
            let frame = match n % 10 {
                // Something to answer, so that answers meet their requests.
                0 => input("go").to_string().into_bytes(),
                9 => halt().to_string().into_bytes(),
                _ => {
                    sent += 1;
                    let frame = mutate::json_frame(&mut chance, &frames);
                    understood += usize::from(from_json_slice::<InputEvent>(&frame).is_ok());
                    frame
                }
            };
            send_frame(&mut client, frame).await;
            // What has come is taken, without waiting for more.
            while let Some(event) = client.next_event().now_or_never() {
                event.unwrap_or_else(|error| panic!("seed {SEED:#x}, message {sent}: {error}"));
            }
        }
        client.ping().await.unwrap();
        client.send(&halt()).await.unwrap();
        // It still works: what it has not told yet comes before the end of the session.
        client
            .send(&json!({ "sessionEndRequest": true }))
            .await
            .unwrap();
        until_member(&mut client, "sessionEndResponse").await;
        largest = largest.max(assert_well(&harness, "later messages"));
        client.close().await.unwrap();
    }
    println!(
        "{sent} later messages, {understood} understood, largest {} MiB, after {:?}",
        largest / 1024 / 1024,
        start.elapsed()
    );
    assert!(understood * 100 >= sent * 30, "{understood}");

    let events = ask(&mut bystander, "still there?").await;
    assert_eq!(texts(&events)[&1].0, "fine");
    bystander.close().await.unwrap();
    assert_sound(&harness.process.stderr());
    harness.end().await;
}
