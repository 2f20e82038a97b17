//! `buf`: the style of `proto/`, and that no change there breaks those who speak it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::args::Args;
use crate::shell;

const PACKAGE: &str = "@bufbuild/buf@1.75.0";

/// Runs `buf lint`, and `buf breaking` against an earlier commit.
///
/// The earlier commit is `--against REV` if given, else the newest tag `v*`, else the last commit
/// for changes not committed yet, else the one before it. Left out with a word where there is
/// none that has a `proto/`, or no npm to bring buf.
///
/// # Errors
///
/// When a check fails; and, in CI, when npm is there but cannot bring buf.
pub(crate) fn buf(mut args: Args) -> anyhow::Result<()> {
    let against = args.take_value("--against")?;
    args.finish()?;
    if !shell::is_installed("npx") {
        shell::say_skipped("buf", "no npx on PATH (it comes with npm)");
        return Ok(());
    }
    let available = shell::output(npx(shell::root()).arg("--version"));
    match available {
        Ok(_) => {}
        Err(error) if shell::is_ci() => return Err(error.context("npm cannot bring buf")),
        Err(error) => {
            shell::say_skipped("buf", &format!("npm cannot bring it: {error:#}"));
            return Ok(());
        }
    }
    let now = module(shell::root());
    shell::run(npx(&now).arg("lint"))?;
    match baseline(against)? {
        Ok(revision) => {
            let earlier = checked_out(&revision)?;
            shell::run(
                npx(&now)
                    .arg("breaking")
                    .arg("--against")
                    .arg(module(&earlier)),
            )
        }
        Err(why) => {
            shell::say_skipped("buf breaking", why);
            Ok(())
        }
    }
}

/// The folder that buf runs in: the one with its configuration.
fn module(workspace: &Path) -> PathBuf {
    let below = workspace.join("proto");
    if workspace.join("buf.yaml").is_file() {
        workspace.to_owned()
    } else {
        below
    }
}

fn npx(folder: &Path) -> std::process::Command {
    let mut command = shell::program("npx");
    command.args(["--yes", PACKAGE]).current_dir(folder);
    command
}

/// The commit to compare with, or why there is none.
fn baseline(against: Option<String>) -> anyhow::Result<Result<String, &'static str>> {
    if let Some(revision) = against {
        return Ok(Ok(revision));
    }
    let Ok(head) = git(&["rev-parse", "--verify", "--quiet", "HEAD"]) else {
        return Ok(Err("no commit yet"));
    };
    let newest_tag = git(&["describe", "--tags", "--abbrev=0", "--match", "v*"]).ok();
    let is_changed = !git(&["status", "--porcelain", "--", "proto"])?.is_empty();
    let before = if is_changed {
        Some(head)
    } else {
        git(&["rev-parse", "--verify", "--quiet", "HEAD~1"]).ok()
    };
    let has_proto = |revision: &String| {
        git(&["ls-tree", "-r", "--name-only", revision, "--", "proto"])
            .is_ok_and(|files| files.lines().any(|file| file.ends_with(".proto")))
    };
    let found = newest_tag.into_iter().chain(before).find(has_proto);
    Ok(found.ok_or("no earlier commit has a proto/"))
}

/// Unpacks `proto/` and buf's configuration as they were in `revision`. Not given to buf as
/// `.git#ref=…`: it fetches by reference, and a commit in the middle of a branch has none.
fn checked_out(revision: &str) -> anyhow::Result<PathBuf> {
    let folder = shell::target_directory()?.join("buf-baseline");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let archive = folder.join("proto.tar");
    let names = git(&["ls-tree", "--name-only", revision])?;
    let wanted = names
        .lines()
        .filter(|name| ["proto", "buf.yaml"].contains(name));
    shell::run(
        shell::program("git")
            .args(["archive", "--output"])
            .arg(&archive)
            .arg(revision)
            .args(wanted),
    )?;
    shell::run(
        shell::program("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(&folder),
    )
    .context("cannot unpack the earlier proto/")?;
    Ok(folder)
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    shell::output(shell::program("git").args(arguments))
}
