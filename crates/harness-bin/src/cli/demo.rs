//! `harness demo`: an agent at work, offline.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use harness_client::wire::{StepUpdate, step_update};
use harness_client::{Builtin, Containment, Event, Outcome, Rule, Turn, TurnEnd};

use super::child::{self, millis};
use super::exit::{Exit, Failure};
use super::interrupts::Interrupts;
use super::output::{Output, Style};
use super::scratch::Scratch;

/// The project that is repaired, file by file.
const FILES: [(&str, &str); 3] = [
    ("NOTES.md", include_str!("demo/NOTES.md")),
    ("greet.sh", include_str!("demo/greet.sh")),
    ("test.sh", include_str!("demo/test.sh")),
];

/// What the model says.
const SCRIPT: &str = include_str!("demo/script.json");

const PROMPT: &str = "The test fails. Find out why, repair it and write down what you did.";

/// The tools that the script uses.
const TOOLS: [Builtin; 6] = [
    Builtin::CreateFile,
    Builtin::EditFile,
    Builtin::ListDirectory,
    Builtin::RunCommand,
    Builtin::SearchDirectory,
    Builtin::ViewFile,
];

/// Runs the command.
///
/// # Errors
///
/// [`Failure::Broken`] says what did not work.
pub(crate) async fn run(output: Output) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::take().context("signals cannot be taken")?;
    let mut demo = Demo { output };
    tokio::select! {
        ended = demo.run() => Ok(ended?),
        // The harness process and all it runs end with the future above.
        _ = interrupts.next() => Ok(Exit::Interrupted),
    }
}

struct Demo {
    output: Output,
}

impl Demo {
    async fn run(&mut self) -> anyhow::Result<Exit> {
        let mut scratch = Scratch::new("demo").context("no temporary folder can be made")?;
        scratch.keep();
        let workspace = scratch.path();
        for (name, content) in FILES {
            fs::write(workspace.join(name), content).with_context(|| format!("writing {name}"))?;
        }
        self.heading("An agent repairs a small broken project.");
        self.field("folder", &workspace.display().to_string());
        self.field("model", "scripted, so it is offline; all the rest is real");

        let (harness, started) = child::start().await?;
        let process = harness.process_id();
        let (started, port) = (millis(started), harness.port());
        self.field(
            "harness",
            &format!("process {process}, listening on port {port} after {started}"),
        );
        let began = Instant::now();
        let mut config = child::scripted(SCRIPT)
            .workspace(workspace)
            .tools(TOOLS)
            .containment(Containment::Contained);
        for tool in TOOLS {
            config = config.rule(Rule::allow(tool.policy_name()));
        }
        let session = harness.session(config).open().await?;
        self.field(
            "session",
            &format!("opened after {}", millis(began.elapsed())),
        );
        self.output.line("");
        self.styled_line(Style::Bold, &format!("› {PROMPT}"));
        self.output.line("");

        let began = Instant::now();
        let turn = session.chat(PROMPT).await?;
        let end = self.show(turn, workspace).await?;
        let took = began.elapsed();
        drop(session);
        let began = Instant::now();
        let status = harness.shutdown().await?;
        let shutdown = began.elapsed();
        self.proof(workspace)?;
        self.heading("How long it took");
        self.field("turn", &turn_time(took));
        self.field("end", &format!("{}, {status}", millis(shutdown)));
        if let Outcome::Failed(error) = &end.outcome {
            anyhow::bail!("the turn failed: {error}");
        }
        anyhow::ensure!(
            end.outcome == Outcome::Completed && status.is_success(),
            "the turn ended as {:?}, the process with {status}",
            end.outcome
        );
        self.go_on(workspace);
        Ok(match self.output.is_closed() {
            true => Exit::Closed,
            false => Exit::Done,
        })
    }

    /// Shows a turn while it runs.
    async fn show(&mut self, mut turn: Turn, workspace: &Path) -> anyhow::Result<TurnEnd> {
        let mut text_of = None;
        loop {
            let event = turn.next_event().await?;
            match event.context("the turn ended without a word")? {
                Event::TextDelta { step, text } => {
                    if text_of.as_ref().is_some_and(|last| *last != step) {
                        self.output.separate();
                    }
                    text_of = Some(step);
                    self.output.text(&text);
                }
                Event::Step(step) => self.step(&step, workspace),
                Event::Idle(end) => {
                    self.output.end_line();
                    self.output.line("");
                    return Ok(*end);
                }
                _ => {}
            }
        }
    }

