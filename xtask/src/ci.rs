//! `ci`: every check in one command.

use std::fs;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::args::Args;
use crate::shell;

/// How many lines of a failed step are shown again at the end.
const LINES_SHOWN_AGAIN: usize = 40;

/// A check that does not depend on the others.
struct Step {
    name: &'static str,
    runs: Runs,
    /// A variable of the environment.
    variable: Option<(&'static str, &'static str)>,
}

enum Runs {
    Cargo(&'static [&'static str]),
    /// A command of this program.
    Xtask(&'static [&'static str]),
}

const fn cargo(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step {
        name,
        runs: Runs::Cargo(arguments),
        variable: None,
    }
}

const fn xtask(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step {
        name,
        runs: Runs::Xtask(arguments),
        variable: None,
    }
}

/// Quick ones first. What is compiled, in the order it is first needed:
///
/// 1. all crates and dependencies, checked but not built, with all features (`clippy`, then
///    `doc`, which reuses the dependencies);
/// 2. all crates, built in the dev profile (`test`; its conformance and `bench` run what it built).
///
/// `check-features` and the release profile are for before a release: they cost more time than
/// everything else together.
const STEPS: &[Step] = &[
    cargo("lock", &["fetch", "--locked"]),
    cargo("fmt", &["fmt", "--all", "--check"]),
    xtask("layers", &["check-layers"]),
    xtask("codegen", &["codegen", "--check"]),
    xtask("buf", &["buf"]),
    xtask("deny", &["deny"]),
    cargo(
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ],
    ),
    Step {
        name: "doc",
        runs: Runs::Cargo(&["doc", "--no-deps", "--workspace", "--all-features"]),
        variable: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
    xtask("test", &["test"]),
    xtask("bench", &["bench", "--smoke"]),
];

/// How a step went.
#[derive(Debug)]
struct Outcome {
    name: &'static str,
    passed: bool,
    took: Duration,
    /// What it left out, in its own words.
    skipped: Vec<String>,
    log: PathBuf,
}

/// Runs all steps, or the one named by `--only`, and prints a table at the end. A failed step
/// does not stop the others, unless `--fail-fast` is given: whoever repairs one thing should see
/// the rest too.
///
/// # Errors
///
/// When a step failed.
pub(crate) fn ci(mut args: Args) -> anyhow::Result<()> {
    let only = args.take_value("--only")?;
    let fail_fast = args.take_flag("--fail-fast");
    args.finish()?;
    let steps: Vec<&Step> = STEPS
        .iter()
        .filter(|step| only.as_ref().is_none_or(|only| step.name == only))
        .collect();
    ensure!(
        !steps.is_empty(),
        "no step has that name; there are {}",
        STEPS
            .iter()
            .map(|step| step.name)
            .collect::<Vec<_>>()
            .join(", ")
    );

    // Asked once, at the start: a later step builds this program anew, and then the path that
    // belongs to the running one is gone.
    let this_program = std::env::current_exe().context("this program has no path")?;
    let logs = shell::target_directory()?.join("ci");
    let mut outcomes = Vec::new();
    for step in &steps {
        println!("\n=== {} ===", step.name);
        let log = logs.join(format!("{}.log", step.name));
        let started = Instant::now();
        let status = shell::run_logged(&mut command(step, this_program.clone()), &log)?;
        let outcome = Outcome {
            name: step.name,
            passed: status.success(),
            took: started.elapsed(),
            skipped: skipped_in(&String::from_utf8_lossy(&fs::read(&log)?)),
            log,
        };
        let word = if outcome.passed { "ok" } else { "FAILED" };
        println!(
            "=== {}: {word}, {} ===",
            step.name,
            shell::human(outcome.took)
        );
        let stop = fail_fast && !outcome.passed;
        outcomes.push(outcome);
        if stop {
            break;
        }
    }
    conclude(&outcomes, steps.len())
}

