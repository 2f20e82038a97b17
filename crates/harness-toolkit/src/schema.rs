//! Argument schemas: compiled once, asked for every call.

mod circle;
mod plain;

use std::fmt::Write as _;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use circle::find_circle;
use plain::is_plainly_valid;

use crate::coerce::coerce;
use crate::limit::brief;

/// How many faults of one call are told to the model.
const MAX_FAULTS: usize = 8;

/// How much of a bad value, or of a list of allowed ones, is quoted.
const MAX_QUOTE_BYTES: usize = 120;

/// How much text of another kind one fault may hold.
const MAX_FAULT_BYTES: usize = 400;

/// The arguments every tool accepts beside its own, with what the model is told of them: the
/// closed harness declares them, so models send them, and user interfaces show them.
const ANNOTATIONS: [(&str, &str); 2] = [
    (
        "toolAction",
        "What this call does, in a few words for the user.",
    ),
    (
        "toolSummary",
        "What this call is about, in a few words for the user.",
    ),
];

/// A JSON Schema that cannot be used for the arguments of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It does not describe objects.
    #[error("the schema must describe an object, it describes {found}")]
    NotAnObject {
        /// What it describes instead.
        found: String,
    },
    /// It is not a valid JSON Schema, or refers to something outside itself.
    #[error("invalid JSON Schema at `{path}`: {message}")]
    Invalid {
        /// Where in the schema, as a JSON pointer.
        path: String,
        /// What is wrong there.
        message: String,
    },
    /// Its references lead in a circle without looking at any value in between.
    #[error("the reference `{reference}` leads back to itself")]
    Circular {
        /// A reference on the circle.
        reference: String,
    },
}

/// A compiled JSON Schema for objects: the arguments of a tool, or a structured answer.
///
/// The draft is the one `$schema` names, 2020-12 otherwise. References reach only into the schema
/// itself: nothing is ever fetched or read.
///
/// ```
/// # use harness_toolkit::ObjectSchema;
/// # use serde_json::json;
/// let schema = ObjectSchema::compile(&json!({
///     "type": "object",
///     "properties": {"size": {"enum": ["s", "m", null]}, "count": {"type": "integer"}},
///     "required": ["count"],
/// }))?;
/// let args = json!({"size": "xl"});
/// assert_eq!(
///     schema.validate(args.as_object().unwrap()),
///     Err("`count`: required, but missing\n\
///          `size`: expected one of [\"s\",\"m\",null], got \"xl\"".to_owned())
/// );
/// # Ok::<(), harness_toolkit::SchemaError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ObjectSchema {
    source: Value,
    validator: Validator,
}

impl ObjectSchema {
    /// Says what [`compile`](Self::compile) would, without compiling the schemas that are plainly
    /// valid, as those of most tools are.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    pub fn check(schema: &Value) -> Result<(), SchemaError> {
        require_object(schema)?;
        if is_plainly_valid(schema) {
            return Ok(());
        }
        Self::compile(schema).map(drop)
    }

    /// Compiles `schema`. One without `type` is taken to describe an object.
    ///
    /// # Errors
    ///
    /// [`SchemaError`]: not an object schema, not a schema at all, or references that cannot be
    /// resolved inside it.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        require_object(schema)?;
        if let Some(reference) = find_circle(schema) {
            return Err(SchemaError::Circular {
                reference: brief(&reference, MAX_QUOTE_BYTES).into_owned(),
            });
        }
        let validator = jsonschema::options()
            .offline()
            .build(schema)
            .map_err(|error| SchemaError::Invalid {
                path: error.instance_path().to_string(),
                message: brief(&error.to_string(), MAX_FAULT_BYTES).into_owned(),
            })?;
        Ok(Self {
            source: schema.clone(),
            validator,
        })
    }

    /// The schema as it was given.
    pub fn as_value(&self) -> &Value {
        &self.source
    }

    /// Repairs arguments whose type is wrong but whose meaning is plain: `"3"` and `3.0` for an
    /// integer, `"2.5"` for a number, `"true"` for a boolean, `null` for an optional argument that
    /// cannot be null (it is removed).
    ///
    /// Values that validate keep their value. Only `properties` and `items` are followed, not
    /// `$ref` or alternatives.
    pub fn coerce(&self, args: &mut Map<String, Value>) {
        coerce(&self.source, args);
    }

    /// Checks arguments.
    ///
    /// # Errors
    ///
    /// A text for the model, one line a fault: where, what was expected, what was given. At most 8
    /// faults are told; values are quoted up to 120 bytes.
    pub fn validate(&self, args: &Map<String, Value>) -> Result<(), String> {
        let instance = Value::Object(args.clone());
        let mut faults = self.validator.iter_errors(&instance).peekable();
        if faults.peek().is_none() {
            return Ok(());
        }
        let mut told: Vec<String> = faults
            .by_ref()
            .take(MAX_FAULTS)
            .map(|it| tell(&it))
            .collect();
        told.sort();
        let mut message = told.join("\n");
        let more = faults.count();
        if more > 0 {
            let _ = write!(message, "\nand {more} more");
        }
        Err(message)
    }
}

