//! Damaged files: what can be read goes on, the damaged file is kept, the caller is told.

use std::path::{Path, PathBuf};

use harness_session::{SqliteStore, database_path};
use harness_types::{Loaded, Record, RecordBody, StoreError};
use tempfile::TempDir;

use crate::support::{
    Random, append, conversation, id, kept, load, meddle, names, notice, opened, quick_folder,
    reopened,
};

const PAGE: usize = 4096;

/// What is said after the damage; long, so that the file has to grow for it.
fn after() -> Record {
    notice("after ".repeat(2000))
}

/// Puts `bytes` where the conversation is kept.
fn folder_with(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = quick_folder();
    let path = database_path(folder.path(), &id());
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Checks everything about a damaged file that was opened, and hands back how much was saved.
fn check_saved(folder: &Path, damaged: &[u8], whole: &[Record]) -> usize {
    let first = reopened(folder);
    let words = first.notice.clone().expect("the caller is not told");
    let aside = database_path(folder, &id()).with_extension("db.damaged-1");
    assert!(words.contains(aside.to_str().unwrap()), "{words}");
    assert!(
        std::fs::read(&aside).unwrap() == damaged,
        "the damaged file has changed"
    );
    let saved = check_prefix(&first.records, whole);

    // Until something is appended, everybody is told.
    assert_eq!(reopened(folder), first);
    let store = SqliteStore::new(folder);
    assert_eq!(load(&store).unwrap(), Some(first.clone()));
    append(&store, &[after()]);
    drop(store);
    let all = [&first.records[..], &[after()]].concat();
    assert_eq!(reopened(folder), Loaded::whole(all));
    saved
}

/// How many of the records are those of `whole`; a conversation of which nothing was left begins
/// anew.
fn check_prefix(records: &[Record], whole: &[Record]) -> usize {
    if records.len() == 1 {
        assert_eq!(records[0].body, whole[0].body);
        return usize::from(records[0] == whole[0]);
    }
    assert!(whole.starts_with(records), "the saved records are others");
    records.len()
}

#[test]
fn f085_a_file_cut_anywhere_is_saved_up_to_the_cut() {
    let whole = conversation(200);
    let (_folder, path) = kept(&whole);
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes.len() % PAGE, 0);
    let mut random = Random::new(1);
    let mut saved = Vec::new();
    let borders = (0..bytes.len() / PAGE).map(|page| page * PAGE);
    let others = (0..60).map(|_| random.below(bytes.len()));
    for len in borders.chain(others) {
        let (folder, _) = folder_with(&bytes[..len]);
        saved.push((len, check_saved(folder.path(), &bytes[..len], &whole)));
    }
    saved.sort_unstable();
    assert!(saved.is_sorted_by_key(|(_, records)| records), "{saved:?}");
    let (_, most) = saved[saved.len() - 1];
    assert!(most > 150, "a small cut costs nearly everything: {saved:?}");
}

