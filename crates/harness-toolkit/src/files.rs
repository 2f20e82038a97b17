//! `list_dir` and `view_file`, and what all file tools share.

mod list_dir;
mod media;
mod scan;
mod text;
mod view_file;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use harness_types::ToolError;

pub use list_dir::ListDir;
#[cfg(feature = "edit")]
pub(crate) use text::{BOM, is_binary, utf16};
pub use view_file::ViewFile;

use crate::paths::{Located, why};
use crate::{FileAccess, WorkspacePath};

/// Finds a file that can be read, or says why it cannot.
pub(crate) fn open_regular(
    access: &FileAccess,
    path: &WorkspacePath,
) -> Result<(File, fs::Metadata), ToolError> {
    let located = access.locate(path)?;
    // Looked at before it is opened, because opening some devices does something.
    regular(path, &look(&located, path)?)?;
    let file = located
        .open_file()
        .map_err(|error| failed("read", path, &error))?;
    let metadata = file
        .metadata()
        .map_err(|error| failed("read", path, &error))?;
    regular(path, &metadata)?;
    Ok((file, metadata))
}

pub(crate) fn look(located: &Located, path: &WorkspacePath) -> Result<fs::Metadata, ToolError> {
    fs::metadata(located.real()).map_err(|error| failed("read", path, &error))
}

/// Refuses everything but files with content.
pub(crate) fn regular(path: &WorkspacePath, metadata: &fs::Metadata) -> Result<(), ToolError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(ToolError::failed(format!(
            "`{path}` is a directory; list_dir shows what is in it"
        )));
    }
    let what = if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(ToolError::failed(format!("`{path}` is {what}, not a file")))
}

/// A failure of the system in words for the model.
pub(crate) fn failed(verb: &str, path: impl std::fmt::Display, error: &io::Error) -> ToolError {
    ToolError::failed(format!("cannot {verb} `{path}`: {}", why(error)))
}

/// A name or path on one line: bytes that are not UTF-8 become U+FFFD, control characters are
/// escaped.
pub(crate) fn one_line(path: &Path) -> String {
    let text = path.to_string_lossy();
    if !text.contains(char::is_control) {
        return text.into_owned();
    }
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}
