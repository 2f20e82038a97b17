//! Names, numbers and kinds of the protocol's fields, as static tables.
//!
//! What a descriptor pool would tell, without decoding one: the JSON reader finds unknown members
//! with it, the JSON writer finds enum numbers. The whole descriptors are in
//! [`FILE_DESCRIPTOR_SET`](crate::FILE_DESCRIPTOR_SET).

use std::fmt;

/// A message type.
#[derive(Debug)]
pub struct MessageSchema {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [FieldSchema],
    /// Every JSON key a field is read under, sorted, with the index of the field.
    pub(crate) keys: &'static [(&'static str, usize)],
}

/// A field of a message.
#[derive(Debug)]
pub struct FieldSchema {
    pub(crate) name: &'static str,
    pub(crate) json_name: &'static str,
    pub(crate) number: u32,
    pub(crate) repeated: bool,
    pub(crate) kind: FieldKind,
}

/// What a field holds, as far as the tables follow it.
pub(crate) enum FieldKind {
    Scalar,
    Enum(&'static EnumSchema),
    Message(&'static MessageSchema),
    /// A `google.protobuf` message: any JSON.
    Opaque,
    ScalarMap,
    MessageMap(&'static MessageSchema),
}

/// An enum type.
#[derive(Debug)]
pub struct EnumSchema {
    pub(crate) name: &'static str,
    pub(crate) values: &'static [(&'static str, i32)],
}

/// A message of the protocol: binary by [`prost::Message`], JSON by serde, names by its schema.
///
/// Implemented by every generated message and by nothing else.
pub trait WireMessage:
    prost::Message
    + Clone
    + Default
    + PartialEq
    + fmt::Debug
    + serde::Serialize
    + serde::de::DeserializeOwned
    + sealed::Sealed
{
    /// The table of the message.
    const SCHEMA: &'static MessageSchema;
}

mod sealed {
    /// Keeps other crates from implementing [`WireMessage`](super::WireMessage).
    pub trait Sealed {}
}

impl MessageSchema {
    /// Returns the schema of a full name such as `antigravity.localharness.InputEvent`.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        let index = tables::ALL
            .binary_search_by(|schema| schema.name.cmp(name))
            .ok()?;
        tables::ALL.get(index).copied()
    }

    /// Returns the full name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the fields, in the order of their declaration.
    pub fn fields(&self) -> &'static [FieldSchema] {
        self.fields
    }

    /// Returns the field that a JSON key stands for: its JSON name, its proto name, or a name an
    /// older SDK has for it.
    pub fn field_by_key(&self, key: &str) -> Option<&'static FieldSchema> {
        let index = self
            .keys
            .binary_search_by(|(name, _)| (*name).cmp(key))
            .ok()?;
        self.keys
            .get(index)
            .and_then(|(_, field)| self.fields.get(*field))
    }
}

impl FieldSchema {
    /// Returns the name in the `.proto` file.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the name in JSON output.
    pub fn json_name(&self) -> &'static str {
        self.json_name
    }

    /// Returns the number on the binary wire.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether the field is a list or a map.
    pub fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// Returns the schema of the enum the field holds.
    pub fn enum_schema(&self) -> Option<&'static EnumSchema> {
        match self.kind {
            FieldKind::Enum(schema) => Some(schema),
            _ => None,
        }
    }

    /// Returns the schema of the message the field holds, or of the values of a map.
    pub fn message_schema(&self) -> Option<&'static MessageSchema> {
        match self.kind {
            FieldKind::Message(schema) | FieldKind::MessageMap(schema) => Some(schema),
            _ => None,
        }
    }
}

impl EnumSchema {
    /// Returns the full name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns names and numbers; of two names with one number the first is the one written.
    pub fn values(&self) -> &'static [(&'static str, i32)] {
        self.values
    }

    /// Returns the number of a name.
    pub fn number_of(&self, name: &str) -> Option<i32> {
        self.values
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, number)| *number)
    }

    /// Returns whether a value has this number.
    pub fn has_number(&self, number: i32) -> bool {
        self.values.iter().any(|(_, known)| *known == number)
    }
}

/// Names the target only: the tables refer to each other in circles.
impl fmt::Debug for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar => f.write_str("Scalar"),
            Self::Enum(schema) => write!(f, "Enum({})", schema.name),
            Self::Message(schema) => write!(f, "Message({})", schema.name),
            Self::Opaque => f.write_str("Opaque"),
            Self::ScalarMap => f.write_str("ScalarMap"),
            Self::MessageMap(schema) => write!(f, "MessageMap({})", schema.name),
        }
    }
}

#[allow(clippy::all, clippy::uninlined_format_args, reason = "generated code")]
mod tables {
    use std::fmt;

    use super::sealed::Sealed;
    use super::{EnumSchema, FieldKind, FieldSchema, MessageSchema, WireMessage};

    /// Stands for the value of a field that may hold a credential.
    struct Redacted(bool);

    impl fmt::Debug for Redacted {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(if self.0 { "[redacted]" } else { "unset" })
        }
    }

    include!("gen/schema.rs");
}
