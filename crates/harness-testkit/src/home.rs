use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Error, TreeSnapshot};

/// A home directory with nothing in it, and the environment that sends a child there.
///
/// Everything is removed with the value.
///
/// ```
/// let home = harness_testkit::EmptyHome::new()?;
/// assert_eq!(home.env()[0], ("HOME".into(), home.path().into()));
/// # Ok::<(), harness_testkit::Error>(())
/// ```
#[derive(Debug)]
pub struct EmptyHome {
    root: TempDir,
    home: PathBuf,
    temp: PathBuf,
}

impl EmptyHome {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when no temporary folder can be made.
    pub fn new() -> Result<Self, Error> {
        let root = TempDir::new().map_err(Error::io("making a temporary folder"))?;
        let folder = |name: &str| -> Result<PathBuf, Error> {
            let path = root.path().join(name);
            std::fs::create_dir(&path).map_err(Error::io(format!("making {path:?}")))?;
            Ok(path)
        };
        let (home, temp) = (folder("home")?, folder("tmp")?);
        Ok(Self { root, home, temp })
    }

    /// The home directory.
    pub fn path(&self) -> &Path {
        &self.home
    }

    /// The folder for temporary files.
    pub fn temp(&self) -> &Path {
        &self.temp
    }

    /// The folder that holds both, with room for a workspace beside them.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The whole environment of a child: these pairs, and `PATH` as it is here.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let home = |below: &str| self.home.join(below).into_os_string();
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), self.home.clone().into_os_string()),
            ("TMPDIR".into(), self.temp.clone().into_os_string()),
            ("XDG_CONFIG_HOME".into(), home(".config")),
            ("XDG_DATA_HOME".into(), home(".local/share")),
            ("XDG_STATE_HOME".into(), home(".local/state")),
            ("XDG_CACHE_HOME".into(), home(".cache")),
            ("LANG".into(), "C.UTF-8".into()),
        ];
        if let Some(path) = std::env::var_os("PATH") {
            env.push(("PATH".into(), path));
        }
        env
    }

    /// What the child has left in the home directory and in the folder for temporary files.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when they cannot be read.
    pub fn left_behind(&self) -> Result<Vec<PathBuf>, Error> {
        let mut paths = Vec::new();
        for folder in [&self.home, &self.temp] {
            let found = TreeSnapshot::of(folder)?;
            paths.extend(found.entries().map(|(path, _)| folder.join(path)));
        }
        Ok(paths)
    }
}
