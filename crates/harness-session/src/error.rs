//! What goes wrong, and whether the file's content is at fault.

use std::io;
use std::path::Path;

use harness_types::StoreError;
use rusqlite::ErrorCode;

/// SQLite's `READONLY` without a more exact reason: the file's header forbids writing.
const READONLY: i32 = 8;

/// SQLite's `IOERR_SHORT_READ`: the file ends in the middle of a page.
const SHORT_READ: i32 = 522;

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

/// Whether an error says that what the file holds is at fault, and not the medium, the machine or
/// somebody who has the file open.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            // `Unknown` is the plain error: a table or a column is not there.
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::TooBig
            | ErrorCode::TypeMismatch
            | ErrorCode::SchemaChanged
            | ErrorCode::Unknown => true,
            ErrorCode::ReadOnly => failure.extended_code == READONLY,
            ErrorCode::SystemIoFailure => failure.extended_code == SHORT_READ,
            _ => false,
        },
        rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::QueryReturnedNoRows
        | rusqlite::Error::Utf8Error(..) => true,
        _ => false,
    }
}