fn command(step: &Step, this_program: PathBuf) -> Command {
    let mut command = match step.runs {
        Runs::Cargo(arguments) => shell::cargo(arguments),
        Runs::Xtask(arguments) => {
            let mut command = shell::program(this_program);
            command.args(arguments);
            command
        }
    };
    if let Some((name, value)) = step.variable {
        command.env(name, value);
    }
    // What a step prints goes through a file; that would turn colours off.
    if std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command
}

fn skipped_in(output: &str) -> Vec<String> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix(shell::SKIPPED))
        .map(str::to_owned)
        .collect()
}

/// Shows the first failure again and the table, and fails if a step did.
fn conclude(outcomes: &[Outcome], wanted: usize) -> anyhow::Result<()> {
    if let Some(first) = outcomes.iter().find(|outcome| !outcome.passed) {
        let output = fs::read(&first.log)?;
        let output = String::from_utf8_lossy(&output);
        println!("\n=== the end of {}, which failed first ===", first.name);
        for line in last_lines(&output, LINES_SHOWN_AGAIN) {
            println!("{line}");
        }
        println!("(all of it: {})", first.log.display());
    }
    println!("\n{}", table(outcomes));
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| !outcome.passed)
        .map(|outcome| outcome.name)
        .collect();
    let not_run = wanted - outcomes.len();
    if failed.is_empty() {
        return Ok(());
    }
    let not_run = if not_run > 0 {
        format!(" ({not_run} not run)")
    } else {
        String::new()
    };
    bail!("ci: failed: {}{not_run}", failed.join(", "))
}

fn last_lines(text: &str, count: usize) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}

fn table(outcomes: &[Outcome]) -> String {
    let mut table = String::new();
    for Outcome {
        name,
        passed,
        took,
        skipped,
        ..
    } in outcomes
    {
        let word = if *passed { "ok" } else { "FAILED" };
        table.push_str(&format!("{name:<10} {word:<7} {:>10}", shell::human(*took)));
        if !skipped.is_empty() {
            table.push_str(&format!("  skipped {}", skipped.join("; ")));
        }
        table.push('\n');
    }
    let total = outcomes.iter().map(|outcome| outcome.took).sum();
    table.push_str(&format!("{:<18} {:>10}", "total", shell::human(total)));
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn outcome(name: &'static str, passed: bool, skipped: &[&str]) -> Outcome {
        Outcome {
            name,
            passed,
            took: Duration::from_secs(75),
            skipped: skipped.iter().map(|&each| each.to_owned()).collect(),
            log: PathBuf::new(),
        }
    }

    #[test]
    fn the_table_says_what_failed_and_what_was_left_out() {
        let outcomes = [
            outcome("fmt", true, &[]),
            outcome("test", false, &["conformance: no Python"]),
        ];
        assert_eq!(
            table(&outcomes),
            "fmt        ok        1 m 15 s\n\
             test       FAILED    1 m 15 s  skipped conformance: no Python\n\
             total                2 m 30 s"
        );
    }

    #[test]
    fn only_lines_that_say_so_are_skips() {
        assert_eq!(
            skipped_in("test a ... ok\nskipped: buf: no npx\nnot skipped: x\n"),
            ["buf: no npx"]
        );
    }

    #[test]
    fn a_failure_is_shown_from_its_end() {
        assert_eq!(last_lines("a\nb\nc\n", 2), ["b", "c"]);
        assert_eq!(last_lines("a", 2), ["a"]);
    }

    #[test]
    fn every_step_has_a_name_of_its_own_and_a_command_that_exists() {
        let names: BTreeSet<&str> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), STEPS.len());
        for step in STEPS {
            if let Runs::Xtask(arguments) = step.runs {
                assert!(crate::COMMANDS.iter().any(|each| each.name == arguments[0]));
            }
        }
    }

    #[test]
    fn an_unknown_step_is_an_error() {
        let args = Args::new(["--only".to_owned(), "tests".to_owned()]);
        assert!(
            ci(args)
                .unwrap_err()
                .to_string()
                .starts_with("no step has that name")
        );
    }
}
