//! What differs between clients, as named choices made once per connection.
//!
//! So far there is one dialect: that of SDK 0.1.22, which is also what clients in other languages
//! speak. What it writes goes through [`Encoding`], which knows every version's fields.

use harness_proto::SdkVersion;
use harness_proto::json::Encoding;

/// How to speak with a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// How messages are written.
    pub(crate) encoding: Encoding,
}

impl Dialect {
    /// The dialect of the newest SDK.
    pub(crate) fn newest() -> Self {
        Self {
            encoding: Encoding::new(SdkVersion::NEWEST),
        }
    }
}
