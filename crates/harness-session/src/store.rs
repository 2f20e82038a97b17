//! A folder of conversations.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use harness_types::{
    BoxFuture, ConversationId, Loaded, Record, RecordBody, SessionStore, StoreError,
};

use crate::file::{Found, SessionFile};
use crate::flush::Flusher;
use crate::lock::{Lock, make_folder};
use crate::sync::Syncer;

/// Keeps conversations in a folder, one SQLite file each.
///
/// The folder is made when the first conversation is loaded or appended to. Such a conversation
/// stays locked until the store is dropped.
#[derive(Debug)]
pub struct SqliteStore {
    folder: PathBuf,
    // Before the conversations, so that the threads have ended when those are dropped.
    flusher: OnceLock<Option<Flusher>>,
    syncer: OnceLock<Option<Syncer>>,
    conversations: Mutex<HashMap<ConversationId, Arc<Mutex<Held>>>>,
}

/// What this store has of a conversation.
#[derive(Debug, Default)]
pub(crate) enum Held {
    /// Nothing.
    #[default]
    Free,
    /// Looked for and not found; the lock keeps it so.
    Reserved(Lock),
    /// Its file.
    Open(Box<SessionFile>),
}

impl Held {
    /// Writes text that has been held back until now.
    pub(crate) fn flush_if_due(&mut self, now: Instant) {
        if let Self::Open(file) = self
            && file.due().is_some_and(|due| due <= now)
            && let Err(error) = file.flush()
        {
            tracing::error!("streamed text was not saved yet: {error}");
        }
    }
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
            flusher: OnceLock::new(),
            syncer: OnceLock::new(),
            conversations: Mutex::default(),
        }
    }

    fn held(&self, id: &ConversationId) -> Arc<Mutex<Held>> {
        let mut conversations = lock(&self.conversations);
        Arc::clone(conversations.entry(id.clone()).or_default())
    }

    fn load_now(&self, id: &ConversationId) -> Result<Option<Loaded>, StoreError> {
        let held = self.held(id);
        let mut held = lock(&held);
        if !matches!(*held, Held::Free) {
            return Err(StoreError::Busy {
                message: format!("conversation {id} is open in this process already"),
            });
        }
        let lock = self.take(id)?;
        let path = database_path(&self.folder, id);
        match SessionFile::open(&path, id, lock) {
            Err((_lock, error)) => Err(error),
            Ok(Found::Nothing(lock)) => {
                self.refuse_foreign(id)?;
                *held = Held::Reserved(lock);
                Ok(None)
            }
            Ok(Found::Open(opened)) => {
                *held = Held::Open(opened.file);
                Ok(Some(match opened.notice {
                    None => Loaded::whole(opened.records),
                    Some(notice) => Loaded::damaged(opened.records, notice),
                }))
            }
        }
    }

    fn take(&self, id: &ConversationId) -> Result<Lock, StoreError> {
        make_folder(&self.folder)?;
        Lock::acquire(&self.folder, id)
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
        if records.is_empty() {
            return Ok(());
        }
        let shared = self.held(id);
        let mut held = lock(&shared);
        let was_due = match &mut *held {
            Held::Open(file) => {
                let was_due = file.due();
                file.append(records)?;
                was_due
            }
            _ => {
                self.create(id, &mut held, records)?;
                None
            }
        };
        let Held::Open(file) = &mut *held else {
            return Ok(());
        };
        match file.due() {
            Some(due) if was_due != Some(due) => {
                let flusher = self.flusher.get_or_init(|| started(Flusher::start()));
                if let Some(flusher) = flusher {
                    flusher.flush_at(due, Arc::clone(&shared));
                }
            }
            _ => {}
        }
        let is_turn_end = |record: &Record| matches!(record.body, RecordBody::TurnEnded { .. });
        if records.iter().any(is_turn_end) || file.is_log_long() {
            let syncer = self.syncer.get_or_init(|| started(Syncer::start()));
            if let Some(syncer) = syncer {
                syncer.sync(file.start_sync());
            }
        }
        Ok(())
    }

    fn create(
        &self,
        id: &ConversationId,
        held: &mut Held,
        records: &[Record],
    ) -> Result<(), StoreError> {
        let lock = match std::mem::take(held) {
            Held::Reserved(lock) => lock,
            _ => {
                let lock = self.take(id)?;
                self.refuse_foreign(id)?;
                lock
            }
        };
        match SessionFile::create(&database_path(&self.folder, id), lock, records) {
            Ok(file) => {
                *held = Held::Open(Box::new(file));
                Ok(())
            }
            Err((lock, error)) => {
                *held = Held::Reserved(lock);
                Err(error)
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread there is no room for makes records later on disk, not lost.
fn started<T>(thread: std::io::Result<T>) -> Option<T> {
    thread
        .inspect_err(|error| tracing::error!("sessions are synced late: {error}"))
        .ok()
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
