//! One conversation's file: making, opening, appending.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use harness_types::{ConversationId, Record, RecordBody, StoreError};
use rusqlite::{Connection, OpenFlags, params};

use crate::error::{io_error, sql_error};
use crate::format::{APPLICATION_ID, FORMAT, TABLES, checksum, with_suffix};
use crate::lock::{Lock, private_file};
use crate::progress::{Progress, merged};
use crate::read::{Read, count, open_for_append, read};
use crate::salvage::{self, unless_missing};

/// An open conversation.
#[derive(Debug)]
pub(crate) struct SessionFile {
    path: PathBuf,
    /// Closed before the lock is let go: fields are dropped in this order.
    connection: Connection,
    lock: Lock,
    next_seq: i64,
    progress: Progress,
    /// The file says what was lost in a repair.
    notice: Notice,
    /// About how much the log has grown since [`SessionFile::start_sync`].
    logged_bytes: usize,
}

/// How much the log may grow before it is moved into the database, also in the middle of a turn.
const LOG_BYTES: usize = 4 << 20;

/// What a transaction adds to the log beside the records' own size: a page of the database.
const PAGE_BYTES: usize = 4096;

/// Whether a file has something to say to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    None,
    UntilNextRecord,
}

/// What came of opening a file.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: Box<SessionFile>,
    pub(crate) records: Vec<Record>,
    pub(crate) notice: Option<String>,
}

/// What there is of a conversation.
#[derive(Debug)]
pub(crate) enum Found {
    Open(Opened),
    Nothing(Lock),
}

/// What failed, and the lock that was to be part of it.
type Failed = (Lock, StoreError);

impl SessionFile {
    /// Makes a new conversation's file, with its first records in it.
    pub(crate) fn create(path: &Path, lock: Lock, records: &[Record]) -> Result<Self, Failed> {
        let create = || {
            check_places(records, 1)?;
            if path
                .try_exists()
                .map_err(|error| io_error("cannot read", path, error))?
            {
                return Err(StoreError::Unreadable {
                    message: format!(
                        "{} exists and was not loaded; a conversation is loaded before it is \
                         appended to",
                        path.display()
                    ),
                });
            }
            let new = build(path, records, None)?;
            std::fs::rename(new, path).map_err(|error| io_error("cannot create", path, error))?;
            open_for_append(path).map_err(|error| sql_error("cannot open", path, error))
        };
        match create() {
            Ok(connection) => Ok(Self::new(path, connection, lock, records, Notice::None)),
            Err(error) => Err((lock, error)),
        }
    }

    /// Opens a conversation's file and reads it; a damaged one is moved aside and replaced by what
    /// could be read of it.
    pub(crate) fn open(path: &Path, id: &ConversationId, mut lock: Lock) -> Result<Found, Failed> {
        match open(path, id, &mut lock) {
            Ok(Some((connection, records, notice))) => {
                let state = match notice {
                    Some(_) => Notice::UntilNextRecord,
                    None => Notice::None,
                };
                Ok(Found::Open(Opened {
                    file: Box::new(Self::new(path, connection, lock, &records, state)),
                    records,
                    notice,
                }))
            }
            Ok(None) => Ok(Found::Nothing(lock)),
            Err(error) => Err((lock, error)),
        }
    }

    fn new(
        path: &Path,
        connection: Connection,
        mut lock: Lock,
        records: &[Record],
        notice: Notice,
    ) -> Self {
        lock.note_accepted(count(records));
        Self {
            path: path.to_path_buf(),
            connection,
            lock,
            next_seq: count(records) + 1,
            progress: Progress::default(),
            notice,
            logged_bytes: 0,
        }
    }

    /// Whether the log is so long that it should be moved into the database.
    pub(crate) fn is_log_long(&self) -> bool {
        self.logged_bytes >= LOG_BYTES
    }

    /// Hands out the path for somebody to sync the file and to shorten the log.
    pub(crate) fn start_sync(&mut self) -> PathBuf {
        self.logged_bytes = 0;
        self.path.clone()
    }