/// Takes `toolAction` and `toolSummary` out of the arguments of a call: they are words for the
/// user, not for the tool.
pub fn strip_annotations(args: &mut Map<String, Value>) {
    for (name, _) in ANNOTATIONS {
        args.shift_remove(name);
    }
}

/// Declares `toolAction` and `toolSummary` as optional strings in an object schema. A property the
/// schema already has is left as it is.
pub fn declare_annotations(parameters: &mut Value) {
    let Some(schema) = parameters.as_object_mut() else {
        return;
    };
    let properties = schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    let Some(properties) = properties.as_object_mut() else {
        return;
    };
    for (name, description) in ANNOTATIONS {
        properties
            .entry(name)
            .or_insert_with(|| serde_json::json!({"type": "string", "description": description}));
    }
}

fn require_object(schema: &Value) -> Result<(), SchemaError> {
    let Some(rules) = schema.as_object() else {
        return Err(SchemaError::NotAnObject {
            found: kind(schema).to_owned(),
        });
    };
    let fits = match rules.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|it| it == "object"),
        Some(only) => only == "object",
    };
    if fits {
        return Ok(());
    }
    Err(SchemaError::NotAnObject {
        found: brief(&rules["type"].to_string(), MAX_QUOTE_BYTES).into_owned(),
    })
}

/// One fault in words for the model.
fn tell(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let path = path.trim_start_matches('/');
    let quote = |value: &Value| brief(&value.to_string(), MAX_QUOTE_BYTES).into_owned();
    let given = quote(error.instance());
    let at = |inner: &str| match path {
        "" => inner.to_owned(),
        outer => format!("{outer}/{inner}"),
    };
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            format!("`{}`: required, but missing", at(name))
        }
        ValidationErrorKind::Type { kind: expected } => {
            let expected = match expected {
                TypeKind::Single(only) => only.to_string(),
                TypeKind::Multiple(kinds) => {
                    let mut names: Vec<String> = kinds.iter().map(|it| it.to_string()).collect();
                    names.sort();
                    names.join(" or ")
                }
            };
            let found = kind(error.instance());
            format!("{}: expected {expected}, got {found} {given}", name(path))
        }
        ValidationErrorKind::Enum { options } => {
            format!(
                "{}: expected one of {}, got {given}",
                name(path),
                quote(options)
            )
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!(
                "{}: expected {}, got {given}",
                name(path),
                quote(expected_value)
            )
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let names = brief(&unexpected.join("`, `"), MAX_QUOTE_BYTES).into_owned();
            format!("{}: does not take `{names}`", name(path))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let mut message = format!(
                "{}: fits none of the allowed forms, got {given}",
                name(path)
            );
            // What each form misses first is the best hint there is.
            for (number, faults) in context.iter().enumerate().take(4) {
                if let Some(first) = faults.first() {
                    let _ = write!(message, "; form {}: {}", number + 1, first.masked());
                }
            }
            brief(&message, MAX_FAULT_BYTES).into_owned()
        }
        _ => {
            let message = error.masked().to_string();
            format!(
                "{}: {}, got {given}",
                name(path),
                brief(&message, MAX_FAULT_BYTES)
            )
        }
    }
}

