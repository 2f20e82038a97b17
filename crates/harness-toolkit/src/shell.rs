//! `run_command`.

mod ansi;
mod output;

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use harness_process::{CommandSpec, Environment, ExitStatus, OutputReader, ProcessTree};
use harness_types::{
    Action, BoxFuture, Tool, ToolCall, ToolClass, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use crate::built_ins::{parse_path, path_arg, read_args, shown_path, spec, text_arg};
use crate::{FileAccess, RunCommandOptions};
use output::Output;

/// How long a command that took too long may use to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// The least time between two views of the output so far.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// What every command gets, unless the caller sets it otherwise: nothing that waits for a key
/// press, and no colours (F031). Programs that want an editor fail instead of waiting.
const QUIET: [(&str, &str); 11] = [
    ("ANTIGRAVITY_AGENT", "1"),
    ("EDITOR", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("JJ_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("PAGER", "cat"),
    ("TERM", "dumb"),
    ("VISUAL", "false"),
];

/// `run_command`: runs a shell command and waits for its end.
///
/// It runs as `bash -c` (`sh` where there is no bash) in a session of its own without a terminal;
/// its input is empty. Both outputs are merged; escape sequences are taken out; the first 16 KiB
/// and the last 48 KiB are kept (F032). When the call is dropped, or takes longer than the
/// [timeout](RunCommandOptions::timeout), everything the command started is ended (F002); what it
/// left in the background is ended when it ends itself.
///
/// With [`FileAccess::Contained`] the working directory is checked. What the command does is not:
/// this is no sandbox.
#[derive(Debug, Clone)]
pub struct RunCommand {
    access: FileAccess,
    options: RunCommandOptions,
}

impl RunCommand {
    /// The tool with this access and these options.
    pub fn new(access: FileAccess, options: RunCommandOptions) -> Self {
        Self { access, options }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Args {
    command_line: String,
    cwd: Option<String>,
}

impl Tool for RunCommand {
    fn spec(&self) -> ToolSpec {
        let limit = match self.options.timeout {
            Some(limit) => format!(" It is ended after {limit:?}."),
            None => String::new(),
        };
        let description = format!(
            "Runs a command line with bash and returns its exit code and its output (stdout and \
             stderr merged; of long output the first 16 KiB and the last 48 KiB). It runs in the \
             foreground: the call returns when the command has ended, and processes it left in \
             the background are ended then.{limit} There is no terminal and no input: use flags \
             that avoid questions, editors and pagers."
        );
        spec(
            ("run_command", "run_command"),
            ToolClass::Mutating,
            &description,
            &["CommandLine"],
            json!({
                "CommandLine": {"type": "string", "description": "The command line."},
                "Cwd": {
                    "type": "string",
                    "description": "Absolute path of the directory to run in. Default: the first \
                                    workspace.",
                },
                "WaitMsBeforeAsync": {
                    "type": "integer",
                    "description": "Accepted, without effect: commands always run to their end.",
                },
            }),
        )
    }

    fn opening(&self, call: &ToolCall) -> Action {
        Action::RunCommand {
            command_line: text_arg(&call.args, "CommandLine").to_owned(),
            working_dir: shown_path(&call.args, "Cwd"),
            exit_code: None,
            output: None,
        }
    }

    fn paths(&self, args: &Map<String, Value>) -> Vec<PathBuf> {
        path_arg(args, "Cwd")
    }

    fn call<'a>(
        &'a self,
        context: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let Args { command_line, cwd } = read_args(args)?;
            if command_line.trim().is_empty() {
                return Err(ToolError::invalid("CommandLine is empty"));
            }
            if command_line.contains('\0') {
                return Err(ToolError::invalid("CommandLine holds a NUL character"));
            }
            let directory = self.directory(&context, cwd.as_deref())?;
            let mut command =
                CommandSpec::shell(&command_line).environment(self.environment(&context));
            if let Some(directory) = &directory {
                command = command.working_directory(directory);
            }
            let view = View {
                command_line,
                working_dir: directory.map_or_else(String::new, |it| it.display().to_string()),
            };
            self.run(&context, &command, &view).await
        })
    }
}

impl RunCommand {
    /// Where the command runs; `None` for where this program runs.
    fn directory(
        &self,
        context: &ToolContext,
        cwd: Option<&str>,
    ) -> Result<Option<PathBuf>, ToolError> {
        let path = match cwd {
            None | Some("") => match context.workspaces.first() {
                None => return Ok(None),
                Some(workspace) => return Ok(Some(workspace.clone())),
            },
            Some(cwd) => parse_path("Cwd", cwd)?,
        };
        self.access.check(&path)?;
        Ok(Some(path.into_path_buf()))
    }

    fn environment(&self, context: &ToolContext) -> Environment {
        Environment::inherited()
            .remove_all(&self.options.env_deny)
            .set_all(QUIET)
            .set("ANTIGRAVITY_CONVERSATION_ID", context.conversation.as_str())
            .set("ANTIGRAVITY_TRAJECTORY_ID", context.trajectory.as_str())
            .set_all(&self.options.env)
    }

    async fn run(
        &self,
        context: &ToolContext,
        command: &CommandSpec,
        view: &View,
    ) -> Result<ToolOutput, ToolError> {
        let mut tree = ProcessTree::spawn(command).map_err(|error| failed(&error))?;
        let Some(mut reader) = tree.take_output() else {
            return Err(ToolError::failed(
                "the output of the command cannot be read",
            ));
        };
        let mut output = Output::new();
        let ended = {
            let whole = async {
                read(&mut reader, &mut output, Some((context, view))).await?;
                tree.wait().await.map_err(|error| failed(&error))
            };
            match self.options.timeout {
                None => Some(whole.await?),
                Some(limit) => timeout(limit, whole).await.ok().transpose()?,
            }
        };
        let Some(status) = ended else {
            return Err(self.timed_out(tree, reader, output, view).await);
        };
        // Whatever is left in the background ends here.
        drop(tree);
        let output = output.finish();
        let code = status.shell_code();
        let mut text = match status {
            ExitStatus::Signal(number) => {
                format!("The command was ended by signal {number} (exit code {code}).\n")
            }
            _ => format!("The command exited with code {code}.\n"),
        };
        text.push_str(&worded(&output));
        Ok(ToolOutput::text(text).with_action(view.action(Some(code), Some(output))))
    }

    /// Ends a command that took too long and tells what it had printed.
    async fn timed_out(
        &self,
        mut tree: ProcessTree,
        mut reader: OutputReader,
        mut output: Output,
        view: &View,
    ) -> ToolError {
        // The command may have to print something before it can end.
        let (status, _) = tokio::join!(tree.terminate(GRACE), read(&mut reader, &mut output, None));
        let limit = self.options.timeout.unwrap_or_default();
        let (end, code) = match status {
            Ok(status) => (
                "was ended with everything it had started".to_owned(),
                Some(status),
            ),
            Err(error) => (format!("could not be ended: {error}"), None),
        };
        let output = output.finish();
        let message = format!(
            "The command timed out: it had not ended after {limit:?} and {end}.\n{}",
            worded(&output)
        );
        ToolError::Failed {
            message,
            action: Some(Box::new(
                view.action(code.map(ExitStatus::shell_code), Some(output)),
            )),
        }
    }
}

/// What observers are shown of a command.
struct View {
    command_line: String,
    working_dir: String,
}

impl View {
    fn action(&self, exit_code: Option<i32>, output: Option<String>) -> Action {
        Action::RunCommand {
            command_line: self.command_line.clone(),
            working_dir: self.working_dir.clone(),
            exit_code,
            output,
        }
    }
}

/// Reads to the end. The watcher is shown the first output at once, and from then on what there is
/// so far a few times a second.
async fn read(
    reader: &mut OutputReader,
    output: &mut Output,
    watcher: Option<(&ToolContext, &View)>,
) -> Result<(), ToolError> {
    let mut due = Instant::now();
    let mut news = false;
    loop {
        let chunk = match news {
            true => timeout_at(due, reader.next_chunk()).await.ok(),
            false => Some(reader.next_chunk().await),
        };
        if let Some(chunk) = chunk {
            let chunk = chunk.map_err(|error| {
                ToolError::failed(format!("cannot read the output of the command: {error}"))
            })?;
            let Some(chunk) = chunk else {
                return Ok(());
            };
            output.push(&chunk);
            news = watcher.is_some();
        }
        if let Some((context, view)) = watcher
            && news
            && Instant::now() >= due
        {
            (context.progress)(view.action(None, Some(output.so_far())));
            due = Instant::now() + PROGRESS_INTERVAL;
            news = false;
        }
    }
}

fn worded(output: &str) -> String {
    match output {
        "" => "It printed nothing.\n".to_owned(),
        text if text.ends_with('\n') => format!("Output:\n{text}"),
        text => format!("Output:\n{text}\n"),
    }
}

fn failed(error: &harness_process::Error) -> ToolError {
    let mut message = format!("the command could not be run: {error}");
    if let Some(source) = error.source() {
        message = format!("{message}: {source}");
    }
    ToolError::failed(message)
}
