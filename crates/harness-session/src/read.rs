//! Reading a conversation's file, whole or as far as it can be read.

use std::path::Path;
use std::time::Duration;

use harness_types::{ConversationId, Record, RecordBody, StoreError, Timestamp};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use serde::Deserialize as _;

use crate::error::{io_error, is_damage, sql_error};
use crate::format::{FORMAT, Header, checksum, header};

/// Our lock keeps other writers out; a tool of the user's may hold the file for a moment.
const BUSY_TIME: Duration = Duration::from_secs(1);

/// When an append itself moves the log into the database, and waits for the disk: only should the
/// thread that does it in the background be far behind. In pages.
const LAST_RESORT_PAGES: u32 = 16_384;

/// What came of reading a file.
#[derive(Debug)]
pub(crate) enum Read {
    /// Everything is there.
    Whole {
        connection: Connection,
        records: Vec<Record>,
        /// What an earlier repair had to say, if nothing was appended since.
        notice: Option<String>,
    },
    /// The file has not been changed.
    Damaged {
        /// The records before the first that cannot be read.
        records: Vec<Record>,
        what: String,
    },
}

/// Why reading stopped early.
enum Stop {
    /// The content is at fault.
    Damage(String),
    /// A record is whole, as its sum shows, and says something this version does not know.
    Unknown(String),
    /// Another time, all could be well.
    Failure(rusqlite::Error),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) {
            Self::Damage(error.to_string())
        } else {
            Self::Failure(error)
        }
    }
}

/// Reads the file of conversation `id`, of which `accepted` records were accepted at least.
pub(crate) fn read(path: &Path, id: &ConversationId, accepted: i64) -> Result<Read, StoreError> {
    let mut records = Vec::new();
    let what = match header(path).map_err(|error| io_error("cannot read", path, error))? {
        Header::Foreign => return Err(foreign(path)),
        Header::Newer(format) => return Err(newer(path, format)),
        Header::Damaged(what) => what.to_owned(),
        Header::Ours => match read_whole(path, &mut records) {
            Ok((connection, notice)) => {
                check_id(path, id, &records)?;
                let missing = accepted - count(&records);
                if missing <= 0 {
                    set_up_for_append(&connection)
                        .map_err(|error| sql_error("cannot open", path, error))?;
                    return Ok(Read::Whole {
                        connection,
                        records,
                        notice,
                    });
                }
                format!("the last {missing} records are missing")
            }
            Err(Stop::Failure(error)) => return Err(sql_error("cannot read", path, error)),
            Err(Stop::Unknown(what)) => return Err(unknown(path, &what)),
            Err(Stop::Damage(what)) => {
                // A file that is shorter than it says, for one, is read only when SQLite is told
                // to look away.
                let mut more = Vec::new();
                if let Err(Stop::Failure(error)) = read_some(path, &mut more) {
                    return Err(sql_error("cannot read", path, error));
                }
                if more.len() > records.len() {
                    records = more;
                }
                check_id(path, id, &records)?;
                what
            }
        },
    };
    Ok(Read::Damaged { records, what })
}

/// How many records there are, as a sequence number.
pub(crate) fn count(records: &[Record]) -> i64 {
    i64::try_from(records.len()).unwrap_or(i64::MAX)
}

/// Opens a file for reading and appending, changing nothing yet, also not by closing it again.
fn open(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIME)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    Ok(connection)
}

/// Opens a file that has been read before, or made, to be appended to.
pub(crate) fn open_for_append(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = open(path)?;
    set_up_for_append(&connection)?;
    Ok(connection)
}

fn set_up_for_append(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "wal_autocheckpoint", LAST_RESORT_PAGES)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}

