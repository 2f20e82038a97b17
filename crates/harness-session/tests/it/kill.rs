//! A process that is killed at any moment has lost nothing it accepted.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness_session::SqliteStore;
use harness_types::{Record, RecordBody, TrajectoryId, TurnEnd};

use crate::support::{
    Random, append, delta, id, load, notice, opened, quick_folder, record, reopened,
};

/// How far a child gets that is not killed.
const ROUNDS: usize = 40;

/// How many kills one conversation sees, for reading a long one takes its time.
const KILLS: usize = 20;

const FOLDER: &str = "HARNESS_SESSION_TEST_FOLDER";

/// Runs one of the ignored tests here as a process of its own, with its answers on a pipe.
pub(crate) fn child(name: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture", "--quiet"])
        .env(FOLDER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The folder a child is given; `None` when somebody runs the ignored tests by hand.
pub(crate) fn folder() -> Option<std::path::PathBuf> {
    std::env::var_os(FOLDER).map(Into::into)
}

/// Tells the parent something.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // The parent may be gone, which is none of the child's business.
    let _ = writeln!(out, "\n!{text}").and_then(|()| out.flush());
}

/// What a child says, without what the test runner says.
///
/// To be kept until the child has ended: it would take a closed pipe for a failure.
pub(crate) fn said(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let out = BufReader::new(child.stdout.take().unwrap());
    out.lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix('!').map(str::to_owned))
}

/// The records of round `n`, appended in one go: some with text before them, some with much text.
fn script(n: usize) -> Vec<Record> {
    let mark = notice(n.to_string());
    match n % 5 {
        0 => vec![mark],
        1 => vec![delta(format!("{n} ")), mark],
        2 => vec![mark, notice("y".repeat(n % 7 * 3000))],
        3 => vec![
            mark,
            record(RecordBody::TurnEnded {
                trajectory: TrajectoryId::root(&id()),
                end: TurnEnd::Completed,
            }),
        ],
        _ => vec![delta("a"), delta("b"), mark, delta("c"), notice("z")],
    }
}

/// The records that are never held back.
fn lasting(records: &[Record]) -> Vec<&Record> {
    let lasts = |record: &&Record| !record.body.is_progress();
    records.iter().filter(lasts).collect()
}

#[test]
#[ignore = "only as a child of the tests here"]
fn appends_until_killed() {
    let Some(folder) = folder() else { return };
    let store = SqliteStore::new(folder);
    let first = match load(&store).unwrap() {
        None => {
            append(&store, &[opened()]);
            0
        }
        Some(loaded) => {
            assert_eq!(loaded.notice, None);
            rounds(&loaded.records)
        }
    };
    for n in first..first + ROUNDS {
        append(&store, &[delta("held "), delta("back ")]);
        append(&store, &script(n));
        say(&n.to_string());
    }
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

/// How many rounds of the script there are, none of them in part.
fn rounds(records: &[Record]) -> usize {
    let lasting = lasting(records);
    let mut rest = &lasting[1..];
    let mut n = 0;
    while !rest.is_empty() {
        let round = script(n);
        let wanted = self::lasting(&round);
        assert!(
            rest.starts_with(&wanted),
            "round {n} is not as it was accepted"
        );
        rest = &rest[wanted.len()..];
        n += 1;
    }
    n
}

#[test]
fn f009_f029_what_was_accepted_survives_two_hundred_kills() {
    let mut random = Random::new(5);
    let (mut accepted, mut killed_at_work) = (0, 0);
    let mut folder = quick_folder();
    for kill in 0..200 {
        if kill % KILLS == 0 {
            (folder, accepted) = (quick_folder(), 0);
        }
        let mut child = child("kill::appends_until_killed", folder.path());
        let mut said = said(&mut child);
        let mut last = said.by_ref().take(random.below(ROUNDS / 2)).last();
        let pause = Duration::from_micros(random.below(1500) as u64);
        let start = Instant::now();
        while start.elapsed() < pause {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let before = accepted;
        last = said.last().or(last);
        accepted = last.map_or(accepted, |n| n.parse::<usize>().unwrap() + 1);
        killed_at_work += usize::from(accepted < before + ROUNDS);

        let store = SqliteStore::new(folder.path());
        let Some(loaded) = load(&store).unwrap() else {
            assert_eq!(accepted, 0, "the conversation is gone");
            continue;
        };
        assert_eq!(loaded.notice, None, "kill {kill}");
        let found = rounds(&loaded.records);
        // One more may have been accepted, and not been told of.
        assert!(
            (accepted..=accepted + 1).contains(&found),
            "kill {kill}: {accepted} accepted, {found} found"
        );
        accepted = found;
    }
    assert!(
        killed_at_work > 100,
        "only {killed_at_work} children were killed at work"
    );
}

#[test]
fn the_lock_dies_with_its_process() {
    let folder = quick_folder();
    let mut child = child("kill::appends_until_killed", folder.path());
    let mut said = said(&mut child);
    assert_eq!(said.next().as_deref(), Some("0"));
    let error = load(&SqliteStore::new(folder.path())).unwrap_err();
    let holder = format!("process {};", child.id());
    assert!(error.to_string().contains(&holder), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(rounds(&reopened(folder.path()).records) > 0);
}
