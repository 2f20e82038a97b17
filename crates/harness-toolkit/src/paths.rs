//! Paths: how a model names a file, and which files tools may reach.

#[cfg(feature = "files")]
mod open;

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use harness_types::ToolError;

#[cfg(feature = "files")]
pub(crate) use open::Located;
#[cfg(feature = "edit")]
pub(crate) use open::Parents;

/// How many links one path may lead through; Linux has the same bound.
const MAX_LINKS: usize = 40;

/// A path that a tool will not use. The messages are for the model.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// It is empty.
    #[error("the path is empty; give an absolute path")]
    Empty,
    /// It is relative.
    #[error("{path:?} is not an absolute path; give one that begins with `/`")]
    Relative {
        /// The path as it was given.
        path: String,
    },
    /// It begins with `~`.
    #[error("`~` is not expanded in {path:?}; give the absolute path of the home directory")]
    Home {
        /// The path as it was given.
        path: String,
    },
    /// It is a URI of another scheme or host, or badly encoded.
    #[error("{uri:?} is not a usable file URI; give an absolute path or `file:///…`")]
    Uri {
        /// The URI as it was given.
        uri: String,
    },
    /// It holds a NUL character.
    #[error("the path holds a NUL character")]
    Nul,
    /// It is outside the allowed directories.
    #[error(
        "access to {path:?} is refused: it is outside the allowed directories {}",
        list(roots)
    )]
    Outside {
        /// The path as it was given.
        path: PathBuf,
        /// The allowed directories.
        roots: Arc<[PathBuf]>,
    },
    /// Where it leads to cannot be found out.
    #[error("cannot follow {path:?}: {reason}")]
    Unresolvable {
        /// The path as far as it was followed.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        Self::failed(error.to_string())
    }
}

fn list(roots: &[PathBuf]) -> String {
    format!("{roots:?}")
}

/// An absolute path as every tool takes it: without `.`, `..` and doubled slashes.
///
/// `..` is taken out by the letter, without looking at the file system: the path that is shown,
/// the one that is checked and the one that is opened are the same.
///
/// ```
/// # use harness_toolkit::WorkspacePath;
/// let path = WorkspacePath::parse("file:///project/a%20b/../c.txt")?;
/// assert_eq!(path.to_string(), "/project/c.txt");
/// assert!(WorkspacePath::parse("src/main.rs").is_err());
/// # Ok::<(), harness_toolkit::PathError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(PathBuf);

impl WorkspacePath {
    /// Reads a path as a model gives it: absolute, or a `file://` URI of this machine with
    /// percent-encoding.
    ///
    /// # Errors
    ///
    /// [`PathError`] for anything else.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        let path = match text.strip_prefix("file:") {
            Some(rest) => decode_uri(rest).ok_or_else(|| PathError::Uri {
                uri: text.to_owned(),
            })?,
            None => PathBuf::from(text),
        };
        if path.as_os_str().as_bytes().contains(&0) {
            return Err(PathError::Nul);
        }
        if text.starts_with('~') {
            return Err(PathError::Home {
                path: text.to_owned(),
            });
        }
        if text.contains("://") && !text.starts_with("file:") && !text.starts_with('/') {
            return Err(PathError::Uri {
                uri: text.to_owned(),
            });
        }
        Self::from_path(&path)
    }

    /// Takes a path that is absolute already.
    ///
    /// # Errors
    ///
    /// [`PathError::Relative`].
    pub fn from_path(path: &Path) -> Result<Self, PathError> {
        if path.is_absolute() {
            return Ok(Self(normalised(path)));
        }
        Err(PathError::Relative {
            path: path.display().to_string(),
        })
    }

    /// The path.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The path.
    pub fn into_path_buf(self) -> PathBuf {
        self.0
    }
}

impl AsRef<Path> for WorkspacePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

/// Bytes that are not UTF-8 are shown as U+FFFD.
impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Reads what follows `file:`.
fn decode_uri(rest: &str) -> Option<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let code = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(code).ok()?);
    }
    Some(OsString::from_vec(bytes).into())
}

