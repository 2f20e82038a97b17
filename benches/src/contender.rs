//! A program that is measured, and one that has been started.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use harness_testkit::{EmptyHome, Spawn, WireProcess, process};
use serde_json::{Value, json};

use crate::client::Client;
use crate::model::Model;
use crate::row::Row;
use crate::scene::Sample;

/// Whose figure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    /// The peer's, or that of a tool such as `rg`.
    Theirs,
}

/// A program that takes part.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    side: Side,
    program: PathBuf,
}

impl Contender {
    /// The program at this path.
    pub(crate) fn new(side: Side, program: &Path) -> anyhow::Result<Self> {
        let program = program
            .canonicalize()
            .with_context(|| format!("there is no program at {}", program.display()))?;
        Ok(Self { side, program })
    }

    pub(crate) fn side(&self) -> Side {
        self.side
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A sample of this program, in seconds or bytes.
    pub(crate) fn sample(&self, row: Row, value: f64) -> Sample {
        Sample {
            row,
            side: self.side,
            value,
        }
    }

    /// Starts it in an empty home, and makes the handshake.
    pub(crate) async fn start(&self) -> anyhow::Result<Running> {
        let home = EmptyHome::new()?;
        let workspace = home.root().join("workspace");
        std::fs::create_dir(&workspace)?;
        let small: String = (1..=40).map(|n| format!("line {n} of a file\n")).collect();
        std::fs::write(workspace.join(SMALL_FILE), small)?;
        let spawn = Spawn::new(&self.program)
            .home(&home)
            .current_dir(&workspace);
        let started_at = Instant::now();
        let process = spawn.start().await?;
        Ok(Running {
            process,
            started_at,
            handshake: started_at.elapsed(),
            workspace,
            home,
        })
    }
}

/// The name of a file of 40 lines in the workspace.
const SMALL_FILE: &str = "small.txt";

/// A program that has made its handshake. It is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    process: WireProcess,
    started_at: Instant,
    handshake: Duration,
    workspace: PathBuf,
    home: EmptyHome,
}

impl Running {
    /// Just before it was spawned.
    pub(crate) fn started_at(&self) -> Instant {
        self.started_at
    }

    /// How long it took from there to the answer on its standard output.
    pub(crate) fn handshake(&self) -> Duration {
        self.handshake
    }

    /// Opens a conversation with this model.
    pub(crate) async fn open(&self, model: &Model) -> anyhow::Result<Client> {
        let opened = Client::open(&self.process, &self.config(model.url())).await;
        opened.with_context(|| format!("stderr: {:?}", self.process.stderr()))
    }

    /// The path of a small file in the workspace.
    pub(crate) fn small_file(&self) -> PathBuf {
        self.workspace.join(SMALL_FILE)
    }

    /// Its resident memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<f64> {
        Ok(process::resident_bytes(self.process.pid())? as f64)
    }

    /// The most resident memory it has had, in bytes.
    pub(crate) fn peak_bytes(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/status", self.process.pid());
        let status = std::fs::read_to_string(&path).context("reading the peak of the memory")?;
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
            .and_then(|kib| kib.trim().parse::<f64>().ok());
        Ok(kib.with_context(|| format!("{path} has no VmHWM"))? * 1024.0)
    }

    /// The processor time it has used.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        Ok(process::cpu_time(self.process.pid())?)
    }

    /// Ends its standard input, and returns how long it took to end.
    pub(crate) async fn stop(mut self) -> anyhow::Result<Duration> {
        let start = Instant::now();
        self.process.shut_down().await?;
        Ok(start.elapsed())
    }

    /// The configuration that SDK 0.1.22 sends for an agent with the tools that need nobody else.
    fn config(&self, model: &str) -> Value {
        let on = json!({"enabled": true});
        let off = json!({"enabled": false});
        let endpoint = |url: &str| json!({"baseUrl": url, "apiKey": "bench-key"});
        json!({
            "cascadeId": "",
            "tools": [{
                "name": "wait",
                "description": "Waits for a while.",
                "parametersJsonSchema": json!({
                    "type": "object",
                    "properties": {"n": {"type": "integer"}},
                }).to_string(),
            }],
            "harnessSideTools": {
                "find": on,
                "runCommand": {
                    "enabled": true,
                    "maxTimeoutMs": 0,
                    "enableDaemonCommands": false,
                    "enableSandbox": false,
                },
                "subagents": off,
                "userQuestions": off,
                "fileEdit": on,
                "viewFile": on,
                "writeToFile": on,
                "grepSearch": on,
                "listDir": on,
                "generateImage": off,
                "searchWeb": off,
                "readUrlContent": off,
                "manageTask": off,
                "schedule": off,
                "runWorkflow": off,
            },
            "compactionThreshold": 0,
            "workspaces": [{"filesystemWorkspace": {"directory": self.workspace}}],
            "finishToolSchemaJson": "",
            "appDataDir": self.home.root().join("data"),
            "models": [
                {
                    "name": "gemini-3-bench",
                    "types": ["MODEL_TYPE_TEXT"],
                    "geminiApiEndpoint": endpoint(model),
                },
                {
                    "name": "gemini-3-bench-image",
                    "types": ["MODEL_TYPE_IMAGE"],
                    "geminiApiEndpoint": endpoint(""),
                },
            ],
            "agentBehavior": "AGENT_BEHAVIOR_AUTONOMOUS",
        })
    }
}
