//! Building the programs that the other commands run.

use std::path::PathBuf;

use anyhow::ensure;

use crate::shell;

/// The profile of what is shipped and measured.
pub(crate) const RELEASE: &str = "release";

/// The profile of tests.
pub(crate) const DEV: &str = "dev";

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

/// Builds the programs of `harness-bin` and returns the path of one.
///
/// In the release profile they are built as they are shipped. In the dev profile they are those
/// that `cargo test` has built already: a test run then compiles nothing twice.
///
/// # Errors
///
/// When the build fails.
pub(crate) fn build(profile: &str, program: Program) -> anyhow::Result<PathBuf> {
    shell::timed(&format!("build with profile {profile}"), || {
        let mut command = shell::cargo(["build", "--profile", profile]);
        match profile {
            DEV => command.args(["--workspace", "--all-features", "--bin", program.name()]),
            _ => command.args(["--package", "harness-bin"]),
        };
        shell::run(&mut command)
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
