use std::path::PathBuf;

use crate::Error;

/// Finds a program of the workspace by name, for tests outside the package that builds it.
///
/// It is looked for in the folder `HARNESS_BIN_DIR` names, or else where cargo has put the running
/// test: `target/<profile>`.
///
/// # Errors
///
/// [`Error::NoBinary`] when it is not there, which mostly means that it has not been built;
/// [`Error::Io`] when the running program cannot be located.
pub fn binary_path(name: &str) -> Result<PathBuf, Error> {
    let folder = match std::env::var_os("HARNESS_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let running = std::env::current_exe().map_err(Error::io("locating this program"))?;
            // Tests are in `deps`, examples in `examples`, one below the programs.
            running
                .ancestors()
                .skip(1)
                .find(|folder| !folder.ends_with("deps") && !folder.ends_with("examples"))
                .map(PathBuf::from)
                .unwrap_or_default()
        }
    };
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if path.is_file() {
        Ok(path)
    } else {
        Err(Error::NoBinary { path })
    }
}
