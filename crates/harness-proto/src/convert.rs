//! Between `genai.Struct` and plain JSON.
//!
//! * **Order.** A `Struct` is a list and keeps the order of its members; so do
//!   [`struct_from_json`] and [`struct_to_json`], which go by text. `serde_json::Map` sorts by name
//!   unless the build turns on serde_json's `preserve_order`.
//! * **Repeated names.** A `Struct` may hold a name twice, a JSON object may not: the last one
//!   wins, at its own place, as in the JSON readers of Python, Go and JavaScript.
//! * **Numbers.** A `Struct` holds doubles. Integers beyond ±2^53 become the nearest double. In the
//!   other direction a whole number within ±2^53 is written as an integer (`5`, not `5.0`).
//! * **Kinds.** A value of no kind reads as `null`. Content and function values have no plain form.
//! * **Depth.** [`MAX_DEPTH`] levels, in both directions.

use std::collections::HashMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Map;

use crate::Error;
use crate::error::{JsonError, JsonErrorKind};
use crate::genai::{Field, ListValue, Struct, Value, value::Kind};
use crate::wkt::NullValue;

/// Levels of nesting converted. What the JSON and binary readers accept is within it.
pub const MAX_DEPTH: usize = 100;

/// Integers up to here are exact as doubles.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Makes a `Struct` of a JSON object.
///
/// # Errors
///
/// [`Error::TooDeep`].
///
/// # Examples
///
/// ```
/// use harness_proto::convert::{struct_from_map, struct_to_map};
///
/// let json = serde_json::json!({"path": "a.txt", "limit": 5, "filter": null});
/// let map = json.as_object().expect("an object");
/// assert_eq!(struct_to_map(&struct_from_map(map)?)?, *map);
/// # Ok::<(), harness_proto::Error>(())
/// ```
pub fn struct_from_map(map: &Map<String, serde_json::Value>) -> Result<Struct, Error> {
    from_object(map, 0)
}

/// Makes a `Value` of a JSON value.
///
/// # Errors
///
/// [`Error::TooDeep`].
pub fn value_from_json(json: &serde_json::Value) -> Result<Value, Error> {
    from_value(json, 0)
}

/// Makes a JSON object of a `Struct`.
///
/// # Errors
///
/// [`Error::TooDeep`], [`Error::NotFinite`] or [`Error::NoJsonForm`].
pub fn struct_to_map(object: &Struct) -> Result<Map<String, serde_json::Value>, Error> {
    to_object(object, 0)
}

/// Makes a JSON value of a `Value`.
///
/// # Errors
///
/// [`Error::TooDeep`], [`Error::NotFinite`] or [`Error::NoJsonForm`].
pub fn value_to_json(value: &Value) -> Result<serde_json::Value, Error> {
    to_value(value, 0)
}

/// Reads a `Struct` from the text of a JSON object, in the order of the text.
///
/// # Errors
///
/// [`Error::Json`]; nesting beyond [`MAX_DEPTH`] is one of its kinds.
pub fn struct_from_json(json: &str) -> Result<Struct, Error> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    ObjectSeed { depth: 0 }
        .deserialize(&mut deserializer)
        .and_then(|object| deserializer.end().map(|()| object))
        .map_err(|error| {
            let too_deep = error.to_string().starts_with(TOO_DEEP);
            Error::Json(Box::new(JsonError {
                message: "genai.Struct",
                path: String::new(),
                line: error.line(),
                column: error.column(),
                problem: if too_deep {
                    "recursion limit exceeded".into()
                } else if error.is_data() {
                    "not a JSON object".into()
                } else {
                    "not JSON".into()
                },
                kind: match error.classify() {
                    _ if too_deep => JsonErrorKind::TooDeep,
                    serde_json::error::Category::Eof => JsonErrorKind::Incomplete,
                    serde_json::error::Category::Data => JsonErrorKind::Value,
                    _ => JsonErrorKind::Syntax,
                },
            }))
        })
}

