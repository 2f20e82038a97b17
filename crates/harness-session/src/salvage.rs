//! Damaged files: what can be read goes into a new file, the damaged one is kept beside it.
//!
//! A repair can be cut short at any moment without losing anything:
//!
//! 1. What could be read is written as `ID.session.db.new`, with the words for the user, and
//!    synced.
//! 2. It is renamed to `ID.session.db.salvaged`. From here on the repair only goes forward, by
//!    whoever opens the conversation next.
//! 3. The damaged file and its log are renamed to `ID.session.db.damaged-N`.
//! 4. The salvaged one is renamed to `ID.session.db`.
//!
//! The words for the user stay in the file until the next record is appended.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use harness_types::{ConversationId, Record, RecordBody, StoreError, Timestamp};

use crate::error::io_error;
use crate::file::build;
use crate::format::with_suffix;
use crate::lock::Lock;

/// Replaces a damaged file by what could be read of it.
pub(crate) fn repair(
    path: &Path,
    id: &ConversationId,
    mut records: Vec<Record>,
    what: &str,
    lock: &mut Lock,
) -> Result<(), StoreError> {
    let aside = free_name(path);
    let saved = match records.len() {
        0 => "nothing of it could be read, and the conversation begins anew".to_owned(),
        1 => "its first record could be read, and the conversation goes on from there".to_owned(),
        n => {
            format!("its first {n} records could be read, and the conversation goes on from there")
        }
    };
    let notice = format!(
        "the file of this conversation was damaged ({what}): {saved}. The damaged file is kept as \
         {}",
        aside.display()
    );
    tracing::error!("{notice}");
    if records.is_empty() {
        records.push(opened(id));
    }
    let new = build(path, &records, Some(&notice))?;
    let sync = || {
        File::open(&new)?.sync_all()?;
        std::fs::rename(&new, salvaged_path(path))?;
        sync_folder(path)
    };
    sync().map_err(|error| io_error("cannot repair", path, error))?;
    finish(path, lock)
}

/// Goes on with a repair that was cut short, if there is one.
pub(crate) fn finish(path: &Path, lock: &mut Lock) -> Result<(), StoreError> {
    let salvaged = salvaged_path(path);
    let mut finish = || {
        if !salvaged.try_exists()? {
            return Ok(());
        }
        // The new file says itself what is missing.
        lock.note_accepted(0);
        let aside = free_name(path);
        // The log first: it would be taken for that of the new file.
        for suffix in ["-wal", "-journal", ""] {
            unless_missing(std::fs::rename(
                with_suffix(path, suffix),
                with_suffix(&aside, suffix),
            ))?;
        }
        // Only an index to the log, which SQLite makes anew.
        unless_missing(std::fs::remove_file(with_suffix(path, "-shm")))?;
        std::fs::rename(&salvaged, path)?;
        sync_folder(path)
    };
    finish().map_err(|error| io_error("cannot repair", path, error))
}

/// What is not there needs nothing done to it.
pub(crate) fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn salvaged_path(path: &Path) -> PathBuf {
    with_suffix(path, ".salvaged")
}

/// The first name for a damaged file that none has yet.
fn free_name(path: &Path) -> PathBuf {
    let mut number = 1_u64;
    loop {
        let name = with_suffix(path, &format!(".damaged-{number}"));
        if name.symlink_metadata().is_err() {
            return name;
        }
        number += 1;
    }
}

/// The record every conversation begins with.
fn opened(id: &ConversationId) -> Record {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Record {
        at: Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
        body: RecordBody::Opened {
            conversation: id.clone(),
        },
    }
}

/// Makes the names in a file's folder survive a loss of power.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Found, SessionFile, tests::conversation};

    /// Every state that a process can leave when it is killed during a repair.
    #[test]
    fn a_repair_cut_short_anywhere_is_finished_by_the_next_one() {
        for cut in 0..=6 {
            let folder = tempfile::tempdir().unwrap();
            let (id, records) = conversation(40);
            let path = crate::database_path(folder.path(), &id);
            let lock = Lock::acquire(folder.path(), &id).unwrap();
            let file = SessionFile::create(&path, lock, &records).map_err(|(_, error)| error);
            drop(file.unwrap());
            let mut damaged = std::fs::read(&path).unwrap();
            damaged.truncate(damaged.len() - 5000);
            std::fs::write(&path, &damaged).unwrap();
            std::fs::write(with_suffix(&path, "-wal"), b"the log").unwrap();

            let kept = &records[..7];
            let aside = free_name(&path);
            let (new, salvaged) = (with_suffix(&path, ".new"), salvaged_path(&path));
            if cut == 0 {
                std::fs::write(&new, b"half a file").unwrap();
            } else {
                build(&path, kept, Some("words")).unwrap();
            }
            let steps: [(PathBuf, PathBuf); 4] = [
                (new, salvaged.clone()),
                (with_suffix(&path, "-wal"), with_suffix(&aside, "-wal")),
                (path.clone(), aside.clone()),
                (salvaged, path.clone()),
            ];
            for (from, to) in steps.iter().take(usize::saturating_sub(cut, 1)) {
                std::fs::rename(from, to).unwrap();
            }

            let lock = Lock::acquire(folder.path(), &id).unwrap();
            let Ok(Found::Open(opened)) = SessionFile::open(&path, &id, lock) else {
                panic!("cut {cut}: not opened");
            };
            let notice = opened.notice.unwrap();
            if cut >= 2 {
                assert_eq!((&opened.records[..], &*notice), (kept, "words"));
            } else {
                assert_eq!(opened.records, records[..opened.records.len()]);
                assert!(notice.contains("damaged"), "{notice}");
            }
            assert_eq!(std::fs::read(&aside).unwrap(), damaged, "cut {cut}");
            drop(opened.file);
            let mut names: Vec<_> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .map(|name| name.replace(id.as_str(), ""))
                .collect();
            names.sort();
            let left = [
                ".session.db",
                ".session.db.damaged-1",
                ".session.db.damaged-1-wal",
            ];
            assert_eq!(names, left, "cut {cut}");
        }
    }
}
