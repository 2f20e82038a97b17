//! Syncing in the background: whoever waits for the end of a turn does not wait for the disk.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use rusqlite::{Connection, OpenFlags};

use crate::salvage::sync_folder;

/// A thread that syncs files. Ends when it is dropped, after what was asked for is done.
#[derive(Debug)]
pub(crate) struct Syncer {
    wanted: Option<mpsc::Sender<PathBuf>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Syncer {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (wanted, asked) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("session-sync".to_owned())
            .spawn(move || run(&asked))?;
        Ok(Self {
            wanted: Some(wanted),
            thread: Some(thread),
        })
    }

    /// Has the database at `path`, which this process has open, synced soon.
    pub(crate) fn sync(&self, path: PathBuf) {
        if let Some(wanted) = &self.wanted {
            // The thread ends only when this is dropped.
            let _ = wanted.send(path);
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(asked: &mpsc::Receiver<PathBuf>) {
    let mut named = HashSet::new();
    while let Ok(path) = asked.recv() {
        let paths: HashSet<PathBuf> = std::iter::once(path).chain(asked.try_iter()).collect();
        for path in paths {
            if let Err(error) = checkpoint(&path) {
                tracing::error!("cannot sync {}: {error}", path.display());
            }
            if !named.contains(&path) {
                if let Err(error) = sync_folder(&path) {
                    tracing::error!("cannot sync the folder of {}: {error}", path.display());
                }
                named.insert(path);
            }
        }
    }
}

/// Syncs the log, moves it into the database and syncs that, beside the writer and without holding
/// it up. SQLite does it, not `fsync` on a file opened here: closing such a file would let go of
/// SQLite's own locks in this process.
fn checkpoint(path: &Path) -> Result<(), rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    // The answer counts pages; a reader in the way only leaves some of them for the next time.
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}