/// Writes a `Struct` as the text of a JSON object, in its order.
///
/// # Errors
///
/// [`Error::TooDeep`], [`Error::NotFinite`] or [`Error::NoJsonForm`].
pub fn struct_to_json(object: &Struct) -> Result<String, Error> {
    check_object(object, 0)?;
    serde_json::to_string(&PlainObject(object)).map_err(|error| Error::Write {
        message: "genai.Struct",
        problem: error.to_string(),
    })
}

fn from_object(map: &Map<String, serde_json::Value>, depth: usize) -> Result<Struct, Error> {
    let fields = map
        .iter()
        .map(|(name, value)| Ok(field(name.clone(), from_value(value, depth + 1)?)))
        .collect::<Result<_, Error>>()?;
    Ok(Struct { fields })
}

fn from_value(json: &serde_json::Value, depth: usize) -> Result<Value, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    let kind = match json {
        serde_json::Value::Null => Kind::NullValue(NullValue::NullValue.into()),
        serde_json::Value::Bool(flag) => Kind::BoolValue(*flag),
        // A number that is no double can only come of serde_json's arbitrary_precision.
        serde_json::Value::Number(number) => {
            Kind::NumberValue(number.as_f64().ok_or(Error::NotFinite)?)
        }
        serde_json::Value::String(text) => Kind::StringValue(text.clone()),
        serde_json::Value::Array(items) => {
            let values = items
                .iter()
                .map(|item| from_value(item, depth + 1))
                .collect::<Result<_, _>>()?;
            Kind::ListValue(ListValue { values })
        }
        serde_json::Value::Object(map) => Kind::StructValue(from_object(map, depth)?),
    };
    Ok(Value { kind: Some(kind) })
}

fn field(name: String, value: Value) -> Field {
    Field {
        name: Some(name),
        value: Some(value),
    }
}

fn to_object(object: &Struct, depth: usize) -> Result<Map<String, serde_json::Value>, Error> {
    let mut map = Map::new();
    for (name, value) in members(object) {
        let value = match value {
            Some(value) => to_value(value, depth + 1)?,
            None => serde_json::Value::Null,
        };
        map.insert(name.to_owned(), value);
    }
    Ok(map)
}

fn to_value(value: &Value, depth: usize) -> Result<serde_json::Value, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    Ok(match &value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::NumberValue(number)) => serde_json::Value::Number(plain_number(*number)?),
        Some(Kind::StringValue(text)) => serde_json::Value::String(text.clone()),
        Some(Kind::BoolValue(flag)) => serde_json::Value::Bool(*flag),
        Some(Kind::StructValue(object)) => serde_json::Value::Object(to_object(object, depth)?),
        Some(Kind::ListValue(list)) => serde_json::Value::Array(
            list.values
                .iter()
                .map(|item| to_value(item, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        Some(Kind::ContentValue(_)) => return Err(Error::NoJsonForm { kind: "content" }),
        Some(Kind::FunctionValue(_)) => return Err(Error::NoJsonForm { kind: "function" }),
    })
}

fn plain_number(number: f64) -> Result<serde_json::Number, Error> {
    // -0.0 has no integer form.
    let whole = number.fract() == 0.0
        && number.abs() <= MAX_EXACT
        && !(number == 0.0 && number.is_sign_negative());
    if whole {
        Ok(serde_json::Number::from(number as i64))
    } else {
        serde_json::Number::from_f64(number).ok_or(Error::NotFinite)
    }
}

/// The members that count: of those with one name, the last.
fn members(object: &Struct) -> impl Iterator<Item = (&str, Option<&Value>)> {
    let last: HashMap<&str, usize> = object
        .fields
        .iter()
        .enumerate()
        .map(|(index, field)| (field.name(), index))
        .collect();
    object
        .fields
        .iter()
        .enumerate()
        .filter(move |(index, field)| last.get(field.name()) == Some(index))
        .map(|(_, field)| (field.name(), field.value.as_ref()))
}

/// Finds what [`PlainObject`] cannot write, before it writes.
fn check_object(object: &Struct, depth: usize) -> Result<(), Error> {
    members(object)
        .filter_map(|(_, value)| value)
        .try_for_each(|value| check_value(value, depth + 1))
}

