//! Several processes on one folder.

use std::io::{BufRead as _, Write as _};

use harness_session::SqliteStore;
use harness_types::{ConversationId, Loaded, Record, RecordBody, SessionStore as _, StoreError};

use crate::kill::{child, folder, said, say};
use crate::support::{append, conversation, id, kept, load, notice, record, reopened, run};

const CHILDREN: u8 = 20;
const RECORDS: usize = 50;

/// Loads the one conversation and says what came of it; goes on when its input ends.
#[test]
#[ignore = "only as a child of the tests here"]
fn takes_the_conversation() {
    let Some(folder) = folder() else { return };
    let store = SqliteStore::new(folder);
    match load(&store) {
        Ok(_) => {
            append(&store, &[notice(std::process::id().to_string())]);
            say("taken");
        }
        Err(StoreError::Busy { message }) => say(&message),
        Err(error) => panic!("{error:?}"),
    }
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

#[test]
fn f029_of_many_processes_on_one_conversation_one_has_it_and_the_others_know_who() {
    let (folder, _) = kept(&conversation(3));
    let mut children: Vec<_> = (0..8)
        .map(|_| child("processes::takes_the_conversation", folder.path()))
        .collect();
    let mut said: Vec<_> = children.iter_mut().map(said).collect();
    let answers: Vec<String> = said
        .iter_mut()
        .map(|said| said.next().expect("a child said nothing"))
        .collect();
    let holder = answers.iter().position(|answer| answer == "taken");
    let holder = children[holder.expect("nobody has it")].id();
    let busy = format!(
        "conversation {} is open in process {holder}; close it there first",
        id()
    );
    let others = answers.iter().filter(|answer| **answer == busy).count();
    assert_eq!(others, children.len() - 1, "{answers:?}");
    for child in &mut children {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    let mut all = conversation(3);
    all.push(notice(holder.to_string()));
    assert_eq!(reopened(folder.path()), Loaded::whole(all));
}

fn conversation_of(n: u8) -> (ConversationId, Vec<Record>) {
    let id = ConversationId::from_random([n; 16]);
    let opened = RecordBody::Opened {
        conversation: id.clone(),
    };
    let text = |k| notice(format!("{n}/{k}"));
    let records = std::iter::once(record(opened)).chain((1..RECORDS).map(text));
    (id, records.collect())
}

/// Waits for its number, then keeps a conversation of its own.
#[test]
#[ignore = "only as a child of the tests here"]
fn keeps_a_conversation_of_its_own() {
    let Some(folder) = folder() else { return };
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let (id, records) = conversation_of(line.trim().parse().unwrap());
    let store = SqliteStore::new(folder);
    assert_eq!(run(store.load(&id)).unwrap(), None);
    for record in records {
        run(store.append(&id, &[record])).unwrap();
    }
    drop(store);
    say("done");
}

#[test]
fn f029_f084_twenty_processes_share_a_folder() {
    let parent = tempfile::tempdir().unwrap();
    // Which they make, all at once.
    let folder = parent.path().join("a").join("b");
    let mut children: Vec<_> = (0..CHILDREN)
        .map(|_| child("processes::keeps_a_conversation_of_its_own", &folder))
        .collect();
    for (n, child) in children.iter_mut().enumerate() {
        writeln!(child.stdin.as_mut().unwrap(), "{n}").unwrap();
    }
    for child in &mut children {
        let mut said = said(child);
        assert_eq!(said.next().as_deref(), Some("done"));
        assert!(child.wait().unwrap().success());
    }
    let store = SqliteStore::new(&folder);
    for n in 0..CHILDREN {
        let (id, records) = conversation_of(n);
        assert_eq!(run(store.load(&id)).unwrap(), Some(Loaded::whole(records)));
    }
}

#[test]
fn two_stores_of_one_process_do_not_share_a_conversation() {
    let (folder, _) = kept(&conversation(3));
    let first = SqliteStore::new(folder.path());
    load(&first).unwrap();
    for store in [&first, &SqliteStore::new(folder.path())] {
        let error = load(store).unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    }
    let error = load(&SqliteStore::new(folder.path())).unwrap_err();
    let own = format!("process {};", std::process::id());
    assert!(error.to_string().contains(&own), "{error}");
}
