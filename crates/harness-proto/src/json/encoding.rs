//! JSON as one SDK version reads it.

use serde::ser::{
    Error as _, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer,
};

use super::write_error;
use crate::gates::{self, MessageGates};
use crate::schema::{EnumSchema, MessageSchema};
use crate::{Error, SdkVersion, WireMessage};

/// How output is written for one SDK version: without the fields it does not know, and with enums
/// by name or by number.
///
/// Numbers are the safe form: every version reads every number, also those it has no name for,
/// while an unknown name ends its connection. Names are what people and third-party clients
/// expect of the newest version.
///
/// Dropping a member of a oneof leaves an event without content, which SDKs reject too: a sender
/// must not build events that the version has not.
///
/// ```
/// use harness_proto::SdkVersion;
/// use harness_proto::json::{Encoding, EnumForm};
/// use harness_proto::localharness::{StepUpdate, step_update::State};
///
/// let step = StepUpdate {
///     state: Some(State::Done.into()),
///     parent_trajectory_id: Some("root".into()),
///     ..Default::default()
/// };
/// let old = Encoding::new(SdkVersion::new(0, 1, 7)).with_enums(EnumForm::Numbers);
/// assert_eq!(old.to_json(&step)?, r#"{"state":2}"#);
/// let new = Encoding::new(SdkVersion::NEWEST);
/// assert_eq!(
///     new.to_json(&step)?,
///     r#"{"state":"STATE_DONE","parentTrajectoryId":"root"}"#
/// );
/// # Ok::<(), harness_proto::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    patch: u16,
    enums: EnumForm,
}

/// How enum values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnumForm {
    /// By name; values without a name by number.
    Names,
    /// By number.
    Numbers,
}

impl Encoding {
    /// Makes the encoding for a version, with enums by name.
    pub fn new(version: SdkVersion) -> Self {
        Self {
            patch: version.measured_patch(),
            enums: EnumForm::Names,
        }
    }

    /// Chooses how enum values are written.
    #[must_use]
    pub fn with_enums(self, enums: EnumForm) -> Self {
        Self { enums, ..self }
    }

    /// Writes a message.
    ///
    /// # Errors
    ///
    /// [`Error::Write`], as [`to_json`](super::to_json).
    pub fn to_json<T: WireMessage>(self, message: &T) -> Result<String, Error> {
        let mut buffer = Vec::with_capacity(128);
        self.to_json_into(message, &mut buffer)?;
        String::from_utf8(buffer).map_err(|_| Error::Write {
            message: T::SCHEMA.name(),
            problem: "not UTF-8".into(),
        })
    }

    /// Appends a message to a buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Write`], as [`to_json`](super::to_json); the buffer then holds what it held
    /// before.
    pub fn to_json_into<T: WireMessage>(
        self,
        message: &T,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let before = buffer.len();
        let gated = Gated {
            inner: &mut serde_json::Serializer::new(&mut *buffer),
            encoding: self,
            enums: None,
        };
        message.serialize(gated).map_err(|error| {
            buffer.truncate(before);
            write_error::<T>(&error)
        })
    }
}

/// A serializer that leaves out fields on the way to another one.
struct Gated<S> {
    inner: S,
    encoding: Encoding,
    /// Set inside a field of enum type.
    enums: Option<&'static EnumSchema>,
}

/// A value that is to be written through [`Gated`].
struct Wrapped<'v, T: ?Sized> {
    value: &'v T,
    encoding: Encoding,
    enums: Option<&'static EnumSchema>,
}

impl<T: Serialize + ?Sized> Serialize for Wrapped<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Gated {
            inner: serializer,
            encoding: self.encoding,
            enums: self.enums,
        })
    }
}

impl<S> Gated<S> {
    fn wrap<'v, T: ?Sized>(&self, value: &'v T) -> Wrapped<'v, T> {
        Wrapped {
            value,
            encoding: self.encoding,
            enums: self.enums,
        }
    }

    fn of<I>(&self, inner: I) -> Gated<I> {
        Gated {
            inner,
            encoding: self.encoding,
            enums: self.enums,
        }
    }
}

struct GatedStruct<S> {
    inner: S,
    encoding: Encoding,
    schema: Option<&'static MessageSchema>,
    gates: Option<&'static MessageGates>,
}

impl<S: SerializeStruct> SerializeStruct for GatedStruct<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), S::Error> {
        if self
            .gates
            .is_some_and(|gates| !gates.allows_json(key, self.encoding.patch))
        {
            return Ok(());
        }
        let enums = match self.encoding.enums {
            EnumForm::Names => None,
            EnumForm::Numbers => self
                .schema
                .and_then(|schema| schema.field_by_key(key)?.enum_schema()),
        };
        let encoding = self.encoding;
        self.inner.serialize_field(
            key,
            &Wrapped {
                value,
                encoding,
                enums,
            },
        )
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}

impl<S: SerializeSeq> SerializeSeq for Gated<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        let value = self.wrap(value);
        self.inner.serialize_element(&value)
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}

impl<S: SerializeMap> SerializeMap for Gated<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        self.inner.serialize_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        let value = self.wrap(value);
        self.inner.serialize_value(&value)
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}

macro_rules! forward {
    ($($method:ident($ty:ty))*) => {$(
        fn $method(self, value: $ty) -> Result<S::Ok, S::Error> {
            self.inner.$method(value)
        }
    )*};
}

