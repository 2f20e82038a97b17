//! `deny`: licences, banned crates and sources of all dependencies, as `deny.toml` says.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::shell;

const VERSION: &str = "0.20.2";

/// Runs cargo-deny, installed below the target folder first if the machine has none.
///
/// Advisories are left out: their database is fetched from a host that a build machine may not
/// reach. `cargo deny check advisories` does that where it can.
///
/// # Errors
///
/// When a check fails; and, in CI, when cargo-deny cannot be installed.
pub(crate) fn deny() -> anyhow::Result<()> {
    let program = match program() {
        Ok(program) => program,
        Err(error) if shell::is_ci() => return Err(error),
        Err(error) => {
            shell::say_skipped("cargo-deny", &format!("{error:#}"));
            return Ok(());
        }
    };
    // With `--offline` it reads the manifests of all dependencies from cargo's cache.
    shell::run(&mut shell::cargo(["fetch", "--locked"]))?;
    shell::run(shell::program(program).args([
        "--offline",
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ]))
}

fn program() -> anyhow::Result<PathBuf> {
    let root = shell::target_directory()?.join("tools");
    let ours = root.join("bin/cargo-deny");
    for candidate in [PathBuf::from("cargo-deny"), ours.clone()] {
        let version = shell::output(shell::program(&candidate).arg("--version"));
        if version.is_ok_and(|version| version.ends_with(VERSION)) {
            return Ok(candidate);
        }
    }
    // A debug build is made in half the time and needs a second for the checks.
    shell::run(
        shell::cargo([
            "install",
            "cargo-deny",
            "--locked",
            "--debug",
            "--version",
            VERSION,
        ])
        .arg("--root")
        .arg(&root),
    )
    .with_context(|| format!("cargo-deny {VERSION} is not installed, and could not be"))?;
    Ok(ours)
}
