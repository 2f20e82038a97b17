//! What the tests share: a harness in an empty home, configurations, and events in words.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness_proto::localharness::InputConfig;
use harness_testkit::{DEADLINE, EmptyHome, FakeModelServer, Spawn, WireClient, WireProcess};
use harness_types::{Gate, ScriptedTurn};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;

/// The key of every configuration.
pub(crate) const KEY: &str = "key-of-the-tests-8c1f0a";

/// The program, in this home.
pub(crate) fn program(home: &EmptyHome) -> Spawn {
    Spawn::new(env!("CARGO_BIN_EXE_localharness")).home(home)
}

/// A running harness with its home and its model.
pub(crate) struct Harness {
    pub(crate) home: EmptyHome,
    pub(crate) process: WireProcess,
    pub(crate) model: FakeModelServer,
}

impl Harness {
    /// One whose model answers with these turns, on the default route.
    pub(crate) async fn start(turns: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        Self::start_with(turns, &InputConfig::default()).await
    }

    /// The same, after this handshake.
    pub(crate) async fn start_with(
        turns: impl IntoIterator<Item = ScriptedTurn>,
        input: &InputConfig,
    ) -> Self {
        let home = EmptyHome::new().unwrap();
        let process = program(&home).start_with(input).await.unwrap();
        let model = FakeModelServer::start(turns).await.unwrap();
        Self {
            home,
            process,
            model,
        }
    }

    /// One that keeps conversations in a folder of the home.
    pub(crate) async fn start_stored(turns: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        let home = EmptyHome::new().unwrap();
        let process = program(&home).start_with(&stored(&home)).await.unwrap();
        let model = FakeModelServer::start(turns).await.unwrap();
        Self {
            home,
            process,
            model,
        }
    }

    /// Another process in the same home, in place of this one, which has to have ended.
    pub(crate) async fn restart(&mut self) {
        let again = program(&self.home).start_with(&stored(&self.home)).await;
        self.process = again.unwrap();
    }

    /// The configuration of a conversation on the default route.
    pub(crate) fn config(&self) -> Value {
        config(&self.model.base_url())
    }

    /// A folder for the conversation to work in.
    pub(crate) fn workspace(&self) -> PathBuf {
        let path = self.home.root().join("workspace");
        if !path.is_dir() {
            std::fs::create_dir(&path).unwrap();
        }
        path
    }

    /// Connects and opens a conversation on the default route.
    pub(crate) async fn open(&self) -> WireClient {
        self.open_with(self.config()).await
    }

    /// Connects and opens a conversation.
    pub(crate) async fn open_with(&self, config: Value) -> WireClient {
        let mut client = self.process.connect().await.unwrap();
        client.send(&json!({ "config": config })).await.unwrap();
        let first = client.next_event().await.unwrap();
        assert!(
            first["initializeConversationResponse"].is_object(),
            "{first}"
        );
        client
    }

    /// Ends it as a client does, and checks that it has written nothing more and left no process.
    pub(crate) async fn end(mut self) {
        let status = self.process.shut_down().await.unwrap();
        let stderr = self.process.stderr();
        assert!(status.success(), "{status}: {stderr:#?}");
        assert_sound(&stderr);
        assert_eq!(self.process.rest_of_stdout().await.unwrap(), b"");
        self.model.verify();
    }
}

/// Opens a conversation and reads only the beginning of the answer.
pub(crate) async fn open_unread(harness: &Harness, config: &Value) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", harness.process.port())).await;
    let mut stream = stream.unwrap();
    let key = harness.process.key();
    let mut bytes = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         x-goog-api-key: {key}\r\n\r\n"
    )
    .into_bytes();
    let message = json!({ "config": config }).to_string();
    // A text of up to 64 KiB, masked with zeros.
    bytes.extend_from_slice(&[0x81, 0x80 | 126]);
    bytes.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(message.as_bytes());
    stream.write_all(&bytes).await.unwrap();
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("initializeConversationResponse") {
        let mut piece = [0; 64];
        let count = soon("the answer", stream.read(&mut piece)).await.unwrap();
        assert!(count > 0, "{:?}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&piece[..count]);
    }
    stream
}

