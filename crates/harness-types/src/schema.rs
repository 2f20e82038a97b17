//! The version of the record format.

use serde::{Deserialize, Serialize};

/// The format [`crate::Record`] has in this version of the crate.
pub const RECORD_FORMAT: RecordFormat = RecordFormat(1);

/// A version of the record format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordFormat(pub(crate) u32);

impl RecordFormat {
    /// The number of the version.
    pub const fn get(self) -> u32 {
        self.0
    }
}
