//! Files to search, and the programs people search them with.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

/// A text that one file in a hundred has, on one line.
pub(crate) const NEEDLE: &str = "quixotic_marker";

/// The names of the files that have it.
pub(crate) const NEEDLE_FILES: &str = "needle_*.rs";

/// A name that a result has and the question has not.
pub(crate) const RESULT: &str = "needle_0";

const FILES_PER_FOLDER: usize = 50;

/// A tree of source files, removed with the value.
#[derive(Debug)]
pub(crate) struct Tree(TempDir);

impl Tree {
    /// Makes one with so many files of 1 to 4 KiB, the same each time.
    pub(crate) fn new(files: usize) -> anyhow::Result<Self> {
        let root = TempDir::with_prefix("harness-bench-tree-")?;
        // Any numbers will do, as long as they are the same for everybody.
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % below as u64).unwrap_or_default()
        };
        for n in 0..files {
            let folder = n / FILES_PER_FOLDER;
            let folder = root
                .path()
                .join(format!("part_{}/module_{folder}", folder % 20));
            if n.is_multiple_of(FILES_PER_FOLDER) {
                std::fs::create_dir_all(&folder)?;
            }
            let mut text = String::new();
            for line in 0..25 + next(75) {
                let _ = writeln!(
                    text,
                    "let value_{line} = compute({}, index);",
                    next(100_000)
                );
            }
            let name = if n.is_multiple_of(100) {
                let _ = writeln!(text, "// {NEEDLE}");
                format!("needle_{n:05}.rs")
            } else {
                format!("file_{n:05}.rs")
            };
            std::fs::write(folder.join(name), text)?;
        }
        Ok(Self(root))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A search program of the system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program(&'static str);

impl Program {
    /// `rg`, when it is installed.
    pub(crate) fn rg() -> Option<Self> {
        Self::find(&["rg"])
    }

    /// `fd`, which Debian calls `fdfind`, when it is installed.
    pub(crate) fn fd() -> Option<Self> {
        Self::find(&["fd", "fdfind"])
    }

    fn find(names: &[&'static str]) -> Option<Self> {
        names.iter().copied().map(Self).find(|program| {
            let mut command = Command::new(program.0);
            command.arg("--version").stdout(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        })
    }

    /// Runs it to its end, and returns how long that took. Its output goes into a pipe: `rg` stops
    /// at the first match when nobody reads.
    pub(crate) fn run<S: AsRef<OsStr>>(
        self,
        args: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let output = Command::new(self.0)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("running {}", self.0))?;
        let took = start.elapsed();
        let found = String::from_utf8_lossy(&output.stdout).contains(RESULT);
        ensure!(found, "{} has found nothing", self.0);
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_alike() {
        let files = |tree: &Tree| {
            let folder = tree.path().join("part_1/module_1");
            let entries = std::fs::read_dir(folder).unwrap();
            let mut files: Vec<_> = entries
                .map(|entry| {
                    let path = entry.unwrap().path();
                    let name = path.file_name().unwrap().to_owned();
                    (name, std::fs::read_to_string(path).unwrap())
                })
                .collect();
            files.sort();
            files
        };
        let (one, other) = (Tree::new(120).unwrap(), Tree::new(120).unwrap());
        assert_eq!(files(&one), files(&other));
        assert_eq!(files(&one).len(), FILES_PER_FOLDER);
        let third = one.path().join("part_2/module_2/needle_00100.rs");
        assert!(std::fs::read_to_string(third).unwrap().contains(NEEDLE));
    }
}
