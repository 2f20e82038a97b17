use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;

use harness_types::{
    Action, BoxFuture, Tool, ToolCall, ToolClass, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::diff::Diff;
use super::nearest::nearest;
use super::splice::{Folded, MAX_MATCHES, apart, fold};
use super::target::Target;
use crate::built_ins::{parse_path, path_arg, read_args, shown_path, spec};
use crate::files::{BOM, is_binary, utf16};
use crate::paths::Parents;
use crate::work::{Cancelled, blocking};
use crate::{FileAccess, OutputLimit, WorkspacePath};

/// How many line numbers an error lists.
const MAX_LISTED: usize = 20;

/// How much of the diff the model is shown.
const DIFF_LIMIT: OutputLimit = OutputLimit::new(12 * 1024, 4 * 1024);

/// `replace_file_content`: changes part of a file.
///
/// The target has to match exactly, or nothing is written (F011). The form of line ends does not
/// matter and is kept (F010), so is a byte order mark (F035); bytes outside the target are not
/// touched. More than one place is an error with the line numbers of all (F048), unless
/// `AllowMultiple` is set; no place is an error that shows the nearest lines (F086). The file is
/// replaced as a whole.
#[derive(Debug, Clone)]
pub struct ReplaceFileContent {
    access: FileAccess,
}

impl ReplaceFileContent {
    /// The tool with this access.
    pub fn new(access: FileAccess) -> Self {
        Self { access }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Args {
    target_file: String,
    target_content: String,
    replacement_content: String,
    start_line: Option<i64>,
    end_line: Option<i64>,
    allow_multiple: Option<bool>,
}

impl Tool for ReplaceFileContent {
    fn spec(&self) -> ToolSpec {
        spec(
            ("replace_file_content", "edit_file"),
            ToolClass::Mutating,
            "Replaces TargetContent in a file by ReplacementContent. TargetContent has to match \
             the file exactly, indentation included, without the line numbers that view_file \
             shows; CRLF and LF count as equal and the file keeps its own. It must occur once \
             between StartLine and EndLine, or once in the whole file; otherwise nothing is \
             changed. The result shows the difference.",
            &["TargetFile", "TargetContent", "ReplacementContent"],
            json!({
                "TargetFile": {"type": "string", "description": "Absolute path of the file."},
                "TargetContent": {
                    "type": "string",
                    "description": "The text to replace, not empty.",
                },
                "ReplacementContent": {
                    "type": "string",
                    "description": "The text to put in its place; empty to delete.",
                },
                "StartLine": {
                    "type": "integer",
                    "description": "First line to look in, from 1. Default: first.",
                },
                "EndLine": {
                    "type": "integer",
                    "description": "Last line to look in, inclusive. Default: last.",
                },
                "AllowMultiple": {
                    "type": "boolean",
                    "description": "Whether all occurrences between StartLine and EndLine are \
                                    replaced. Default false.",
                },
                "Description": {
                    "type": "string",
                    "description": "What the change is for, in a few words.",
                },
                "Instruction": {
                    "type": "string",
                    "description": "What is changed, in a few words.",
                },
            }),
        )
    }

    fn opening(&self, call: &ToolCall) -> Action {
        Action::EditFile {
            path: shown_path(&call.args, "TargetFile"),
            diff: Vec::new(),
        }
    }

    fn paths(&self, args: &Map<String, Value>) -> Vec<PathBuf> {
        path_arg(args, "TargetFile")
    }

    fn call<'a>(
        &'a self,
        _: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Args = read_args(args)?;
            let path = parse_path("TargetFile", &args.target_file)?;
            if args.target_content.is_empty() {
                return Err(ToolError::invalid(
                    "TargetContent is empty; give the text to replace (to add text, give the line \
                     it comes after and repeat that line in ReplacementContent)",
                ));
            }
            let access = self.access.clone();
            blocking(move |cancelled| replace(&access, &path, &args, cancelled)).await
        })
    }
}

