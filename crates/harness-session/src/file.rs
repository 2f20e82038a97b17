//! One conversation's file: opening, locking, reading, appending.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use harness_types::{ConversationId, Record, RecordBody, StoreError};
use rusqlite::{Connection, OpenFlags, params};

use crate::salvage;

/// Marks our files among SQLite's: "HrnS".
pub(crate) const APPLICATION_ID: i32 = 0x4872_6e53;

/// The version of the tables and of the records in them.
pub(crate) const FORMAT: i32 = 1;

/// How long, and how much of, streaming text may wait in memory.
const PROGRESS_TIME: Duration = Duration::from_millis(250);
const PROGRESS_BYTES: usize = 64 * 1024;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS records (
    seq  INTEGER PRIMARY KEY,  -- from 1, without gaps
    at   INTEGER NOT NULL,     -- microseconds since the Unix epoch
    type TEXT NOT NULL,        -- the record's type, also in body
    body TEXT NOT NULL         -- the record, as JSON
) STRICT;
";

/// An open conversation.
#[derive(Debug)]
pub(crate) struct SessionFile {
    path: PathBuf,
    connection: Connection,
    next_seq: i64,
    /// Streaming text that has not been written.
    progress: Vec<Record>,
    progress_bytes: usize,
    progress_since: Instant,
    /// Held for as long as the file is open.
    _lock: File,
}

/// What came of opening a file that exists.
pub(crate) struct Opened {
    pub(crate) file: SessionFile,
    pub(crate) records: Vec<Record>,
    pub(crate) notice: Option<String>,
}

impl SessionFile {
    /// Makes a new conversation's file.
    pub(crate) fn create(
        folder: &Path,
        id: &ConversationId,
        lock: File,
    ) -> Result<Self, StoreError> {
        let path = crate::store::database_path(folder, id);
        private_file(&path).map_err(|error| io_error("cannot create", &path, error))?;
        let connection = connect(&path)?;
        prepare(&connection).map_err(|error| sql_error("cannot set up", &path, error))?;
        Ok(Self::new(path, connection, 1, lock))
    }

    /// Opens a conversation's file and reads it; a damaged one is moved aside and replaced by what
    /// could be read of it.
    pub(crate) fn open(path: PathBuf, lock: File) -> Result<Opened, StoreError> {
        let read = read(&path)?;
        match read {
            Read::Whole {
                connection,
                records,
            } => {
                let next_seq = records.len() as i64 + 1;
                let file = Self::new(path, connection, next_seq, lock);
                Ok(Opened {
                    file,
                    records,
                    notice: None,
                })
            }
            Read::Damaged { records, what } => {
                let moved = salvage::move_aside(&path)
                    .map_err(|error| io_error("cannot move aside the damaged", &path, error))?;
                private_file(&path).map_err(|error| io_error("cannot create", &path, error))?;
                let connection = connect(&path)?;
                prepare(&connection).map_err(|error| sql_error("cannot set up", &path, error))?;
                let mut file = Self::new(path, connection, 1, lock);
                file.write(&records)?;
                let notice = format!(
                    "the file of this conversation was damaged ({what}); the first {} records \
                     could be read and the conversation goes on from there. The damaged file is \
                     kept as {}",
                    records.len(),
                    moved.display()
                );
                tracing::error!("{notice}");
                Ok(Opened {
                    file,
                    records,
                    notice: Some(notice),
                })
            }
        }
    }

    fn new(path: PathBuf, connection: Connection, next_seq: i64, lock: File) -> Self {
        Self {
            path,
            connection,
            next_seq,
            progress: Vec::new(),
            progress_bytes: 0,
            progress_since: Instant::now(),
            _lock: lock,
        }
    }

