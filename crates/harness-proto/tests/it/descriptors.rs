//! The schema, against the descriptors of the SDK.

use std::collections::BTreeMap;

use harness_proto::prost::Message as _;
use harness_proto::schema::MessageSchema;
use harness_proto::{FILE_DESCRIPTOR_SET, gates};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};
use serde::Deserialize;

/// Named so that generated Rust has no two items of one name. Neither wire form has oneof names.
const RENAMED_ONEOFS: &[(&str, &str, &str)] =
    &[("genai.VideoContent", "processing", "processing_kind")];

#[derive(Deserialize)]
struct Sdk {
    messages: BTreeMap<String, Vec<Field>>,
    enums: BTreeMap<String, BTreeMap<String, i32>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Field {
    name: String,
    json_name: String,
    number: i32,
    r#type: String,
    type_name: Option<String>,
    repeated: bool,
    oneof: Option<String>,
    presence: bool,
}

#[derive(Default)]
struct Ours {
    messages: BTreeMap<String, Vec<Field>>,
    enums: BTreeMap<String, BTreeMap<String, i32>>,
}

impl Ours {
    fn read() -> Self {
        let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
        let mut ours = Self::default();
        for file in &set.file {
            assert!(file.source_code_info.is_none());
            for message in &file.message_type {
                ours.message(file.package(), message);
            }
            for item in &file.enum_type {
                ours.enumeration(file.package(), item);
            }
        }
        ours
    }

    fn message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in &message.nested_type {
            self.message(&name, nested);
        }
        for nested in &message.enum_type {
            self.enumeration(&name, nested);
        }
        let fields = message.field.iter().map(|field| {
            let repeated = field.label() == Label::Repeated;
            let oneof = field
                .oneof_index
                .filter(|_| !field.proto3_optional())
                .map(|index| {
                    message.oneof_decl[usize::try_from(index).unwrap()]
                        .name()
                        .to_owned()
                });
            Field {
                name: field.name().to_owned(),
                json_name: field.json_name().to_owned(),
                number: field.number(),
                r#type: field
                    .r#type()
                    .as_str_name()
                    .trim_start_matches("TYPE_")
                    .to_lowercase(),
                type_name: field
                    .type_name
                    .as_ref()
                    .map(|name| name.trim_start_matches('.').to_owned()),
                repeated,
                presence: !repeated
                    && (field.proto3_optional()
                        || oneof.is_some()
                        || field.r#type() == Type::Message),
                oneof,
            }
        });
        self.messages.insert(name, fields.collect());
    }

    fn enumeration(&mut self, scope: &str, item: &EnumDescriptorProto) {
        let values = item
            .value
            .iter()
            .map(|value| (value.name().to_owned(), value.number()))
            .collect();
        self.enums
            .insert(format!("{scope}.{}", item.name()), values);
    }
}

fn sdk() -> Sdk {
    serde_json::from_str(include_str!("../corpus/sdk_descriptors.json")).unwrap()
}

fn renamed(message: &str, oneof: Option<String>) -> Option<String> {
    oneof.map(|oneof| {
        RENAMED_ONEOFS
            .iter()
            .find(|(owner, from, _)| *owner == message && *from == oneof)
            .map_or(oneof, |(_, _, to)| (*to).to_owned())
    })
}

#[test]
fn every_message_and_field_of_the_sdk_is_ours() {
    let (sdk, ours) = (sdk(), Ours::read());
    assert!(sdk.messages.len() > 150, "{} messages", sdk.messages.len());
    let mut problems = Vec::new();
    for (name, fields) in sdk.messages {
        let Some(found) = ours.messages.get(&name) else {
            problems.push(format!("{name} is missing"));
            continue;
        };
        for field in fields {
            let oneof = renamed(&name, field.oneof.clone());
            // Key and value are always written, whatever the syntax says of their presence.
            let map_entry = name.ends_with("Entry");
            let presence = field.presence && !map_entry;
            let field = Field {
                oneof,
                presence,
                ..field
            };
            match found.iter().find(|it| it.name == field.name) {
                Some(found) if *found == field => {}
                Some(found) if map_entry && found.r#type == field.r#type => {}
                found => problems.push(format!("{name}\n  sdk:  {field:?}\n  ours: {found:?}")),
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_enum_value_of_the_sdk_is_ours() {
    let (sdk, ours) = (sdk(), Ours::read());
    for (name, values) in sdk.enums {
        let found = &ours.enums[&name];
        for (value, number) in values {
            assert_eq!(found.get(&value), Some(&number), "{name}.{value}");
        }
    }
}

#[test]
fn what_only_older_sdks_have_is_ours_too() {
    let ours = Ours::read();
    let field = |message: &str, name: &str, number: i32| {
        let found = ours.messages[&format!("antigravity.localharness.{message}")]
            .iter()
            .find(|it| it.name == name)
            .unwrap_or_else(|| panic!("{message}.{name}"));
        assert_eq!(found.number, number, "{message}.{name}");
    };
    field("OutputEvent", "usage_metadata", 20);
    field("HarnessConfig", "gemini_config", 2);
    field("HarnessConfig", "gemma_config", 3);
    field("HarnessConfig", "custom_backend", 13);
    field("GeminiConfig", "use_vertex", 7);
    field("GenerateImageToolConfig", "model_name", 2);
    field("HarnessSideTools", "code_search", 13);
    field("FindToolConfig", "use_code_search", 2);
    field(
        "GrepSearchToolConfig",
        "disable_fallback_to_local_execution",
        3,
    );
    field("PreToolResult", "modified_arguments_json", 3);
    let states = &ours.enums["antigravity.localharness.TrajectoryStateUpdate.State"];
    assert_eq!(states["STATE_IDLE"], states["STATE_FULLY_IDLE"]);
    assert_eq!(
        ours.enums["antigravity.localharness.StepUpdate.State"]["STATE_TERMINAL_ERROR"],
        5
    );
}

#[test]
fn the_tables_say_what_the_descriptors_say() {
    for (name, fields) in Ours::read().messages {
        let Some(schema) = MessageSchema::by_name(&name) else {
            assert!(
                name.starts_with("google.protobuf.") || name.ends_with("Entry"),
                "{name}"
            );
            continue;
        };
        assert_eq!(schema.name(), name);
        assert_eq!(schema.fields().len(), fields.len(), "{name}");
        for (field, found) in fields.iter().zip(schema.fields()) {
            assert_eq!(found.name(), field.name);
            assert_eq!(found.json_name(), field.json_name);
            assert_eq!(i64::from(found.number()), i64::from(field.number));
            assert_eq!(found.is_repeated(), field.repeated);
            for key in [&field.name, &field.json_name] {
                assert_eq!(schema.field_by_key(key).unwrap().name(), field.name);
            }
            if let Some(schema) = found.enum_schema() {
                assert_eq!(Some(schema.name()), field.type_name.as_deref());
            }
        }
    }
}

#[test]
fn every_gate_of_the_newest_version_is_a_field_of_the_sdk_and_the_reverse() {
    let sdk = sdk();
    let mut gated: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for gate in gates::iter() {
        if gate.last == harness_proto::SdkVersion::NEWEST {
            gated.entry(gate.message).or_default().push(gate.field);
        }
    }
    for (message, fields) in gated {
        let mut known: Vec<_> = sdk.messages[message]
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        known.sort_unstable();
        assert_eq!(fields, known, "{message}");
    }
}
