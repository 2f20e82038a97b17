//! Streamed text is written in time, also when nothing follows it.

use std::path::Path;
use std::time::{Duration, Instant};

use harness_session::SqliteStore;
use harness_types::Loaded;
use rusqlite::{Connection, OpenFlags};

use crate::support::{append, conversation, delta, kept, load, notice, reopened};

/// How many records somebody else sees.
fn seen(path: &Path) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(path, flags).unwrap();
    let count = "SELECT count(*) FROM records";
    connection.query_row(count, [], |row| row.get(0)).unwrap()
}

#[test]
fn text_is_written_within_the_time_when_the_model_has_stalled() {
    let (folder, path) = kept(&conversation(2));
    let store = SqliteStore::new(folder.path());
    load(&store).unwrap();
    for _ in 0..2 {
        let before = seen(&path);
        let start = Instant::now();
        append(&store, &[delta("a"), delta("b")]);
        append(&store, &[delta("c")]);
        if start.elapsed() < Duration::from_millis(200) {
            assert_eq!(seen(&path), before, "every piece is written alone");
        }
        while seen(&path) == before {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "nothing was written"
            );
            std::thread::yield_now();
        }
        assert!(
            start.elapsed() >= Duration::from_millis(200),
            "it was not held back"
        );
    }
    append(&store, &[notice("end")]);
    drop(store);
    let mut all = conversation(2);
    all.extend([delta("abc"), delta("abc"), notice("end")]);
    assert_eq!(reopened(folder.path()), Loaded::whole(all));
}

#[test]
fn text_is_written_when_there_is_much_of_it() {
    let (folder, path) = kept(&conversation(2));
    let store = SqliteStore::new(folder.path());
    load(&store).unwrap();
    let piece = "x".repeat(1024);
    let start = Instant::now();
    let mut pieces = 0;
    while seen(&path) == 2 {
        append(&store, &[delta(&piece)]);
        pieces += 1;
        assert!(pieces <= 64, "more than 64 KiB are held back");
    }
    assert!(
        pieces > 50 || start.elapsed() > Duration::from_millis(200),
        "only {pieces} KiB were held back"
    );
}

#[test]
fn text_is_written_when_the_store_is_dropped() {
    let (folder, _) = kept(&conversation(2));
    let store = SqliteStore::new(folder.path());
    load(&store).unwrap();
    append(&store, &[delta("the last"), delta(" words")]);
    drop(store);
    let mut all = conversation(2);
    all.push(delta("the last words"));
    assert_eq!(reopened(folder.path()), Loaded::whole(all));
}

/// Another thread does it, so that nobody who appends waits for the disk; also before a turn ends.
#[test]
fn the_log_of_a_long_turn_is_moved_into_the_database() {
    let (folder, path) = kept(&conversation(2));
    let store = SqliteStore::new(folder.path());
    load(&store).unwrap();
    let piece = notice("x".repeat(1 << 16));
    let database = || path.metadata().unwrap().len();
    let before = database();
    for _ in 0..96 {
        append(&store, std::slice::from_ref(&piece));
    }
    let start = Instant::now();
    while database() < before + (3 << 20) {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "nothing was moved"
        );
        std::thread::yield_now();
    }
}