/// Panics when the harness has had a fault of its own.
pub(crate) fn assert_sound(stderr: &[String]) {
    let fault = |line: &&String| line.contains("panicked") || line.contains("fault of the harness");
    assert_eq!(stderr.iter().find(fault), None);
}

/// Where conversations are kept in a home.
pub(crate) fn storage(home: &EmptyHome) -> PathBuf {
    home.root().join("storage")
}

/// A handshake that keeps conversations.
pub(crate) fn stored(home: &EmptyHome) -> InputConfig {
    InputConfig {
        storage_directory: Some(storage(home).display().to_string()),
        ..InputConfig::default()
    }
}

/// The least a conversation needs: a model.
pub(crate) fn config(base_url: &str) -> Value {
    json!({
        "models": [{
            "name": "gemini-3-flash",
            "types": ["MODEL_TYPE_TEXT"],
            "geminiApiEndpoint": { "baseUrl": base_url, "apiKey": KEY },
        }],
    })
}

/// A configuration with more members.
pub(crate) fn with(mut config: Value, more: Value) -> Value {
    let Value::Object(more) = more else {
        panic!("members are an object, not {more}")
    };
    config.as_object_mut().unwrap().extend(more);
    config
}

/// Host tools of these names, which take anything.
pub(crate) fn host_tools(names: &[&str]) -> Value {
    let tools: Vec<_> = names
        .iter()
        .map(|name| json!({ "name": name, "description": "A tool of the tests." }))
        .collect();
    json!({ "tools": tools })
}

/// Commands, in a workspace.
pub(crate) fn commands(workspace: &Path) -> Value {
    json!({
        "harnessSideTools": { "runCommand": { "enabled": true } },
        "workspaces": [{ "filesystemWorkspace": { "directory": workspace } }],
    })
}

/// Questions to the user.
pub(crate) fn questions() -> Value {
    json!({ "harnessSideTools": { "userQuestions": { "enabled": true } },
        "agentBehavior": "AGENT_BEHAVIOR_INTERACTIVE" })
}

/// The arguments of a question with two options.
pub(crate) fn question() -> Value {
    json!({ "questions": [{
        "question": "Which colour?", "options": ["red", "blue"], "is_multi_select": false,
    }] })
}

/// Repeats of failed requests: so many, after so many milliseconds.
pub(crate) fn retries(max: u32, millis: u32) -> Value {
    json!({ "retryConfig": { "apiRetry": {
        "maxRetries": max, "initialSleepDurationMs": millis,
        "exponentialMultiplier": 1.0, "jitterRange": 0.0,
    } } })
}

/// A text from the user.
pub(crate) fn input(text: &str) -> Value {
    json!({ "userInput": { "parts": [{ "text": text }] } })
}

/// The order to stop.
pub(crate) fn halt() -> Value {
    json!({ "haltRequest": true })
}

/// Says something and reads until the turn has ended.
pub(crate) async fn ask(client: &mut WireClient, text: &str) -> Vec<Value> {
    client.send(&input(text)).await.unwrap();
    client.until_idle().await.unwrap()
}

/// The id a conversation was given.
pub(crate) fn cascade_id(client: &WireClient) -> String {
    let first = &client.events()[0]["initializeConversationResponse"];
    first["cascadeId"].as_str().unwrap().to_owned()
}

/// Reads up to the first event that has a member of this name, and returns that member.
pub(crate) async fn until_member(client: &mut WireClient, name: &str) -> Value {
    let events = client.until(name, |event| !event[name].is_null()).await;
    events.unwrap().pop().unwrap()[name].take()
}

/// Reads up to a step update with this text so far.
pub(crate) async fn until_text(client: &mut WireClient, text: &str) {
    let found = client.until(text, |event| event["stepUpdate"]["text"] == text);
    found.await.unwrap();
}

/// Events in words: one line each, without what depends on timing. Updates of growing text are
/// left out, and so are repetitions.
pub(crate) fn story(events: &[Value]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for event in events {
        if let Some(line) = line(event)
            && !(line.starts_with("step") && lines.contains(&line))
        {
            lines.push(line);
        }
    }
    lines
}