    /// When what is held back has to be flushed; `None` when nothing is.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.progress.due()
    }

    /// Appends records, all or none. Streaming text may stay in memory for a while.
    pub(crate) fn append(&mut self, records: &[Record]) -> Result<(), StoreError> {
        check_places(records, self.next_seq)?;
        if self.progress.has_room(records) {
            self.progress.hold(records);
            return Ok(());
        }
        // What is held is not touched until all of it is written: after a failure the caller still
        // has what it gave now, and we have what it gave before.
        self.write(records)
    }

    /// Writes what is held back.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        if self.progress.records().is_empty() {
            return Ok(());
        }
        let written = self.write(&[]);
        if written.is_err() {
            self.progress.give_up_time();
        }
        written
    }

    /// Writes what is held back, and `records` after it.
    fn write(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let failed = |error| sql_error("cannot write", &self.path, error);
        let records = merged(records);
        let all = self
            .progress
            .records()
            .iter()
            .chain(records.iter().map(AsRef::as_ref));
        let transaction = self.connection.transaction().map_err(failed)?;
        let (next_seq, bytes) = insert(&transaction, &self.path, self.next_seq, all)?;
        if self.notice == Notice::UntilNextRecord {
            transaction
                .execute("DELETE FROM notice", [])
                .map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        self.next_seq = next_seq;
        self.logged_bytes += PAGE_BYTES + bytes;
        self.notice = Notice::None;
        self.progress.clear();
        self.lock.note_accepted(next_seq - 1);
        Ok(())
    }
}

impl Drop for SessionFile {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::error!("the last streamed text was not saved: {error}");
        }
    }
}

type Whole = (Connection, Vec<Record>, Option<String>);

fn open(path: &Path, id: &ConversationId, lock: &mut Lock) -> Result<Option<Whole>, StoreError> {
    // A repair, and a repair of the repair should that one be damaged meanwhile, is enough.
    for _ in 0..3 {
        salvage::finish(path, lock)?;
        let exists = path.symlink_metadata().map(drop);
        match exists {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("cannot read", path, error)),
            Ok(()) => {}
        }
        match read(path, id, lock.accepted())? {
            Read::Whole {
                connection,
                records,
                notice,
            } => return Ok(Some((connection, records, notice))),
            Read::Damaged { records, what } => salvage::repair(path, id, records, &what, lock)?,
        }
    }
    Err(StoreError::Io {
        message: format!("{} is damaged again after a repair", path.display()),
        source: None,
    })
}

/// Writes a whole new file beside `path` and hands back its name. Not synced.
pub(crate) fn build(
    path: &Path,
    records: &[Record],
    notice: Option<&str>,
) -> Result<PathBuf, StoreError> {
    let new = with_suffix(path, ".new");
    for suffix in ["", "-wal", "-shm", "-journal"] {
        unless_missing(std::fs::remove_file(with_suffix(&new, suffix)))
            .map_err(|error| io_error("cannot remove", &new, error))?;
    }
    private_file(&new).map_err(|error| io_error("cannot create", &new, error))?;
    let failed = |error| sql_error("cannot set up", &new, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&new, flags).map_err(failed)?;
    let set_up = |name, value: &dyn rusqlite::ToSql| {
        connection
            .pragma_update(None, name, value)
            .map_err(|error| sql_error("cannot set up", &new, error))
    };
    // Nobody sees the file before it is complete.
    set_up("journal_mode", &"off")?;
    set_up("synchronous", &"off")?;
    set_up("application_id", &APPLICATION_ID)?;
    set_up("user_version", &FORMAT)?;
    let transaction = connection.transaction().map_err(failed)?;
    transaction.execute_batch(TABLES).map_err(failed)?;
    let merged = merged(records);
    insert(&transaction, &new, 1, merged.iter().map(AsRef::as_ref))?;
    if let Some(notice) = notice {
        transaction
            .execute("INSERT INTO notice (text) VALUES (?1)", [notice])
            .map_err(failed)?;
    }
    transaction.commit().map_err(failed)?;
    connection
        .pragma_update(None, "journal_mode", "wal")
        .map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    Ok(new)
}

