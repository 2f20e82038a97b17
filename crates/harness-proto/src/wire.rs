//! Conversions of single values that the generated JSON code calls.
//!
//! Readers accept what Python's `json_format` accepts, since that is the other end of this wire.
//! Error texts never quote a string of the peer: it may be a credential in the wrong place.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::{
    self, Deserialize, Deserializer, IgnoredAny, IntoDeserializer, SeqAccess, Unexpected, Visitor,
};
use serde::ser::{Serialize, Serializer};

thread_local! {
    /// Whether the reader on this thread has met something it does not know.
    ///
    /// serde has no way to hand a context to generated `Deserialize` implementations, and asking
    /// here saves a second pass over every text in which everything is known.
    static MET_UNKNOWN: Cell<bool> = const { Cell::new(false) };
}

/// Runs a reader and returns whether it met an unknown field or enum value.
pub(crate) fn watching_for_unknown<T>(read: impl FnOnce() -> T) -> (T, bool) {
    MET_UNKNOWN.set(false);
    let result = read();
    (result, MET_UNKNOWN.get())
}

/// The value of an unknown field.
#[derive(Debug)]
pub(crate) struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        MET_UNKNOWN.set(true);
        deserializer
            .deserialize_ignored_any(IgnoredAny)
            .map(|_| Self)
    }
}

/// A number given as a JSON number or as a string; integers also as `1.0` and `1e2`.
#[derive(Debug)]
pub(crate) struct Number<T>(pub(crate) T);

/// The four number types of the protocol.
pub(crate) trait WireNumber: Sized {
    const EXPECTED: &'static str;
    fn from_signed(number: i64) -> Option<Self>;
    fn from_unsigned(number: u64) -> Option<Self>;
    fn from_float(number: f64) -> Option<Self>;
    fn from_text(text: &str) -> Option<Self>;
}

macro_rules! integers {
    ($($ty:ty, $expected:literal, $min:expr, $end:expr;)*) => {$(
        impl WireNumber for $ty {
            const EXPECTED: &'static str = $expected;

            fn from_signed(number: i64) -> Option<Self> {
                number.try_into().ok()
            }

            fn from_unsigned(number: u64) -> Option<Self> {
                number.try_into().ok()
            }

            fn from_float(number: f64) -> Option<Self> {
                // The bounds are exact as f64, which MAX of a 64-bit type is not.
                (number.fract() == 0.0 && ($min..$end).contains(&number))
                    .then_some(number as Self)
            }

            fn from_text(text: &str) -> Option<Self> {
                text.parse().ok().or_else(|| Self::from_float(text.parse().ok()?))
            }
        }
    )*};
}

integers! {
    i32, "a signed 32-bit integer", -2_147_483_648.0, 2_147_483_648.0;
    u32, "an unsigned 32-bit integer", 0.0, 4_294_967_296.0;
    i64, "a signed 64-bit integer", -9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0;
    u64, "an unsigned 64-bit integer", 0.0, 18_446_744_073_709_551_616.0;
}

impl WireNumber for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_signed(number: i64) -> Option<Self> {
        Some(number as Self)
    }

    fn from_unsigned(number: u64) -> Option<Self> {
        Some(number as Self)
    }

    fn from_float(number: f64) -> Option<Self> {
        Some(number)
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "NaN" => Some(Self::NAN),
            "Infinity" => Some(Self::INFINITY),
            "-Infinity" => Some(Self::NEG_INFINITY),
            _ => text.parse().ok().filter(|number: &Self| number.is_finite()),
        }
    }
}

impl<'de, T: WireNumber> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor<T>(PhantomData<T>);
        impl<T: WireNumber> Visitor<'_> for NumberVisitor<T> {
            type Value = Number<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number<T>, E> {
                T::from_signed(number)
                    .map(Number)
                    .ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number<T>, E> {
                T::from_unsigned(number)
                    .map(Number)
                    .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number<T>, E> {
                T::from_float(number)
                    .map(Number)
                    .ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number<T>, E> {
                T::from_text(text)
                    .map(Number)
                    .ok_or_else(|| E::invalid_value(Unexpected::Other("text"), &self))
            }
        }
        deserializer.deserialize_any(NumberVisitor(PhantomData))
    }
}

/// A double that is written as a number, or by name if it is not finite.
#[derive(Debug)]
pub(crate) struct Float(pub(crate) f64);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else if self.0.is_nan() {
            serializer.serialize_str("NaN")
        } else if self.0 > 0.0 {
            serializer.serialize_str("Infinity")
        } else {
            serializer.serialize_str("-Infinity")
        }
    }
}

/// Bytes in base64: either alphabet, with or without padding or white space.
#[derive(Debug)]
pub(crate) struct Base64(pub(crate) Bytes);

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

