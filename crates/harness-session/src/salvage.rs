//! Damaged files: reading what can be read, keeping the rest.

use std::io;
use std::path::{Path, PathBuf};

use harness_types::{Record, RecordBody, StoreError};
use rusqlite::{Connection, ErrorCode};

/// Reads records up to the first one that cannot be read, and says what stopped it.
pub(crate) fn read_records(connection: &Connection) -> (Vec<Record>, Option<String>) {
    let mut records = Vec::new();
    let damage = read_into(connection, &mut records).err();
    (records, damage)
}

fn read_into(connection: &Connection, records: &mut Vec<Record>) -> Result<(), String> {
    let failed = |error: rusqlite::Error| error.to_string();
    let mut select = connection
        .prepare("SELECT seq, body FROM records ORDER BY seq")
        .map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let wanted = records.len() as i64 + 1;
        let seq: i64 = row.get(0).map_err(failed)?;
        if seq != wanted {
            return Err(format!("record {wanted} is missing"));
        }
        let body = row.get_ref(1).map_err(failed)?;
        let body = body
            .as_str()
            .map_err(|_| format!("record {seq} is no text"))?;
        let record: Record =
            serde_json::from_str(body).map_err(|error| format!("record {seq}: {error}"))?;
        let is_first = matches!(record.body, RecordBody::Opened { .. });
        if is_first != records.is_empty() {
            return Err(format!("record {seq} does not belong where it stands"));
        }
        records.push(record);
    }
    Ok(())
}

/// Whether an error says that the file's content is at fault.
pub(crate) fn is_damage(error: &StoreError) -> bool {
    use std::error::Error as _;
    error
        .source()
        .and_then(|source| source.downcast_ref::<rusqlite::Error>())
        .is_some_and(|error| {
            matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            )
        })
}

/// Renames a file, and its log, to a name that nothing has yet.
pub(crate) fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let named = |number: u32| {
        let mut name = path.to_path_buf().into_os_string();
        name.push(format!(".damaged-{number}"));
        PathBuf::from(name)
    };
    let target = (1..)
        .map(named)
        .find(|target| !target.exists())
        .ok_or_else(|| io::Error::other("no free name"))?;
    std::fs::rename(path, &target)?;
    for suffix in ["-wal", "-shm"] {
        let with_suffix = |path: &Path| {
            let mut name = path.to_path_buf().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        match std::fs::rename(with_suffix(path), with_suffix(&target)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(target)
}
