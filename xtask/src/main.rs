//! `cargo xtask`: the commands that developers and CI run. `cargo xtask help` lists them.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a development tool, which talks to whoever runs it"
)]

mod args;
mod bench;
mod buf;
mod ci;
mod codegen;
mod conformance;
mod deny;
mod features;
mod layers;
mod programs;
mod python;
mod shell;
mod source;
mod test_command;

use std::process::ExitCode;

use anyhow::bail;

use crate::args::Args;

/// A command of `cargo xtask`.
struct Command {
    name: &'static str,
    options: &'static str,
    summary: &'static str,
    run: fn(Args) -> anyhow::Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "ci",
        options: "[--only STEP] [--fail-fast]",
        summary: "Runs every check; what a change must pass",
        run: ci::ci,
    },
    Command {
        name: "test",
        options: "",
        summary: "Runs all tests of the workspace, then conformance",
        run: |args| {
            args.finish()?;
            test_command::test()
        },
    },
    Command {
        name: "conformance",
        options: "[--sdk 0.1.N|all|eras] [--harness PATH | --peer] [--profile NAME] [--only NAME] \
                  [--jobs N] [--json OUT] [--frames DIR]",
        summary: "Drives the built localharness (or, with --peer, the SDK's own) with real Python SDKs",
        run: |args| {
            let options = conformance::options(args)?;
            let environments = conformance::environments(&options.selection)?;
            conformance::run(&options, &environments)
        },
    },
    Command {
        name: "bench",
        options: "[--peer PATH] [--harness PATH] [--smoke] [--json OUT] [-- ARGUMENTS]",
        summary: "Measures the built programs from outside; --smoke only shows that it can",
        run: bench::bench,
    },
    Command {
        name: "codegen",
        options: "[--check]",
        summary: "Writes the wire types from proto/, or checks that the committed ones are those",
        run: |mut args| {
            let mode = if args.take_flag("--check") {
                codegen::Mode::Check
            } else {
                codegen::Mode::Write
            };
            args.finish()?;
            codegen::generate(mode)
        },
    },
    Command {
        name: "check-layers",
        options: "",
        summary: "Compares the edges between the crates, and other rules, with the table of layers",
        run: |args| {
            args.finish()?;
            layers::check_layers()
        },
    },
    Command {
        name: "check-features",
        options: "",
        summary: "Lints every library alone, with each of its features",
        run: |args| {
            args.finish()?;
            features::check_features()
        },
    },
    Command {
        name: "buf",
        options: "[--against REV]",
        summary: "Checks the style of proto/ and that it breaks nobody (needs npm)",
        run: buf::buf,
    },
    Command {
        name: "deny",
        options: "",
        summary: "Checks licences, bans and sources of all dependencies with cargo-deny",
        run: |args| {
            args.finish()?;
            deny::deny()
        },
    },
    Command {
        name: "help",
        options: "",
        summary: "Prints this list",
        run: |args| {
            args.finish()?;
            print!("{}", help());
            Ok(())
        },
    },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "help".to_owned());
    match dispatch(&name, Args::new(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(name: &str, args: Args) -> anyhow::Result<()> {
    let name = if ["--help", "-h"].contains(&name) {
        "help"
    } else {
        name
    };
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(args),
        None => bail!("unknown command `{name}`; see `cargo xtask help`"),
    }
}

fn help() -> String {
    let mut text = "usage: cargo xtask COMMAND [OPTIONS]\n\n".to_owned();
    for Command { name, summary, .. } in COMMANDS {
        text.push_str(&format!("  {name:<15} {summary}\n"));
    }
    text.push_str("\noptions:\n");
    for Command { name, options, .. } in COMMANDS.iter().filter(|each| !each.options.is_empty()) {
        text.push_str(&format!("  {name} {options}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_one_line_for_each_command() {
        let help = help();
        for command in COMMANDS {
            let start = format!("  {:<15} ", command.name);
            assert_eq!(
                help.lines().filter(|line| line.starts_with(&start)).count(),
                1
            );
        }
    }

    #[test]
    fn unknown_commands_and_options_are_errors() {
        let no_args = || Args::new([]);
        assert_eq!(
            dispatch("tests", no_args()).unwrap_err().to_string(),
            "unknown command `tests`; see `cargo xtask help`"
        );
        dispatch("help", no_args()).unwrap();
        dispatch("--help", no_args()).unwrap();
        for command in COMMANDS {
            let error = dispatch(command.name, Args::new(["--no-such-option".to_owned()]))
                .unwrap_err()
                .to_string();
            assert_eq!(
                error, "unknown argument `--no-such-option`; see `cargo xtask help`",
                "{}",
                command.name
            );
        }
    }
}
