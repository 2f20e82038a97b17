//! Wall-clock instants, given from outside.

use serde::{Deserialize, Serialize};

/// A wall-clock instant in microseconds since the Unix epoch.
///
/// The loop never reads a clock: every instant it knows came in with an input, so that a session
/// can be replayed exactly.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant this many microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }
}