    /// The file that has to be synced for what was appended to survive a loss of power.
    pub(crate) fn log_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push("-wal");
        name.into()
    }

    /// Appends records. Streaming text may stay in memory for a while.
    pub(crate) fn append(&mut self, records: &[Record]) -> Result<(), StoreError> {
        if records.iter().all(|record| record.body.is_progress()) {
            for record in records {
                self.hold(record);
            }
            let due = self.progress_bytes >= PROGRESS_BYTES
                || self.progress_since.elapsed() >= PROGRESS_TIME;
            return if due { self.flush() } else { Ok(()) };
        }
        if self.progress.is_empty() {
            return self.write(records);
        }
        let mut all = std::mem::take(&mut self.progress);
        let held = all.len();
        for record in records {
            merge(&mut all, record);
        }
        let written = self.write(&all);
        if written.is_err() {
            // The caller keeps what it gave; what it gave before is ours to keep.
            all.truncate(held);
            self.progress = all;
        } else {
            self.progress_bytes = 0;
        }
        written
    }

    /// Writes what is held back.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        if !self.progress.is_empty() {
            let held = std::mem::take(&mut self.progress);
            if let Err(error) = self.write(&held) {
                self.progress = held;
                return Err(error);
            }
            self.progress_bytes = 0;
        }
        self.progress_since = Instant::now();
        Ok(())
    }

    fn hold(&mut self, record: &Record) {
        if self.progress.is_empty() {
            self.progress_since = Instant::now();
        }
        self.progress_bytes += match &record.body {
            RecordBody::AnswerDelta(delta) => delta.part.text_bytes(),
            _ => 0,
        };
        merge(&mut self.progress, record);
    }

    fn write(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let failed = |error| sql_error("cannot write", &self.path, error);
        let transaction = self.connection.transaction().map_err(failed)?;
        {
            let mut insert = transaction
                .prepare_cached("INSERT INTO records (seq, at, type, body) VALUES (?1, ?2, ?3, ?4)")
                .map_err(failed)?;
            for (seq, record) in (self.next_seq..).zip(records) {
                let body = serde_json::to_string(record).map_err(|error| StoreError::Io {
                    message: "a record cannot be written as JSON".to_owned(),
                    source: Some(error.into()),
                })?;
                insert
                    .execute(params![
                        seq,
                        record.at.as_micros(),
                        record.body.type_name(),
                        body
                    ])
                    .map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)?;
        self.next_seq += records.len() as i64;
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

/// Adds a record to a list, merged with the last one where it only continues its text.
fn merge(list: &mut Vec<Record>, record: &Record) {
    if let (Some(RecordBody::AnswerDelta(last)), RecordBody::AnswerDelta(next)) =
        (list.last_mut().map(|last| &mut last.body), &record.body)
        && last.call == next.call
        && last.step == next.step
        && last.part.merge(&next.part)
    {
        return;
    }
    list.push(record.clone());
}

enum Read {
    Whole {
        connection: Connection,
        records: Vec<Record>,
    },
    Damaged {
        records: Vec<Record>,
        what: String,
    },
}

fn read(path: &Path) -> Result<Read, StoreError> {
    let damaged = |records, what: String| Ok(Read::Damaged { records, what });
    let bytes = std::fs::metadata(path)
        .map_err(|error| io_error("cannot read", path, error))?
        .len();
    if bytes == 0 {
        return damaged(Vec::new(), "it is empty".to_owned());
    }
    let connection = match connect(path) {
        Ok(connection) => connection,
        Err(error) if salvage::is_damage(&error) => return damaged(Vec::new(), with_cause(&error)),
        Err(error) => return Err(error),
    };
    let header = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application = match header("application_id") {
        Ok(application) => application,
        Err(error) => {
            let error = sql_error("cannot read", path, error);
            return if salvage::is_damage(&error) {
                damaged(Vec::new(), with_cause(&error))
            } else {
                Err(error)
            };
        }
    };
    if application != APPLICATION_ID {
        return Err(StoreError::Unreadable {
            message: format!(
                "{} belongs to another program and was left alone; choose another folder",
                path.display()
            ),
        });
    }
    let format = header("user_version").map_err(|error| sql_error("cannot read", path, error))?;
    if format > FORMAT {
        return Err(StoreError::Unreadable {
            message: format!(
                "{} has format {format}, and this version reads up to format {FORMAT}; use the \
                 newer version that wrote it",
                path.display()
            ),
        });
    }
    let (records, what) = salvage::read_records(&connection);
    match what {
        None if records.is_empty() => damaged(records, "it holds no records".to_owned()),
        None => Ok(Read::Whole {
            connection,
            records,
        }),
        Some(what) => damaged(records, what),
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        // Our lock keeps others out; a tool that only reads may still hold the file for a moment.
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        Ok(connection)
    };
    open().map_err(|error| sql_error("cannot open", path, error))
}

fn prepare(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.execute_batch(TABLES)
}

/// Creates an empty file that only its owner can read.
fn private_file(path: &Path) -> io::Result<()> {
    private(OpenOptions::new().write(true).create_new(true))
        .open(path)
        .map(drop)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Makes the folder, if need be readable by its owner alone.
pub(crate) fn make_folder(folder: &Path) -> Result<(), StoreError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder
        .create(folder)
        .map_err(|error| io_error("cannot create the folder", folder, error))
}

/// Takes a conversation for this process.
pub(crate) fn lock(folder: &Path, id: &ConversationId) -> Result<File, StoreError> {
    let path = folder.join(format!("{id}.session.lock"));
    let mut file = private(
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false),
    )
    .open(&path)
    .map_err(|error| io_error("cannot open", &path, error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                pid => format!("process {pid}"),
            };
            return Err(StoreError::Busy {
                message: format!("conversation {id} is open in {holder}; close it there first"),
            });
        }
        Err(TryLockError::Error(error)) => return Err(io_error("cannot lock", &path, error)),
    }
    // For the message above, in somebody else's process; the lock itself is the kernel's.
    let _ = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

pub(crate) fn io_error(what: &str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        message: format!("{what} {}", path.display()),
        source: Some(source.into()),
    }
}

pub(crate) fn sql_error(what: &str, path: &Path, source: rusqlite::Error) -> StoreError {
    StoreError::Io {
        message: format!("{what} {}", path.display()),
        source: Some(source.into()),
    }
}

fn with_cause(error: &StoreError) -> String {
    use std::error::Error as _;
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}
