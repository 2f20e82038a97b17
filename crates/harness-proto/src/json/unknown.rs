//! What a text holds that the schema does not.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::locate::shorten;
use crate::schema::{EnumSchema, FieldKind, FieldSchema, MessageSchema};

/// Entries kept of each list.
const MAX_ENTRIES: usize = 64;

/// Longest enum name kept, in bytes.
const MAX_NAME: usize = 64;

/// Fields and enum values that were not understood, each path once.
///
/// Paths use JSON names with `[]` for any index and `*` for any map key, as in
/// `config.models[].speed`. Each list keeps 64 entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    fields: Vec<String>,
    enum_values: Vec<UnknownEnumValue>,
    omitted: bool,
}

/// A field that names an enum value nobody here knows. The field is unset, or, if the value is a
/// number, set to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownEnumValue {
    /// The field.
    pub path: String,
    /// The name or number that was sent, at most 64 bytes of it. The text is the peer's.
    pub value: String,
}

impl Unknown {
    /// Returns whether everything was understood.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.enum_values.is_empty()
    }

    /// Returns the paths of unknown fields.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Returns the unknown enum values.
    pub fn enum_values(&self) -> &[UnknownEnumValue] {
        &self.enum_values
    }

    /// Returns whether there was more than the lists hold.
    pub fn is_cut(&self) -> bool {
        self.omitted
    }

    /// Returns whether an unknown enum value may have been sent at a path.
    ///
    /// True as well once the lists are cut: this is the question to ask where safety hangs on the
    /// value.
    pub fn may_have_enum_value(&self, path: &str) -> bool {
        self.omitted || self.enum_values.iter().any(|found| found.path == path)
    }
}

/// Walks over a text that has been read as a message of this type.
pub(super) fn find(json: &str, schema: &'static MessageSchema) -> Unknown {
    let mut report = Report::default();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let seed = MessageSeed {
        schema,
        report: &mut report,
    };
    // The text has parsed, so the walk cannot fail; if it did, the findings so far would do.
    let _ = seed.deserialize(&mut deserializer);
    report.found
}

#[derive(Default)]
struct Report {
    path: Vec<&'static str>,
    found: Unknown,
}

impl Report {
    fn path_to(&self, last: &str) -> String {
        let mut path = String::new();
        for part in &self.path {
            if !path.is_empty() && *part != "[]" {
                path.push('.');
            }
            path.push_str(part);
        }
        if !path.is_empty() && !last.is_empty() {
            path.push('.');
        }
        path.push_str(last);
        shorten(path)
    }

    fn field(&mut self, name: &str) {
        let path = self.path_to(name);
        if self.found.fields.contains(&path) {
            return;
        }
        if self.found.fields.len() < MAX_ENTRIES {
            self.found.fields.push(path);
        } else {
            self.found.omitted = true;
        }
    }

    fn enum_value(&mut self, value: &str) {
        let path = self.path_to("");
        if self
            .found
            .enum_values
            .iter()
            .any(|found| found.path == path)
        {
            return;
        }
        if self.found.enum_values.len() < MAX_ENTRIES {
            let value = value
                .get(..value.floor_char_boundary(MAX_NAME))
                .unwrap_or_default()
                .to_owned();
            self.found
                .enum_values
                .push(UnknownEnumValue { path, value });
        } else {
            self.found.omitted = true;
        }
    }
}

/// Implements the visits that end a walk: any value that is not looked into.
macro_rules! ignore {
    ($($visit:ident($ty:ty))*) => {
        $(fn $visit<E: de::Error>(self, _: $ty) -> Result<(), E> {
            Ok(())
        })*

        fn visit_unit<E: de::Error>(self) -> Result<(), E> {
            Ok(())
        }

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON value")
        }
    };
}

