//! `harness run`, and what is common to all commands.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{Place, Said, normal, said};

const NOBODY: &str = "harness: nobody can be asked here, so create_file, edit_file and run_command \
                      will be refused; allow them with --yes or --allow TOOL\n";

fn command_turns() -> Value {
    json!([
        {
            "text": "Running it.",
            "calls": [{"name": "run_command", "args": {
                "CommandLine": "echo made > made.txt; echo done",
                "Cwd": "${workspace}",
            }}],
            "usage": {"prompt_tokens": 10, "candidates_tokens": 3, "total_tokens": 13},
        },
        {
            "text": "It ran.\n",
            "usage": {"prompt_tokens": 20, "candidates_tokens": 2, "thoughts_tokens": 1,
                      "total_tokens": 23},
        },
    ])
}

fn lines(text: &str, place: &Place) -> Vec<Value> {
    text.lines()
        .map(|line| normal(serde_json::from_str(line).unwrap(), &place.workspace))
        .collect()
}

#[test]
fn an_answer_is_all_there_is_on_stdout() {
    let place = Place::new();
    let model = place.script(json!([{"text": ["Hel", "lo."]}]));
    assert_eq!(
        place.run(["run", "--model", &model, "--deny", "run_command", "hi"]),
        Said {
            code: Some(0),
            stdout: "Hello.\n".into(),
            stderr: String::new(),
        }
    );
    assert_eq!(
        place.home.left_behind().unwrap(),
        Vec::<std::path::PathBuf>::new()
    );
}

#[test]
fn a_prompt_comes_from_standard_input_or_is_refused() {
    let place = Place::new();
    let model = place.script(json!([
        {"expect": {"last_input_contains": "first\nsecond"}, "text": "Both seen."},
    ]));
    let args = ["run", "--yes", "--model", &model, "-"];
    assert_eq!(
        place.run_with("first\nsecond\n", args),
        Said {
            code: Some(0),
            stdout: "Both seen.\n".into(),
            stderr: String::new(),
        }
    );
    assert_eq!(
        place.run_with(" \n", args),
        Said {
            code: Some(2),
            stdout: String::new(),
            stderr: "harness: the prompt is empty\n".into(),
        }
    );
}

#[test]
fn without_a_terminal_writing_is_refused_and_announced() {
    let place = Place::new();
    let model = place.script(command_turns());
    assert_eq!(
        place.run(["run", "--model", &model, "go"]),
        Said {
            code: Some(4),
            stdout: "Running it.\n\nIt ran.\n".into(),
            stderr: format!(
                "{NOBODY}✗ run_command echo made > made.txt; echo done · run_command needs \
                 approval and nobody can be asked; to allow it, start with --allow run_command or \
                 --yes\n"
            ),
        }
    );
    assert!(!place.workspace.join("made.txt").exists());
}

#[test]
fn yes_runs_a_command() {
    let place = Place::new();
    let model = place.script(command_turns());
    assert_eq!(
        place.run(["run", "--model", &model, "--yes", "go"]),
        Said {
            code: Some(0),
            stdout: "Running it.\n\nIt ran.\n".into(),
            stderr: "✓ run_command echo made > made.txt; echo done · exit code 0\n".into(),
        }
    );
    let made = std::fs::read_to_string(place.workspace.join("made.txt")).unwrap();
    assert_eq!(made, "made\n");
}

#[test]
fn a_denied_tool_stays_denied_with_yes() {
    let place = Place::new();
    let model = place.script(command_turns());
    let args = [
        "run",
        "-m",
        &model,
        "--yes",
        "--deny",
        "run_command",
        "-q",
        "go",
    ];
    assert_eq!(
        place.run(args),
        Said {
            // It was the user's wish.
            code: Some(0),
            stdout: "Running it.\n\nIt ran.\n".into(),
            stderr: String::new(),
        }
    );
    assert!(!place.workspace.join("made.txt").exists());
}

#[test]
fn file_tools_stay_in_the_workspace_unless_unconfined() {
    let place = Place::new();
    let outside = place.home.path().join("note.txt");
    let model = place.script(json!([
        {"calls": [{"name": "write_to_file", "args": {
            "TargetFile": outside, "CodeContent": "x",
        }}]},
        {"text": "Tried."},
    ]));
    // The folder for temporary files counts as inside, so it must not hold the home.
    let args = ["run", "--yes", "-q", "--model", &model, "go"];
    let run = |more: Option<&str>| {
        let mut command = place.harness(args.iter().copied().chain(more));
        command.env("TMPDIR", place.home.temp());
        said(command.output().unwrap())
    };
    assert_eq!(run(None).stdout, "Tried.\n");
    assert!(!outside.exists());
    assert_eq!(run(Some("--unconfined")).stdout, "Tried.\n");
    assert!(outside.exists());
}

