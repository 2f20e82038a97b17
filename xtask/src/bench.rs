//! `bench`: end-to-end benchmarks of the built programs.

use std::ffi::OsString;

use crate::args::Args;
use crate::programs::{self, Program};
use crate::shell;

/// Builds the programs as they are shipped and runs the package `harness-benches` with
/// `--harness PATH` and the arguments given.
///
/// A smoke run only shows that every benchmark still runs. Nothing is measured, so driver and
/// programs are then built without optimisation.
///
/// # Errors
///
/// When an argument is unknown, a build fails, or a benchmark does.
pub(crate) fn bench(mut args: Args) -> anyhow::Result<()> {
    let mut passed_on: Vec<OsString> = Vec::new();
    for name in ["--peer", "--json"] {
        if let Some(path) = args.take_path(name)? {
            passed_on.extend([name.into(), path.into()]);
        }
    }
    let given = args.take_path("--harness")?;
    let smoke = args.take_flag("--smoke");
    passed_on.extend(args.finish_with_rest()?.into_iter().map(OsString::from));

    let harness = match given {
        Some(path) => path,
        None if smoke => programs::build(programs::DEV, Program::Localharness)?,
        None => programs::build(programs::RELEASE, Program::Localharness)?,
    };
    let mut command = shell::cargo(["run"]);
    if !smoke {
        command.arg("--release");
    }
    command.args(["--package", "harness-benches"]);
    if smoke {
        // With the features of the tests, so that what they have compiled is used.
        command.arg("--all-features");
    }
    command.args(["--", "--harness"]).arg(harness);
    if smoke {
        command.arg("--smoke");
    }
    shell::run(command.args(passed_on))
}
