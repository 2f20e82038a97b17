use std::collections::BTreeMap;
use std::fs;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};

use crate::Error;

/// What a folder holds, to compare with what it holds later.
///
/// ```
/// use harness_testkit::TreeSnapshot;
///
/// let home = harness_testkit::EmptyHome::new()?;
/// let before = TreeSnapshot::of(home.root())?;
/// std::fs::write(home.path().join("a.txt"), "hello").unwrap();
/// let after = TreeSnapshot::of(home.root())?;
/// assert_eq!(before.changes(&after), ["added home/a.txt"]);
/// # Ok::<(), harness_testkit::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSnapshot(BTreeMap<PathBuf, Entry>);

/// One entry of a [`TreeSnapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A folder.
    Folder {
        /// The permission bits; 0 where there are none.
        mode: u32,
    },
    /// A file.
    File {
        /// The permission bits; 0 where there are none.
        mode: u32,
        /// The size in bytes.
        bytes: u64,
        /// A digest of the content, for this build only and against no adversary.
        digest: u64,
    },
    /// A symbolic link.
    Link {
        /// Where it points.
        target: PathBuf,
    },
    /// Anything else, such as a socket.
    Other,
}

impl TreeSnapshot {
    /// Reads everything below `folder`, which itself is not part of the result. Links are not
    /// followed.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when something cannot be read. What disappears while it is being read is left
    /// out.
    pub fn of(folder: &Path) -> Result<Self, Error> {
        let mut entries = BTreeMap::new();
        let mut open = vec![PathBuf::new()];
        while let Some(below) = open.pop() {
            let path = folder.join(&below);
            let listing = match fs::read_dir(&path) {
                Ok(listing) => listing,
                Err(error) if is_gone(&error) && !below.as_os_str().is_empty() => continue,
                Err(error) => return Err(Error::io(format!("reading {path:?}"))(error)),
            };
            for item in listing {
                let item = item.map_err(Error::io(format!("reading {path:?}")))?;
                let name = below.join(item.file_name());
                let entry = match read_entry(&item.path()) {
                    Ok(entry) => entry,
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(Error::io(format!("reading {name:?}"))(error)),
                };
                if matches!(entry, Entry::Folder { .. }) {
                    open.push(name.clone());
                }
                entries.insert(name, entry);
            }
        }
        Ok(Self(entries))
    }

    /// The entries, by path below the folder.
    pub fn entries(&self) -> impl Iterator<Item = (&Path, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_path(), entry))
    }

    /// What is different in `later`: `added`, `removed` or `changed` and the path, by path.
    pub fn changes(&self, later: &Self) -> Vec<String> {
        let mut changes = BTreeMap::new();
        for (path, entry) in &self.0 {
            match later.0.get(path) {
                None => changes.insert(path, "removed"),
                Some(now) if now != entry => changes.insert(path, "changed"),
                Some(_) => None,
            };
        }
        for path in later.0.keys() {
            if !self.0.contains_key(path) {
                changes.insert(path, "added");
            }
        }
        changes
            .into_iter()
            .map(|(path, change)| format!("{change} {}", path.display()))
            .collect()
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

fn read_entry(path: &Path) -> std::io::Result<Entry> {
    let metadata = fs::symlink_metadata(path)?;
    let mode = mode_of(&metadata);
    if metadata.is_symlink() {
        return Ok(Entry::Link {
            target: fs::read_link(path)?,
        });
    }
    if metadata.is_dir() {
        return Ok(Entry::Folder { mode });
    }
    if !metadata.is_file() {
        return Ok(Entry::Other);
    }
    let content = fs::read(path)?;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&content);
    Ok(Entry::File {
        mode,
        bytes: content.len() as u64,
        digest: hasher.finish(),
    })
}

#[cfg(unix)]
fn mode_of(metadata: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o7777
}

#[cfg(not(unix))]
fn mode_of(_: &fs::Metadata) -> u32 {
    0
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn every_kind_of_change_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        for name in ["same", "text", "mode", "gone", "dir/deep"] {
            fs::write(at(name), name).unwrap();
        }
        symlink("same", at("link")).unwrap();
        let before = TreeSnapshot::of(root.path()).unwrap();
        assert_eq!(before.changes(&before), Vec::<String>::new());
        assert_eq!(before.entries().count(), 7);

        fs::write(at("text"), "TEXT").unwrap();
        fs::set_permissions(at("mode"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_file(at("gone")).unwrap();
        fs::remove_file(at("link")).unwrap();
        symlink("text", at("link")).unwrap();
        fs::write(at("dir/new"), "").unwrap();
        let after = TreeSnapshot::of(root.path()).unwrap();
        assert_eq!(
            before.changes(&after),
            [
                "added dir/new",
                "removed gone",
                "changed link",
                "changed mode",
                "changed text",
            ]
        );
    }
}
