//! Version 1 of the format stays what it is: files written long ago are read, and the JSON of a
//! record is what `tests/data` holds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use harness_session::{SqliteStore, database_path};
use harness_testkit::session_store::examples;
use harness_types::{
    Action, AnswerEnd, CallStage, Choice, EntryKind, FinishReason, HookCall, HookVerdict,
    HostResponse, InputKind, InputPart, LineChange, Loaded, ModelErrorKind, ModelPart,
    PolicyOutcome, QuestionAnswer, Quota, Record, RecordBody, RequestAnswer, RequestOutcome,
    RequestPayload, ResultContent, SessionStore as _, StopReason, ToolClass, ToolOrigin,
    ToolResultStatus, TurnEnd, TurnStage,
};
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::run;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn json_lines(records: &[Record]) -> String {
    let line = |record| serde_json::to_string(record).unwrap() + "\n";
    records.iter().map(line).collect()
}

#[test]
fn records_are_written_as_ever() {
    let now = json_lines(&examples());
    let golden = std::fs::read_to_string(data("records-v1.jsonl")).unwrap_or_default();
    if now != golden {
        // To be looked at, and to be copied if the change adds to the format and breaks nothing.
        let actual = Path::new(env!("CARGO_TARGET_TMPDIR")).join("records-v1.jsonl");
        std::fs::write(&actual, &now).unwrap();
        let place = now.lines().zip(golden.lines()).position(|(a, b)| a != b);
        panic!(
            "the JSON of records has changed, first in line {:?}; it is now {}",
            place.map(|place| place + 1),
            actual.display()
        );
    }
}

#[test]
fn records_are_read_as_ever() {
    let golden = std::fs::read_to_string(data("records-v1.jsonl")).unwrap();
    let read: Vec<Record> = golden
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(read, examples());
    let types: Vec<Value> = golden
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].take())
        .collect();
    let names: Vec<&str> = read.iter().map(|record| record.body.type_name()).collect();
    assert_eq!(types, names);
}

/// A later version may add a field; this one then reads what it knows.
#[test]
fn an_unknown_field_is_no_obstacle() {
    for record in examples() {
        let mut value = serde_json::to_value(&record).unwrap();
        value["some_later_field"] = serde_json::json!({"x": [1]});
        let read: Record = serde_json::from_value(value).unwrap();
        assert_eq!(read, record);
    }
}

#[test]
fn a_file_of_version_1_is_read_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let RecordBody::Opened { conversation } = &examples()[0].body else {
        panic!("the first example opens the conversation");
    };
    let path = database_path(folder.path(), conversation);
    if !data("v1.session.db").exists() {
        // The first of its kind; kept from then on.
        let store = SqliteStore::new(folder.path());
        run(store.append(conversation, &examples())).unwrap();
        drop(store);
        std::fs::copy(&path, data("v1.session.db")).unwrap();
        panic!("there was no file of version 1; now there is");
    }
    std::fs::copy(data("v1.session.db"), &path).unwrap();
    let store = SqliteStore::new(folder.path());
    let loaded = run(store.load(conversation)).unwrap();
    assert_eq!(loaded, Some(Loaded::whole(examples())));
    run(store.append(conversation, &examples()[1..2])).unwrap();
    drop(store);

    let connection = Connection::open(&path).unwrap();
    let header = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    assert_eq!(header("application_id").unwrap(), 0x4872_6e53);
    assert_eq!(header("user_version").unwrap(), 1);
    let last: (i64, i64, String, String) = connection
        .query_row(
            "SELECT seq, at, type, body FROM records ORDER BY seq DESC LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .unwrap();
    let body = serde_json::to_string(&examples()[1]).unwrap();
    let at = examples()[1].at.as_micros();
    let seq = examples().len() as i64 + 1;
    assert_eq!(last, (seq, at, "resumed".to_owned(), body));
}

/// The names of an enum's variants, from what serde says when it is given another.
fn variants<T: DeserializeOwned>(probe: &str) -> Vec<String> {
    let Err(error) = serde_json::from_str::<T>(probe) else {
        panic!("{probe} is a variant");
    };
    let error = error.to_string();
    let (_, names) = error.split_once("expected ").expect(&error);
    names
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The words of all examples: names of fields and variants, and short texts.
fn words(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            words.insert(text.clone());
        }
        Value::Array(list) => list.iter().for_each(|value| self::words(value, words)),
        Value::Object(map) => {
            for (name, value) in map {
                words.insert(name.clone());
                self::words(value, words);
            }
        }
        _ => {}
    }
}

#[test]
fn there_is_an_example_of_every_variant() {
    let examples = examples();
    let types: BTreeSet<&str> = examples.iter().map(|r| r.body.type_name()).collect();
    let known = variants::<RecordBody>(r#"{"type":"?"}"#);
    assert!(known.len() >= 26, "{known:?}");
    for name in &known {
        assert!(types.contains(name.as_str()), "no example of {name}");
    }

    let mut seen = BTreeSet::new();
    words(&serde_json::to_value(&examples).unwrap(), &mut seen);
    let probe = r#""?""#;
    let inner = [
        variants::<Action>(probe),
        variants::<AnswerEnd>(probe),
        variants::<CallStage>(probe),
        variants::<Choice>(probe),
        variants::<EntryKind>(probe),
        variants::<FinishReason>(probe),
        variants::<HookCall>(probe),
        variants::<HookVerdict>(probe),
        variants::<HostResponse>(probe),
        variants::<InputKind>(probe),
        variants::<InputPart>(probe),
        variants::<LineChange>(probe),
        variants::<ModelErrorKind>(probe),
        variants::<ModelPart>(probe),
        variants::<PolicyOutcome>(probe),
        variants::<QuestionAnswer>(probe),
        variants::<RequestAnswer>(probe),
        variants::<RequestOutcome>(probe),
        variants::<RequestPayload>(probe),
        variants::<ResultContent>(probe),
        variants::<StopReason>(probe),
        variants::<ToolClass>(probe),
        variants::<ToolOrigin>(probe),
        variants::<ToolResultStatus>(probe),
        variants::<TurnEnd>(probe),
        variants::<TurnStage>(probe),
    ];
    let missing: Vec<_> = inner
        .into_iter()
        .flatten()
        .filter(|name| !seen.contains(name))
        .collect();
    assert_eq!(missing, [""; 0], "no example of these");
    // What is left out when it is the usual is not seen as a word.
    assert_eq!(variants::<Quota>(probe), ["not_named", "exhausted"]);
}
