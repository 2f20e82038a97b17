use std::path::PathBuf;

use harness_types::{
    Action, BoxFuture, Tool, ToolCall, ToolClass, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::diff::Diff;
use super::target::Target;
use crate::built_ins::{parse_path, path_arg, read_args, shown_path, spec};
use crate::paths::Parents;
use crate::work::{Cancelled, blocking};
use crate::{FileAccess, WorkspacePath};

/// `write_to_file`: makes a file, replaces its content or adds to its end.
///
/// The content is written exactly as given, as a whole or not at all. Missing directories are
/// made, permissions are kept, a link is written through. An existing file needs `Overwrite` or
/// `Append` (F048).
#[derive(Debug, Clone)]
pub struct WriteToFile {
    access: FileAccess,
}

impl WriteToFile {
    /// The tool with this access.
    pub fn new(access: FileAccess) -> Self {
        Self { access }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Args {
    target_file: String,
    code_content: String,
    overwrite: Option<bool>,
    append: Option<bool>,
}

/// What happens to a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Create,
    Overwrite,
    Append,
}

impl Tool for WriteToFile {
    fn spec(&self) -> ToolSpec {
        spec(
            ("write_to_file", "create_file"),
            ToolClass::Mutating,
            "Writes a file: makes it with its parent directories, or, for an existing file, \
             replaces its whole content (Overwrite) or adds to its end (Append). CodeContent is \
             written exactly; no line end is added. To change part of a file use \
             replace_file_content.",
            &["TargetFile", "CodeContent"],
            json!({
                "TargetFile": {"type": "string", "description": "Absolute path of the file."},
                "CodeContent": {"type": "string", "description": "The content; may be empty."},
                "Overwrite": {
                    "type": "boolean",
                    "description": "Whether the content of an existing file is replaced. \
                                    Default false.",
                },
                "Append": {
                    "type": "boolean",
                    "description": "Whether the content is added to the end of an existing file. \
                                    Default false.",
                },
                "Description": {
                    "type": "string",
                    "description": "What the change is for, in a few words.",
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
            let mode = match (args.overwrite, args.append) {
                (Some(true), Some(true)) => {
                    return Err(ToolError::invalid("give Overwrite or Append, not both"));
                }
                (Some(true), _) => Mode::Overwrite,
                (_, Some(true)) => Mode::Append,
                _ => Mode::Create,
            };
            let access = self.access.clone();
            let content = args.code_content;
            blocking(move |cancelled| write(&access, &path, &content, mode, cancelled)).await
        })
    }
}

fn write(
    access: &FileAccess,
    path: &WorkspacePath,
    content: &str,
    mode: Mode,
    cancelled: &Cancelled,
) -> Result<ToolOutput, ToolError> {
    let target = Target::open(access, path, Parents::Make)?;
    if mode == Mode::Create && target.exists()? {
        return Err(ToolError::failed(format!(
            "`{path}` already exists and was not changed; set Overwrite to replace its whole \
             content, or use replace_file_content to change part of it"
        )));
    }
    let old = target.read(cancelled)?;
    let before = old.as_ref().map_or(&b""[..], |old| &old.bytes);
    let new = match mode {
        Mode::Append => [before, content.as_bytes()].concat(),
        Mode::Create | Mode::Overwrite => content.as_bytes().to_vec(),
    };
    target.replace(&new, old.as_ref(), cancelled)?;

    let verb = match (&old, mode) {
        (None, _) => "Created",
        (Some(_), Mode::Append) => "Appended to",
        (Some(_), _) => "Overwrote",
    };
    let diff = Diff::new(
        &String::from_utf8_lossy(before),
        &String::from_utf8_lossy(&new),
    );
    let text = format!("{verb} `{path}`; it now has {} bytes.", new.len());
    Ok(ToolOutput::text(text).with_action(Action::EditFile {
        path: path.to_string(),
        diff: diff.blocks,
    }))
}