fn name(path: &str) -> String {
    match path {
        "" => "arguments".to_owned(),
        path => format!("`{path}`"),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(schema: Value, args: Value) -> Result<(), String> {
        let schema = ObjectSchema::compile(&schema).expect("a valid schema");
        schema.validate(args.as_object().expect("an object"))
    }

    #[test]
    fn faults_name_place_expectation_and_value() {
        let schema = json!({
            "type": "object",
            "properties": {
                "lines": {"type": "array", "items": {"type": ["integer", "null"]}},
                "mode": {"const": "fast"},
                "n": {"type": "integer", "minimum": 3},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        let args = json!({
            "lines": [1, "x"], "mode": "slow", "n": 1, "extra": 1, "either": [],
        });
        assert_eq!(
            verdict(schema, args),
            Err("`either`: fits none of the allowed forms, got []; \
                 form 1: value is not of type \"string\"; form 2: value is not of type \"integer\"\n\
                 `lines/1`: expected integer or null, got string \"x\"\n\
                 `mode`: expected \"fast\", got \"slow\"\n\
                 `n`: value is less than the minimum of 3, got 1\n\
                 `path`: required, but missing\n\
                 arguments: does not take `extra`"
                .to_owned())
        );
    }

    #[test]
    fn faults_and_quotes_are_bounded() {
        let schema = json!({"properties": {"l": {"items": {"type": "string"}}}});
        let many = verdict(schema.clone(), json!({"l": vec![1; 100]})).expect_err("faults");
        assert_eq!(many.lines().count(), MAX_FAULTS + 1);
        assert_eq!(many.lines().last(), Some("and 92 more"));

        let big = verdict(schema, json!({"l": [{"x": "é".repeat(5000)}]})).expect_err("a fault");
        assert!(big.len() < 200, "{}", big.len());
    }

    #[test]
    fn f053_a_schema_with_a_null_in_an_enum_is_checked_as_it_is() {
        let schema = json!({
            "$defs": {"Side": {"enum": ["a", "b", null]}},
            "type": "object",
            "properties": {"side": {"$ref": "#/$defs/Side"}},
            "required": ["side"],
        });
        assert_eq!(verdict(schema.clone(), json!({"side": null})), Ok(()));
        assert_eq!(
            verdict(schema, json!({"side": "c"})),
            Err("`side`: expected one of [\"a\",\"b\",null], got \"c\"".to_owned())
        );
    }

    #[test]
    fn recursive_schemas_work_and_circles_are_refused() {
        let tree = json!({
            "$defs": {"node": {
                "type": "object",
                "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}},
            }},
            "$ref": "#/$defs/node",
        });
        assert_eq!(
            verdict(tree.clone(), json!({"next": {"next": {"n": 1}}})),
            Ok(())
        );
        assert_eq!(
            verdict(tree, json!({"next": {"next": {"n": "x"}}})),
            Err("`next/next/n`: expected integer, got string \"x\"".to_owned())
        );
        let error = ObjectSchema::compile(&json!({"allOf": [{"$ref": "#"}]})).map(|_| ());
        assert_eq!(
            error,
            Err(SchemaError::Circular {
                reference: "#".to_owned()
            })
        );
    }

    #[test]
    fn what_is_no_object_schema_is_refused() {
        assert_eq!(
            ObjectSchema::compile(&json!({"type": "string"})).map(|_| ()),
            Err(SchemaError::NotAnObject {
                found: "\"string\"".to_owned()
            })
        );
        assert_eq!(
            ObjectSchema::compile(&json!([])).map(|_| ()),
            Err(SchemaError::NotAnObject {
                found: "array".to_owned()
            })
        );
        for bad in [
            json!({"type": "object", "properties": {"a": {"type": "strin"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}),
            json!({"properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}}),
            json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            json!({"properties": {"a": {"type": "string", "pattern": "("}}}),
        ] {
            let error = ObjectSchema::compile(&bad).expect_err("not a schema");
            assert!(matches!(error, SchemaError::Invalid { .. }), "{error}");
        }
    }

    #[test]
    fn annotations_are_declared_once_and_stripped() {
        let mut parameters = json!({"properties": {"toolSummary": {"type": "integer"}}});
        declare_annotations(&mut parameters);
        assert_eq!(
            parameters,
            json!({"properties": {
                "toolSummary": {"type": "integer"},
                "toolAction": {"type": "string",
                               "description": "What this call does, in a few words for the user."},
            }})
        );
        let mut args = json!({"toolAction": "a", "x": 1, "toolSummary": "b", "y": 2});
        strip_annotations(args.as_object_mut().expect("an object"));
        assert_eq!(args, json!({"x": 1, "y": 2}));
    }
}
