//! Repairs the spelling of arguments where only one reading is possible.

use serde_json::{Map, Number, Value};

/// The largest magnitude below which every integer has a float of its own (2⁵³).
const EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// Repairs the members of `object`, whose schema is `schema`.
///
/// A value is touched only when the `type` its schema names excludes it, so one that validates
/// keeps its value; the one spelling that changes although it validates is `3.0` for an integer,
/// which becomes `3`. Values whose schema is behind a `$ref` are left alone.
pub(crate) fn coerce(schema: &Value, object: &mut Map<String, Value>) {
    let Some(properties) = plain(schema).and_then(|it| it.get("properties")?.as_object()) else {
        return;
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name)));
    object.retain(|name, value| {
        let Some(schema) = properties.get(name) else {
            return true;
        };
        if value.is_null() && !is_required(name) && excludes(schema, "null") {
            return false; // An optional argument given as null is one not given.
        }
        coerce_value(schema, value);
        true
    });
}

fn coerce_value(schema: &Value, value: &mut Value) {
    let Some(rules) = plain(schema) else {
        return;
    };
    match value {
        Value::Object(object) => coerce(schema, object),
        Value::Array(items) => {
            let uniform = rules.get("items").filter(|it| it.is_object());
            if let Some(schema) = uniform
                && !rules.contains_key("prefixItems")
            {
                for item in items {
                    coerce_value(schema, item);
                }
            }
        }
        Value::Number(number) if allows(schema, "integer") => {
            if let Some(integer) = integral(number) {
                *value = integer.into();
            }
        }
        Value::String(text) if excludes(schema, "string") => {
            if let Some(read) = read(schema, text) {
                *value = read;
            }
        }
        _ => {}
    }
}

/// Reads text as the scalar that `schema` asks for.
fn read(schema: &Value, text: &str) -> Option<Value> {
    if allows(schema, "boolean") {
        match text {
            "true" | "True" => return Some(true.into()),
            "false" | "False" => return Some(false.into()),
            _ => {}
        }
    }
    let number: Number = serde_json::from_str(text).ok()?;
    if allows(schema, "number") {
        return Some(number.into());
    }
    (allows(schema, "integer") && !number.is_f64()).then(|| number.into())
}

fn integral(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "integral and within 2^53")]
    (float.fract() == 0.0 && float.abs() < EXACT_FLOAT).then_some(float as i64)
}

/// The rules of a schema that says itself what it allows. Beside a `$ref`, older drafts ignore
/// everything else.
fn plain(schema: &Value) -> Option<&Map<String, Value>> {
    schema.as_object().filter(|it| !it.contains_key("$ref"))
}

/// Whether the schema has a `type` that names `kind`.
fn allows(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|it| it.as_str() == Some(kind)),
        _ => false,
    }
}

/// Whether the schema has a `type` that does not name `kind`.
fn excludes(schema: &Value, kind: &str) -> bool {
    plain(schema).is_some_and(|it| it.contains_key("type")) && !allows(schema, kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn coerced(schema: &Value, args: Value) -> Value {
        let Value::Object(mut args) = args else {
            panic!("arguments are an object");
        };
        coerce(schema, &mut args);
        Value::Object(args)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "int": {"type": "integer"},
                "num": {"type": "number"},
                "flag": {"type": "boolean"},
                "text": {"type": "string"},
                "maybe": {"type": ["integer", "null"]},
                "loose": {"type": ["integer", "string"]},
                "list": {"type": "array", "items": {"type": "integer"}},
                "nested": {"type": "object", "properties": {"int": {"type": "integer"}}},
                "far": {"$ref": "#/$defs/int"},
            },
            "required": ["int"],
            "$defs": {"int": {"type": "integer"}},
        })
    }

    #[test]
    fn unambiguous_spellings_are_repaired() {
        assert_eq!(
            coerced(
                &schema(),
                json!({
                    "int": "3", "num": "2.5", "flag": "true", "maybe": "4", "text": null,
                    "list": [1.0, "2"], "nested": {"int": 7.0}, "other": "9",
                })
            ),
            json!({
                "int": 3, "num": 2.5, "flag": true, "maybe": 4,
                "list": [1, 2], "nested": {"int": 7}, "other": "9",
            })
        );
    }

    #[test]
    fn ambiguous_or_wrong_values_are_left_for_validation() {
        let args = json!({
            "int": null, "num": "two", "flag": "yes", "maybe": null, "loose": "5", "far": "3",
            "text": 3, "list": "1,2", "nested": 3.5,
        });
        assert_eq!(coerced(&schema(), args.clone()), args);
        let args = json!({"int": "3.0"});
        assert_eq!(coerced(&schema(), args.clone()), args);
        let args = json!({"int": 1e300});
        assert_eq!(coerced(&schema(), args.clone()), args);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            (-8i32..8).prop_map(|n| Value::from(f64::from(n) / 2.0)),
            "true|3|2.5|x|".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("int|list", inner, 0..2)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Equal where `3.0` and `3` are the same number.
    fn same(a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| same(a, b)))
            }
            _ => a == b,
        }
    }

    proptest! {
        #[test]
        fn arguments_that_validate_keep_their_values(
            entries in prop::collection::hash_map(
                "int|num|flag|text|maybe|loose|list|nested|far|other", value(), 0..8),
        ) {
            let args: Map<String, Value> = entries.into_iter().collect();
            let validator = jsonschema::options().offline().build(&schema()).expect("a schema");
            let before = Value::Object(args.clone());
            let after = coerced(&schema(), before.clone());
            if validator.is_valid(&before) {
                prop_assert!(same(&before, &after), "{before} became {after}");
            }
            // Repairing twice is repairing once.
            prop_assert_eq!(coerced(&schema(), after.clone()), after);
        }
    }
}
