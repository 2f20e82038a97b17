//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const AFTER_HELP: &str = "\
Examples:
  harness demo                                  see it work: offline, in a folder of its own
  harness run \"Explain this project\"            one task, answer on standard output
  git diff | harness run --deny run_command -   the prompt from standard input
  harness run --yes --output json \"Fix the tests\" | jq -r .text
  harness chat                                  a conversation in the current folder

Environment:
  GEMINI_API_KEY          the key for Gemini models
  HARNESS_MODEL           the model, unless --model names one
  GOOGLE_GEMINI_BASE_URL  the address of the model, unless --base-url names one
  HARNESS_LOG             off, error (default), warn, info, debug or trace; goes to stderr
  NO_COLOR                no colours

Exit codes:
  0    done
  1    the turn failed, or something is broken
  2    the command line or the configuration cannot be used; nothing was begun
  3    a limit ended the turn
  4    done, but calls were refused because they need approval and nobody could be asked
  130  interrupted
  141  the reader of standard output went away";

/// Runs AI agents that read, change and run things in a folder.
#[derive(Debug, Parser)]
#[command(
    name = "harness",
    bin_name = "harness",
    version,
    after_help = AFTER_HELP,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Does one task and ends
    ///
    /// The answer goes to standard output as it comes; everything else, such as the tools used
    /// and questions for approval, goes to standard error.
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Has a conversation at the terminal
    ///
    /// Ctrl-C halts the running turn, a second one leaves. Type /help for the commands.
    Chat(ChatArgs),
    /// Shows an agent at work: offline, with a scripted model, in a new temporary folder
    ///
    /// Starts this program a second time as a harness process, talks to it over its wire
    /// protocol, and has it repair a small broken project. Nothing outside the temporary folder
    /// is touched.
    Demo,
    /// Checks that everything is in place, and says what to do if not
    ///
    /// Contacts nothing unless --online is given. Ends with 1 when something is broken; warnings
    /// do not count.
    Doctor(DoctorArgs),
    /// Prints a completion script for a shell
    ///
    /// For instance: harness completions bash > ~/.local/share/bash-completion/completions/harness
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

const RUN_HELP: &str = "\
Who decides about tools:
  Reading (view_file, list_directory, find_file, search_directory) is allowed. At a terminal you
  are asked about everything else: creating and editing files, running commands. Where there is no
  terminal it is refused, and the exit code is 4. --yes, --allow and --deny change that; deny wins.
  File tools stay inside the workspace (see --unconfined); a command that is run reaches what
  you can reach.

Output:
  text   the answer as it comes
  json   one object at the end: conversation, status, text, structured_output, usage, steps,
         tool_calls, refused_calls, stop_reason, error, duration_ms
  jsonl  one object a line as things happen, told apart by \"type\": conversation, text, thinking,
         tool, approval, usage, and at the end result, which has the fields of json";

/// `harness run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The task; `-` reads it from standard input
    pub(crate) prompt: String,
    /// How results are written
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: OutputFormat,
    /// A file with a JSON Schema that the final answer has to satisfy
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Do not show which tools are used
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// `harness chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// `harness doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also try to reach the model's address
    #[arg(long)]
    pub(crate) online: bool,
    /// How the report is written
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: ReportFormat,
    /// The folder to check; default: the current one
    #[arg(long, short, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// How the agent is made.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// A folder to work in; commands start in the first one. Default: the current one
    #[arg(long, short, value_name = "DIR")]
    pub(crate) workspace: Vec<PathBuf>,
    /// Replace the system prompt
    #[arg(long, value_name = "TEXT", help_heading = "Model")]
    pub(crate) system: Option<String>,
    /// Add to the system prompt
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "system",
        help_heading = "Model"
    )]
    pub(crate) instructions: Option<String>,
    /// How much the model thinks, in the provider's words, such as `low` or `high`
    #[arg(long, value_name = "LEVEL", help_heading = "Model")]
    pub(crate) thinking_level: Option<String>,
    /// Allow every tool that is not denied
    #[arg(long, short, help_heading = "Tools")]
    pub(crate) yes: bool,
    /// Allow a tool, or all with `*`; may be repeated
    #[arg(
        long,
        value_name = "TOOL",
        value_delimiter = ',',
        help_heading = "Tools"
    )]
    pub(crate) allow: Vec<String>,
    /// Refuse a tool, or all that are not allowed by name with `*`; may be repeated
    #[arg(
        long,
        value_name = "TOOL",
        value_delimiter = ',',
        help_heading = "Tools"
    )]
    pub(crate) deny: Vec<String>,
    /// Let file tools reach everything you can reach
    #[arg(long, help_heading = "Tools")]
    pub(crate) unconfined: bool,
    /// End a command that has run for so many seconds; default: never
    #[arg(long, value_name = "SECONDS", help_heading = "Limits", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) command_timeout: Option<u64>,
    /// The most requests to the model
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_model_calls: Option<u64>,
    /// The most tool calls
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_tool_calls: Option<u64>,
    /// The most tokens in all
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_total_tokens: Option<u64>,
}

/// Which model answers.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// The model: a Gemini model, or `script:FILE` for one that follows a script.
    /// Default: HARNESS_MODEL, or else gemini-3.8-flash
    #[arg(long, short, value_name = "MODEL", help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// The address of the model. One on this computer needs no key
    #[arg(long, value_name = "URL", help_heading = "Model")]
    pub(crate) base_url: Option<String>,
}

/// How `run` writes results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer as it comes
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object a line, as things happen
    Jsonl,
}

/// How `doctor` writes its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