pub(crate) fn encode_base64(bytes: &Bytes) -> String {
    LENIENT.encode(bytes)
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    LENIENT.decode(text).ok().or_else(|| {
        let plain: Vec<u8> = text
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .map(|byte| match byte {
                b'-' => b'+',
                b'_' => b'/',
                other => other,
            })
            .collect();
        LENIENT.decode(plain).ok()
    })
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Base64Visitor;
        impl Visitor<'_> for Base64Visitor {
            type Value = Base64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a base64 string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Base64, E> {
                decode_base64(text)
                    .map(|bytes| Base64(bytes.into()))
                    .ok_or_else(|| E::invalid_value(Unexpected::Other("text"), &self))
            }
        }
        deserializer.deserialize_str(Base64Visitor)
    }
}

/// An enum field: `null` and names not known are unset, numbers not known are kept.
#[derive(Debug)]
pub(crate) struct EnumField<E>(pub(crate) Option<i32>, PhantomData<E>);

impl<'de, E> Deserialize<'de> for EnumField<E>
where
    E: Deserialize<'de> + Into<i32> + TryFrom<i32>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = deserializer.deserialize_any(EnumVisitor::<E>(PhantomData))?;
        Ok(Self(
            match found {
                Found::Null | Found::UnknownName => None,
                Found::Number(number) => Some(number),
            },
            PhantomData,
        ))
    }
}

/// A list of enum values: names not known are left out.
#[derive(Debug)]
pub(crate) struct EnumList<E>(pub(crate) Vec<i32>, PhantomData<E>);

impl<'de, E> Deserialize<'de> for EnumList<E>
where
    E: Deserialize<'de> + Into<i32> + TryFrom<i32>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<E>(PhantomData<E>);
        impl<'de, E> Visitor<'de> for ListVisitor<E>
        where
            E: Deserialize<'de> + Into<i32> + TryFrom<i32>,
        {
            type Value = Vec<i32>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of enum values")
            }

            fn visit_unit<Er: de::Error>(self) -> Result<Vec<i32>, Er> {
                Ok(Vec::new())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<i32>, A::Error> {
                let mut numbers = Vec::new();
                while let Some(Item(found, _)) = seq.next_element::<Item<E>>()? {
                    match found {
                        Found::Number(number) => numbers.push(number),
                        Found::UnknownName => {}
                        Found::Null => {
                            return Err(de::Error::invalid_type(Unexpected::Unit, &self));
                        }
                    }
                }
                Ok(numbers)
            }
        }
        let numbers = deserializer.deserialize_any(ListVisitor::<E>(PhantomData))?;
        Ok(Self(numbers, PhantomData))
    }
}

enum Found {
    Null,
    UnknownName,
    Number(i32),
}

struct Item<E>(Found, PhantomData<E>);

impl<'de, E> Deserialize<'de> for Item<E>
where
    E: Deserialize<'de> + Into<i32> + TryFrom<i32>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = deserializer.deserialize_any(EnumVisitor::<E>(PhantomData))?;
        Ok(Self(found, PhantomData))
    }
}

struct EnumVisitor<E>(PhantomData<E>);

/// Keeps a number, known or not.
fn number<E: TryFrom<i32>>(number: i32) -> Found {
    if E::try_from(number).is_err() {
        MET_UNKNOWN.set(true);
    }
    Found::Number(number)
}

impl<'de, E> Visitor<'de> for EnumVisitor<E>
where
    E: Deserialize<'de> + Into<i32> + TryFrom<i32>,
{
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name or the number of an enum value")
    }

    fn visit_unit<Er: de::Error>(self) -> Result<Found, Er> {
        Ok(Found::Null)
    }

    fn visit_i64<Er: de::Error>(self, value: i64) -> Result<Found, Er> {
        i32::try_from(value)
            .map(number::<E>)
            .map_err(|_| Er::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_u64<Er: de::Error>(self, value: u64) -> Result<Found, Er> {
        i32::try_from(value)
            .map(number::<E>)
            .map_err(|_| Er::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_f64<Er: de::Error>(self, value: f64) -> Result<Found, Er> {
        i32::from_float(value)
            .map(number::<E>)
            .ok_or_else(|| Er::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_str<Er: de::Error>(self, name: &str) -> Result<Found, Er> {
        let named: Result<E, de::value::Error> = E::deserialize(name.into_deserializer());
        Ok(match named {
            Ok(value) => Found::Number(value.into()),
            Err(_) => match name.parse() {
                Ok(digits) => number::<E>(digits),
                Err(_) => {
                    MET_UNKNOWN.set(true);
                    Found::UnknownName
                }
            },
        })
    }
}

/// An enum value for output: its name, or its number if it has none.
#[derive(Debug)]
pub(crate) struct EnumValue<E>(i32, PhantomData<E>);

impl<E> EnumValue<E> {
    pub(crate) fn new(number: i32) -> Self {
        Self(number, PhantomData)
    }
}

impl<E: TryFrom<i32> + Serialize> Serialize for EnumValue<E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match E::try_from(self.0) {
            Ok(value) => value.serialize(serializer),
            Err(_) => serializer.serialize_i32(self.0),
        }
    }
}