fn line(event: &Value) -> Option<String> {
    let word = |value: &Value, prefix: &str| {
        let text = value.as_str().unwrap_or("?");
        text.strip_prefix(prefix).unwrap_or(text).to_owned()
    };
    let (name, body) = event
        .as_object()?
        .iter()
        .find(|(name, _)| !matches!(name.as_str(), "seqNum" | "timestampMicros"))?;
    Some(match name.as_str() {
        "initializeConversationResponse" => "initialized".to_owned(),
        "stepUpdate" => {
            let state = word(&body["state"], "STATE_");
            let source = word(&body["source"], "SOURCE_");
            let target = word(&body["target"], "TARGET_");
            if state == "ACTIVE" && target == "USER" {
                return None;
            }
            let text = match body["errorMessage"].as_str() {
                Some(message) => format!("error {message:?}"),
                None => format!("{:?}", body["text"].as_str().unwrap_or("?")),
            };
            format!(
                "step {} {state} {source}>{target} {text}",
                body["stepIndex"]
            )
        }
        "trajectoryStateUpdate" => match body["error"].as_str() {
            Some(error) => format!("{} error {error:?}", word(&body["state"], "STATE_")),
            None => word(&body["state"], "STATE_"),
        },
        "toolCall" => format!("call {}", word(&body["name"], "")),
        "usageUpdate" => format!("usage {}", word(&body["total"]["totalTokenCount"], "")),
        "callHookRequest" => format!("hook {}", word(&body["name"], "")),
        "policyDecisionRequest" => format!("policy {}", word(&body["toolArgs"]["toolName"], "")),
        other => other.to_owned(),
    })
}

/// Checks what holds for all events of a connection: numbers from 1 without a gap, times that do
/// not go back, deltas that join to the text.
pub(crate) fn assert_stream(events: &[Value]) {
    let mut last_time = 0;
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["seqNum"], (n + 1).to_string(), "{event}");
        let time: u64 = event["timestampMicros"].as_str().unwrap().parse().unwrap();
        assert!(time >= last_time, "{time} came after {last_time}");
        last_time = time;
    }
    let _ = texts(events);
}

/// The final texts of steps by index, which the joined deltas must equal; the thoughts likewise.
pub(crate) fn texts(events: &[Value]) -> BTreeMap<u64, (String, String)> {
    let mut steps: BTreeMap<u64, (String, String)> = BTreeMap::new();
    for event in events {
        let step = &event["stepUpdate"];
        let Some(index) = step["stepIndex"].as_u64() else {
            continue;
        };
        let joined = steps.entry(index).or_default();
        joined.0.push_str(step["textDelta"].as_str().unwrap());
        joined.1.push_str(step["thinkingDelta"].as_str().unwrap());
        // Compared without being shown: it may be long.
        assert!(
            step["text"] == joined.0,
            "the deltas of step {index} are not its text"
        );
        assert!(
            step["thinking"] == joined.1,
            "the deltas of step {index} are not its thoughts"
        );
    }
    steps
}

/// A pipe in the file system that a command says something through.
pub(crate) struct Fifo {
    lines: BufReader<pipe::Receiver>,
}

impl Fifo {
    pub(crate) fn new(folder: &Path) -> Self {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let path = folder.join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // Opened for writing as well, so that it does not end with its first writer.
        let mut options = pipe::OpenOptions::new();
        let receiver = options.read_write(true).open_receiver(&path).unwrap();
        Self {
            lines: BufReader::new(receiver),
        }
    }

    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        soon("a line from the command", self.lines.read_line(&mut line))
            .await
            .unwrap();
        line.trim_end().to_owned()
    }
}

/// Waits for something that is sure to happen soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} has not come within {DEADLINE:?}"),
    }
}

/// Waits until as many have arrived at a gate.
pub(crate) async fn reached(gate: &Gate, times: u64) {
    soon("the answer at its gate", gate.reached(times)).await;
}

/// Waits until the process has written as many lines with this text to stderr.
pub(crate) async fn lines_with(process: &WireProcess, text: &str, times: usize) {
    let counted = async {
        while count_lines(process, text) < times {
            tokio::task::yield_now().await;
        }
    };
    soon(&format!("line {times} with {text:?} on stderr"), counted).await;
}

/// How many lines with this text the process has written to stderr.
pub(crate) fn count_lines(process: &WireProcess, text: &str) -> usize {
    let lines = process.stderr();
    lines.iter().filter(|line| line.contains(text)).count()
}

/// Sends a signal.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Milliseconds, for what is printed.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
