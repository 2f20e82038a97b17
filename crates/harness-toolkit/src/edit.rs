//! `write_to_file` and `replace_file_content`.

mod diff;
mod nearest;
mod replace;
mod splice;
mod target;
mod write;

pub use replace::ReplaceFileContent;
pub use write::WriteToFile;

/// The largest file that is edited.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