/// Takes `.` and `..` out of an absolute path by the letter.
fn normalised(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// Follows all links of an absolute path, also one at its end and those whose target does not
/// exist. What does not exist is kept as it is.
pub(crate) fn resolved(path: &Path) -> Result<PathBuf, PathError> {
    let names = |path: &Path| -> Vec<OsString> {
        let inner = path.components().filter(|it| *it != Component::RootDir);
        inner.rev().map(|it| it.as_os_str().to_owned()).collect()
    };
    let mut pending = names(path);
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = pending.pop() {
        match name.as_bytes() {
            b"." => continue,
            b".." => {
                real.pop();
                continue;
            }
            _ => real.push(&name),
        }
        match fs::read_link(&real) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(PathError::Unresolvable {
                        path: path.to_owned(),
                        reason: format!("it leads through more than {MAX_LINKS} links"),
                    });
                }
                real.pop();
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                pending.extend(names(&target));
            }
            Err(error) if is_no_link(&error) => {}
            // Whoever cannot look cannot know where it leads.
            Err(error) => {
                return Err(PathError::Unresolvable {
                    path: real,
                    reason: why(&error),
                });
            }
        }
    }
    Ok(real)
}

fn is_no_link(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, NotADirectory, NotFound};
    matches!(error.kind(), InvalidInput | NotADirectory | NotFound)
}

/// Why the system refused something, without the number of the error.
pub(crate) fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotADirectory => "a part of the path is not a directory".to_owned(),
        _ => {
            let text = error.to_string();
            match text.find(" (os error") {
                Some(end) => text[..end].to_lowercase(),
                None => text,
            }
        }
    }
}

/// Follows all links of `path`, also one at its end and those whose target does not exist, and
/// returns where it leads, provided that this is one of `roots` or below (F021).
///
/// The answer is true for the moment it is given. To open the file without a gap in which it
/// could be swapped, tools are built with [`FileAccess::Contained`].
///
/// # Errors
///
/// [`PathError::Relative`], [`PathError::Outside`], or [`PathError::Unresolvable`] when a
/// directory on the way cannot be looked into.
pub fn contained(path: &Path, roots: &[PathBuf]) -> Result<PathBuf, PathError> {
    below(path, roots).map(|(real, _)| real)
}

/// As [`contained`], with the root it is in.
fn below(path: &Path, roots: &[PathBuf]) -> Result<(PathBuf, PathBuf), PathError> {
    let clean = WorkspacePath::from_path(path)?;
    let real = resolved(clean.as_path())?;
    let root = roots
        .iter()
        .filter_map(|root| WorkspacePath::from_path(root).ok())
        .filter_map(|root| resolved(root.as_path()).ok())
        .find(|root| real.starts_with(root));
    match root {
        Some(root) => Ok((real, root)),
        None => Err(PathError::Outside {
            path: path.to_owned(),
            roots: roots.into(),
        }),
    }
}

/// The directories that file tools stay in.
///
/// Links are followed before the decision; `/proc`, devices and the rest of the system are outside
/// unless named (F020).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containment {
    roots: Arc<[PathBuf]>,
}

impl Containment {
    /// Containment in `roots` and everything below them. A root need not exist yet; one that is
    /// not absolute contains nothing.
    pub fn new<P: Into<PathBuf>>(roots: impl IntoIterator<Item = P>) -> Self {
        Self {
            roots: roots.into_iter().map(Into::into).collect(),
        }
    }

    /// The directories, as they were given.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Checks that `path` leads into one of the roots.
    ///
    /// # Errors
    ///
    /// A text for the model that names the path and the roots.
    pub fn check(&self, path: &Path) -> Result<(), String> {
        below(path, &self.roots)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// Which files the tools may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileAccess {
    /// Whatever the process can reach.
    #[default]
    Unconfined,
    /// What is in some directories. Files are opened in a way that a link which appears between
    /// the check and the opening is not followed (F060). A search may still see the names in a
    /// folder that is swapped for a link while it is being searched, but never what they hold.
    Contained(Containment),
}

impl FileAccess {
    /// Access to `roots` and what is below them.
    pub fn contained<P: Into<PathBuf>>(roots: impl IntoIterator<Item = P>) -> Self {
        Self::Contained(Containment::new(roots))
    }

    /// Checks that `path` may be reached.
    ///
    /// # Errors
    ///
    /// As [`contained`].
    pub fn check(&self, path: &WorkspacePath) -> Result<(), PathError> {
        match self {
            Self::Unconfined => Ok(()),
            Self::Contained(containment) => below(path.as_path(), &containment.roots).map(drop),
        }
    }
}
