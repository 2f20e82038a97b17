//! What the tests share.

use std::path::{Path, PathBuf};

use harness_session::{SqliteStore, database_path};
use harness_types::{
    AnswerDelta, ConversationId, Loaded, ModelCallId, ModelPart, Record, RecordBody, SessionStore,
    StepIndex, StoreError, Timestamp, TrajectoryId,
};
use rusqlite::Connection;
use tempfile::TempDir;

pub(crate) fn id() -> ConversationId {
    ConversationId::from_random([0x5a; 16])
}

pub(crate) fn record(body: RecordBody) -> Record {
    let at = Timestamp::from_micros(1_764_000_000_000_000);
    Record { at, body }
}

pub(crate) fn opened() -> Record {
    let conversation = id();
    record(RecordBody::Opened { conversation })
}

/// A record that is written at once.
pub(crate) fn notice(text: impl Into<String>) -> Record {
    record(RecordBody::NoticeGiven {
        trajectory: TrajectoryId::root(&id()),
        text: text.into(),
    })
}

/// A record that may be held back.
pub(crate) fn delta(text: impl Into<String>) -> Record {
    record(RecordBody::AnswerDelta(AnswerDelta {
        trajectory: TrajectoryId::root(&id()),
        call: ModelCallId::new(0),
        step: Some(StepIndex::new(0)),
        part: ModelPart::Text {
            text: text.into(),
            signature: None,
        },
    }))
}

/// A conversation of `n` records, some longer than a page.
pub(crate) fn conversation(n: usize) -> Vec<Record> {
    let mut random = Random::new(7);
    let text = |n: usize| format!("{n} ").repeat(1 + random.below(40) * random.below(40));
    std::iter::once(opened())
        .chain((1..n).map(text).map(notice))
        .collect()
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) fn load(store: &SqliteStore) -> Result<Option<Loaded>, StoreError> {
    run(store.load(&id()))
}

pub(crate) fn append(store: &SqliteStore, records: &[Record]) {
    run(store.append(&id(), records)).unwrap();
}

/// What the next process finds.
pub(crate) fn reopened(folder: &Path) -> Loaded {
    load(&SqliteStore::new(folder)).unwrap().unwrap()
}

/// A folder without a disk behind it, where there is one: nobody waits for what is synced there.
pub(crate) fn quick_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// A folder with the conversation in it, and the path of its file.
pub(crate) fn kept(records: &[Record]) -> (TempDir, PathBuf) {
    let folder = quick_folder();
    append(&SqliteStore::new(folder.path()), records);
    let path = database_path(folder.path(), &id());
    (folder, path)
}

/// Changes a file of ours behind our back.
pub(crate) fn meddle(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// The names in a folder, without the conversation's id.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.replace(id().as_str(), "ID"))
        .collect();
    names.sort();
    names
}

/// Numbers that are the same in every run: xorshift64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 1).unwrap() % end
    }
}