fn check_value(value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    match &value.kind {
        Some(Kind::NumberValue(number)) => plain_number(*number).map(|_| ()),
        Some(Kind::StructValue(object)) => check_object(object, depth),
        Some(Kind::ListValue(list)) => list
            .values
            .iter()
            .try_for_each(|item| check_value(item, depth + 1)),
        Some(Kind::ContentValue(_)) => Err(Error::NoJsonForm { kind: "content" }),
        Some(Kind::FunctionValue(_)) => Err(Error::NoJsonForm { kind: "function" }),
        None | Some(Kind::NullValue(_) | Kind::StringValue(_) | Kind::BoolValue(_)) => Ok(()),
    }
}

struct PlainObject<'a>(&'a Struct);

struct PlainValue<'a>(Option<&'a Value>);

impl Serialize for PlainObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in members(self.0) {
            map.serialize_entry(name, &PlainValue(value))?;
        }
        map.end()
    }
}

impl Serialize for PlainValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.and_then(|value| value.kind.as_ref()) {
            None | Some(Kind::NullValue(_)) => serializer.serialize_unit(),
            Some(Kind::NumberValue(number)) => plain_number(*number)
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
            Some(Kind::StringValue(text)) => serializer.serialize_str(text),
            Some(Kind::BoolValue(flag)) => serializer.serialize_bool(*flag),
            Some(Kind::StructValue(object)) => PlainObject(object).serialize(serializer),
            Some(Kind::ListValue(list)) => {
                serializer.collect_seq(list.values.iter().map(|item| PlainValue(Some(item))))
            }
            Some(Kind::ContentValue(_) | Kind::FunctionValue(_)) => {
                Err(serde::ser::Error::custom("no JSON form"))
            }
        }
    }
}

const TOO_DEEP: &str = "nested too deep";

/// Reads an object in the order of its text.
struct ObjectSeed {
    depth: usize,
}