/// Reads the rest of a list or map that is not looked into.
fn skip_list<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<(), A::Error> {
    while seq.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

fn skip_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

struct MessageSeed<'r> {
    schema: &'static MessageSchema,
    report: &'r mut Report,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = ();

    ignore!(visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str));

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        skip_list(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        loop {
            let key = KeySeed {
                schema: self.schema,
                report: &mut *self.report,
            };
            let Some(field) = map.next_key_seed(key)? else {
                return Ok(());
            };
            let Some(field) = field else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let depth = self.report.path.len();
            self.report.path.push(field.json_name);
            map.next_value_seed(FieldSeed {
                field,
                report: &mut *self.report,
            })?;
            self.report.path.truncate(depth);
        }
    }
}

/// Looks a key up while it is still borrowed.
struct KeySeed<'r> {
    schema: &'static MessageSchema,
    report: &'r mut Report,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Option<&'static FieldSchema>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Option<&'static FieldSchema>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Self::Value, E> {
        let field = self.schema.field_by_key(key);
        if field.is_none() {
            self.report.field(key);
        }
        Ok(field)
    }
}

struct FieldSeed<'r> {
    field: &'static FieldSchema,
    report: &'r mut Report,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.field.kind {
            FieldKind::Scalar | FieldKind::Opaque | FieldKind::ScalarMap => {
                deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ())
            }
            FieldKind::Message(_) | FieldKind::Enum(_) if self.field.repeated => {
                self.report.path.push("[]");
                deserializer.deserialize_any(ElementsSeed(self))
            }
            FieldKind::MessageMap(_) => {
                self.report.path.push("*");
                deserializer.deserialize_any(ElementsSeed(self))
            }
            FieldKind::Message(schema) => MessageSeed {
                schema,
                report: self.report,
            }
            .deserialize(deserializer),
            FieldKind::Enum(schema) => EnumSeed {
                schema,
                report: self.report,
            }
            .deserialize(deserializer),
        }
    }
}

/// The elements of a list, or the values of a map.
struct ElementsSeed<'r>(FieldSeed<'r>);

/// One of them.
struct ElementSeed<'r>(FieldSeed<'r>);

impl<'r> ElementsSeed<'r> {
    fn element(&mut self) -> ElementSeed<'_> {
        ElementSeed(FieldSeed {
            field: self.0.field,
            report: &mut *self.0.report,
        })
    }
}

impl<'de> DeserializeSeed<'de> for ElementSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let report = self.0.report;
        match self.0.field.kind {
            FieldKind::Message(schema) | FieldKind::MessageMap(schema) => {
                MessageSeed { schema, report }.deserialize(deserializer)
            }
            FieldKind::Enum(schema) => EnumSeed { schema, report }.deserialize(deserializer),
            FieldKind::Scalar | FieldKind::Opaque | FieldKind::ScalarMap => {
                deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ())
            }
        }
    }
}

impl<'de> Visitor<'de> for ElementsSeed<'_> {
    type Value = ();

    ignore!(visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str));

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self.element())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(self.element())?;
        }
        Ok(())
    }
}

struct EnumSeed<'r> {
    schema: &'static EnumSchema,
    report: &'r mut Report,
}

impl EnumSeed<'_> {
    fn number(self, number: Option<i32>, text: &str) {
        if !number.is_some_and(|number| self.schema.has_number(number)) {
            self.report.enum_value(text);
        }
    }
}

