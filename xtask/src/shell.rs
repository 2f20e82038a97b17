//! Running the programs that the commands are made of.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// What a line starts with that says a part of the work was left out, and why. `cargo xtask ci`
/// collects these lines into its summary.
pub(crate) const SKIPPED: &str = "skipped: ";

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo puts what it builds; other build products of ours go below it too.
///
/// # Errors
///
/// When `cargo metadata` fails.
pub(crate) fn target_directory() -> anyhow::Result<PathBuf> {
    Ok(metadata()?.target_directory.into_std_path_buf())
}

/// The workspace's own packages, without resolving their dependencies (so no network, and no
/// lock).
///
/// # Errors
///
/// When `cargo metadata` fails, for instance on a manifest it cannot read.
pub(crate) fn metadata() -> anyhow::Result<cargo_metadata::Metadata> {
    cargo_metadata::MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo metadata failed")
}

/// Whether this is a continuous-integration run, where a part that cannot be done is an error
/// and not a skip.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// A program started in the workspace root.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    // `cargo xtask` gives us the variables of the package `xtask`. Build scripts of others
    // (ring's, for one) are run again whenever these change, so a nested cargo must not see them.
    for (name, _) in std::env::vars_os() {
        let is_of_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || [
                    "CARGO_BIN_NAME",
                    "CARGO_CRATE_NAME",
                    "CARGO_PRIMARY_PACKAGE",
                ]
                .contains(&name)
        });
        if is_of_package {
            command.env_remove(name);
        }
    }
    command
}

/// The cargo that runs us, or the first on `PATH`.
pub(crate) fn cargo<I>(arguments: I) -> Command
where
    I: IntoIterator<Item: AsRef<OsStr>>,
{
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs a command to its end, showing what it is and all it prints.
///
/// # Errors
///
/// When it cannot be started, or ends with another code than 0.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    eprintln!("+ {}", shown(command));
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command to its end and returns what it wrote to its standard output.
///
/// # Errors
///
/// When it cannot be started, or ends with another code than 0; the error holds what it wrote
/// to its standard error.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{}` failed: {}: {}",
            shown(command),
            output.status,
            complaint.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// Runs a command to its end, showing all it prints and keeping it in the file `log`.
///
/// Both outputs go to the file and are copied from there. With a pipe, a process that the
/// command left behind would keep us waiting for the end of the pipe.
///
/// # Errors
///
/// When it cannot be started, or `log` cannot be written and read. The command's own failure is
/// in the status.
pub(crate) fn run_logged(command: &mut Command, log: &Path) -> anyhow::Result<ExitStatus> {
    const LOOK_AGAIN: Duration = Duration::from_millis(50);

    eprintln!("+ {}", shown(command));
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder)?;
    }
    let cannot_log = || format!("cannot keep the output in {}", log.display());
    let written = File::create(log).with_context(cannot_log)?;
    let mut read = File::open(log).with_context(cannot_log)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(written.try_clone()?)
        .stderr(written)
        .spawn()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    let mut buffer = Vec::new();
    loop {
        // In this order: what the command wrote before it ended is there when its end is seen.
        let ended = child.try_wait()?;
        read.read_to_end(&mut buffer).with_context(cannot_log)?;
        let mut terminal = io::stdout().lock();
        terminal.write_all(&buffer)?;
        terminal.flush()?;
        buffer.clear();
        match ended {
            Some(status) => return Ok(status),
            None => thread::sleep(LOOK_AGAIN),
        }
    }
}

/// Whether `name` can be started at all, asked by running `name --version`.
pub(crate) fn is_installed(name: &str) -> bool {
    program(name)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Says on standard output that a part of the work was left out, and why.
pub(crate) fn say_skipped(what: &str, why: &str) {
    println!("{SKIPPED}{what}: {why}");
}

/// Runs a part of a command and says how long it took.
///
/// # Errors
///
/// Those of `part`.
pub(crate) fn timed<T>(name: &str, part: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let started = Instant::now();
    let result = part()?;
    eprintln!("{name}: {}", human(started.elapsed()));
    Ok(result)
}

/// A duration as people read it: `0.4 s`, `59.9 s`, `12 m 05 s`.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} m {:02} s", seconds / 60, seconds % 60)
    }
}

/// A command as one could type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            line.push_str(&format!("{}={} ", name.display(), quoted(value)));
        }
    }
    let program = Path::new(command.get_program());
    // The full path of cargo says nothing; that of a venv's python does.
    let program = match program.file_stem() {
        Some(stem) if stem == "cargo" => stem,
        _ => program.as_os_str(),
    };
    line.push_str(&quoted(program));
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&quoted(argument));
    }
    line
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=@:,+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_could_type_it() {
        let mut command = Command::new("/opt/rust/bin/cargo");
        command
            .args(["doc", "--no-deps", "it's"])
            .env("RUSTDOCFLAGS", "-D warnings");
        command.env_remove("CARGO_PKG_NAME");
        assert_eq!(
            shown(&command),
            r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'"
        );
    }

    #[test]
    fn durations_are_rounded_for_people() {
        assert_eq!(human(Duration::from_millis(440)), "0.4 s");
        assert_eq!(human(Duration::from_secs(59)), "59.0 s");
        assert_eq!(human(Duration::from_secs(725)), "12 m 05 s");
    }

    #[test]
    fn a_failing_program_says_which_and_what_it_wrote() {
        let error = output(Command::new("cargo").arg("no-such-command"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("`cargo no-such-command` failed: exit status: 101: "),
            "{error}"
        );
        assert!(error.contains("no-such-command"), "{error}");
        run(Command::new("cargo").arg("no-such-command")).unwrap_err();
        assert!(!is_installed("no-such-program-anywhere"));
    }

    #[test]
    fn a_logged_command_leaves_both_outputs_in_the_file_and_its_failure_in_the_status() {
        let folder = std::env::temp_dir().join(format!("xtask-shell-{}", std::process::id()));
        let log = folder.join("of/the.log");
        let status = run_logged(Command::new("cargo").arg("no-such-command"), &log).unwrap();
        assert_eq!(status.code(), Some(101));
        assert!(
            fs::read_to_string(&log)
                .unwrap()
                .contains("no-such-command")
        );
        let status = run_logged(Command::new("cargo").arg("--version"), &log).unwrap();
        assert!(status.success());
        assert!(fs::read_to_string(&log).unwrap().starts_with("cargo "));
        fs::remove_dir_all(folder).unwrap();
    }
}
