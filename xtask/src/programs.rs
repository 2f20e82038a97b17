//! Building the programs that the other commands run.

use std::path::PathBuf;

use anyhow::ensure;

use crate::shell;

/// The profile of what is shipped and measured.
pub(crate) const RELEASE: &str = "release";

/// A program of `harness-bin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Localharness,
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::Localharness => "localharness",
        }
    }
}

/// Builds both programs of `harness-bin` with their default features, as they are shipped, and
/// returns the path of one. Always the same build, so that one CI run makes it once.
///
/// # Errors
///
/// When the build fails.
pub(crate) fn build(profile: &str, program: Program) -> anyhow::Result<PathBuf> {
    shell::timed(&format!("build with profile {profile}"), || {
        shell::run(&mut shell::cargo([
            "build",
            "--profile",
            profile,
            "--package",
            "harness-bin",
        ]))
    })?;
    let folder = match profile {
        "dev" | "test" => "debug",
        "bench" => RELEASE,
        named => named,
    };
    let path = shell::target_directory()?.join(folder).join(program.name());
    ensure!(path.is_file(), "cargo built no {}", path.display());
    Ok(path)
}