fn replace(
    access: &FileAccess,
    path: &WorkspacePath,
    args: &Args,
    cancelled: &Cancelled,
) -> Result<ToolOutput, ToolError> {
    let file = Target::open(access, path, Parents::Expect)?;
    let Some(old) = file.read(cancelled)? else {
        return Err(ToolError::failed(format!(
            "`{path}` does not exist; write_to_file makes files"
        )));
    };
    let (bom, text) = match old.bytes.strip_prefix(BOM) {
        Some(text) => (BOM, text),
        None => (&b""[..], &old.bytes[..]),
    };
    check_text(path, text, args)?;

    let without_bom = |text: &str| fold(text.strip_prefix('\u{feff}').unwrap_or(text));
    let target = without_bom(&args.target_content);
    let replacement = without_bom(&args.replacement_content);
    if target.is_empty() {
        return Err(ToolError::invalid(
            "TargetContent is empty but for a byte order mark",
        ));
    }
    if target == replacement {
        return Err(ToolError::invalid(
            "TargetContent and ReplacementContent are the same but for the form of line ends, \
             which is kept; nothing was changed",
        ));
    }
    let folded = Folded::new(text);
    let places = choose(&folded, &target, args)
        .map_err(|reason| ToolError::failed(format!("`{path}` was not changed: {reason}")))?;
    let mut new = bom.to_vec();
    new.extend(folded.splice(&places, &target, &replacement));
    file.replace(&new, Some(&old), cancelled)?;

    let diff = Diff::new(
        &String::from_utf8_lossy(text),
        &String::from_utf8_lossy(&new[bom.len()..]),
    );
    let times = match places.len() {
        1 => "1 exact match".to_owned(),
        count => format!("{count} exact matches"),
    };
    let text = format!(
        "Changed `{path}` at {times}:\n{}",
        DIFF_LIMIT.apply(&diff.unified())
    );
    Ok(ToolOutput::text(text).with_action(Action::EditFile {
        path: path.to_string(),
        diff: diff.blocks,
    }))
}

/// Refuses what cannot be edited as text.
fn check_text(path: &WorkspacePath, text: &[u8], args: &Args) -> Result<(), ToolError> {
    let start = &text[..text.len().min(8192)];
    let what = if utf16(start).is_some() {
        "is UTF-16 text"
    } else if is_binary(start) {
        "is binary data"
    } else if !args.replacement_content.is_ascii() && std::str::from_utf8(text).is_err() {
        "is not UTF-8 and ReplacementContent is not ASCII"
    } else {
        return Ok(());
    };
    Err(ToolError::failed(format!(
        "`{path}` {what}, so it cannot be edited with this tool"
    )))
}

/// The places to change, or why there are none.
fn choose(folded: &Folded<'_>, target: &[u8], args: &Args) -> Result<Vec<usize>, String> {
    let Some(all) = folded.find(target) else {
        return Err(format!(
            "TargetContent occurs more than {MAX_MATCHES} times; give more of its surroundings"
        ));
    };
    let range = folded.range(args.start_line, args.end_line);
    let inside = |place: &usize| range.contains(place) && place + target.len() <= range.end;
    let within: Vec<usize> = all.iter().copied().filter(inside).collect();
    let many = args.allow_multiple.unwrap_or(false);
    match (within.len(), all.len()) {
        (1, _) => Ok(within),
        (0, 1) => Ok(all),
        (0, 0) => Err(not_found(folded, args)),
        (0, _) => Err(format!(
            "TargetContent does not occur between {}, but {}; correct the lines or give more of \
             its surroundings",
            lines(folded, &range),
            occurrences(folded, &all)
        )),
        _ if many => Ok(apart(&within, target.len())),
        _ => Err(format!(
            "TargetContent is not unique between {}: it {}; give more of its surroundings, narrow \
             StartLine and EndLine, or set AllowMultiple",
            lines(folded, &range),
            occurrences(folded, &within)
        )),
    }
}

fn lines(folded: &Folded<'_>, range: &Range<usize>) -> String {
    let last = range.end.saturating_sub(1).max(range.start);
    format!(
        "lines {} and {}",
        folded.line_of(range.start),
        folded.line_of(last)
    )
}

fn occurrences(folded: &Folded<'_>, places: &[usize]) -> String {
    let numbers: Vec<String> = places
        .iter()
        .take(MAX_LISTED)
        .map(|place| folded.line_of(*place).to_string())
        .collect();
    let mut text = format!(
        "occurs {} times, at lines {}",
        places.len(),
        numbers.join(", ")
    );
    if places.len() > MAX_LISTED {
        let _ = write!(text, " and so on");
    }
    text
}

fn not_found(folded: &Folded<'_>, args: &Args) -> String {
    let text = String::from_utf8_lossy(folded.bytes());
    let near = nearest(&text, &args.target_content);
    let near = match near.as_str() {
        "" => "No line is like it; view_file shows the file.",
        near => near.trim_end(),
    };
    format!(
        "TargetContent does not occur in it. It has to match exactly, indentation included; only \
         CRLF and LF count as equal.\n{near}"
    )
}
