//! A file that is written as a whole or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use harness_types::ToolError;
use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, accessat, fchmod, fchown, fstat,
    fsync, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::MAX_FILE_BYTES;
use crate::files::failed;
use crate::paths::{Located, Parents};
use crate::work::Cancelled;
use crate::{FileAccess, WorkspacePath};

const FLAGS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOCTTY);

/// A file by its directory, which is held open: whatever happens to the path meanwhile, reading
/// and writing reach the same place (F060).
#[derive(Debug)]
pub(super) struct Target {
    path: WorkspacePath,
    directory: OwnedFd,
    name: OsString,
}

/// What a file held when it was read.
#[derive(Debug)]
pub(super) struct Existing {
    pub(super) bytes: Vec<u8>,
    stat: Stat,
}

impl Target {
    /// Finds the file. Links are followed, also one at the end of the path.
    pub(super) fn open(
        access: &FileAccess,
        path: &WorkspacePath,
        parents: Parents,
    ) -> Result<Self, ToolError> {
        let located: Located = access.locate_target(path)?;
        let (directory, name) = located
            .open_parent(parents)
            .map_err(|error| failed("open", path, &error))?;
        Ok(Self {
            path: path.clone(),
            directory,
            name,
        })
    }

    fn stat(&self) -> io::Result<Option<Stat>> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether there is such a file. Refuses what is no file with content.
    pub(super) fn exists(&self) -> Result<bool, ToolError> {
        let stat = self
            .stat()
            .map_err(|error| failed("read", &self.path, &error))?;
        let Some(stat) = stat else {
            return Ok(false);
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(true),
            FileType::Directory => {
                Err(ToolError::failed(format!("`{}` is a directory", self.path)))
            }
            _ => Err(ToolError::failed(format!(
                "`{}` is not a file with content",
                self.path
            ))),
        }
    }

    /// Reads the file, `None` when there is none. Refuses one that could not be written.
    pub(super) fn read(&self, cancelled: &Cancelled) -> Result<Option<Existing>, ToolError> {
        if !self.exists()? {
            return Ok(None);
        }
        let broken = |error: io::Error| failed("read", &self.path, &error);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | FLAGS;
        let file = openat(&self.directory, &self.name, flags, Mode::empty())
            .map_err(|error| broken(error.into()))?;
        let stat = fstat(&file).map_err(|error| broken(error.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ToolError::failed(format!("`{}` is not a file", self.path)));
        }
        // A rename asks only the directory: what the file itself says has to be asked here. A
        // superuser may write what nobody may, but was not told to.
        let writable = Mode::from_raw_mode(stat.st_mode)
            .intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH)
            && accessat(
                &self.directory,
                &self.name,
                Access::WRITE_OK,
                AtFlags::empty(),
            )
            .is_ok();
        if !writable {
            return Err(ToolError::failed(format!("`{}` is read-only", self.path)));
        }
        let mut bytes = Vec::new();
        cancelled
            .guard(File::from(file))
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(broken)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(ToolError::failed(format!(
                "`{}` is too large to edit: the most is {MAX_FILE_BYTES} bytes",
                self.path
            )));
        }
        Ok(Some(Existing { bytes, stat }))
    }

    /// Puts `bytes` in the place of what was read, or makes the file when there was none.
    ///
    /// The bytes go to a new file beside it, which then takes its name: at any time, also after a
    /// crash, there is the old content or the new one. Permissions are kept, and the owner where
    /// the system allows it; other names of the same file (hard links) keep the old content.
    /// Refuses when the file changed since it was read, or appeared.
    pub(super) fn replace(
        &self,
        bytes: &[u8],
        old: Option<&Existing>,
        cancelled: &Cancelled,
    ) -> Result<(), ToolError> {
        self.try_replace(bytes, old, cancelled)
            .map_err(|error| failed("write", &self.path, &error))
    }

    fn try_replace(
        &self,
        bytes: &[u8],
        old: Option<&Existing>,
        cancelled: &Cancelled,
    ) -> io::Result<()> {
        let temporary = Temporary::create(&self.directory)?;
        let mut file = &temporary.file;
        file.write_all(bytes)?;
        if let Some(Existing { stat, .. }) = old {
            let new = fstat(file)?;
            if (new.st_uid, new.st_gid) != (stat.st_uid, stat.st_gid) {
                let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
                // Only a superuser may give files away.
                let _ = fchown(file, Some(owner), Some(group));
            }
            // After the owner, because changing that clears bits.
            fchmod(file, Mode::from_raw_mode(stat.st_mode))?;
        }
        file.sync_all()?;
        cancelled.check()?;
        match old {
            None => temporary.rename_to_new(&self.name)?,
            Some(old) => {
                let now = self.stat()?;
                if !now.is_some_and(|now| same(&now, &old.stat)) {
                    return Err(io::Error::other(
                        "it was changed by somebody else meanwhile",
                    ));
                }
                temporary.rename_over(&self.name)?;
            }
        }
        // Some file systems cannot; the rename is done all the same.
        let _ = fsync(&self.directory);
        Ok(())
    }
}