impl<'de> DeserializeSeed<'de> for EnumSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EnumSeed<'_> {
    type Value = ();

    ignore!(visit_bool(bool));

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.number(number.try_into().ok(), &number.to_string());
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.number(number.try_into().ok(), &number.to_string());
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<(), E> {
        // Only whole numbers in range were accepted.
        self.number(Some(number as i32), &number.to_string());
        Ok(())
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<(), E> {
        if self.schema.number_of(name).is_none() {
            self.number(name.parse().ok(), name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        skip_list(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        skip_map(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WireMessage;
    use crate::json::from_json;
    use crate::localharness::{InitializeConversationEvent, InputEvent, OutputEvent};

    #[test]
    fn paths_name_what_is_unknown_once() {
        let json = r#"{"x":1,"config":{"models":[{"speed":1},{"speed":2,"options":{}}],
            "skillsConfig":{"skills":[{"skill":{"inlineResources":{"resources":{
                "a":{"y":[]},"b":{"y":0}}},"metadata":{"z":"1"}}}]},
            "mcpServers":[{"stdio":{"env":{"NOT_A_FIELD":"1"}}}],
            "initial_trajectory":"","harness_side_tools":{"find":{"enabled":true,"new":{"q":1}}}}}"#;
        let unknown = from_json::<InitializeConversationEvent>(json)
            .unwrap()
            .unknown;
        assert_eq!(
            unknown.fields(),
            [
                "x",
                "config.models[].speed",
                "config.models[].options",
                "config.skillsConfig.skills[].skill.inlineResources.resources.*.y",
                "config.harnessSideTools.find.new",
            ]
        );
        assert_eq!(unknown.enum_values(), []);
        assert!(!unknown.is_cut());
    }

    #[test]
    fn unknown_enum_values_are_told_apart_from_unset() {
        let json = r#"{"config":{"policyConfig":{"rules":[{"decision":"POLICY_DECISION_SHRUG"},
            {"decision":"POLICY_DECISION_DENY"}],"workspaceContainment":77},
            "agentBehavior":"2","enabledHooks":[1,"LIFECYCLE_HOOK_STOP","NEW_HOOK"]}}"#;
        let parsed = from_json::<InitializeConversationEvent>(json).unwrap();
        let found: Vec<_> = parsed
            .unknown
            .enum_values()
            .iter()
            .map(|found| (found.path.as_str(), found.value.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (
                    "config.policyConfig.rules[].decision",
                    "POLICY_DECISION_SHRUG"
                ),
                ("config.policyConfig.workspaceContainment", "77"),
                ("config.enabledHooks[]", "NEW_HOOK"),
            ]
        );
        assert!(
            parsed
                .unknown
                .may_have_enum_value("config.policyConfig.rules[].decision")
        );
        assert!(!parsed.unknown.may_have_enum_value("config.agentBehavior"));
        let config = parsed.message.config.unwrap();
        assert_eq!(config.enabled_hooks, [1, 9]);
        assert_eq!(config.agent_behavior, Some(2));
        let policy = config.policy_config.unwrap();
        assert_eq!(policy.workspace_containment, Some(77));
        assert_eq!(policy.rules[0].decision, None);
        assert_eq!(policy.rules[1].decision, Some(2));
    }

    /// The pass over the text is left out when the reader has met nothing unknown.
    #[test]
    fn nothing_is_missed_where_the_pass_is_left_out() {
        fn compare<T: WireMessage>(json: &str) -> bool {
            let Ok(parsed) = from_json::<T>(json) else {
                return false;
            };
            assert_eq!(parsed.unknown, find(json, T::SCHEMA), "{json}");
            !parsed.unknown.is_empty()
        }
        let cases: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../../tests/corpus/cases.json")).unwrap();
        let mut with_unknown = 0;
        for case in cases {
            let json = case["input"].as_str().unwrap();
            with_unknown += usize::from(compare::<InputEvent>(json));
            with_unknown += usize::from(compare::<OutputEvent>(json));
            with_unknown += usize::from(compare::<InitializeConversationEvent>(json));
        }
        assert!(with_unknown > 100, "{with_unknown}");
    }

    #[test]
    fn both_lists_are_bounded_and_say_so() {
        let fields: Vec<_> = (0..1_000).map(|n| format!("\"f{n}\":0")).collect();
        let json = format!("{{{}}}", fields.join(","));
        let unknown = from_json::<InputEvent>(&json).unwrap().unknown;
        assert_eq!(unknown.fields().len(), MAX_ENTRIES);
        assert!(unknown.is_cut());
        assert!(unknown.may_have_enum_value("anything"));
    }

    #[test]
    fn a_string_where_an_object_may_be_is_understood() {
        let unknown = from_json::<InputEvent>(r#"{"userInput":"hello"}"#)
            .unwrap()
            .unknown;
        assert!(unknown.is_empty());
        let unknown = from_json::<InputEvent>(r#"{"complexUserInput":{"parts":[{"t":1}]}}"#)
            .unwrap()
            .unknown;
        assert_eq!(unknown.fields(), ["userInput.parts[].t"]);
    }
}
