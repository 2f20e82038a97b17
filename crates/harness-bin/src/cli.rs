//! The program `harness`: agents for people and their scripts.

mod action;
mod approvals;
mod args;
mod chat;
mod child;
mod conversation;
mod demo;
mod doctor;
mod exit;
mod interrupts;
mod lines;
mod output;
mod report;
mod run;
mod scratch;
mod setup;
mod spinner;
mod view;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};

use args::{Cli, Command};
use exit::{Exit, Failure};
use output::Output;

use crate::environment::Environment;
use crate::{log, serve};

/// The name under which the program is the other one of this package.
const SERVER: &str = "localharness";

/// Runs the program. `args` begin with its name.
///
/// Called by the name `localharness`, for instance through a link, it is that program: one file
/// can be both.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let name = args.first().and_then(|name| Path::new(name).file_name());
    if name.is_some_and(|name| name == SERVER) {
        let rest = args.iter().skip(1);
        return serve::main(rest.map(|arg| arg.to_string_lossy().into_owned()));
    }
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are "errors" too, for standard output. A reader that has gone away
            // is no reason to fail.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let environment = Environment::of_process();
    // Notes of the loop are for those who debug; what the user has to know is said otherwise.
    log::start(environment.get(log::LEVEL_VARIABLE).or(Some("error")));
    match perform(cli.command, environment.clone()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            Output::new(&environment).complain(&failure.to_string());
            failure.exit().into()
        }
    }
}

fn perform(command: Command, environment: Environment) -> Result<Exit, Failure> {
    let output = Output::new(&environment);
    if let Command::Completions { shell } = command {
        return Ok(completions(shell, output));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let ended = runtime.block_on(async {
        match command {
            Command::Run(args) => run::run(args, environment, output).await,
            Command::Chat(args) => chat::run(args, environment, output).await,
            Command::Demo => demo::run(output).await,
            Command::Doctor(args) => doctor::run(args, &environment, output).await,
            Command::Completions { .. } => Ok(Exit::Done),
        }
    });
    // A blocked thread, such as one that reads a line, is no reason to stay.
    runtime.shutdown_background();
    ended
}

fn completions(shell: clap_complete::Shell, mut output: Output) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "harness", &mut script);
    output.text(&String::from_utf8_lossy(&script));
    match output.is_closed() {
        true => Exit::Closed,
        false => Exit::Done,
    }
}
