//! Python environments that hold one version of the SDK each.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, anyhow};

use crate::shell;

/// The conformance suite reads TOML with the standard library, which can since this version.
const OLDEST: (u32, u32) = (3, 11);

/// A folder of wheels that is filled and then used without a network, if this variable names
/// one. Without it pip keeps its own cache.
const WHEEL_CACHE: &str = "HARNESS_WHEEL_CACHE";

/// An environment that has the SDK.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) sdk: String,
    /// Its interpreter.
    pub(crate) python: PathBuf,
}

/// Why there is no environment.
#[derive(Debug)]
pub(crate) enum Unavailable {
    /// No interpreter that could be used.
    NoPython(String),
    /// There is one, but it could not be given the SDK (often: no network).
    Setup(anyhow::Error),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPython(why) => f.write_str(why),
            Self::Setup(error) => write!(f, "{error:#}"),
        }
    }
}

impl From<Unavailable> for anyhow::Error {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::NoPython(why) => anyhow!(why),
            Unavailable::Setup(error) => error,
        }
    }
}

impl Environment {
    /// The harness that this version of the SDK brings along.
    ///
    /// # Errors
    ///
    /// When the interpreter cannot say where its packages are.
    pub(crate) fn bundled_harness(&self) -> anyhow::Result<PathBuf> {
        let code = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let packages = shell::output(shell::program(&self.python).args(["-c", code]))?;
        Ok(Path::new(&packages).join("google/antigravity/bin/localharness"))
    }
}

/// Returns the environment `folder/venv-<sdk>`, made first if it is missing, unfinished or of
/// another interpreter. Two processes that ask for it wait for each other.
///
/// # Errors
///
/// [`Unavailable`] says which part is missing.
pub(crate) fn environment(folder: &Path, sdk: &str) -> Result<Environment, Unavailable> {
    let base = interpreter()?;
    let place = folder.join(format!("venv-{sdk}"));
    let python = place.join("bin/python");
    set_up(&base, &place, &python, sdk)
        .with_context(|| format!("google-antigravity {sdk} could not be installed"))
        .map_err(Unavailable::Setup)?;
    Ok(Environment {
        sdk: sdk.to_owned(),
        python,
    })
}

/// A usable interpreter on `PATH`.
struct Interpreter {
    program: &'static str,
    /// Its own words for what it is.
    version: String,
}

fn interpreter() -> Result<Interpreter, Unavailable> {
    let code = "import sys; print('%d.%d.%d' % sys.version_info[:3])";
    let mut too_old = None;
    for program in ["python3", "python"] {
        // Not one that starts but cannot run a line: some systems have a placeholder there.
        let Ok(version) = shell::output(shell::program(program).args(["-c", code])) else {
            continue;
        };
        if is_new_enough(&version) {
            return Ok(Interpreter { program, version });
        }
        too_old.get_or_insert(format!("; `{program}` is {version}"));
    }
    let (major, minor) = OLDEST;
    let too_old = too_old.unwrap_or_default();
    Err(Unavailable::NoPython(format!(
        "no Python {major}.{minor} or later on PATH{too_old}"
    )))
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST
}

fn set_up(base: &Interpreter, place: &Path, python: &Path, sdk: &str) -> anyhow::Result<()> {
    fs::create_dir_all(place.parent().unwrap_or(place))?;
    let lock = File::create(place.with_file_name(format!("venv-{sdk}.lock")))?;
    lock.lock().context("cannot lock the environment")?;

    // Written last, so an environment without it was not finished.
    let marker = place.join("complete");
    let content = format!("python {}\ngoogle-antigravity {sdk}\n", base.version);
    if fs::read_to_string(&marker).is_ok_and(|found| found == content) {
        return Ok(());
    }
    if place.exists() {
        fs::remove_dir_all(place)
            .with_context(|| format!("cannot remove the unfinished {}", place.display()))?;
    }
    create(base, place)?;
    install(python, sdk)?;
    fs::write(marker, content)?;
    Ok(())
}

fn create(base: &Interpreter, place: &Path) -> anyhow::Result<()> {
    let has_pip =
        shell::output(shell::program(base.program).args(["-c", "import ensurepip, venv"]));
    if has_pip.is_err() {
        return Err(anyhow!(
            "`{}` has no module `venv` or `ensurepip`; Debian and Ubuntu have them in the package \
             python3-venv (`apt-get install python3-venv`)",
            base.program
        ));
    }
    shell::run(shell::program(base.program).args(["-m", "venv"]).arg(place))
}

fn install(python: &Path, sdk: &str) -> anyhow::Result<()> {
    let package = format!("google-antigravity=={sdk}");
    let Some(cache) = std::env::var_os(WHEEL_CACHE).filter(|folder| !folder.is_empty()) else {
        return shell::run(pip(python, "install").arg(package));
    };
    let from_cache = || {
        let mut command = pip(python, "install");
        command
            .arg("--no-index")
            .arg("--find-links")
            .arg(&cache)
            .arg(&package);
        command
    };
    // Asked quietly: a cache that lacks a wheel is no error.
    if shell::output(&mut from_cache()).is_ok() {
        return Ok(());
    }
    shell::run(
        pip(python, "download")
            .arg("--dest")
            .arg(&cache)
            .arg("--find-links")
            .arg(&cache)
            .arg(&package),
    )?;
    shell::run(&mut from_cache())
}

fn pip(python: &Path, verb: &str) -> Command {
    let mut command = shell::program(python);
    command.args([
        "-m",
        "pip",
        verb,
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_new_enough("3.11.0"));
        assert!(is_new_enough("3.14.1"));
        assert!(is_new_enough("4.0.0"));
        assert!(!is_new_enough("3.9.18"));
        assert!(!is_new_enough("2.7.18"));
        assert!(!is_new_enough(""));
    }
}