#[test]
fn json_is_one_object_at_the_end() {
    let place = Place::new();
    let model = place.script(command_turns());
    let said = place.run(["run", "--model", &model, "--yes", "--output", "json", "go"]);
    let object = normal(
        serde_json::from_str(&said.stdout).unwrap(),
        &place.workspace,
    );
    assert_eq!(
        (said.code, object),
        (
            Some(0),
            json!({
                "conversation": "ID",
                "status": "completed",
                "text": "Running it.\n\nIt ran.",
                "structured_output": null,
                "usage": {
                    "prompt_tokens": 30,
                    "cached_tokens": 0,
                    "answer_tokens": 5,
                    "thinking_tokens": 1,
                    "total_tokens": 36,
                },
                "steps": 4,
                "tool_calls": 1,
                "refused_calls": 0,
                "stop_reason": null,
                "error": null,
                "duration_ms": "TIME",
            })
        )
    );
}

#[test]
fn jsonl_is_one_object_for_each_event() {
    let place = Place::new();
    let model = place.script(command_turns());
    let said = place.run(["run", "--model", &model, "--output", "jsonl", "go"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(4), NOBODY));
    let usage = |prompt, answer, thinking, total| {
        json!({
            "prompt_tokens": prompt,
            "cached_tokens": 0,
            "answer_tokens": answer,
            "thinking_tokens": thinking,
            "total_tokens": total,
        })
    };
    let reason = "run_command needs approval and nobody can be asked; to allow it, start with \
                  --allow run_command or --yes";
    let action = json!({
        "command_line": "echo made > made.txt; echo done",
        "working_dir": "WORKSPACE",
        "exit_code": null,
        "output": null,
    });
    let events = lines(&said.stdout, &place);
    // How often usage is told while nothing else happens depends on time.
    let told: Vec<&Value> = events.iter().filter(|e| e["type"] != "usage").collect();
    assert_eq!(
        told,
        [
            &json!({"type": "conversation", "id": "ID", "model": "script",
                    "workspace": "WORKSPACE"}),
            &json!({"type": "text", "step": 1, "delta": "Running it."}),
            &json!({"type": "tool", "step": 2, "state": "active", "kind": "run_command",
                    "action": action, "error": null}),
            &json!({
                "type": "approval",
                "tool": "run_command",
                "call": {"id": "call_1_1", "name": "run_command", "args": {
                    "CommandLine": "echo made > made.txt; echo done",
                    "Cwd": "WORKSPACE",
                }},
                "decision": "refused",
                "by": "nobody",
            }),
            &json!({"type": "tool", "step": 2, "state": "error", "kind": "run_command",
                    "action": action, "error": reason}),
            &json!({"type": "text", "step": 3, "delta": "It ran.\n"}),
            &json!({
                "type": "result",
                "conversation": "ID",
                "status": "completed",
                "text": "Running it.\n\nIt ran.",
                "structured_output": null,
                "usage": usage(30, 5, 1, 36),
                "steps": 4,
                "tool_calls": 1,
                "refused_calls": 1,
                "stop_reason": null,
                "error": null,
                "duration_ms": "TIME",
            }),
        ]
    );
    let last = events.iter().rfind(|event| event["type"] == "usage");
    let last = last.map(|event| &event["usage"]);
    assert_eq!(last, Some(&usage(30, 5, 1, 36)));
}

#[test]
fn a_schema_gives_a_structured_answer() {
    let place = Place::new();
    let schema = place.home.root().join("schema.json");
    let object = json!({"type": "object", "properties": {"n": {"type": "integer"}},
                        "required": ["n"]});
    std::fs::write(&schema, object.to_string()).unwrap();
    let model = place.script(json!([{"calls": [{"name": "finish", "args": {"n": 7}}]}]));
    let schema = schema.display().to_string();
    let args = ["run", "--yes", "--model", &model, "--schema", &schema, "go"];
    assert_eq!(
        place.run(args),
        Said {
            code: Some(0),
            stdout: "{\"n\":7}\n".into(),
            stderr: String::new(),
        }
    );
    let said = place.run(args.into_iter().chain(["-o", "json"]));
    let object: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(object["structured_output"], json!({"n": 7}));
}

#[test]
fn a_failed_turn_is_1_and_a_limit_is_3() {
    let place = Place::new();
    let model = place.script(json!([{"error": {"status": 400, "message": "no such thing"}}]));
    let said = place.run(["run", "--yes", "--model", &model, "-o", "json", "go"]);
    let object: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        (said.code, &object["status"], &object["error"]["http_code"]),
        (Some(1), &json!("failed"), &json!(400))
    );
    assert!(said.stderr.contains("no such thing"), "{}", said.stderr);
    // Once is enough.
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);

    let model = place.script(command_turns());
    let args = [
        "run",
        "--yes",
        "-q",
        "--model",
        &model,
        "--max-model-calls",
        "1",
        "go",
    ];
    assert_eq!(
        place.run(args),
        Said {
            code: Some(3),
            stdout: "Running it.\n".into(),
            stderr: "harness: stopped by a limit: max model calls\n".into(),
        }
    );
}

