//! Running a program to its end.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use harness_testkit::EmptyHome;
use serde_json::Value;

/// A home, a workspace, and `harness` to be run in it.
pub(crate) struct Place {
    pub(crate) home: EmptyHome,
    pub(crate) workspace: PathBuf,
}

/// What a program said and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let home = EmptyHome::new().unwrap();
        let workspace = home.root().join("work");
        std::fs::create_dir(&workspace).unwrap();
        let workspace = workspace.canonicalize().unwrap();
        Self { home, workspace }
    }

    /// Writes a script beside the workspace and returns the argument that names it.
    pub(crate) fn script(&self, turns: Value) -> String {
        let path = self.home.root().join("script.json");
        let script = serde_json::json!({"version": 1, "turns": turns});
        std::fs::write(&path, script.to_string()).unwrap();
        format!("script:{}", path.display())
    }

    /// `harness` in the workspace, without a terminal, without anything on standard input.
    pub(crate) fn harness<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        command
            .args(args)
            .env_clear()
            .envs(self.home.env())
            .current_dir(&self.workspace)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `harness` to its end.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Said {
        said(self.harness(args).output().unwrap())
    }

    /// The same with something on standard input.
    pub(crate) fn run_with<A: AsRef<OsStr>>(
        &self,
        input: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Said {
        let mut child = self.harness(args).stdin(Stdio::piped()).spawn().unwrap();
        feed(&mut child, input);
        said(child.wait_with_output().unwrap())
    }

    /// What has been left in the home directory.
    pub(crate) fn home_entries(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

pub(crate) fn feed(child: &mut Child, input: &str) {
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
}

pub(crate) fn said(output: Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Puts a name in place of a path, an id or a time, so that the rest can be compared whole.
pub(crate) fn normal(mut value: Value, workspace: &Path) -> Value {
    fn visit(value: &mut Value, workspace: &str) {
        match value {
            Value::String(text) => *text = text.replace(workspace, "WORKSPACE"),
            Value::Array(values) => values.iter_mut().for_each(|each| visit(each, workspace)),
            Value::Object(map) => {
                for (name, each) in map {
                    match (name.as_str(), &*each) {
                        ("duration_ms", Value::Number(_)) => *each = "TIME".into(),
                        ("conversation" | "id", Value::String(id)) if id.len() == 32 => {
                            *each = "ID".into();
                        }
                        _ => visit(each, workspace),
                    }
                }
            }
            _ => {}
        }
    }
    visit(&mut value, &workspace.display().to_string());
    value
}
