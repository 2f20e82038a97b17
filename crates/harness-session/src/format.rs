//! Version 1 of the format: the tables, and what proves a record whole.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Marks our files among SQLite's: "HrnS".
pub(crate) const APPLICATION_ID: i32 = 0x4872_6e53;

/// The version of the tables and of the records in them.
pub(crate) const FORMAT: i32 = 1;

pub(crate) const TABLES: &str = "
CREATE TABLE records (
    seq  INTEGER PRIMARY KEY,  -- from 1, without gaps
    at   INTEGER NOT NULL,     -- microseconds since the Unix epoch, also in body
    type TEXT NOT NULL,        -- the record's type, also in body
    body TEXT NOT NULL,        -- the record, as JSON
    sum  INTEGER NOT NULL      -- of seq, at and body
) STRICT;
CREATE TABLE notice (
    text TEXT NOT NULL         -- what was lost in a repair, until the next record is appended
) STRICT;
";

/// SQLite checks its pages' structure, not their content: this finds a changed letter too.
///
/// The words are `seq`, `at`, the length of `body` in bytes, and `body`, filled up with zeros to
/// whole words of 8 bytes, little-endian. From 0 on, the sum is turned left by 29 bits, XORed with
/// the next word and multiplied by the constant below, all modulo 2^64. Every step can be undone,
/// so no single change is without effect.
pub(crate) fn checksum(seq: i64, at: i64, body: &str) -> i64 {
    let add = |sum: u64, word: u64| (sum.rotate_left(29) ^ word).wrapping_mul(SUM_FACTOR);
    let (words, rest) = body.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut sum = [seq.cast_unsigned(), at.cast_unsigned(), body.len() as u64]
        .into_iter()
        .fold(0, add);
    for word in words {
        sum = add(sum, u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        sum = add(sum, u64::from_le_bytes(last));
    }
    sum.cast_signed()
}

/// Odd, and with bits everywhere: 2^64 divided by the golden ratio.
const SUM_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the first bytes of a file say about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A session file of this version.
    Ours,
    /// A session file of a newer version.
    Newer(i32),
    /// A database of another program.
    Foreign,
    /// No database, or one that has been damaged; in words.
    Damaged(&'static str),
}

/// Looks at a file without SQLite. Nobody may have it open in this process: closing it lets go of
/// the locks SQLite holds on it.
///
/// Source: <https://www.sqlite.org/fileformat2.html#the_database_header>.
pub(crate) fn header(path: &Path) -> io::Result<Header> {
    let mut bytes = Vec::with_capacity(100);
    File::open(path)?.take(100).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok(Header::Damaged("it is empty"));
    }
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        bytes.try_into().ok().map(i32::from_be_bytes)
    };
    let (true, Some(format), Some(application)) = (
        bytes.starts_with(b"SQLite format 3\0"),
        number(60),
        number(68),
    ) else {
        return Ok(Header::Damaged("it is not a database"));
    };
    Ok(match (application, format) {
        (APPLICATION_ID, FORMAT) => Header::Ours,
        (APPLICATION_ID, newer) if newer > FORMAT => Header::Newer(newer),
        (APPLICATION_ID, _) => Header::Damaged("it names no version of the format"),
        _ => Header::Foreign,
    })
}

/// The path with more at its end.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(suffix);
    name.into()
}
