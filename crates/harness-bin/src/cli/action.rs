//! Tool calls in a few words.

use std::path::Path;

use harness_types::{Action, EntryKind, LineChange, ToolCall};
use serde_json::Value;

use super::output::one_line;

/// What an action is called and what it is about, in one line.
pub(crate) fn describe(action: &Action, workspace: &Path) -> (String, String) {
    let short = |path: &str| {
        let inside = Path::new(path).strip_prefix(workspace);
        match inside {
            Ok(path) if path.as_os_str().is_empty() => ".".to_owned(),
            Ok(path) => path.display().to_string(),
            Err(_) => path.to_owned(),
        }
    };
    let (name, subject) = match action {
        Action::ListDirectory { path, .. } => ("list_directory", short(path)),
        Action::ViewFile { path, .. } => ("view_file", short(path)),
        Action::EditFile { path, .. } => ("edit_file", short(path)),
        Action::SearchDirectory { path, query, .. } => (
            "search_directory",
            format!("{} in {}", quoted(query), short(path)),
        ),
        Action::FindFile { path, query, .. } => {
            ("find_file", format!("{} in {}", quoted(query), short(path)))
        }
        Action::RunCommand { command_line, .. } => ("run_command", command_line.clone()),
        Action::AskQuestion { questions, .. } => (
            "ask_question",
            questions
                .first()
                .map(|first| first.question.clone())
                .unwrap_or_default(),
        ),
        Action::HostTool { call, .. } | Action::Tool { call } => {
            return (call.name.clone(), short_subject(call));
        }
        _ => ("tool", String::new()),
    };
    (name.to_owned(), one_line(&subject, 100))
}

/// What came of an action, in a few words; empty when there is nothing to say.
pub(crate) fn outcome(action: &Action) -> String {
    match action {
        Action::ListDirectory { entries, .. } => {
            let folders = entries
                .iter()
                .filter(|entry| entry.kind == EntryKind::Directory)
                .count();
            match folders {
                0 => count(entries.len(), "file"),
                _ => format!(
                    "{}, {}",
                    count(entries.len() - folders, "file"),
                    count(folders, "folder")
                ),
            }
        }
        Action::ViewFile {
            start_line,
            end_line,
            ..
        } if end_line >= start_line => {
            format!("lines {} to {}", start_line + 1, end_line + 1)
        }
        Action::EditFile { diff, .. } => {
            let lines = || diff.iter().flat_map(|block| &block.lines);
            let changed = |change| lines().filter(|line| line.change == change).count();
            match (changed(LineChange::Insert), changed(LineChange::Delete)) {
                (0, 0) => String::new(),
                (new, gone) => format!("+{new} −{gone}"),
            }
        }
        Action::SearchDirectory {
            results: Some(results),
            ..
        } => count(usize::try_from(*results).unwrap_or(usize::MAX), "match"),
        Action::RunCommand {
            exit_code: Some(code),
            ..
        } => format!("exit code {code}"),
        _ => String::new(),
    }
}

/// What a call is about: the argument that says most.
pub(crate) fn subject(call: &ToolCall) -> String {
    let preferred = [
        "CommandLine",
        "TargetFile",
        "AbsolutePath",
        "DirectoryPath",
        "SearchPath",
    ];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    preferred
        .iter()
        .find_map(|name| call.args.get(*name).and_then(text))
        .or_else(|| call.args.values().find_map(text))
        .unwrap_or_default()
}

/// As [`subject`], on one short line.
pub(crate) fn short_subject(call: &ToolCall) -> String {
    one_line(&subject(call), 100)
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ if thing.ends_with('h') => format!("{number} {thing}es"),
        _ => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use harness_types::{CallId, DiffBlock, DiffLine, DirEntry};
    use serde_json::json;

    use super::*;

    #[test]
    fn actions_are_told_in_a_few_words() {
        let line = |change, text: &str| DiffLine {
            change,
            text: text.to_owned(),
        };
        let told = |action: Action| {
            let (name, subject) = describe(&action, Path::new("/work"));
            format!("{name} | {subject} | {}", outcome(&action))
        };
        let entry = |name: &str, kind| DirEntry {
            name: name.to_owned(),
            kind,
        };
        assert_eq!(
            told(Action::ListDirectory {
                path: "/work".into(),
                entries: vec![
                    entry("a", EntryKind::File { bytes: 1 }),
                    entry("b", EntryKind::Directory)
                ],
            }),
            "list_directory | . | 1 file, 1 folder"
        );
        assert_eq!(
            told(Action::EditFile {
                path: "/work/src/a.rs".into(),
                diff: vec![DiffBlock {
                    start_line: 0,
                    end_line: 1,
                    lines: vec![
                        line(LineChange::Delete, "a"),
                        line(LineChange::Insert, "b"),
                        line(LineChange::Insert, "c")
                    ],
                }],
            }),
            "edit_file | src/a.rs | +2 −1"
        );
        assert_eq!(
            told(Action::SearchDirectory {
                path: "/elsewhere".into(),
                query: "x".into(),
                results: Some(2),
            }),
            "search_directory | \"x\" in /elsewhere | 2 matches"
        );
        assert_eq!(
            told(Action::RunCommand {
                command_line: "make\ntest".into(),
                working_dir: "/work".into(),
                exit_code: Some(2),
                output: None,
            }),
            "run_command | make test | exit code 2"
        );
    }

    #[test]
    fn a_call_is_about_its_telling_argument() {
        let call = |args: Value| ToolCall {
            id: CallId::new("1"),
            name: "t".into(),
            args: args.as_object().unwrap().clone(),
        };
        assert_eq!(
            subject(&call(json!({"Overwrite": true, "TargetFile": "/a"}))),
            "/a"
        );
        assert_eq!(subject(&call(json!({"n": 1, "other": "x"}))), "x");
        assert_eq!(subject(&call(json!({"n": 1}))), "");
    }
}
