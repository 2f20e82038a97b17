//! Opening files so that what was checked is what is opened.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;

use super::{FileAccess, PathError, WorkspacePath, below, resolved};

/// What every file is opened with. Without `NONBLOCK`, opening a pipe nobody writes to would wait
/// for ever.
const FLAGS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);
const DIRECTORY: OFlags = FLAGS.union(OFlags::DIRECTORY);

/// A path with the way it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    real: PathBuf,
    root: Option<Arc<Root>>,
}

/// A directory that is held open, so that paths below it cannot lead anywhere else.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    fd: OwnedFd,
}

/// Whether missing directories on the way to a file are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "edit"),
    expect(dead_code, reason = "only writing needs it")
)]
pub(crate) enum Parents {
    Make,
    Expect,
}

impl FileAccess {
    /// Finds out where `path` leads and how it may be opened.
    pub(crate) fn locate(&self, path: &WorkspacePath) -> Result<Located, PathError> {
        let Self::Contained(containment) = self else {
            return Ok(Located {
                real: path.as_path().to_owned(),
                root: None,
            });
        };
        let (real, root) = below(path.as_path(), &containment.roots)?;
        let fd =
            open(&root, DIRECTORY, Mode::empty()).map_err(|error| PathError::Unresolvable {
                path: root.clone(),
                reason: super::why(&error.into()),
            })?;
        Ok(Located {
            real,
            root: Some(Arc::new(Root { path: root, fd })),
        })
    }

    /// As [`locate`](Self::locate), with all links followed in any case: a file that is replaced
    /// as a whole has to be replaced where it is.
    #[cfg_attr(
        not(feature = "edit"),
        expect(dead_code, reason = "only writing needs it")
    )]
    pub(crate) fn locate_target(&self, path: &WorkspacePath) -> Result<Located, PathError> {
        let located = self.locate(path)?;
        match located.root {
            Some(_) => Ok(located),
            None => Ok(Located {
                real: resolved(&located.real)?,
                root: None,
            }),
        }
    }
}

impl Located {
    /// Where it leads.
    pub(crate) fn real(&self) -> &Path {
        &self.real
    }

    /// Opens the file for reading. A device or a pipe is not opened but refused, because opening
    /// alone may do something.
    pub(crate) fn open_file(&self) -> io::Result<File> {
        self.open_file_at(&self.real)
    }

    /// As [`open_file`](Self::open_file), for a file below.
    pub(crate) fn open_file_at(&self, real: &Path) -> io::Result<File> {
        let fd = self.open(real, OFlags::RDONLY | FLAGS)?;
        Ok(File::from(fd))
    }

    /// Opens the directory.
    pub(crate) fn open_directory(&self) -> io::Result<OwnedFd> {
        self.open(&self.real, OFlags::RDONLY | DIRECTORY)
    }

    /// Opens the directory the file is in, and returns it with the file's name.
    #[cfg_attr(
        not(feature = "edit"),
        expect(dead_code, reason = "only writing needs it")
    )]
    pub(crate) fn open_parent(&self, parents: Parents) -> io::Result<(OwnedFd, OsString)> {
        let (Some(parent), Some(name)) = (self.real.parent(), self.real.file_name()) else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let directory = match (&self.root, parents) {
            (None, Parents::Make) => {
                fs::create_dir_all(parent)?;
                self.open(parent, OFlags::RDONLY | DIRECTORY)?
            }
            (Some(root), Parents::Make) => walk(root, relative(root, parent)?, |at, name| {
                match directory(at, name) {
                    Err(Errno::NOENT) => {
                        match mkdirat(at, name, Mode::from_raw_mode(0o777)) {
                            Ok(()) | Err(Errno::EXIST) => {}
                            Err(error) => return Err(error),
                        }
                        directory(at, name)
                    }
                    other => other,
                }
            })?,
            (_, Parents::Expect) => self.open(parent, OFlags::RDONLY | DIRECTORY)?,
        };
        Ok((directory, name.to_owned()))
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let Some(root) = &self.root else {
            return Ok(openat(CWD, path, flags, Mode::empty())?);
        };
        beneath(root, relative(root, path)?, flags)
    }
}

/// The part of `path` below `root`; `.` for the root itself.
fn relative<'a>(root: &Root, path: &'a Path) -> io::Result<&'a Path> {
    let inner = path.strip_prefix(&root.path).map_err(|_| swapped())?;
    Ok(if inner.as_os_str().is_empty() {
        Path::new(".")
    } else {
        inner
    })
}

/// Opens `path` below `root` without following any link: they have been followed before, so one
/// that is there now has been put there since.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn beneath(root: &Root, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(&root.fd, path, flags, Mode::empty(), resolve) {
        // Older kernels do not have it, and sandboxes may refuse it.
        Err(Errno::NOSYS | Errno::PERM) => beneath_by_steps(root, path, flags),
        Err(Errno::LOOP | Errno::XDEV) => Err(swapped()),
        other => Ok(other?),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn beneath(root: &Root, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    beneath_by_steps(root, path, flags)
}

fn beneath_by_steps(root: &Root, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(openat(&root.fd, path, flags, Mode::empty())?);
    };
    let parent = walk(root, parent, directory)?;
    match openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::LOOP) => Err(swapped()),
        other => Ok(other?),
    }
}

/// Goes down from `root` directory by directory.
fn walk(
    root: &Root,
    path: &Path,
    step: impl Fn(&OwnedFd, &OsStr) -> Result<OwnedFd, Errno>,
) -> io::Result<OwnedFd> {
    let mut at = root.fd.try_clone()?;
    for component in path.components() {
        if let Component::Normal(name) = component {
            at = step(&at, name).map_err(|error| match error {
                Errno::LOOP => swapped(),
                other => other.into(),
            })?;
        }
    }
    Ok(at)
}

fn directory(at: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(
        at,
        name,
        OFlags::RDONLY | DIRECTORY | OFlags::NOFOLLOW,
        Mode::empty(),
    )
}

fn swapped() -> io::Error {
    io::Error::other("the path was changed into a link while it was opened")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    type Opening = fn(&Root, &Path, OFlags) -> io::Result<OwnedFd>;

    /// Both ways to open a file must agree, also where the kernel has only one.
    #[test]
    fn f060_a_link_that_appears_after_the_check_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("a path").join("root");
        fs::create_dir_all(path.join("a/b")).expect("folders");
        fs::write(path.join("a/b/file"), "inside").expect("a file");
        fs::write(folder.path().join("secret"), "outside").expect("a file");
        symlink("../../secret", path.join("a/link")).expect("a link");
        symlink("a", path.join("folder-link")).expect("a link");

        let fd = open(&path, DIRECTORY, Mode::empty()).expect("a root");
        let root = Root { path, fd };
        let ways: [Opening; 2] = [beneath, beneath_by_steps];
        for way in ways {
            let read = |path: &str| {
                let fd = way(&root, Path::new(path), OFlags::RDONLY | FLAGS)?;
                let mut text = String::new();
                File::from(fd).read_to_string(&mut text).map(|_| text)
            };
            assert_eq!(read("a/b/file").expect("a file"), "inside");
            for link in ["a/link", "folder-link/b/file"] {
                let error = read(link).expect_err("a link");
                assert!(
                    error.to_string().contains("changed into a link")
                        || error.kind() == io::ErrorKind::NotADirectory,
                    "{link}: {error}"
                );
            }
            assert_eq!(
                read("a/none").expect_err("nothing").kind(),
                io::ErrorKind::NotFound
            );
            way(&root, Path::new("."), OFlags::RDONLY | DIRECTORY).expect("the root itself");
        }
    }
}