/// Forms of serde's data model that no message uses.
macro_rules! unused {
    ($($method:ident($($ty:ty),*) -> $out:ty)*) => {$(
        fn $method(self, $(_: $ty),*) -> Result<$out, S::Error> {
            Err(S::Error::custom("not part of a message"))
        }
    )*};
}

impl<S: Serializer> Serializer for Gated<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Gated<S::SerializeSeq>;
    type SerializeMap = Gated<S::SerializeMap>;
    type SerializeStruct = GatedStruct<S::SerializeStruct>;
    type SerializeTuple = Impossible<S::Ok, S::Error>;
    type SerializeTupleStruct = Impossible<S::Ok, S::Error>;
    type SerializeTupleVariant = Impossible<S::Ok, S::Error>;
    type SerializeStructVariant = Impossible<S::Ok, S::Error>;

    forward! {
        serialize_bool(bool)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
        serialize_f32(f32) serialize_f64(f64)
        serialize_char(char) serialize_bytes(&[u8])
    }

    fn serialize_str(self, text: &str) -> Result<S::Ok, S::Error> {
        match self.enums.and_then(|schema| schema.number_of(text)) {
            Some(number) => self.inner.serialize_i32(number),
            None => self.inner.serialize_str(text),
        }
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let value = self.wrap(value);
        self.inner.serialize_some(&value)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        let shell = self.of(());
        Ok(shell.of(self.inner.serialize_seq(len)?))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        let shell = self.of(());
        Ok(shell.of(self.inner.serialize_map(len)?))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        Ok(GatedStruct {
            inner: self.inner.serialize_struct(name, len)?,
            encoding: self.encoding,
            schema: MessageSchema::by_name(name),
            gates: gates::of_message(name),
        })
    }

    unused! {
        serialize_unit_struct(&'static str) -> S::Ok
        serialize_unit_variant(&'static str, u32, &'static str) -> S::Ok
        serialize_tuple(usize) -> Self::SerializeTuple
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct
        serialize_tuple_variant(&'static str, u32, &'static str, usize)
            -> Self::SerializeTupleVariant
        serialize_struct_variant(&'static str, u32, &'static str, usize)
            -> Self::SerializeStructVariant
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = self.wrap(value);
        self.inner.serialize_newtype_struct(name, &value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("not part of a message"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::localharness::{
        CallHookRequest, InitializeConversationResponse, LifecycleHook, OutputEvent, SandboxStatus,
        StepUpdate, ToolCall, UsageMetadata, output_event::Event, step_update,
    };

    fn old(patch: u16) -> Encoding {
        Encoding::new(SdkVersion::new(0, 1, patch)).with_enums(EnumForm::Numbers)
    }

    #[test]
    fn nested_messages_are_gated_too() {
        let event = OutputEvent {
            seq_num: Some(1),
            event: Some(Event::InitializeConversationResponse(
                InitializeConversationResponse {
                    history: vec![StepUpdate {
                        step_index: Some(0),
                        source: Some(step_update::Source::User.into()),
                        parent_trajectory_id: Some("p".into()),
                        ..Default::default()
                    }],
                    sandbox_status: Some(SandboxStatus::default()),
                    ..Default::default()
                },
            )),
            usage_metadata: Some(UsageMetadata::default()),
            ..Default::default()
        };
        assert_eq!(
            old(9).to_json(&event).unwrap(),
            r#"{"seqNum":"1","usageMetadata":{},"initializeConversationResponse":{"history":[{"stepIndex":0,"source":2}]}}"#
        );
        assert_eq!(
            old(22).to_json(&event).unwrap(),
            r#"{"seqNum":"1","initializeConversationResponse":{"history":[{"stepIndex":0,"source":2,"parentTrajectoryId":"p"}],"sandboxStatus":{}}}"#
        );
    }

    #[test]
    fn a_message_of_which_nothing_is_left_is_an_empty_object() {
        let status = SandboxStatus {
            available: Some(true),
            ..Default::default()
        };
        assert_eq!(old(16).to_json(&status).unwrap(), "{}");
    }

    #[test]
    fn numbers_stand_for_enums_and_for_nothing_else() {
        let hook = CallHookRequest {
            name: Some("LIFECYCLE_HOOK_STOP".into()),
            r#type: Some(LifecycleHook::Stop.into()),
            ..Default::default()
        };
        assert_eq!(
            old(22).to_json(&hook).unwrap(),
            r#"{"name":"LIFECYCLE_HOOK_STOP","type":9}"#
        );
        let unnamed = CallHookRequest {
            r#type: Some(77),
            ..Default::default()
        };
        assert_eq!(old(22).to_json(&unnamed).unwrap(), r#"{"type":77}"#);
        assert_eq!(
            Encoding::new(SdkVersion::NEWEST).to_json(&unnamed).unwrap(),
            r#"{"type":77}"#
        );
    }

    #[test]
    fn arguments_pass_as_they_are() {
        let map = serde_json::json!({"a": [null, true, 1.5, "x", {"b": {}}]});
        let call = ToolCall {
            arguments: Some(crate::convert::struct_from_map(map.as_object().unwrap()).unwrap()),
            ..Default::default()
        };
        assert_eq!(
            old(22).to_json(&call).unwrap(),
            crate::json::to_json(&call).unwrap()
        );
        assert_eq!(old(0).to_json(&call).unwrap(), "{}");
    }
}