    fn step(&mut self, step: &StepUpdate, workspace: &Path) {
        let failed = step.state() == step_update::State::Error;
        if step.state() != step_update::State::Done && !failed {
            return;
        }
        let Some((tool, subject, outcome)) = describe(step, workspace) else {
            return;
        };
        self.output.end_line();
        let mark = match failed {
            true => self.output.styled(Style::Bad, "✗"),
            false => self.output.styled(Style::Good, "✓"),
        };
        let subject = self.output.styled(Style::Bold, &subject);
        let outcome = match failed {
            true => step.error_message().to_owned(),
            false => outcome,
        };
        let outcome = self.output.styled(Style::Dim, &outcome);
        self.output
            .line(&format!("  {mark} {tool:<16} {subject}  {outcome}"));
        for line in step
            .run_command
            .iter()
            .flat_map(|run| run.combined_output().lines())
        {
            let line = self.output.styled(Style::Dim, &format!("    │ {line}"));
            self.output.line(&line);
        }
    }

    /// Compares the folder with what it was.
    fn proof(&mut self, workspace: &Path) -> anyhow::Result<()> {
        self.heading("What has changed on disk");
        let mut names: Vec<String> = fs::read_dir(workspace)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        for name in names {
            let now = fs::read_to_string(workspace.join(&name))?;
            let before = FILES.iter().find(|(known, _)| *known == name);
            let before = before.map_or("", |(_, content)| *content);
            if before == now {
                continue;
            }
            self.styled_line(Style::Bold, &format!("  {name}"));
            for line in difference(before, &now) {
                let style = match line.as_bytes().first() {
                    Some(b'-') => Style::Bad,
                    Some(b'+') => Style::Good,
                    _ => Style::Dim,
                };
                self.styled_line(style, &format!("    {line}"));
            }
        }
        self.output.line("");
        Ok(())
    }

    fn go_on(&mut self, workspace: &Path) {
        self.output.line("");
        self.heading("How to go on");
        self.field("look", &format!("cd {} && sh test.sh", workspace.display()));
        self.field("check", "harness doctor");
        self.field(
            "use",
            "GEMINI_API_KEY=… harness run \"Explain this project\"   (or: harness chat)",
        );
    }

    fn heading(&mut self, text: &str) {
        self.styled_line(Style::Bold, text);
    }

    fn field(&mut self, name: &str, value: &str) {
        let name = self.output.styled(Style::Dim, &format!("  {name:<9}"));
        self.output.line(&format!("{name} {value}"));
    }

    fn styled_line(&mut self, style: Style, text: &str) {
        let line = self.output.styled(style, text);
        self.output.line(&line);
    }
}

fn turn_time(took: Duration) -> String {
    format!(
        "{:.1} s, nearly all of it pauses of the script, for your eyes",
        took.as_secs_f64()
    )
}

/// The tool of a step, what it is about and what came of it.
fn describe(step: &StepUpdate, workspace: &Path) -> Option<(&'static str, String, String)> {
    let short = |uri: &str| {
        let path = Path::new(uri.strip_prefix("file://").unwrap_or(uri));
        match path.strip_prefix(workspace) {
            Ok(path) if path.as_os_str().is_empty() => ".".to_owned(),
            Ok(path) => path.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    };
    Some(if let Some(list) = &step.list_directory {
        let files = format!("{} files", list.results.len());
        ("list_directory", short(list.directory_path()), files)
    } else if let Some(view) = &step.view_file {
        let lines = format!("lines {} to {}", view.start_line() + 1, view.end_line() + 1);
        ("view_file", short(view.file_path()), lines)
    } else if let Some(search) = &step.search_directory {
        let matches = match search.num_results() {
            1 => "1 match".to_owned(),
            many => format!("{many} matches"),
        };
        (
            "search_directory",
            format!("\"{}\"", search.query()),
            matches,
        )
    } else if let Some(edit) = &step.edit_file {
        let blocks = match edit.diff_block.len() {
            1 => "1 change".to_owned(),
            many => format!("{many} changes"),
        };
        ("edit_file", short(edit.file_path()), blocks)
    } else if let Some(run) = &step.run_command {
        let code = format!("exit code {}", run.exit_code());
        ("run_command", run.command_line().to_owned(), code)
    } else {
        return None;
    })
}

/// The lines that differ, with one line of context on either side. For small files with one
/// place of change.
fn difference(before: &str, after: &str) -> Vec<String> {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let same =
        |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
    let head = same(&mut old.iter().zip(&new));
    let tail = same(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
    let context = |at: Option<&&str>| at.map(|line| format!("  {line}"));
    let gone = &old[head..old.len() - tail];
    let come = &new[head..new.len() - tail];
    let mut lines = Vec::new();
    lines.extend(context(head.checked_sub(1).and_then(|at| old.get(at))));
    lines.extend(gone.iter().map(|line| format!("- {line}")));
    lines.extend(come.iter().map(|line| format!("+ {line}")));
    lines.extend(context(new.get(new.len() - tail)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_its_context() {
        assert_eq!(
            difference("a\nb\nc\nd\n", "a\nb\nx\ny\nd\n"),
            ["  b", "- c", "+ x", "+ y", "  d"]
        );
        assert_eq!(difference("", "a\nb\n"), ["+ a", "+ b"]);
        assert_eq!(difference("a\na\n", "a\n"), ["  a", "- a"]);
        assert!(difference("a\n", "a\n").len() <= 1);
    }
}