fn read_whole(
    path: &Path,
    records: &mut Vec<Record>,
) -> Result<(Connection, Option<String>), Stop> {
    let connection = open(path)?;
    read_records(&connection, records)?;
    if records.is_empty() {
        return Err(Stop::Damage("it holds no records".to_owned()));
    }
    let notice = connection
        .query_row("SELECT text FROM notice", [], |row| row.get(0))
        .optional()?;
    // Reading records does not see damage that writing the next one would run into.
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode != "wal" || connection.is_readonly("main")? {
        return Err(Stop::Damage("its header has changed".to_owned()));
    }
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Stop::Damage(verdict));
    }
    Ok((connection, notice))
}

/// As [`read_whole`], from a file that is known to be damaged.
fn read_some(path: &Path, records: &mut Vec<Record>) -> Result<(), Stop> {
    let connection = open(path)?;
    connection.pragma_update(None, "writable_schema", "on")?;
    read_records(&connection, records)
}

/// Reads records up to the first one that cannot be read.
fn read_records(connection: &Connection, records: &mut Vec<Record>) -> Result<(), Stop> {
    let mut select = connection.prepare("SELECT seq, at, body, sum FROM records ORDER BY seq")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let wanted = count(records) + 1;
        let seq: i64 = row.get(0)?;
        if seq != wanted {
            return Err(Stop::Damage(format!("record {wanted} is missing")));
        }
        let damaged = |what: String| Stop::Damage(format!("record {seq}: {what}"));
        let body = row
            .get_ref(2)?
            .as_str()
            .map_err(|error| damaged(error.to_string()))?;
        let (at, sum): (i64, i64) = (row.get(1)?, row.get(3)?);
        if sum != checksum(seq, at, body) {
            return Err(damaged("its content has changed".to_owned()));
        }
        let at = Timestamp::from_micros(at);
        // The sum has shown that this is what was written: a later version wrote it, and cutting
        // the conversation there would lose what it knows.
        let record = parse(at, body)
            .map_err(|error| Stop::Unknown(format!("record {seq}: {}", explain(body, &error))))?;
        let is_first = matches!(record.body, RecordBody::Opened { .. });
        if is_first != records.is_empty() {
            return Err(damaged("it does not belong where it stands".to_owned()));
        }
        records.push(record);
    }
    Ok(())
}

/// Reads a record in half the time [`Record`] itself takes, which has to keep all of it in memory
/// once more to tell `at` from the rest.
///
/// The sum has shown that we wrote it, so whatever depth it has is one we can bear.
fn parse(at: Timestamp, body: &str) -> Result<Record, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(body);
    deserializer.disable_recursion_limit();
    let body = RecordBody::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Record { at, body })
}

/// A type nobody knows is worth fewer words than serde's, which list all the others.
fn explain(body: &str, error: &serde_json::Error) -> String {
    #[derive(serde::Deserialize)]
    struct Named {
        r#type: String,
    }
    let text = error.to_string();
    match serde_json::from_str(body) {
        Ok(Named { r#type: name }) if text.starts_with(&format!("unknown variant `{name}`")) => {
            format!("this version knows no records of type {name:?}")
        }
        _ => text,
    }
}

fn check_id(path: &Path, id: &ConversationId, records: &[Record]) -> Result<(), StoreError> {
    match records.first().map(|record| &record.body) {
        Some(RecordBody::Opened { conversation }) if conversation != id => {
            Err(StoreError::Unreadable {
                message: format!(
                    "{} holds conversation {conversation} and was left alone; a session file \
                     cannot be copied under another name",
                    path.display()
                ),
            })
        }
        _ => Ok(()),
    }
}

fn foreign(path: &Path) -> StoreError {
    StoreError::Unreadable {
        message: format!(
            "{} belongs to another program and was left alone; choose another folder",
            path.display()
        ),
    }
}

fn unknown(path: &Path, what: &str) -> StoreError {
    StoreError::Unreadable {
        message: format!(
            "{} was left alone: {what}. Use the newer version that wrote it",
            path.display()
        ),
    }
}

fn newer(path: &Path, format: i32) -> StoreError {
    StoreError::Unreadable {
        message: format!(
            "{} has format {format}, and this version reads up to format {FORMAT}; use the newer \
             version that wrote it",
            path.display()
        ),
    }
}
