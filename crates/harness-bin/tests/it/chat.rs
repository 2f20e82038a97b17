//! `harness chat` behind a pipe. What it does at a terminal is seen at a terminal.

use serde_json::json;

use crate::program::{Place, Said};

#[test]
fn lines_are_said_one_after_the_other() {
    let place = Place::new();
    let model = place.script(json!([
        {"expect": {"last_input_contains": "one"}, "text": "First."},
        {"expect": {"last_input_contains": "two"}, "text": "Second."},
    ]));
    assert_eq!(
        place.run_with("one\n\n/quux\ntwo\n", ["chat", "--yes", "--model", &model]),
        Said {
            code: Some(0),
            stdout: "First.\nSecond.\n".into(),
            stderr: "there is no command /quux; /help lists them\n".into(),
        }
    );
    assert_eq!(place.home_entries(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn commands_are_answered_and_quit_leaves() {
    let place = Place::new();
    let model = place.script(json!([]));
    let args = [
        "chat",
        "--model",
        &model,
        "--deny",
        "run_command",
        "--allow",
        "edit_file",
    ];
    assert_eq!(
        place.run_with("/tools\n/usage\n/quit\nnever said\n", args),
        Said {
            code: Some(0),
            stdout: String::new(),
            stderr: "create_file       asks\n\
                     edit_file         allowed\n\
                     find_file         allowed\n\
                     list_directory    allowed\n\
                     run_command       refused\n\
                     search_directory  allowed\n\
                     view_file         allowed\n\
                     0 tokens: 0 read (0 from a cache), 0 written, 0 thought\n"
                .into(),
        }
    );
}

#[test]
fn a_failed_turn_leaves_the_conversation_usable() {
    let place = Place::new();
    let model = place.script(json!([
        {"error": {"status": 400, "message": "not this"}},
        {"text": "Still here."},
    ]));
    let said = place.run_with("one\ntwo\n", ["chat", "--yes", "--model", &model]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (Some(0), "Still here.\n")
    );
    assert!(said.stderr.contains("not this"), "{}", said.stderr);
}
