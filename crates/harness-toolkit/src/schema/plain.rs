//! Schemas that are plainly valid: a check that costs nothing, for those that most tools have.
//!
//! Compiling a schema is exact and dear: it brings in the meta-schemas and a good part of the
//! program's code. Most tools use a handful of keywords in their simplest form, and those can be
//! read off.

use serde_json::Value;

/// Whether a schema uses only keywords known here, rightly. `false` says nothing: it has to be
/// compiled to know.
pub(super) fn is_plainly_valid(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else {
        return schema.is_boolean();
    };
    keywords
        .iter()
        .all(|(keyword, value)| match keyword.as_str() {
            "type" => match value {
                Value::Array(types) => {
                    !types.is_empty() && types.iter().all(is_type) && is_unique(types)
                }
                one => is_type(one),
            },
            "properties" => value
                .as_object()
                .is_some_and(|properties| properties.values().all(is_plainly_valid)),
            "items" | "additionalProperties" => is_plainly_valid(value),
            "anyOf" | "oneOf" | "allOf" => value
                .as_array()
                .is_some_and(|list| !list.is_empty() && list.iter().all(is_plainly_valid)),
            "required" => value
                .as_array()
                .is_some_and(|names| names.iter().all(Value::is_string) && is_unique(names)),
            "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
            "title" | "description" | "$comment" => value.is_string(),
            "default" => true,
            "minimum" | "maximum" => value.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
            _ => false,
        })
}

fn is_type(value: &Value) -> bool {
    matches!(
        value.as_str(),
        Some("object" | "array" | "string" | "number" | "integer" | "boolean" | "null")
    )
}

/// Short lists only, so comparing each with each is quick enough.
fn is_unique(values: &[Value]) -> bool {
    values.len() <= 256
        && values
            .iter()
            .enumerate()
            .all(|(place, value)| !values[..place].contains(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ObjectSchema;

    #[test]
    fn what_tools_usually_declare_is_plain() {
        let schema = json!({
            "type": "object",
            "description": "x",
            "properties": {
                "a": {"type": ["string", "null"], "enum": ["x", null], "default": null},
                "b": {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 3},
                "c": {"anyOf": [{"type": "boolean"}, {"type": "object", "additionalProperties": false}]},
            },
            "required": ["a"],
        });
        assert!(is_plainly_valid(&schema));
        for doubtful in [
            json!({"type": "objekt"}),
            json!({"required": ["a", "a"]}),
            json!({"properties": []}),
            json!({"properties": {"a": {"type": 3}}}),
            json!({"$ref": "#/x"}),
            json!({"pattern": "("}),
            json!({"minLength": -1}),
            json!({"anyOf": []}),
            json!([]),
        ] {
            assert!(!is_plainly_valid(&doubtful), "{doubtful}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (-3i64..5).prop_map(Value::from),
            prop::sample::select(vec!["object", "string", "null", "a", "x"]).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let keyword = prop::sample::select(vec![
                "type",
                "properties",
                "items",
                "additionalProperties",
                "anyOf",
                "required",
                "enum",
                "title",
                "default",
                "minimum",
                "maxLength",
                "a",
            ]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((keyword, inner), 0..4).prop_map(|members| {
                    Value::Object(
                        members
                            .into_iter()
                            .map(|(k, v)| (k.to_owned(), v))
                            .collect(),
                    )
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_plain_schema_always_compiles(mut schema in any_value()) {
            if let Value::Object(keywords) = &mut schema {
                keywords.insert("type".to_owned(), json!("object"));
                if is_plainly_valid(&schema) {
                    prop_assert_eq!(ObjectSchema::compile(&schema).map(|_| ()), Ok(()));
                }
            }
        }
    }
}
