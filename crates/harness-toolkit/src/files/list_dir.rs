use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use harness_types::{
    Action, BoxFuture, DirEntry, EntryKind, Tool, ToolCall, ToolClass, ToolContext, ToolError,
    ToolOutput, ToolSpec,
};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{failed, look, one_line};
use crate::built_ins::{parse_path, path_arg, read_args, shown_path, spec};
use crate::work::{Cancelled, FirstFew, blocking};
use crate::{FileAccess, WorkspacePath};

/// How many entries are shown.
const MAX_ENTRIES: usize = 2000;

/// `list_dir`: what is in a directory.
///
/// All entries, hidden and ignored ones too, ordered by the bytes of their names; directories
/// among the rest. A link counts as a file with its own size. At most 2,000 are shown.
#[derive(Debug, Clone)]
pub struct ListDir {
    access: FileAccess,
}

impl ListDir {
    /// The tool with this access.
    pub fn new(access: FileAccess) -> Self {
        Self { access }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Args {
    directory_path: String,
}

impl Tool for ListDir {
    fn spec(&self) -> ToolSpec {
        spec(
            ("list_dir", "list_directory"),
            ToolClass::ReadOnly,
            "Lists a directory: one JSON object per entry with its name and either isDir or \
             sizeBytes, ordered by name. Shows hidden and ignored entries, does not go into \
             subdirectories. At most 2000 entries are shown; the summary counts all.",
            &["DirectoryPath"],
            json!({
                "DirectoryPath": {"type": "string", "description": "Absolute path of the directory."},
            }),
        )
    }

    fn opening(&self, call: &ToolCall) -> Action {
        Action::ListDirectory {
            path: shown_path(&call.args, "DirectoryPath"),
            entries: Vec::new(),
        }
    }

    fn paths(&self, args: &Map<String, Value>) -> Vec<PathBuf> {
        path_arg(args, "DirectoryPath")
    }

    fn call<'a>(
        &'a self,
        _: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Args = read_args(args)?;
            let path = parse_path("DirectoryPath", &args.directory_path)?;
            let access = self.access.clone();
            blocking(move |cancelled| list(&access, &path, cancelled)).await
        })
    }
}

/// How many of each there are.
#[derive(Default)]
struct Counts {
    directories: u64,
    files: u64,
}

impl Counts {
    fn add(&mut self, kind: EntryKind) {
        match kind {
            EntryKind::Directory => self.directories += 1,
            _ => self.files += 1,
        }
    }
}

fn list(
    access: &FileAccess,
    path: &WorkspacePath,
    cancelled: &Cancelled,
) -> Result<ToolOutput, ToolError> {
    let located = access.locate(path)?;
    if !look(&located, path)?.is_dir() {
        return Err(ToolError::failed(format!(
            "`{path}` is not a directory; view_file shows files"
        )));
    }
    let broken = |error: std::io::Error| failed("list", path, &error);
    let directory = located.open_directory().map_err(broken)?;

    let mut all = Counts::default();
    let mut few = FirstFew::new(MAX_ENTRIES);
    for entry in Dir::read_from(&directory).map_err(|error| broken(error.into()))? {
        cancelled.check().map_err(broken)?;
        let entry = entry.map_err(|error| broken(error.into()))?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            kind => kind == FileType::Directory,
        };
        all.add(if is_directory {
            EntryKind::Directory
        } else {
            EntryKind::File { bytes: 0 }
        });
        few.push((name.to_vec(), is_directory));
    }

    let total = few.total();
    let mut shown = Counts::default();
    let mut entries = Vec::new();
    let mut text = String::new();
    for (name, is_directory) in few.into_sorted() {
        let name = OsString::from_vec(name);
        let kind = if is_directory {
            EntryKind::Directory
        } else {
            // Gone by now: it was there when the directory was read.
            let stat = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW);
            let bytes = stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
            EntryKind::File { bytes }
        };
        shown.add(kind);
        let line = match kind {
            EntryKind::File { bytes } => {
                json!({"name": name.to_string_lossy(), "sizeBytes": bytes})
            }
            _ => json!({"name": name.to_string_lossy(), "isDir": true}),
        };
        let _ = writeln!(text, "{line}");
        entries.push(DirEntry {
            name: one_line(Path::new(&name)),
            kind,
        });
    }
    if entries.is_empty() {
        text.push_str("The directory is empty.\n");
    }
    let hidden = total - entries.len() as u64;
    if hidden > 0 {
        let _ = writeln!(
            text,
            "… {hidden} more entries are not shown: {} directories and {} files.",
            all.directories - shown.directories,
            all.files - shown.files,
        );
    }
    let _ = write!(
        text,
        "\nSummary: {} directories and {} files.",
        all.directories, all.files
    );
    Ok(ToolOutput::text(text).with_action(Action::ListDirectory {
        path: path.to_string(),
        entries,
    }))
}
