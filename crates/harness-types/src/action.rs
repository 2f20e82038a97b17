//! What a step does to the world, in the form an observer is shown.

use serde::{Deserialize, Serialize};

use crate::{HostResponse, Question, QuestionAnswer, ToolCall};

/// The visible side of a tool call. Paths are absolute file-system paths.
///
/// An action is shown when the call opens, with what was asked, and when it has ended, with what
/// came of it; some tools show it in between, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Lists a directory.
    ListDirectory {
        /// The directory.
        path: String,
        /// Its entries by name; empty until the step is done.
        entries: Vec<DirEntry>,
    },
    /// Reads a file.
    ViewFile {
        /// The file.
        path: String,
        /// First line shown, from 0.
        start_line: u32,
        /// Last line shown, from 0, inclusive.
        end_line: u32,
        /// Byte offset inside the range at which the shown text starts.
        content_offset: u32,
    },
    /// Creates or changes a file.
    EditFile {
        /// The file.
        path: String,
        /// What changed; empty until the step is done.
        diff: Vec<DiffBlock>,
    },
    /// Searches file contents.
    SearchDirectory {
        /// Where.
        path: String,
        /// For what.
        query: String,
        /// How many matches there are in all, once known.
        results: Option<u32>,
    },
    /// Searches file names.
    FindFile {
        /// Where.
        path: String,
        /// For what.
        query: String,
        /// The listing the model gets, once known.
        output: Option<String>,
    },
    /// Runs a shell command.
    RunCommand {
        /// The command line as given.
        command_line: String,
        /// Where it runs.
        working_dir: String,
        /// Its exit code once it has ended; 128 + n when signal n ended it.
        exit_code: Option<i32>,
        /// What it printed, bounded. Views of a running command hold what there is so far, with
        /// no exit code yet.
        output: Option<String>,
    },
    /// Asks the user.
    AskQuestion {
        /// The questions.
        questions: Vec<Question>,
        /// The answers, once given, in the order of the questions.
        answers: Vec<QuestionAnswer>,
    },
    /// Gives the structured final answer.
    Finish {
        /// The arguments of the call as JSON text.
        output: String,
    },
    /// Calls a tool that runs in the client.
    HostTool {
        /// The call.
        call: ToolCall,
        /// What the client answered, once it has.
        response: Option<HostResponse>,
    },
    /// A tool with no view of its own.
    Tool {
        /// The call.
        call: ToolCall,
    },
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// The name; bytes that are not UTF-8 are shown as U+FFFD.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What a directory entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// Anything else, with its size in bytes (of a link: the link itself).
    File {
        /// Size in bytes.
        bytes: u64,
    },
}

/// A contiguous change with its context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffBlock {
    /// First old line the block covers, from 0.
    pub start_line: u32,
    /// Old line after the last one it covers.
    pub end_line: u32,
    /// The lines, without their line ends.
    pub lines: Vec<DiffLine>,
}

/// One line of a [`DiffBlock`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffLine {
    /// What happened to it.
    pub change: LineChange,
    /// The line without its end.
    pub text: String,
}

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineChange {
    /// It is context.
    Keep,
    /// It is new.
    Insert,
    /// It is gone.
    Delete,
}
