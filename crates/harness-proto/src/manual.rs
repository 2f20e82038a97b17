//! JSON forms written by hand, where the generator cannot express them.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::generated::antigravity::localharness::{UserInput, user_input};
use crate::generated::genai::{Value, value::Kind};
use crate::wire::{EnumField, Float, Number, Skipped};
use crate::wkt::NullValue;

/// Writes `{"stringValue": "…"}` and so on; `{}` if no kind is set.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = usize::from(self.kind.is_some());
        let mut object = serializer.serialize_struct("genai.Value", len)?;
        match &self.kind {
            None => {}
            Some(Kind::NullValue(_)) => object.serialize_field("nullValue", &())?,
            Some(Kind::NumberValue(it)) => object.serialize_field("numberValue", &Float(*it))?,
            Some(Kind::StringValue(it)) => object.serialize_field("stringValue", it)?,
            Some(Kind::BoolValue(it)) => object.serialize_field("boolValue", it)?,
            Some(Kind::StructValue(it)) => object.serialize_field("structValue", it)?,
            Some(Kind::ListValue(it)) => object.serialize_field("listValue", it)?,
            Some(Kind::ContentValue(it)) => object.serialize_field("contentValue", it)?,
            Some(Kind::FunctionValue(it)) => object.serialize_field("functionValue", it)?,
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of type genai.Value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut kind = None;
                while let Some(key) = map.next_key::<ValueKey>()? {
                    let next = match key {
                        // `null` is a value here, not an absent field.
                        ValueKey::Null => match map.next_value::<Option<EnumField<Null>>>()? {
                            None => Some(Kind::NullValue(NullValue::NullValue.into())),
                            Some(field) => field.0.map(Kind::NullValue),
                        },
                        ValueKey::Number => map
                            .next_value::<Option<Number<f64>>>()?
                            .map(|it| Kind::NumberValue(it.0)),
                        ValueKey::String => map.next_value::<Option<_>>()?.map(Kind::StringValue),
                        ValueKey::Bool => map.next_value::<Option<_>>()?.map(Kind::BoolValue),
                        ValueKey::Struct => map.next_value::<Option<_>>()?.map(Kind::StructValue),
                        ValueKey::List => map.next_value::<Option<_>>()?.map(Kind::ListValue),
                        ValueKey::Content => map.next_value::<Option<_>>()?.map(Kind::ContentValue),
                        ValueKey::Function => {
                            map.next_value::<Option<_>>()?.map(Kind::FunctionValue)
                        }
                        ValueKey::Unknown => {
                            map.next_value::<Skipped>()?;
                            None
                        }
                    };
                    if let Some(next) = next {
                        if kind.is_some() {
                            return Err(de::Error::custom("a value has one kind only"));
                        }
                        kind = Some(next);
                    }
                }
                Ok(Value { kind })
            }
        }
        deserializer.deserialize_struct("genai.Value", &[], ValueVisitor)
    }
}

enum ValueKey {
    Null,
    Number,
    String,
    Bool,
    Struct,
    List,
    Content,
    Function,
    Unknown,
}

impl<'de> Deserialize<'de> for ValueKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = ValueKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<ValueKey, E> {
                Ok(match name {
                    "nullValue" | "null_value" => ValueKey::Null,
                    "numberValue" | "number_value" => ValueKey::Number,
                    "stringValue" | "string_value" => ValueKey::String,
                    "boolValue" | "bool_value" => ValueKey::Bool,
                    "structValue" | "struct_value" => ValueKey::Struct,
                    "listValue" | "list_value" => ValueKey::List,
                    "contentValue" | "content_value" => ValueKey::Content,
                    "functionValue" | "function_value" => ValueKey::Function,
                    _ => ValueKey::Unknown,
                })
            }
        }
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

/// `NullValue` as an enum field reads it.
struct Null(NullValue);

impl From<Null> for i32 {
    fn from(null: Null) -> Self {
        null.0.into()
    }
}

impl TryFrom<i32> for Null {
    type Error = prost::UnknownEnumValue;

    fn try_from(number: i32) -> Result<Self, Self::Error> {
        NullValue::try_from(number).map(Self)
    }
}

impl<'de> Deserialize<'de> for Null {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "NULL_VALUE" => Ok(Self(NullValue::NullValue)),
            _ => Err(de::Error::custom("not NULL_VALUE")),
        }
    }
}

impl Serialize for UserInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = usize::from(!self.parts.is_empty());
        let mut object = serializer.serialize_struct("antigravity.localharness.UserInput", len)?;
        if !self.parts.is_empty() {
            object.serialize_field("parts", &self.parts)?;
        }
        object.end()
    }
}

/// Reads the object, or a string as one text part (`userInput` of SDK 0.1.0 to 0.1.10).
impl<'de> Deserialize<'de> for UserInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InputVisitor;
        impl<'de> Visitor<'de> for InputVisitor {
            type Value = UserInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an object of type antigravity.localharness.UserInput")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<UserInput, E> {
                self.visit_string(text.to_owned())
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<UserInput, E> {
                Ok(UserInput::from(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UserInput, A::Error> {
                let mut parts = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key != "parts" {
                        map.next_value::<Skipped>()?;
                    } else if parts.is_some() {
                        return Err(de::Error::duplicate_field("parts"));
                    } else {
                        parts = map.next_value()?;
                    }
                }
                Ok(UserInput {
                    parts: parts.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_any(InputVisitor)
    }
}

/// One text part.
impl From<String> for UserInput {
    fn from(text: String) -> Self {
        Self {
            parts: vec![user_input::Part {
                part: Some(user_input::part::Part::Text(text)),
            }],
        }
    }
}

/// One text part.
impl From<&str> for UserInput {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}