#[test]
fn a_changed_bit_is_never_taken_for_what_was_said() {
    let whole = conversation(60);
    let (_folder, path) = kept(&whole);
    let bytes = std::fs::read(path).unwrap();
    let mut random = Random::new(2);
    let (mut unharmed, mut saved, mut refused) = (0, 0, 0);
    // The header of the file, where every bit counts, and as many anywhere.
    let places: Vec<usize> = (0..100 * 8)
        .step_by(3)
        .chain((0..300).map(|_| random.below(bytes.len() * 8)))
        .collect();
    for bit in places {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (folder, path) = folder_with(&flipped);
        let loaded = load(&SqliteStore::new(folder.path()));
        match loaded {
            Ok(Some(loaded)) if loaded.notice.is_none() => {
                assert!(loaded.records == whole, "bit {bit}");
                let store = SqliteStore::new(folder.path());
                load(&store).unwrap();
                append(&store, &[after()]);
                drop(store);
                let all = [&whole[..], &[after()]].concat();
                assert!(reopened(folder.path()) == Loaded::whole(all), "bit {bit}");
                unharmed += 1;
            }
            Ok(Some(_)) => {
                check_saved(folder.path(), &flipped, &whole);
                saved += 1;
            }
            // The mark that says whose file it is, or the number of its format.
            Err(StoreError::Unreadable { .. }) => {
                assert!(std::fs::read(&path).unwrap() == flipped, "bit {bit}");
                refused += 1;
            }
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    assert!(
        unharmed > 20 && saved > 200 && (5..60).contains(&refused),
        "{unharmed} {saved} {refused}"
    );
}

/// What a process leaves that is killed: the database, the log, the lock with what was accepted.
fn killed(records: &[Record]) -> TempDir {
    let folder = quick_folder();
    let store = SqliteStore::new(folder.path());
    for record in records {
        append(&store, std::slice::from_ref(record));
    }
    let copy = quick_folder();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

fn log(folder: &Path) -> PathBuf {
    database_path(folder, &id()).with_extension("db-wal")
}

#[test]
fn f009_a_killed_process_leaves_everything_it_accepted() {
    let whole = conversation(30);
    let folder = killed(&whole);
    std::fs::remove_file(log(folder.path()).with_extension("db-shm")).unwrap();
    assert_eq!(reopened(folder.path()), Loaded::whole(whole));
    assert_eq!(names(folder.path()), ["ID.session.db"]);
}

#[test]
fn a_log_that_is_gone_is_missed() {
    let whole = conversation(30);
    let folder = killed(&whole);
    std::fs::remove_file(log(folder.path())).unwrap();
    let words = reopened(folder.path()).notice.unwrap();
    assert!(words.contains("the last 29 records are missing"), "{words}");
    let damaged = database_path(folder.path(), &id()).with_extension("db.damaged-1");
    let bytes = std::fs::read(damaged).unwrap();
    assert_eq!(check_saved(folder.path(), &bytes, &whole), 1);
}

#[test]
fn a_log_cut_or_changed_anywhere_is_noticed() {
    let whole = conversation(30);
    let mut random = Random::new(3);
    let (mut harmless, mut noticed) = (0, 0);
    for round in 0..80 {
        let folder = killed(&whole);
        let mut bytes = std::fs::read(log(folder.path())).unwrap();
        let place = random.below(bytes.len());
        if round % 2 == 0 {
            bytes.truncate(place);
        } else {
            bytes[place] ^= 1 << random.below(8);
        }
        std::fs::write(log(folder.path()), bytes).unwrap();
        let loaded = reopened(folder.path());
        check_prefix(&loaded.records, &whole);
        if loaded.notice.is_none() {
            assert_eq!(loaded.records, whole, "round {round}");
            harmless += 1;
        } else {
            assert!(loaded.records.len() < whole.len(), "round {round}");
            noticed += 1;
        }
    }
    assert!(noticed > 60, "{harmless} {noticed}");
}

#[test]
fn an_empty_file_and_garbage_are_kept_and_told() {
    let mut random = Random::new(4);
    let garbage: Vec<u8> = (0..10_000).map(|_| random.below(256) as u8).collect();
    for bytes in [&b""[..], b"x", b"SQLite format 3\0", &garbage] {
        let (folder, _) = folder_with(bytes);
        assert_eq!(check_saved(folder.path(), bytes, &[opened()]), 0);
    }
}

#[test]
fn damaged_files_are_numbered_and_none_is_replaced() {
    let (folder, path) = folder_with(b"first");
    reopened(folder.path());
    std::fs::write(&path, b"second").unwrap();
    reopened(folder.path());
    let read = |n| std::fs::read(path.with_extension(format!("db.damaged-{n}"))).unwrap();
    assert_eq!([read(1), read(2)], [&b"first"[..], b"second"]);
}

/// The sum as the format says, written once more.
fn sum(seq: i64, at: i64, body: &str) -> i64 {
    let mut bytes = body.as_bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let text = bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let words = [seq as u64, at as u64, body.len() as u64];
    let sum = words.into_iter().chain(text).fold(0_u64, |sum, word| {
        (sum.rotate_left(29) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    });
    sum as i64
}

/// Puts another record where one is, with all that belongs to it.
fn replace(path: &Path, seq: i64, at: i64, body: &str) {
    let sum = sum(seq, at, body);
    meddle(
        path,
        &format!("UPDATE records SET at = {at}, body = '{body}', sum = {sum} WHERE seq = {seq}"),
    );
}

#[test]
fn f085_a_record_nobody_knows_is_named() {
    let whole = conversation(9);
    let (folder, path) = kept(&whole);
    let body = r#"{"at":1,"type":"moon_landed","where":"Tranquility"}"#;
    replace(&path, 5, 1, body);
    let before = std::fs::read(&path).unwrap();
    let store = SqliteStore::new(folder.path());
    let error = load(&store).unwrap_err().to_string();
    let named = "record 5: this version knows no records of type \"moon_landed\"";
    assert!(error.contains(named), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn what_stops_the_reading_is_named() {
    let cases = [
        (
            "DELETE FROM records WHERE seq = 5",
            4,
            "record 5 is missing",
        ),
        (
            "UPDATE records SET body = replace(body, 'notice', 'notics') WHERE seq = 3",
            2,
            "record 3: its content has changed",
        ),
        ("DROP TABLE notice", 9, "no such table: notice"),
        ("DELETE FROM records", 0, "it holds no records"),
        ("DROP TABLE records", 0, "no such table: records"),
        (
            "PRAGMA user_version = 0",
            0,
            "it names no version of the format",
        ),
    ];
    for (sql, saved, why) in cases {
        let whole = conversation(9);
        let (folder, path) = kept(&whole);
        meddle(&path, sql);
        let loaded = reopened(folder.path());
        assert_eq!(check_prefix(&loaded.records, &whole), saved, "{sql}");
        let words = loaded.notice.unwrap();
        assert!(words.contains(why), "{sql}: {words}");
    }
}

#[test]
fn a_record_out_of_place_is_damage() {
    let (folder, path) = kept(&conversation(4));
    let body = serde_json::to_string(&opened()).unwrap();
    replace(&path, 3, 7, &body);
    let loaded = reopened(folder.path());
    assert_eq!(loaded.records.len(), 2);
    let words = loaded.notice.unwrap();
    assert!(
        words.contains("record 3: it does not belong where it stands"),
        "{words}"
    );
    assert!(matches!(loaded.records[0].body, RecordBody::Opened { .. }));
}
