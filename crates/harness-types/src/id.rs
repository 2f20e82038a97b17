//! Identifiers. Each is its own type, so that none can be passed for another.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An identifier that breaks the rules of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// Shorter than the kind allows.
    #[error("must be at least {min} characters long, got {len}")]
    TooShort {
        /// The shortest accepted length, in characters.
        min: usize,
        /// The length given, in characters.
        len: usize,
    },
    /// Longer than the kind allows.
    #[error("must be at most {max} characters long, got {len}")]
    TooLong {
        /// The longest accepted length, in characters.
        max: usize,
        /// The length given, in characters.
        len: usize,
    },
    /// Holds a character that the kind does not allow.
    #[error("must match [a-zA-Z0-9-], found {found:?}")]
    BadCharacter {
        /// The first offending character.
        found: char,
    },
}

/// Names a conversation, the `cascade` of the wire: 32 lower-case hex characters when made here;
/// 32 to 128 of `[a-zA-Z0-9-]` when a client brings its own.
///
/// The alphabet keeps an id safe as a file name. Source: the closed harness refuses ids shorter
/// than 32 characters or with any other character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(Arc<str>);

impl ConversationId {
    /// The shortest accepted id, in characters.
    pub const MIN_LEN: usize = 32;
    /// The longest accepted id, in characters: it has to fit a file name.
    pub const MAX_LEN: usize = 128;

    /// Makes an id from 16 random bytes.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        use fmt::Write as _;
        let mut text = String::with_capacity(32);
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ConversationId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let len = text.chars().count();
        if len < Self::MIN_LEN {
            return Err(IdError::TooShort {
                min: Self::MIN_LEN,
                len,
            });
        }
        if len > Self::MAX_LEN {
            return Err(IdError::TooLong {
                max: Self::MAX_LEN,
                len,
            });
        }
        if let Some(found) = text
            .chars()
            .find(|c| !c.is_ascii_alphanumeric() && *c != '-')
        {
            return Err(IdError::BadCharacter { found });
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for ConversationId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names one agent's run inside a conversation. The root trajectory's id equals the
/// conversation's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrajectoryId(ConversationId);

impl TrajectoryId {
    /// The id of a conversation's root trajectory.
    pub fn root(conversation: &ConversationId) -> Self {
        Self(conversation.clone())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for TrajectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a tool call, as the model named it (or as the loop did when the model gave no id).
/// Unique within one answer of the model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(Arc<str>);

impl CallId {
    /// Takes any text as an id.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name($int);

        impl $name {
            /// Makes the id with this number.
            pub const fn new(number: $int) -> Self {
                Self(number)
            }

            /// The number.
            pub const fn get(self) -> $int {
                self.0
            }

            /// The id that follows this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// The place of a step in its trajectory, from 0, without gaps.
    StepIndex(u32)
}
counter! {
    /// An input a conversation has accepted, counted from 0.
    InputId(u64)
}
counter! {
    /// A turn of a trajectory, counted from 0 over the conversation.
    TurnId(u64)
}
counter! {
    /// One request to the model, counted from 0 over the conversation; a repeat is a new one.
    ModelCallId(u64)
}
counter! {
    /// A question the loop has asked the outside, counted from 0 over the conversation.
    RequestId(u64)
}
counter! {
    /// A wait the loop has asked for, counted from 0 over the conversation.
    TimerId(u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_are_32_hex_and_parse_back() {
        let id = ConversationId::from_random([0xab; 16]);
        assert_eq!(id.as_str(), "abababababababababababababababab");
        assert_eq!(id.as_str().parse(), Ok(id));
    }

    #[test]
    fn a_client_id_is_checked_for_length_and_alphabet() {
        assert_eq!(
            "short".parse::<ConversationId>(),
            Err(IdError::TooShort { min: 32, len: 5 })
        );
        assert_eq!(
            "a".repeat(129).parse::<ConversationId>(),
            Err(IdError::TooLong { max: 128, len: 129 })
        );
        assert_eq!(
            format!("{}/..", "a".repeat(32)).parse::<ConversationId>(),
            Err(IdError::BadCharacter { found: '/' })
        );
    }
}