#[test]
fn what_cannot_be_used_is_2_and_says_what_to_do() {
    let place = Place::new();
    let problem = |args: &[&str]| {
        let said = place.run(args);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{args:?}");
        said.stderr
    };
    let no_key = problem(&["run", "hello"]);
    for what in [
        "GEMINI_API_KEY",
        "harness demo",
        "script:FILE",
        "--base-url",
    ] {
        assert!(no_key.contains(what), "{no_key}");
    }
    assert!(problem(&["run", "--modle", "x", "hello"]).contains("'--model'"));
    assert!(problem(&["run"]).contains("<PROMPT>"));
    assert!(problem(&["rum"]).contains("'run'"));
    assert!(problem(&["run", "--model", "script:/nowhere.json", "x"]).contains("/nowhere.json"));
    let model = place.script(json!([{"txt": "typo"}]));
    assert!(problem(&["run", "--yes", "--model", &model, "x"]).contains("unknown field `txt`"));
    let model = place.script(json!([]));
    let nowhere = problem(&["run", "--model", &model, "--workspace", "nowhere", "x"]);
    assert!(
        nowhere.starts_with("harness: workspace nowhere: "),
        "{nowhere}"
    );
    assert!(problem(&["run", "--model", &model, "--deny", "shell", "x"]).contains("run_command"));
}

#[test]
fn a_key_is_taken_from_the_environment_alone_and_not_shown() {
    let place = Place::new();
    // A port that nobody listens on: it was ours, and is closed again.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}");
    let script = place.script(command_turns());
    let key = "AIza-not-to-be-seen";
    for args in [
        vec!["run", "--base-url", &url, "--help"],
        vec!["doctor", "--base-url", &url],
        vec!["run", "--yes", "--model", &script, "-o", "jsonl", "x"],
    ] {
        let output = place
            .harness(args)
            .env("GEMINI_API_KEY", key)
            .output()
            .unwrap();
        let said = said(output);
        assert!(!format!("{said:?}").contains(key), "{said:?}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_turn() {
    let place = Place::new();
    let mut turns = command_turns();
    turns[0]["text"] = json!(["a\n", "b\n"]);
    // Far longer than a test: only the reader can end it.
    turns[0]["chunk_delay_ms"] = json!(20);
    turns[1] = json!({"delay_ms": 600_000});
    let endless: Vec<String> = (0..1000).map(|n| format!("line {n}\n")).collect();
    turns[0]["text"] = json!(endless);
    let model = place.script(turns);
    let mut child = place
        .harness(["run", "--yes", "--model", &model, "go"])
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    drop(stdout);
    let said = said(child.wait_with_output().unwrap());
    assert_eq!(
        (first.as_str(), said.code, said.stderr.as_str()),
        ("line 0\n", Some(141), "")
    );
}

#[test]
fn an_interrupt_halts_the_turn_and_ends_its_command() {
    let place = Place::new();
    let model = place.script(json!([
        {"text": "Waiting.", "calls": [{"name": "run_command", "args": {
            "CommandLine": "echo $$ > pid; exec sleep 1000",
            "Cwd": "${workspace}",
        }}]},
    ]));
    let mut child = place
        .harness(["run", "--yes", "--model", &model, "-o", "jsonl", "go"])
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let pid_file = place.workspace.join("pid");
    // The step is shown before the command has started; its file tells.
    let began = std::time::Instant::now();
    let sleeping: u32 = loop {
        assert!(began.elapsed() < harness_testkit::DEADLINE);
        let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
        match text.trim().parse() {
            Ok(pid) => break pid,
            Err(_) => std::thread::yield_now(),
        }
    };
    let own = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(own, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let said = said(child.wait_with_output().unwrap());
    let result: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!(
        (said.code, &result["type"], &result["status"]),
        (Some(130), &json!("result"), &json!("halted"))
    );
    // Killed by then; the kernel may still be at it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime
        .block_on(harness_testkit::process::ended(sleeping))
        .unwrap();
}

#[test]
fn help_and_version_answer() {
    let place = Place::new();
    let version = place.run(["--version"]);
    assert_eq!(
        version,
        Said {
            code: Some(0),
            stdout: format!("harness {}\n", env!("CARGO_PKG_VERSION")),
            stderr: String::new(),
        }
    );
    let help = place.run(["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    for what in ["Examples:", "Environment:", "Exit codes:", "demo", "doctor"] {
        assert!(help.stdout.contains(what), "{}", help.stdout);
    }
    for command in ["run", "chat", "demo", "doctor", "completions"] {
        assert_eq!(place.run([command, "--help"]).code, Some(0), "{command}");
    }
}

#[test]
fn completions_know_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = place.run(["completions", shell]);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(said.stdout.contains("doctor"), "{shell}");
    }
    // A reader that has gone away is told by the exit code.
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    let status = place
        .harness(["completions", "bash"])
        .stdout(Stdio::from(writer))
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(141));
}
