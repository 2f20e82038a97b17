//! The few `google.protobuf` types the protocol uses, with their JSON forms.
//!
//! Written here because `prost-types` has no JSON form and `pbjson-types` brings a calendar
//! library, a code generator and an overflow on `"--9223372036854775808s"`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// A signed span of time; in JSON a decimal number of seconds with an `s`.
///
/// Both parts have the same sign. Range: ±315,576,000,000 seconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// The rest, in nanoseconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A JSON object.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Struct {
    /// The members.
    #[prost(btree_map = "string, message", tag = "1")]
    pub fields: BTreeMap<String, Value>,
}

/// A JSON value; unset means `null`.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Value {
    /// The value.
    #[prost(oneof = "value::Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: Option<value::Kind>,
}

/// Parts of [`Value`].
pub mod value {
    /// The kinds of JSON value.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// `null`.
        #[prost(enumeration = "super::NullValue", tag = "1")]
        NullValue(i32),
        /// A number.
        #[prost(double, tag = "2")]
        NumberValue(f64),
        /// A string.
        #[prost(string, tag = "3")]
        StringValue(String),
        /// `true` or `false`.
        #[prost(bool, tag = "4")]
        BoolValue(bool),
        /// An object.
        #[prost(message, tag = "5")]
        StructValue(super::Struct),
        /// An array.
        #[prost(message, tag = "6")]
        ListValue(super::ListValue),
    }
}

/// A JSON array.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListValue {
    /// The elements.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

/// The one value of `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum NullValue {
    /// `null`.
    NullValue = 0,
}

const NANOS: i32 = 1_000_000_000;
const MAX_SECONDS: i64 = 315_576_000_000;

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let same_sign =
            (self.seconds >= 0 && self.nanos >= 0) || (self.seconds <= 0 && self.nanos <= 0);
        if !same_sign
            || self.seconds.unsigned_abs() > MAX_SECONDS.unsigned_abs()
            || self.nanos.unsigned_abs() >= NANOS.unsigned_abs()
        {
            return Err(serde::ser::Error::custom("duration out of range"));
        }
        let sign = if self.seconds < 0 || self.nanos < 0 {
            "-"
        } else {
            ""
        };
        let seconds = self.seconds.unsigned_abs();
        let nanos = self.nanos.unsigned_abs();
        // 0, 3, 6 or 9 digits.
        if nanos == 0 {
            serializer.collect_str(&format_args!("{sign}{seconds}s"))
        } else if nanos.is_multiple_of(1_000_000) {
            serializer.collect_str(&format_args!("{sign}{seconds}.{:03}s", nanos / 1_000_000))
        } else if nanos.is_multiple_of(1_000) {
            serializer.collect_str(&format_args!("{sign}{seconds}.{:06}s", nanos / 1_000))
        } else {
            serializer.collect_str(&format_args!("{sign}{seconds}.{nanos:09}s"))
        }
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DurationVisitor;
        impl Visitor<'_> for DurationVisitor {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds followed by `s`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
                parse_duration(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Other("text"), &self))
            }
        }
        deserializer.deserialize_str(DurationVisitor)
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s')?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: i64 = whole.parse().ok().filter(|it| *it <= MAX_SECONDS)?;
    let nanos: i32 = format!("{fraction:0<9}").parse().ok()?;
    Some(if negative {
        Duration {
            seconds: -seconds,
            nanos: -nanos,
        }
    } else {
        Duration { seconds, nanos }
    })
}

impl Serialize for Struct {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.fields)
    }
}

impl<'de> Deserialize<'de> for Struct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::deserialize(deserializer)?;
        Ok(Self { fields })
    }
}

impl Serialize for ListValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.values)
    }
}

impl<'de> Deserialize<'de> for ListValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::deserialize(deserializer)?;
        Ok(Self { values })
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.kind {
            None | Some(value::Kind::NullValue(_)) => serializer.serialize_unit(),
            Some(value::Kind::NumberValue(number)) if !number.is_finite() => {
                Err(serde::ser::Error::custom("a JSON number must be finite"))
            }
            Some(value::Kind::NumberValue(number)) => serializer.serialize_f64(*number),
            Some(value::Kind::StringValue(text)) => serializer.serialize_str(text),
            Some(value::Kind::BoolValue(flag)) => serializer.serialize_bool(*flag),
            Some(value::Kind::StructValue(object)) => object.serialize(serializer),
            Some(value::Kind::ListValue(list)) => list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = value::Kind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E: de::Error>(self) -> Result<value::Kind, E> {
                Ok(value::Kind::NullValue(0))
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<value::Kind, E> {
                Ok(value::Kind::BoolValue(flag))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<value::Kind, E> {
                Ok(value::Kind::NumberValue(number as f64))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<value::Kind, E> {
                Ok(value::Kind::NumberValue(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<value::Kind, E> {
                Ok(value::Kind::NumberValue(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<value::Kind, E> {
                Ok(value::Kind::StringValue(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<value::Kind, A::Error> {
                let mut values = Vec::new();
                while let Some(item) = seq.next_element()? {
                    values.push(item);
                }
                Ok(value::Kind::ListValue(ListValue { values }))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<value::Kind, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, item)) = map.next_entry()? {
                    fields.insert(name, item);
                }
                Ok(value::Kind::StructValue(Struct { fields }))
            }
        }
        let kind = deserializer.deserialize_any(ValueVisitor)?;
        Ok(Self { kind: Some(kind) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_decimal_seconds() {
        for (text, seconds, nanos) in [
            ("\"0s\"", 0, 0),
            ("\"1.500s\"", 1, 500_000_000),
            ("\"-0.000001s\"", 0, -1_000),
            ("\"-3.000000001s\"", -3, -1),
            ("\"315576000000s\"", MAX_SECONDS, 0),
        ] {
            let duration = Duration { seconds, nanos };
            assert_eq!(serde_json::from_str::<Duration>(text).unwrap(), duration);
            assert_eq!(serde_json::to_string(&duration).unwrap(), text);
        }
    }

    #[test]
    fn wrong_durations_are_errors_and_not_panics() {
        for text in [
            "\"\"",
            "\"s\"",
            "\"1\"",
            "\"1.s\"",
            "\".5s\"",
            "\"--1s\"",
            "\"-\"",
            "\"--9223372036854775808s\"",
            "\"9223372036854775807s\"",
            "\"1.0000000000s\"",
            "\"+1s\"",
        ] {
            assert!(serde_json::from_str::<Duration>(text).is_err(), "{text}");
        }
        for duration in [
            Duration {
                seconds: 1,
                nanos: -1,
            },
            Duration {
                seconds: i64::MIN,
                nanos: 0,
            },
            Duration {
                seconds: 0,
                nanos: i32::MIN,
            },
        ] {
            assert!(serde_json::to_string(&duration).is_err(), "{duration:?}");
        }
    }
}
