//! Conversations kept in SQLite: one file each, locked, repaired when damaged.
//!
//! [`SqliteStore`] is a [`SessionStore`](harness_types::SessionStore) over a folder. A conversation
//! `ID` is the file `ID.session.db` in it, which ordinary SQLite tools can read, and
//! `ID.session.lock` while somebody has it open.
//!
//! # What is promised
//!
//! * A record that [`append`](harness_types::SessionStore::append) has accepted survives the death
//!   of the process, however sudden. Pieces of streaming text are the exception: they are written
//!   at most 250 ms or 64 KiB late, also when nothing follows them.
//! * An append that fails has kept nothing; the same records can be given again.
//! * Loss of power leaves a file that opens, with every turn that ended before the last second or
//!   so: after a turn has ended the file is synced in the background.
//! * Nobody else writes a conversation that is open here; who tries is told which process has it.
//!   The lock dies with the process.
//! * A damaged file is never overwritten and never taken for an empty conversation: it is kept as
//!   `ID.session.db.damaged-N`, what can be read of it goes into a new file, and the caller is
//!   told, until the next record is appended. A changed bit is found by a sum over each record; a
//!   lost tail, by what the lock file of a process that was killed says it had accepted.
//! * Files have mode 0600, a folder made here 0700. Another program's files are left alone.
//!
//! # The format
//!
//! Version 1, a public interface. The database has the `application_id` 0x48726e53 and the version
//! as its `user_version`.
//!
//! ```sql
//! CREATE TABLE records (
//!     seq  INTEGER PRIMARY KEY,  -- from 1, without gaps
//!     at   INTEGER NOT NULL,     -- microseconds since the Unix epoch, also in body
//!     type TEXT NOT NULL,        -- the record's type, also in body
//!     body TEXT NOT NULL,        -- the record, as JSON
//!     sum  INTEGER NOT NULL      -- of seq, at and body
//! ) STRICT;
//! CREATE TABLE notice (
//!     text TEXT NOT NULL         -- what was lost in a repair, until the next record is appended
//! ) STRICT;
//! ```
//!
//! `sum` is made of 64-bit words: `seq`, `at`, the length of `body` in bytes, and `body` itself as
//! little-endian words, filled up with zeros. From 0 on, it is turned left by 29 bits, XORed with
//! the next word and multiplied by 0x9E3779B97F4A7C15, all modulo 2^64.
//!
//! The JSON is that of [`Record`](harness_types::Record); an example of each is in
//! `tests/data/records-v1.jsonl`. While a process has the conversation, records may be in
//! `ID.session.db-wal` only: copy both, or neither.
//!
//! # Example
//!
//! ```
//! use harness_session::SqliteStore;
//! use harness_types::{ConversationId, Record, RecordBody, SessionStore as _, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let id = ConversationId::from_random([1; 16]);
//! let opened = Record {
//!     at: Timestamp::from_micros(0),
//!     body: RecordBody::Opened { conversation: id.clone() },
//! };
//!
//! let store = SqliteStore::new(folder.path());
//! assert_eq!(store.load(&id).await?, None);
//! store.append(&id, &[opened.clone()]).await?;
//! drop(store);
//!
//! let loaded = SqliteStore::new(folder.path()).load(&id).await?.expect("it was kept");
//! assert_eq!(loaded.records, [opened]);
//! # Ok(()) }
//! ```
//!
//! # Limits
//!
//! Records are read whole on load, which blocks the calling thread: some milliseconds for each
//! thousand steps. A version of the format that is newer than this crate is refused, by number; a
//! type of record that is unknown counts as damage, and is named. A database tool that holds a
//! write lock for more than a second makes appends fail. A file cannot be copied under another id.

mod error;
mod file;
mod flush;
mod format;
mod lock;
mod progress;
mod read;
mod salvage;
mod store;
mod sync;

pub use store::{SqliteStore, database_path};
