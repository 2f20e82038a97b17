//! The folder: what appears in it, whose it is, and what is not ours.

use std::os::unix::fs::PermissionsExt as _;

use harness_session::{SqliteStore, database_path};
use harness_types::{ConversationId, Loaded, SessionStore as _, StoreError};

use crate::support::{
    append, conversation, id, kept, load, meddle, names, notice, opened, reopened, run,
};

#[test]
fn nothing_is_made_before_it_is_needed_and_nothing_is_left_over() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("deep").join("sessions");
    let store = SqliteStore::new(&folder);
    assert!(!folder.exists());
    assert_eq!(load(&store).unwrap(), None);
    assert_eq!(names(&folder), ["ID.session.lock"]);
    run(store.append(&id(), &[])).unwrap();
    drop(store);
    assert_eq!(names(&folder), [""; 0]);
}

#[test]
fn files_and_folders_are_their_owners_alone() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("deep").join("sessions");
    let store = SqliteStore::new(&folder);
    append(&store, &conversation(3));
    append(&store, &[notice("more")]);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(folder.parent().unwrap()), 0o700);
    let all = ["db", "db-shm", "db-wal", "lock"];
    assert_eq!(names(&folder), all.map(|end| format!("ID.session.{end}")));
    for end in all {
        let path = folder.join(format!("{}.session.{end}", id()));
        assert_eq!(mode(&path), 0o600, "{end}");
    }
    drop(store);
    assert_eq!(names(&folder), ["ID.session.db"]);
}

#[test]
fn what_another_program_keeps_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_path(folder.path(), &id());
    meddle(&path, "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    let before = std::fs::read(&path).unwrap();
    let error = load(&SqliteStore::new(folder.path())).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
    assert!(error.to_string().contains("another program"), "{error}");
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(names(folder.path()), ["ID.session.db"]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{}.db", id()));
    std::fs::write(&path, "another harness").unwrap();
    for _ in 0..2 {
        let store = SqliteStore::new(folder.path());
        let error = load(&store).unwrap_err();
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
        let error = run(store.append(&id(), &[opened()])).unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
    }
    assert_eq!(names(folder.path()), ["ID.db"]);
}

#[test]
fn f085_a_newer_format_is_refused_by_number() {
    let (folder, path) = kept(&conversation(3));
    meddle(&path, "PRAGMA user_version = 7");
    let before = std::fs::read(&path).unwrap();
    let error = load(&SqliteStore::new(folder.path())).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("has format 7") && text.contains("up to format 1"),
        "{text}"
    );
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(names(folder.path()), ["ID.session.db"]);
}

#[test]
fn a_file_under_another_name_is_refused() {
    let (folder, path) = kept(&conversation(3));
    let other = ConversationId::from_random([1; 16]);
    let copy = database_path(folder.path(), &other);
    std::fs::copy(&path, &copy).unwrap();
    let error = run(SqliteStore::new(folder.path()).load(&other)).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
    assert!(error.to_string().contains(id().as_str()), "{error}");
    assert!(std::fs::read(&copy).unwrap() == std::fs::read(&path).unwrap());
    assert_eq!(reopened(folder.path()), Loaded::whole(conversation(3)));
}

#[test]
fn a_conversation_is_not_appended_to_blindly() {
    let whole = conversation(3);
    let (folder, _) = kept(&whole);
    let store = SqliteStore::new(folder.path());
    let error = run(store.append(&id(), &[opened()])).unwrap_err();
    assert!(error.to_string().contains("was not loaded"), "{error}");
    drop(store);
    assert_eq!(reopened(folder.path()), Loaded::whole(whole));
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    // Nobody may make anything in /proc.
    for folder in [file.as_path(), std::path::Path::new("/proc/nowhere")] {
        let store = SqliteStore::new(folder);
        for error in [
            load(&store).unwrap_err(),
            run(store.append(&id(), &[opened()])).unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
            assert!(
                error.to_string().contains(folder.to_str().unwrap()),
                "{error}"
            );
        }
    }
}

#[test]
fn a_store_that_could_not_make_the_file_can_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(folder.path());
    assert_eq!(load(&store).unwrap(), None);
    let obstacle = folder.path().join(format!("{}.session.db.new", id()));
    std::fs::create_dir(&obstacle).unwrap();
    run(store.append(&id(), &[opened()])).unwrap_err();
    // The conversation is still ours.
    let error = load(&SqliteStore::new(folder.path())).unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    std::fs::remove_dir(&obstacle).unwrap();
    append(&store, &[opened()]);
    drop(store);
    assert_eq!(reopened(folder.path()), Loaded::whole(vec![opened()]));
}
