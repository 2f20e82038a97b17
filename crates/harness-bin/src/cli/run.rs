//! `harness run`: one task.

use std::io::IsTerminal as _;

use super::approvals::Approvals;
use super::args::RunArgs;
use super::conversation::{Conversation, exit_of};
use super::exit::{Exit, Failure};
use super::lines::Lines;
use super::output::Output;
use super::setup::{self, Presence, Setup};
use super::view::View;
use crate::environment::Environment;

/// Runs the command.
///
/// # Errors
///
/// [`Failure`] when the task could not be begun, or the harness itself failed.
pub(crate) async fn run(
    args: RunArgs,
    environment: Environment,
    mut output: Output,
) -> Result<Exit, Failure> {
    // A person is asked on the terminal that shows standard error; standard output may be a file.
    let can_ask = std::io::stdin().is_terminal() && output.stderr_is_terminal();
    let lines = can_ask.then(Lines::from_terminal).and_then(Result::ok);
    let presence = match lines {
        Some(_) => Presence::Person,
        None => Presence::Nobody,
    };
    let mut setup = Setup::new(&args.agent, &environment, presence)?;
    if let Some(path) = &args.schema {
        setup.blueprint.config.finish_schema = Some(setup::schema(path)?);
    }
    let prompt = setup::prompt(&args.prompt)?;
    if let Some(warning) = &setup.warning {
        output.complain(warning);
    }
    let mut view = View::new(args.output, setup.workspace().to_owned());
    if args.quiet {
        view = view.quiet();
    }
    let approvals = Approvals::new(lines);
    let mut conversation = Conversation::open(setup, environment, output, view, approvals).await?;
    let (report, watched) = conversation.turn(prompt).await?;
    let exit = exit_of(&conversation.output, &report, watched);
    conversation.close().await;
    Ok(exit)
}