struct ValueSeed {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed {
    type Value = Struct;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Struct, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed {
    type Value = Struct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Struct, A::Error> {
        let mut fields = Vec::new();
        let depth = self.depth + 1;
        while let Some(name) = map.next_key()? {
            let kind = map.next_value_seed(ValueSeed { depth })?;
            fields.push(field(name, Value { kind: Some(kind) }));
        }
        Ok(Struct { fields })
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Kind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(de::Error::custom(TOO_DEEP));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Kind, E> {
        Ok(Kind::NullValue(NullValue::NullValue.into()))
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Kind, E> {
        Ok(Kind::BoolValue(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Kind, E> {
        Ok(Kind::NumberValue(number as f64))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Kind, E> {
        Ok(Kind::NumberValue(number as f64))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Kind, E> {
        Ok(Kind::NumberValue(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Kind, E> {
        Ok(Kind::StringValue(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Kind, A::Error> {
        let mut values = Vec::new();
        let depth = self.depth + 1;
        while let Some(kind) = seq.next_element_seed(Self { depth })? {
            values.push(Value { kind: Some(kind) });
        }
        Ok(Kind::ListValue(ListValue { values }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Kind, A::Error> {
        ObjectSeed { depth: self.depth }
            .visit_map(map)
            .map(Kind::StructValue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn json_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|it| json!(it)),
            (-(1i64 << 53)..=(1 << 53)).prop_map(|it| json!(it)),
            any::<f64>()
                .prop_filter("JSON has no such number", |it| it.is_finite())
                .prop_filter("written as an integer", |it| it.fract() != 0.0)
                .prop_map(|it| json!(it)),
            ".{0,8}".prop_map(|it| json!(it)),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(|it| json!(it)),
                prop::collection::btree_map(".{0,6}", inner, 0..6).prop_map(|it| json!(it)),
            ]
        })
    }

    proptest! {
        #[test]
        fn plain_json_comes_back(json in json_value()) {
            let value = value_from_json(&json).unwrap();
            prop_assert_eq!(value_to_json(&value).unwrap(), json);
        }

        #[test]
        fn text_and_map_agree(map in prop::collection::btree_map(".{0,6}", json_value(), 0..6)) {
            let json = json!(map);
            let object = struct_from_map(json.as_object().unwrap()).unwrap();
            let text = struct_to_json(&object).unwrap();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json);
            prop_assert_eq!(struct_from_json(&text).unwrap(), object);
        }
    }

    #[test]
    fn text_keeps_the_order_and_the_last_of_one_name() {
        let object = struct_from_json(r#"{"z":1,"a":2,"z":{"y":[],"b":null}}"#).unwrap();
        let names: Vec<_> = object.fields.iter().map(Field::name).collect();
        assert_eq!(names, ["z", "a", "z"]);
        assert_eq!(
            struct_to_json(&object).unwrap(),
            r#"{"a":2,"z":{"y":[],"b":null}}"#
        );
        assert_eq!(
            serde_json::Value::Object(struct_to_map(&object).unwrap()),
            json!({"a": 2, "z": {"y": [], "b": null}})
        );
    }

    #[test]
    fn numbers_are_doubles() {
        for (input, output) in [
            ("5", "5"),
            ("5.0", "5"),
            ("-0.0", "-0.0"),
            ("9007199254740992", "9007199254740992"),
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551615", "1.8446744073709552e+19"),
            ("1e300", "1e+300"),
            ("0.1", "0.1"),
        ] {
            let object = struct_from_json(&format!("{{\"n\":{input}}}")).unwrap();
            assert_eq!(
                struct_to_json(&object).unwrap(),
                format!("{{\"n\":{output}}}")
            );
        }
    }

    #[test]
    fn what_has_no_plain_form_is_an_error() {
        let object = |kind| Struct {
            fields: vec![field("a".into(), Value { kind: Some(kind) })],
        };
        for (kind, error) in [
            (Kind::NumberValue(f64::NAN), Error::NotFinite),
            (Kind::NumberValue(f64::NEG_INFINITY), Error::NotFinite),
            (
                Kind::ContentValue(Default::default()),
                Error::NoJsonForm { kind: "content" },
            ),
            (
                Kind::FunctionValue(Default::default()),
                Error::NoJsonForm { kind: "function" },
            ),
        ] {
            assert_eq!(struct_to_map(&object(kind.clone())), Err(error.clone()));
            assert_eq!(struct_to_json(&object(kind)), Err(error));
        }
    }

    #[test]
    fn unset_parts_read_as_null_and_as_the_empty_name() {
        let object = Struct {
            fields: vec![Field::default()],
        };
        assert_eq!(struct_to_json(&object).unwrap(), r#"{"":null}"#);
        let object = Struct {
            fields: vec![field("a".into(), Value::default())],
        };
        assert_eq!(
            struct_to_map(&object).unwrap(),
            *json!({"a": null}).as_object().unwrap()
        );
    }

    #[test]
    fn depth_is_bounded_in_every_direction() {
        let nest =
            |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        let object = struct_from_json(&nest(MAX_DEPTH)).unwrap();
        assert_eq!(struct_to_json(&object).unwrap(), nest(MAX_DEPTH));
        let map = struct_to_map(&object).unwrap();
        assert_eq!(struct_from_map(&map).unwrap(), object);

        for levels in [MAX_DEPTH + 1, 1_000_000] {
            let error = struct_from_json(&nest(levels)).unwrap_err();
            assert_eq!(error.as_json().unwrap().kind, JsonErrorKind::TooDeep);
        }
        let deeper = Struct {
            fields: vec![field(
                "a".into(),
                Value {
                    kind: Some(Kind::StructValue(object)),
                },
            )],
        };
        assert_eq!(struct_to_map(&deeper), Err(Error::TooDeep));
        assert_eq!(struct_to_json(&deeper), Err(Error::TooDeep));
        let deeper = json!({"a": map});
        assert_eq!(value_from_json(&deeper), Err(Error::TooDeep));
    }
}