/// Inserts records; hands back the number of the one after them, and their size.
fn insert<'a>(
    connection: &Connection,
    path: &Path,
    first_seq: i64,
    records: impl Iterator<Item = &'a Record>,
) -> Result<(i64, usize), StoreError> {
    let failed = |error| sql_error("cannot write", path, error);
    let mut insert = connection
        .prepare_cached(
            "INSERT INTO records (seq, at, type, body, sum) VALUES (?1, ?2, ?3, ?4, ?5)",
        )
        .map_err(failed)?;
    let (mut seq, mut bytes) = (first_seq, 0);
    for record in records {
        let body = serde_json::to_string(record).map_err(|error| StoreError::Io {
            message: "a record cannot be written as JSON".to_owned(),
            source: Some(error.into()),
        })?;
        insert
            .execute(params![
                seq,
                record.at.as_micros(),
                record.body.type_name(),
                body,
                checksum(seq, record.at.as_micros(), &body)
            ])
            .map_err(failed)?;
        seq += 1;
        bytes += body.len();
    }
    Ok((seq, bytes))
}

/// A log that could not be read again is not written.
fn check_places(records: &[Record], next_seq: i64) -> Result<(), StoreError> {
    let is_well = records.iter().enumerate().all(|(place, record)| {
        let is_first = next_seq == 1 && place == 0;
        matches!(record.body, RecordBody::Opened { .. }) == is_first
    });
    if is_well {
        return Ok(());
    }
    Err(StoreError::Io {
        message: "a conversation begins with the record that it was opened, and has no other"
            .to_owned(),
        source: None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use harness_types::{
        Action, AnswerDelta, InputId, ModelCallId, ModelPart, StepIndex, Timestamp, TrajectoryId,
    };
    use tempfile::TempDir;

    use super::*;

    /// A conversation of `n` records, each of about half a kilobyte.
    pub(crate) fn conversation(n: usize) -> (ConversationId, Vec<Record>) {
        let id = ConversationId::from_random([7; 16]);
        let opened = RecordBody::Opened {
            conversation: id.clone(),
        };
        let notice = |n: usize| RecordBody::NoticeGiven {
            trajectory: TrajectoryId::root(&id),
            text: format!("{n} ").repeat(100),
        };
        let bodies = std::iter::once(opened).chain((1..n).map(notice));
        let at = |n: usize| Timestamp::from_micros(n as i64);
        let records = bodies
            .enumerate()
            .map(|(n, body)| Record { at: at(n), body })
            .collect();
        (id, records)
    }

    fn record(body: RecordBody) -> Record {
        let at = Timestamp::from_micros(0);
        Record { at, body }
    }

    fn delta(text: &str) -> Record {
        record(RecordBody::AnswerDelta(AnswerDelta {
            trajectory: TrajectoryId::root(&conversation(1).0),
            call: ModelCallId::new(0),
            step: Some(StepIndex::new(0)),
            part: ModelPart::Text {
                text: text.into(),
                signature: None,
            },
        }))
    }

    fn view(step: u32, path: &str) -> Record {
        record(RecordBody::CallProgressed {
            trajectory: TrajectoryId::root(&conversation(1).0),
            step: StepIndex::new(step),
            action: Action::ListDirectory {
                path: path.into(),
                entries: Vec::new(),
            },
        })
    }

    fn dropped(n: u64) -> Record {
        let input = InputId::new(n);
        record(RecordBody::InputDropped { input })
    }

    struct Fixture {
        folder: TempDir,
        path: PathBuf,
        first: Record,
        file: SessionFile,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (id, records) = conversation(1);
            let path = crate::database_path(folder.path(), &id);
            let lock = Lock::acquire(folder.path(), &id).unwrap();
            let file = SessionFile::create(&path, lock, &records).map_err(|(_, error)| error);
            Self {
                folder,
                path,
                first: records[0].clone(),
                file: file.unwrap(),
            }
        }

        /// Forbids, or allows, the database to grow by more than a page or so.
        fn set_full(&self, pages: u32) {
            let set = |_: &rusqlite::Row<'_>| Ok(());
            let sql = format!("PRAGMA max_page_count({pages})");
            self.file.connection.query_row(&sql, [], set).unwrap();
        }

        /// The records after the first one, as the next process finds them.
        fn reopened(self) -> Vec<Record> {
            drop(self.file);
            let id = conversation(1).0;
            let lock = Lock::acquire(self.folder.path(), &id).unwrap();
            let Ok(Found::Open(opened)) = SessionFile::open(&self.path, &id, lock) else {
                panic!("not opened");
            };
            assert_eq!((&opened.records[0], opened.notice), (&self.first, None));
            opened.records[1..].to_vec()
        }
    }

    const FULL: u32 = 1;
    const ROOM: u32 = 1 << 20;

    /// After a failure the caller has its records still, and gives them again.
    #[test]
    fn what_is_given_again_after_a_full_disk_is_written_once() {
        let mut fixture = Fixture::new();
        fixture.file.append(&[delta("a"), delta("b")]).unwrap();
        fixture.set_full(FULL);
        let big = "c".repeat(100_000);
        // Held text and the text given now are of one kind: the former must not swallow the latter.
        let given = [delta(&big), dropped(1)];
        for _ in 0..3 {
            let error = fixture.file.append(&given).unwrap_err();
            assert!(matches!(error, StoreError::Io { .. }), "{error}");
        }
        let given_alone = [delta(&big)];
        fixture.file.append(&given_alone).unwrap_err();
        fixture.file.flush().unwrap();
        fixture.set_full(ROOM);
        fixture.file.append(&given).unwrap();
        assert_eq!(
            fixture.reopened(),
            [delta("ab"), delta(&big), dropped(1)],
            "something is twice there, or missing"
        );
    }

    #[test]
    fn a_flush_that_fails_is_made_up_for_by_the_next_append() {
        let mut fixture = Fixture::new();
        let big = "x".repeat(60_000);
        fixture.file.append(&[delta(&big)]).unwrap();
        fixture.set_full(FULL);
        fixture.file.flush().unwrap_err();
        assert_eq!(fixture.file.due(), None, "it would fail again at once");
        fixture.file.append(&[delta("y")]).unwrap();
        assert!(fixture.file.due().is_some());
        fixture.set_full(ROOM);
        fixture.file.append(&[dropped(1)]).unwrap();
        let all = [delta(&format!("{big}y")), dropped(1)];
        assert_eq!(fixture.reopened(), all);
    }

    #[test]
    fn views_of_a_call_replace_one_another_and_count_for_the_bound() {
        let mut fixture = Fixture::new();
        let long = "p".repeat(20_000);
        let views = [view(1, "a"), view(1, &long), view(2, "b"), view(1, "c")];
        fixture.file.append(&views).unwrap();
        let kept = [view(1, &long), view(2, "b"), view(1, "c")];
        assert_eq!(fixture.file.progress.records(), kept);
        for _ in 0..2 {
            fixture.file.append(&[view(2, &long)]).unwrap();
        }
        assert!(fixture.file.due().is_some(), "too early");
        fixture.file.append(&[view(2, &long)]).unwrap();
        assert_eq!(fixture.file.due(), None, "64 KiB have been exceeded");
        let last = [view(2, &long), view(2, &long)];
        assert_eq!(fixture.reopened(), [&kept[..], &last].concat());
    }

    #[test]
    fn a_log_that_could_not_be_read_is_not_written() {
        let mut fixture = Fixture::new();
        let first = fixture.first.clone();
        fixture
            .file
            .append(&[dropped(1), first.clone()])
            .unwrap_err();
        let folder = tempfile::tempdir().unwrap();
        let id = conversation(1).0;
        let path = crate::database_path(folder.path(), &id);
        let lock = Lock::acquire(folder.path(), &id).unwrap();
        let created = SessionFile::create(&path, lock, &[dropped(1), first]);
        assert!(created.is_err() && !path.exists());
        assert_eq!(fixture.reopened(), []);
    }
}
