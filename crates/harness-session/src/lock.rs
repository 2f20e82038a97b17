//! Who has a conversation: a lock that dies with its process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness_types::{ConversationId, StoreError};

use crate::error::io_error;

/// How often, and how far apart, a lock file that names nobody yet is looked at again.
const LOOKS: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// A conversation taken for this process, until it is dropped.
///
/// The lock itself is the kernel's. The file holds the process id of the holder, for the message
/// that others get, and the number of the last record the holder has accepted: should the holder
/// die and the database's log then get lost, the next one knows that something is missing. The
/// file is gone when the holder has let go in good order.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
    accepted: i64,
    /// What a holder that died had accepted has been looked after.
    is_settled: bool,
    bytes: usize,
}

impl Lock {
    /// Takes a conversation for this process.
    pub(crate) fn acquire(folder: &Path, id: &ConversationId) -> Result<Self, StoreError> {
        let path = folder.join(format!("{id}.session.lock"));
        loop {
            let file = private(
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false),
            )
            .open(&path)
            .map_err(|error| io_error("cannot open", &path, error))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(busy(id, file)),
                Err(TryLockError::Error(error)) => {
                    return Err(io_error("cannot lock", &path, error));
                }
            }
            // The holder before may have removed the file between the opening and the locking;
            // then somebody else can lock another file of this name.
            if is_linked(&file).map_err(|error| io_error("cannot read", &path, error))? {
                return Ok(Self::taken(file, path));
            }
        }
    }

    fn taken(mut file: File, path: PathBuf) -> Self {
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        let accepted = text
            .split_ascii_whitespace()
            .nth(1)
            .and_then(|number| number.parse().ok())
            .unwrap_or(0);
        let mut lock = Self {
            file,
            path,
            accepted,
            is_settled: false,
            bytes: usize::MAX,
        };
        lock.note_accepted(accepted);
        lock.is_settled = accepted == 0;
        lock
    }

    /// The last record this holder, or one that died, has accepted; 0 for none, or not known.
    pub(crate) fn accepted(&self) -> i64 {
        self.accepted
    }

    /// Notes the last record that was accepted.
    pub(crate) fn note_accepted(&mut self, seq: i64) {
        self.accepted = seq;
        self.is_settled = true;
        let line = format!("{} {seq}\n", std::process::id());
        // A lock holds without its text: what cannot be noted is missed by nothing but a message.
        let _ = self
            .file
            .rewind()
            .and_then(|()| self.file.write_all(line.as_bytes()));
        if line.len() < self.bytes {
            let _ = self.file.set_len(line.len() as u64);
        }
        self.bytes = line.len();
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.is_settled {
            return;
        }
        // Unix lets go of a name while the file is open; elsewhere the file stays, which is
        // harmless.
        if cfg!(unix) {
            let _ = std::fs::remove_file(&self.path);
        } else {
            self.note_accepted(0);
        }
    }
}

fn busy(id: &ConversationId, mut file: File) -> StoreError {
    let mut holder = String::new();
    for _ in 0..LOOKS {
        holder.clear();
        let _ = file
            .rewind()
            .and_then(|()| file.read_to_string(&mut holder));
        if holder.ends_with('\n') {
            break;
        }
        // It has been taken this very moment.
        std::thread::sleep(LOOK_PAUSE);
    }
    let holder = match holder.split_ascii_whitespace().next() {
        None => "another process".to_owned(),
        Some(pid) => format!("process {pid}"),
    };
    StoreError::Busy {
        message: format!("conversation {id} is open in {holder}; close it there first"),
    }
}

#[cfg(unix)]
fn is_linked(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(file.metadata()?.nlink() > 0)
}

#[cfg(not(unix))]
fn is_linked(_file: &File) -> io::Result<bool> {
    Ok(true)
}

/// Creates an empty file that only its owner can read.
pub(crate) fn private_file(path: &Path) -> io::Result<()> {
    private(OpenOptions::new().write(true).create_new(true))
        .open(path)
        .map(drop)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Makes the folder, if need be readable by its owner alone.
pub(crate) fn make_folder(folder: &Path) -> Result<(), StoreError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder
        .create(folder)
        .map_err(|error| io_error("cannot create the folder", folder, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ConversationId {
        ConversationId::from_random([7; 16])
    }

    #[test]
    fn a_lock_in_good_order_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        drop(Lock::acquire(folder.path(), &id()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_next_holder_hears_what_a_dead_one_had_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let mut lock = Lock::acquire(folder.path(), &id()).unwrap();
        lock.note_accepted(1000);
        lock.note_accepted(99);
        // As if the process had died: the kernel lets go, the file stays.
        let text = std::fs::read_to_string(&lock.path).unwrap();
        assert_eq!(text, format!("{} 99\n", std::process::id()));
        let path = lock.path.clone();
        drop(lock);
        std::fs::write(&path, text).unwrap();

        assert_eq!(Lock::acquire(folder.path(), &id()).unwrap().accepted(), 99);
        std::fs::write(&path, "garbage \u{fffd}").unwrap();
        assert_eq!(Lock::acquire(folder.path(), &id()).unwrap().accepted(), 0);
    }

    /// Whatever the order of letting go, looking and taking: never two holders.
    #[test]
    fn a_lock_is_never_held_twice() {
        use std::sync::atomic::{AtomicU32, Ordering};

        let folder = tempfile::tempdir().unwrap();
        let (holders, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let Ok(lock) = Lock::acquire(folder.path(), &id()) else {
                            continue;
                        };
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(lock);
                    }
                });
            }
        });
        assert!(taken.load(Ordering::SeqCst) > 0);
    }
}
