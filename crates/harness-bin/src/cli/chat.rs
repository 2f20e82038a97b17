//! `harness chat`: a conversation at the terminal.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use harness_types::PolicyDecision;

use super::approvals::Approvals;
use super::args::{ChatArgs, OutputFormat};
use super::conversation::{Conversation, Watched};
use super::exit::{Exit, Failure};
use super::interrupts::Interrupt;
use super::lines::{Keep, Line, Lines};
use super::output::{Output, Style};
use super::report::{Report, Tokens};
use super::setup::{Presence, Setup, names_of};
use super::view::View;
use crate::environment::Environment;

const HELP: &str = "\
/help    this list
/tools   the tools, and who decides about them
/usage   tokens used so far
/quit    leave (also Ctrl-D)
Ctrl-C halts a running turn; a second one leaves. Everything else is said to the agent.";

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
enum Entry<'a> {
    Nothing,
    Help,
    Tools,
    Usage,
    Quit,
    Unknown(&'a str),
    Prompt(&'a str),
}

impl<'a> Entry<'a> {
    fn read(line: &'a str) -> Self {
        let line = line.trim();
        match line {
            "" => Self::Nothing,
            "/help" | "/?" => Self::Help,
            "/tools" => Self::Tools,
            "/usage" => Self::Usage,
            "/quit" | "/exit" => Self::Quit,
            // A path may begin a prompt; a command is one word of letters.
            _ => match line.strip_prefix('/') {
                Some(word) if !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase()) => {
                    Self::Unknown(line)
                }
                _ => Self::Prompt(line),
            },
        }
    }
}

/// Runs the command.
///
/// # Errors
///
/// [`Failure`] when the conversation could not be begun, or the harness itself failed.
pub(crate) async fn run(
    args: ChatArgs,
    environment: Environment,
    mut output: Output,
) -> Result<Exit, Failure> {
    let at_terminal = std::io::stdin().is_terminal() && output.stderr_is_terminal();
    let presence = match at_terminal {
        true => Presence::Person,
        false => Presence::Nobody,
    };
    let setup = Setup::new(&args.agent, &environment, presence)?;
    if let Some(warning) = &setup.warning {
        output.complain(warning);
    }
    let (person, pipe) = if at_terminal {
        let lines = Lines::from_terminal().context("the terminal cannot be used")?;
        (Some(lines), None)
    } else {
        let lines = Lines::from_pipe().context("standard input cannot be read")?;
        (None, Some(lines))
    };
    let tools = setup.tools.clone();
    if at_terminal {
        greet(&mut output, &setup);
    }
    let view = View::new(OutputFormat::Text, setup.workspace().to_owned());
    let approvals = Approvals::new(person);
    let mut conversation = Conversation::open(setup, environment, output, view, approvals).await?;
    let exit = talk(&mut conversation, pipe.as_ref(), &tools).await;
    conversation.close().await;
    exit
}

fn greet(output: &mut Output, setup: &Setup) {
    let asks = match setup
        .tools
        .iter()
        .any(|(_, who)| *who == PolicyDecision::Ask)
    {
        true => format!(
            "Asks before: {}.",
            names_of(&setup.tools, PolicyDecision::Ask)
        ),
        false => "Asks before nothing: /tools lists what is allowed.".to_owned(),
    };
    let workspace = setup.workspace().display().to_string();
    output.note(&[
        (Style::Bold, concat!("harness ", env!("CARGO_PKG_VERSION"))),
        (Style::Dim, " · "),
        (Style::Plain, &setup.model),
        (Style::Dim, " · "),
        (Style::Plain, &workspace),
    ]);
    output.note(&[
        (Style::Dim, &asks),
        (Style::Dim, " /help for help, Ctrl-D leaves."),
    ]);
}

async fn talk(
    conversation: &mut Conversation,
    pipe: Option<&Lines>,
    tools: &[(String, PolicyDecision)],
) -> Result<Exit, Failure> {
    let mut last: Option<Report> = None;
    let mut unanswered = 0;
    let mut warned = false;
    loop {
        let line = {
            let Conversation {
                approvals,
                interrupts,
                ..
            } = conversation;
            let Some(lines) = pipe.or_else(|| approvals.person()) else {
                return Ok(Exit::Done);
            };
            tokio::select! {
                line = lines.read("› ", Keep::InMemory) => line,
                interrupt = interrupts.next() => match interrupt {
                    // At a prompt the editor takes Ctrl-C itself; this one came from elsewhere.
                    Interrupt::Stop | Interrupt::End => return Ok(Exit::Interrupted),
                },
            }
        };
        let output = &mut conversation.output;
        let line = match line {
            Line::Text(line) => line,
            Line::Interrupted if warned => return Ok(Exit::Interrupted),
            Line::Interrupted => {
                warned = true;
                output.note(&[(Style::Dim, "Ctrl-C again leaves, and so does Ctrl-D.")]);
                continue;
            }
            Line::End if unanswered > 0 => return Ok(Exit::Unanswered),
            Line::End => return Ok(Exit::Done),
        };
        warned = false;
        match Entry::read(&line) {
            Entry::Nothing => {}
            Entry::Help => output.note(&[(Style::Plain, HELP)]),
            Entry::Tools => {
                for (name, decision) in tools {
                    let decision = match decision {
                        PolicyDecision::Allow => "allowed",
                        PolicyDecision::Deny => "refused",
                        _ => "asks",
                    };
                    let name = format!("{name:18}");
                    output.note(&[(Style::Plain, &name), (Style::Dim, decision)]);
                }
            }
            Entry::Usage => {
                let usage = match &last {
                    Some(report) => report.tokens().to_string(),
                    None => Tokens::of(&harness_types::Usage::default()).to_string(),
                };
                output.note(&[(Style::Plain, &usage)]);
            }
            Entry::Quit if unanswered > 0 => return Ok(Exit::Unanswered),
            Entry::Quit => return Ok(Exit::Done),
            Entry::Unknown(word) => {
                let message = format!("there is no command {word}; /help lists them");
                output.note(&[(Style::Bad, &message)]);
            }
            Entry::Prompt(prompt) => {
                let (report, watched) = conversation.turn(prompt.to_owned()).await?;
                unanswered += report.unanswered;
                last = Some(report);
                match watched {
                    Watched::Left if conversation.output.is_closed() => return Ok(Exit::Closed),
                    Watched::Left => return Ok(Exit::Interrupted),
                    Watched::Halted => {
                        // The next Ctrl-C in a row leaves.
                        warned = true;
                        let output = &mut conversation.output;
                        output.note(&[(Style::Dim, "halted; Ctrl-C again leaves")]);
                    }
                    Watched::ToTheEnd => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_single_words_with_a_slash() {
        let read = Entry::read;
        assert_eq!(read(" /help "), Entry::Help);
        assert_eq!(read("/exit"), Entry::Quit);
        assert_eq!(read("/helo"), Entry::Unknown("/helo"));
        assert_eq!(
            read("/etc/hosts is odd"),
            Entry::Prompt("/etc/hosts is odd")
        );
        assert_eq!(read("/etc/hosts"), Entry::Prompt("/etc/hosts"));
        assert_eq!(read("/"), Entry::Prompt("/"));
        assert_eq!(read("   "), Entry::Nothing);
    }
}