fn same(a: &Stat, b: &Stat) -> bool {
    let key = |it: &Stat| {
        (
            it.st_dev,
            it.st_ino,
            it.st_size,
            it.st_mtime,
            it.st_mtime_nsec,
        )
    };
    key(a) == key(b)
}

/// A file that is gone unless it was given its name.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: Option<OsString>,
    file: File,
}

impl<'a> Temporary<'a> {
    fn create(directory: &'a OwnedFd) -> io::Result<Self> {
        // Names are taken only by crashed runs and by chance.
        for attempt in 0..16u32 {
            let random = RandomState::new().hash_one((std::process::id(), attempt));
            let name = OsString::from(format!(".harness-{random:016x}.tmp"));
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | FLAGS;
            match openat(directory, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => {
                    return Ok(Self {
                        directory,
                        name: Some(name),
                        file: File::from(file),
                    });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn rename_over(mut self, name: &OsStr) -> io::Result<()> {
        if let Some(own) = &self.name {
            renameat(self.directory, own, self.directory, name)?;
        }
        self.name = None;
        Ok(())
    }

    /// Takes the name unless it is taken already.
    fn rename_to_new(mut self, name: &OsStr) -> io::Result<()> {
        if let Some(own) = &self.name {
            match rename_exclusively(self.directory, own, name) {
                Err(Errno::EXIST) => {
                    return Err(io::Error::other("it was made by somebody else meanwhile"));
                }
                other => other?,
            }
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(self.directory, name, AtFlags::empty());
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_exclusively(directory: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    use rustix::fs::{RenameFlags, renameat_with};

    match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // Not every file system has it.
        Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => link_and_unlink(directory, from, to),
        other => other,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_exclusively(directory: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    link_and_unlink(directory, from, to)
}

fn link_and_unlink(directory: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
    unlinkat(directory, from, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn target(path: &std::path::Path) -> Target {
        let path = WorkspacePath::from_path(path).expect("an absolute path");
        Target::open(&FileAccess::Unconfined, &path, Parents::Make).expect("a target")
    }

    fn names(folder: &std::path::Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries
            .map(|entry| entry.expect("an entry").file_name())
            .collect()
    }

    #[test]
    fn a_cancelled_write_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "old").expect("a file");
        let target = target(&path);
        let old = target.read(&Cancelled::default()).expect("readable");

        let cancelled = Cancelled::default();
        cancelled.cancel();
        let error = target
            .replace(b"new", old.as_ref(), &cancelled)
            .expect_err("cancelled");
        assert!(error.to_string().contains("cancelled"), "{error}");
        assert_eq!(fs::read(&path).expect("a file"), b"old");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn what_changed_since_it_was_read_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let go_on = Cancelled::default();
        let target = target(&path);

        fs::write(&path, "made meanwhile").expect("a file");
        let error = target.replace(b"new", None, &go_on).expect_err("taken");
        assert!(
            error.to_string().contains("made by somebody else"),
            "{error}"
        );

        let old = target.read(&go_on).expect("readable");
        fs::write(&path, "changed").expect("a file");
        let error = target
            .replace(b"new", old.as_ref(), &go_on)
            .expect_err("changed");
        assert!(
            error.to_string().contains("changed by somebody else"),
            "{error}"
        );
        assert_eq!(fs::read(&path).expect("a file"), b"changed");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn the_fallback_of_an_exclusive_rename_is_exclusive() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = OwnedFd::from(File::open(folder.path()).expect("a folder"));
        fs::write(folder.path().join("a"), "a").expect("a file");
        let (a, b) = (OsStr::new("a"), OsStr::new("b"));
        link_and_unlink(&directory, a, b).expect("a rename");
        assert_eq!(names(folder.path()), ["b"]);
        fs::write(folder.path().join("a"), "a").expect("a file");
        assert_eq!(link_and_unlink(&directory, a, b), Err(Errno::EXIST));
    }
}
