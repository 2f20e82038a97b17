//! Syncing in the background: whoever waits for the end of a turn does not wait for the disk.

use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

/// A thread that syncs files. Ends when it is dropped, after what was asked for is done.
#[derive(Debug)]
pub(crate) struct Syncer {
    wanted: Option<mpsc::Sender<PathBuf>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Syncer {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (wanted, asked) = mpsc::channel::<PathBuf>();
        let thread = thread::Builder::new()
            .name("session-sync".to_owned())
            .spawn(move || {
                while let Ok(path) = asked.recv() {
                    let paths: HashSet<PathBuf> =
                        std::iter::once(path).chain(asked.try_iter()).collect();
                    for path in paths {
                        if let Err(error) = File::open(&path).and_then(|file| file.sync_data())
                            && error.kind() != std::io::ErrorKind::NotFound
                        {
                            tracing::error!("cannot sync {}: {error}", path.display());
                        }
                    }
                }
            })?;
        Ok(Self {
            wanted: Some(wanted),
            thread: Some(thread),
        })
    }

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
