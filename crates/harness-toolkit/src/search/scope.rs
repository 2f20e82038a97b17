//! Which files a search visits.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use harness_types::ToolError;
use ignore::gitignore::Gitignore;
use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, Match, WalkBuilder, WalkState};

use crate::WorkspacePath;
use crate::paths::Located;
use crate::work::Cancelled;

/// Whether hidden entries are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    Visit,
    Skip,
}

/// Globs in the syntax of `.gitignore`, relative to the folder that is searched.
pub(super) enum Globs<'a> {
    /// Only what matches one of them; `!` in front turns one round.
    Only(&'a [String]),
    /// All but what matches one of them.
    Except(&'a [String]),
}

/// A folder with the rules of what is visited in it.
pub(super) struct Scope {
    root: PathBuf,
    shown: PathBuf,
    walk: WalkBuilder,
}

impl Scope {
    /// The folder `located`, shown as `path`. Ignore rules apply (`.gitignore` whether or not there
    /// is a repository, `.ignore`, the user's own), except that a folder which is itself ignored
    /// is searched when it is named. `.git` is never visited.
    pub(super) fn new(
        located: &Located,
        path: &WorkspacePath,
        hidden: Hidden,
        globs: Globs<'_>,
    ) -> Result<Self, ToolError> {
        let root = located.real().to_owned();
        let mut walk = WalkBuilder::new(&root);
        walk.hidden(hidden == Hidden::Skip)
            .require_git(false)
            .parents(!is_ignored(&root))
            .overrides(overrides(&root, globs)?)
            .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
            .threads(std::thread::available_parallelism().map_or(2, NonZero::get));
        Ok(Self {
            root,
            shown: path.as_path().to_owned(),
            walk,
        })
    }

    pub(super) fn max_depth(mut self, depth: Option<usize>) -> Self {
        self.walk.max_depth(depth);
        self
    }

    /// A visited path below the folder.
    pub(super) fn relative<'a>(&self, real: &'a Path) -> &'a Path {
        real.strip_prefix(&self.root).unwrap_or(real)
    }

    /// A visited path as the model named the folder.
    pub(super) fn shown(&self, real: &Path) -> PathBuf {
        self.shown.join(self.relative(real))
    }

    /// Visits everything below the folder on all cores and returns how many entries could not be
    /// visited. Each thread has its own visitor.
    pub(super) fn visit<V>(&self, cancelled: &Cancelled, visitor: impl Fn() -> V + Sync) -> u64
    where
        V: FnMut(&DirEntry) + Send,
    {
        let unreadable = Mutex::new(0);
        self.walk.build_parallel().run(|| {
            let mut visit = visitor();
            let unreadable = &unreadable;
            Box::new(move |entry| {
                if cancelled.get() {
                    return WalkState::Quit;
                }
                match entry {
                    Ok(entry) if entry.depth() > 0 => visit(&entry),
                    Ok(_) => {}
                    Err(_) => *lock(unreadable) += 1,
                }
                WalkState::Continue
            })
        });
        unreadable.into_inner().unwrap_or_else(|it| it.into_inner())
    }
}

/// A panic of one visitor is the walk's to pass on.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn overrides(root: &Path, globs: Globs<'_>) -> Result<Override, ToolError> {
    let mut builder = OverrideBuilder::new(root);
    let (globs, sign) = match globs {
        Globs::Only(globs) => (globs, ""),
        Globs::Except(globs) => (globs, "!"),
    };
    for glob in globs.iter().filter(|glob| !glob.is_empty()) {
        let mut meant = vec![glob.clone()];
        if let Some(path) = existing(root, glob) {
            meant = exactly(&path, root.join(&path).is_dir());
            if sign.is_empty() {
                // Ignore rules must not keep the walk from getting there.
                let above = path.ancestors().skip(1);
                let above = above.filter(|folder| !folder.as_os_str().is_empty());
                meant.extend(above.map(anchored));
            }
        }
        for glob in meant {
            builder.add(&format!("{sign}{glob}")).map_err(|error| {
                ToolError::invalid(format!("{glob:?} is not a usable glob: {error}"))
            })?;
        }
    }
    builder
        .build()
        .map_err(|error| ToolError::invalid(format!("unusable globs: {error}")))
}

/// The path below `root` that `glob` names as it is written, should there be one (F034).
fn existing(root: &Path, glob: &str) -> Option<PathBuf> {
    let path = root.join(glob);
    let inner = path.strip_prefix(root).ok()?;
    let text = inner.to_str()?;
    if text.is_empty() || !path.exists() {
        return None;
    }
    // A plain name also means files of that name further down.
    let is_plain = !text.contains(['/', '*', '?', '[', ']', '{', '}', '!', '\\']);
    (!is_plain || path.is_dir()).then(|| inner.components().collect())
}

/// The globs that match a path, and what is in it when it is a folder.
fn exactly(path: &Path, is_folder: bool) -> Vec<String> {
    let itself = anchored(path);
    let below = is_folder.then(|| format!("{itself}/**"));
    [itself].into_iter().chain(below).collect()
}

fn anchored(path: &Path) -> String {
    format!("/{}", globset::escape(&path.to_string_lossy()))
}

/// Whether rules of the folders above exclude this one, or anything in it whatever its name.
fn is_ignored(root: &Path) -> bool {
    let anything = root.join("no rule is about this name");
    for folder in root.ancestors().skip(1) {
        for name in [".ignore", ".gitignore"] {
            let file = folder.join(name);
            if !file.is_file() {
                continue;
            }
            let (rules, _) = Gitignore::new(&file);
            match rules.matched_path_or_any_parents(&anything, false) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
    }
    false
}
