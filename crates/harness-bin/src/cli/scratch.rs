//! A folder of our own among the temporary ones.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A new folder that only this user can enter. It is removed with the value, unless it is kept.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    kept: bool,
}

impl Scratch {
    /// Makes one below the system's folder for temporary files.
    ///
    /// # Errors
    ///
    /// When no folder can be made there.
    pub(crate) fn new(purpose: &str) -> io::Result<Self> {
        let parent = std::env::temp_dir().canonicalize()?;
        let process = std::process::id();
        let mut number = 0;
        loop {
            let path = parent.join(match number {
                0 => format!("harness-{purpose}-{process}"),
                _ => format!("harness-{purpose}-{process}-{number}"),
            });
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path, kept: false }),
                // Left there by an earlier process with the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                    number += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it there.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            // Whoever cleans up the folder for temporary files gets the rest.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
