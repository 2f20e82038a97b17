//! Finding a harness program.
//!
//! The order is that of the Python SDK: a path the caller names, `ANTIGRAVITY_HARNESS_PATH`, an
//! installed `google-antigravity` package (its metadata, then its files), `localharness` on
//! `PATH`. Python is not run: its environments are read as folders.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::{env, fs, io};

mod python;

/// The variable that names the harness program.
pub const HARNESS_PATH_VARIABLE: &str = "ANTIGRAVITY_HARNESS_PATH";

/// The name of the program on `PATH`.
const PROGRAM: &str = "localharness";

/// The environment variables a search looks at.
///
/// `Debug` shows the names only.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SearchEnvironment {
    variables: BTreeMap<OsString, OsString>,
}

impl SearchEnvironment {
    /// Returns the environment of this program.
    pub fn current() -> Self {
        env::vars_os().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        let value = self.variables.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value)
    }

    /// The folders of a list such as `PATH`; relative ones are left out, since what they mean
    /// depends on where the program happens to be.
    pub(crate) fn folders(&self, name: &str) -> Vec<PathBuf> {
        let list = self.get(name).unwrap_or_default();
        env::split_paths(list)
            .filter(|path| path.is_absolute())
            .collect()
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for SearchEnvironment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let pairs = variables.into_iter();
        Self {
            variables: pairs
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        }
    }
}

impl fmt::Debug for SearchEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// Where a harness program was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The caller named it.
    Explicit,
    /// [`HARNESS_PATH_VARIABLE`] named it.
    Variable,
    /// The metadata of an installed Python package lists it.
    PackageMetadata,
    /// It lies where the Python package keeps it, without metadata.
    PackageFiles,
    /// It is on `PATH`.
    Path,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Explicit => "the path given",
            Self::Variable => HARNESS_PATH_VARIABLE,
            Self::PackageMetadata => "the metadata of the Python package google-antigravity",
            Self::PackageFiles => "the files of the Python package google-antigravity",
            Self::Path => "PATH",
        })
    }
}

/// A harness program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The program; an absolute path, unless the caller named a relative one.
    pub program: PathBuf,
    /// Where it was found.
    pub origin: Origin,
}

/// Why a program cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unusable {
    /// There is no such file.
    Missing,
    /// It is not a file.
    NotAFile,
    /// It may not be executed.
    NotExecutable,
    /// It cannot be looked at.
    Unreadable(io::ErrorKind),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::NotAFile => f.write_str("is not a file"),
            Self::NotExecutable => f.write_str("is not executable"),
            Self::Unreadable(kind) => write!(f, "cannot be read: {kind}"),
        }
    }
}

/// A place that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// Which step of the search it was.
    pub origin: Origin,
    /// The file.
    pub path: PathBuf,
    /// What was wrong with it.
    pub problem: Unusable,
}

/// No harness program was found.
///
/// A path that was named, by the caller or by the variable, is the only one tried: running some
/// other program instead would surprise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotFound {
    /// What was tried, in order. Folders of Python environments without the package are left out.
    pub tried: Vec<Tried>,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tried.as_slice() {
            [only] if matches!(only.origin, Origin::Explicit | Origin::Variable) => {
                let Tried {
                    origin,
                    path,
                    problem,
                } = only;
                return write!(
                    f,
                    "no harness program: {} ({origin}) {problem}; name an executable file",
                    path.display()
                );
            }
            _ => f.write_str("no harness program found")?,
        }
        for Tried {
            origin,
            path,
            problem,
        } in &self.tried
        {
            write!(f, "; {} ({origin}) {problem}", path.display())?;
        }
        write!(
            f,
            "; set {HARNESS_PATH_VARIABLE} to the program, put {PROGRAM} on PATH, or install the \
             Python package google-antigravity"
        )
    }
}

impl std::error::Error for NotFound {}

/// Finds the harness program.
///
/// `explicit` and the variable [`HARNESS_PATH_VARIABLE`] are final: when the program they name
/// cannot be used, the search ends there. Otherwise these places are looked at, in order:
///
/// 1. the Python environments of `VIRTUAL_ENV`, `PYTHONPATH`, of every `python3` or `python` on
///    `PATH`, and the user's own packages below `HOME`: the file that the metadata of
///    `google-antigravity` lists, then the file where that package keeps it;
/// 2. `localharness` on `PATH`.
///
/// Blocks for the time of some file system look-ups.
///
/// # Errors
///
/// [`NotFound`], with everything that was tried and what to do about it.
pub fn find_harness(
    explicit: Option<&Path>,
    environment: &SearchEnvironment,
) -> Result<Found, NotFound> {
    let mut search = Search::default();
    if let Some(program) = explicit {
        return search.only(Origin::Explicit, program);
    }
    if let Some(program) = environment.get(HARNESS_PATH_VARIABLE) {
        return search.only(Origin::Variable, Path::new(program));
    }
    for folder in python::package_folders(environment) {
        for program in python::listed_programs(&folder) {
            if let Some(found) = search.look(Origin::PackageMetadata, &program) {
                return Ok(found);
            }
        }
        let program = folder.join(python::PROGRAM_IN_PACKAGE);
        if program.exists()
            && let Some(found) = search.look(Origin::PackageFiles, &program)
        {
            return Ok(found);
        }
    }
    for folder in environment.folders("PATH") {
        let program = folder.join(PROGRAM);
        // Folders of PATH that do not have the program are not worth a line in the error.
        if program.symlink_metadata().is_ok()
            && let Some(found) = search.look(Origin::Path, &program)
        {
            return Ok(found);
        }
    }
    Err(search.failed())
}

#[derive(Debug, Default)]
struct Search {
    tried: Vec<Tried>,
    seen: BTreeSet<PathBuf>,
}

impl Search {
    fn only(mut self, origin: Origin, program: &Path) -> Result<Found, NotFound> {
        self.look(origin, program).ok_or_else(|| self.failed())
    }

    fn look(&mut self, origin: Origin, program: &Path) -> Option<Found> {
        if !self.seen.insert(program.to_owned()) {
            return None;
        }
        match check(program) {
            Ok(()) => Some(Found {
                program: program.to_owned(),
                origin,
            }),
            Err(problem) => {
                self.tried.push(Tried {
                    origin,
                    path: program.to_owned(),
                    problem,
                });
                None
            }
        }
    }

    fn failed(&mut self) -> NotFound {
        NotFound {
            tried: std::mem::take(&mut self.tried),
        }
    }
}

fn check(program: &Path) -> Result<(), Unusable> {
    let metadata = fs::metadata(program).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Unusable::Missing,
        kind => Unusable::Unreadable(kind),
    })?;
    if !metadata.is_file() {
        return Err(Unusable::NotAFile);
    }
    if !is_executable(&metadata) {
        return Err(Unusable::NotExecutable);
    }
    Ok(())
}

/// Some execute bit is set. Whether it is one that counts for this user is for the system to say
/// when the program is started.
#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    true
}

/// Takes `.` and `..` out of a path without looking at links.
fn normalized(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}
