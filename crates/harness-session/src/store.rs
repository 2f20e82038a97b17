//! A folder of conversations.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use harness_types::{
    BoxFuture, ConversationId, Loaded, Record, RecordBody, SessionStore, StoreError,
};

use crate::file::{self, SessionFile};
use crate::sync::Syncer;

/// Keeps conversations in a folder, one SQLite file each.
///
/// The folder is made when the first conversation is. A conversation that was loaded or appended to
/// stays locked until the store is dropped.
#[derive(Debug)]
pub struct SqliteStore {
    folder: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<ConversationId, Held>,
    syncer: Option<Syncer>,
}

/// A conversation this store has.
#[derive(Debug)]
enum Held {
    /// Looked for and not found; the lock keeps it so.
    Reserved(File),
    Open(Box<SessionFile>),
}

/// Where a conversation is kept in `folder`.
pub fn database_path(folder: &Path, id: &ConversationId) -> PathBuf {
    folder.join(format!("{id}.session.db"))
}

impl SqliteStore {
    /// A store over `folder`. Nothing is read or made yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load_now(&self, id: &ConversationId) -> Result<Option<Loaded>, StoreError> {
        let mut inner = self.lock();
        if inner.open.contains_key(id) {
            return Err(StoreError::Busy {
                message: format!("conversation {id} is open in this process already"),
            });
        }
        file::make_folder(&self.folder)?;
        let lock = file::lock(&self.folder, id)?;
        let path = database_path(&self.folder, id);
        if !path.exists() {
            self.refuse_foreign(id)?;
            inner.open.insert(id.clone(), Held::Reserved(lock));
            return Ok(None);
        }
        let opened = SessionFile::open(path, lock)?;
        inner
            .open
            .insert(id.clone(), Held::Open(Box::new(opened.file)));
        Ok(Some(match opened.notice {
            None => Loaded::whole(opened.records),
            Some(notice) => Loaded::damaged(opened.records, notice),
        }))
    }

    /// A conversation another program keeps under this id is neither read nor shadowed.
    fn refuse_foreign(&self, id: &ConversationId) -> Result<(), StoreError> {
        let foreign = self.folder.join(format!("{id}.db"));
        if foreign.exists() {
            return Err(StoreError::Unreadable {
                message: format!(
                    "{} was written by another harness, whose format this one does not read; it \
                     was left alone",
                    foreign.display()
                ),
            });
        }
        Ok(())
    }

    fn append_now(&self, id: &ConversationId, records: &[Record]) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let mut held = match inner.open.remove(id) {
            Some(Held::Open(file)) => file,
            reserved => {
                let lock = match reserved {
                    Some(Held::Reserved(lock)) => lock,
                    _ => {
                        file::make_folder(&self.folder)?;
                        file::lock(&self.folder, id)?
                    }
                };
                Box::new(SessionFile::create(&self.folder, id, lock)?)
            }
        };
        let appended = held.append(records);
        let log = held.log_path();
        inner.open.insert(id.clone(), Held::Open(held));
        let turn_ended = records
            .iter()
            .any(|record| matches!(record.body, RecordBody::TurnEnded { .. }));
        if appended.is_ok() && turn_ended {
            if inner.syncer.is_none() {
                inner.syncer = Syncer::start().ok();
            }
            if let Some(syncer) = &inner.syncer {
                syncer.sync(log);
            }
        }
        appended
    }
}

impl SessionStore for SqliteStore {
    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        // Tens of microseconds in the page cache: cheaper than another thread.
        Box::pin(async move { self.append_now(conversation, records) })
    }

    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Option<Loaded>, StoreError>> {
        Box::pin(async move { self.load_now(conversation) })
    }
}
