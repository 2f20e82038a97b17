//! F038: the credentials of the harness stay with the harness.

use std::path::Path;

use harness_proto::localharness::InputConfig;
use harness_testkit::{FakeModelServer, ServerTurn};
use harness_types::ScriptedTurn;
use serde_json::{Value, json};

use super::support::{Harness, KEY, ask, commands, config, input, program, storage, stored, with};

/// Every file below a folder whose bytes hold `word`.
fn files_with(folder: &Path, word: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read(&path)
                .unwrap()
                .windows(word.len())
                .any(|bytes| bytes == word.as_bytes())
            {
                found.push(path);
            }
        }
    }
    found
}

const FROM_ENVIRONMENT: &str = "environment-key-41b7";
const FROM_CLIENT: &str = "client-variable-key-93fe";

#[tokio::test]
async fn keys_are_in_no_log_no_file_and_no_child() {
    let home = harness_testkit::EmptyHome::new().unwrap();
    let model = FakeModelServer::start(Vec::<ScriptedTurn>::new())
        .await
        .unwrap();
    let workspace = home.root().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let spawn = program(&home)
        .env("HARNESS_LOG", "trace")
        .env("GEMINI_API_KEY", FROM_ENVIRONMENT)
        .env("OPENAI_API_KEY", "openai-key-5d20")
        .env("HARMLESS", "harmless-value");
    let handshake = InputConfig {
        env: [
            ("GEMINI_API_KEY".to_owned(), FROM_CLIENT.to_owned()),
            ("FROM_CLIENT".to_owned(), "client-value".to_owned()),
        ]
        .into(),
        ..stored(&home)
    };
    let mut process = spawn.start_with(&handshake).await.unwrap();
    let mut client = process.connect().await.unwrap();
    let mut config = with(config(&model.base_url()), commands(&workspace));
    config["models"][0]["geminiApiEndpoint"]["httpHeaders"] =
        json!({ "X-Extra": "header-secret-77aa" });
    client.send(&json!({ "config": config })).await.unwrap();
    client.next_event().await.unwrap();

    model.push(ScriptedTurn::new().call("run_command", json!({ "CommandLine": "env" })));
    model.push(ScriptedTurn::new().text("seen"));
    let events = ask(&mut client, "show the environment").await;
    let request = &model.requests()[0];
    assert_eq!(request.header("x-goog-api-key"), Some(KEY));
    assert_eq!(request.header("x-extra"), Some("header-secret-77aa"));
    let shown = Value::from(events).to_string();
    assert!(shown.contains("HARMLESS=harmless-value"), "{shown}");
    assert!(shown.contains("FROM_CLIENT=client-value"), "{shown}");

    // A provider that repeats the key in its error, and a server that is not there.
    let told = json!({ "error": { "code": 400, "message": format!("bad key {KEY}"), "status": "INVALID_ARGUMENT" } });
    model.push(ServerTurn::status(400, told.to_string()));
    ask(&mut client, "again").await;
    model.push(ServerTurn::status(418, format!("plain {KEY}")));
    ask(&mut client, "again").await;
    let all = Value::from(client.events().to_vec()).to_string();
    client.close().await.unwrap();
    assert!(process.shut_down().await.unwrap().success());

    let log = process.stderr().join("\n");
    assert!(
        log.contains("DEBUG") || log.contains("TRACE"),
        "nothing was logged: {log}"
    );
    let socket_key = process.key();
    for secret in [
        KEY,
        FROM_ENVIRONMENT,
        FROM_CLIENT,
        "openai-key-5d20",
        "header-secret-77aa",
        socket_key,
    ] {
        assert!(!all.contains(secret), "an event holds {secret}");
        assert!(!log.contains(secret), "the log holds {secret}");
        assert_eq!(
            files_with(home.root(), secret),
            Vec::<std::path::PathBuf>::new()
        );
    }
    assert!(!files_with(&storage(&home), "show the environment").is_empty());
    model.verify();
}

#[tokio::test]
async fn the_environment_stands_in_for_what_a_configuration_leaves_out() {
    let home = harness_testkit::EmptyHome::new().unwrap();
    let model =
        FakeModelServer::start([ScriptedTurn::new().text("a"), ScriptedTurn::new().text("b")])
            .await
            .unwrap();
    let bare = json!({ "models": [{
        "name": "gemini-3-flash", "types": ["MODEL_TYPE_TEXT"], "geminiApiEndpoint": {},
    }] });
    let sent = InputConfig {
        env: [("GEMINI_API_KEY".to_owned(), FROM_CLIENT.to_owned())].into(),
        ..InputConfig::default()
    };
    // What the client sends comes before what the process has.
    for (handshake, key) in [
        (InputConfig::default(), FROM_ENVIRONMENT),
        (sent, FROM_CLIENT),
    ] {
        let mut process = program(&home)
            .env("GEMINI_API_KEY", FROM_ENVIRONMENT)
            .env("GOOGLE_GEMINI_BASE_URL", model.base_url())
            .start_with(&handshake)
            .await
            .unwrap();
        let mut client = process.connect().await.unwrap();
        client.send(&json!({ "config": bare })).await.unwrap();
        client.send(&input("go")).await.unwrap();
        client.until_idle().await.unwrap();
        let request = model.requests().pop().unwrap();
        assert_eq!(request.header("x-goog-api-key"), Some(key));
        client.close().await.unwrap();
        assert!(process.shut_down().await.unwrap().success());
    }
    model.verify();
}

#[tokio::test]
async fn a_conversation_without_tools_leaves_nothing_in_the_home() {
    let harness = Harness::start([ScriptedTurn::new().text("hello")]).await;
    let mut client = harness.open().await;
    ask(&mut client, "hi").await;
    client.close().await.unwrap();
    assert_eq!(
        harness.home.left_behind().unwrap(),
        Vec::<std::path::PathBuf>::new()
    );
    harness.end().await;
}
