//! The descriptors as the generators need them, and the tables written from them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

use super::PACKAGES;

/// All messages and enums of the generated packages, by full name without the leading dot.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) messages: BTreeMap<String, Message>,
    pub(super) enums: BTreeMap<String, Enum>,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) rust: String,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) json: String,
    pub(super) number: i32,
    pub(super) repeated: bool,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Double,
    Scalar,
    Enum(String),
    Message(String),
    /// A map, with the kind of its values.
    Map(Box<Self>),
}

#[derive(Debug)]
pub(super) struct Enum {
    pub(super) rust: String,
    /// In the order of the file; of two values with one number the first is the one written.
    pub(super) values: Vec<(String, i32)>,
}

impl Model {
    pub(super) fn new(set: &FileDescriptorSet) -> anyhow::Result<Self> {
        let mut model = Self {
            messages: BTreeMap::new(),
            enums: BTreeMap::new(),
        };
        for file in &set.file {
            let package = file.package();
            if !PACKAGES.contains(&package) {
                continue;
            }
            let module = format!("crate::generated::{}", package.replace('.', "::"));
            for item in &file.enum_type {
                model.add_enum(package, &module, item);
            }
            for item in &file.message_type {
                model.add_message(package, &module, item)?;
            }
        }
        Ok(model)
    }

    /// Full names of all messages and enums.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.messages
            .keys()
            .chain(self.enums.keys())
            .map(String::as_str)
    }

    fn add_enum(&mut self, scope: &str, module: &str, item: &EnumDescriptorProto) {
        let values = item
            .value
            .iter()
            .map(|value| (value.name().to_owned(), value.number()))
            .collect();
        self.enums.insert(
            format!("{scope}.{}", item.name()),
            Enum {
                rust: format!("{module}::{}", upper_camel(item.name())),
                values,
            },
        );
    }

    fn add_message(
        &mut self,
        scope: &str,
        module: &str,
        item: &DescriptorProto,
    ) -> anyhow::Result<()> {
        let name = format!("{scope}.{}", item.name());
        let inner = format!("{module}::{}", snake(item.name()));
        for nested in &item.enum_type {
            self.add_enum(&name, &inner, nested);
        }
        for nested in &item.nested_type {
            if !nested.options.as_ref().is_some_and(|it| it.map_entry()) {
                self.add_message(&name, &inner, nested)?;
            }
        }
        let fields = item
            .field
            .iter()
            .map(|field| make_field(item, field).with_context(|| format!("message {name}")))
            .collect::<anyhow::Result<_>>()?;
        self.messages.insert(
            name,
            Message {
                rust: format!("{module}::{}", upper_camel(item.name())),
                fields,
            },
        );
        Ok(())
    }

    /// The static tables and the `WireMessage` implementations.
    pub(super) fn tables(&self, aliases: &[(&str, &str, &[&str])]) -> anyhow::Result<String> {
        let mut out = String::new();
        for (name, item) in &self.enums {
            writeln!(
                out,
                "\nstatic {}: EnumSchema = EnumSchema {{\n    name: {name:?},\n    values: &{:?},\n}};",
                constant(name),
                item.values
            )?;
        }
        for (name, message) in &self.messages {
            writeln!(
                out,
                "\nstatic {}: MessageSchema = MessageSchema {{\n    name: {name:?},\n    fields: &[",
                constant(name)
            )?;
            let mut keys: Vec<(&str, usize)> = Vec::new();
            for (index, field) in message.fields.iter().enumerate() {
                writeln!(
                    out,
                    "        FieldSchema {{ name: {:?}, json_name: {:?}, number: {}, repeated: {}, kind: {} }},",
                    field.name,
                    field.json,
                    field.number,
                    field.repeated,
                    kind(&field.kind)
                )?;
                keys.push((&field.name, index));
                keys.push((&field.json, index));
                for (_, _, names) in aliases
                    .iter()
                    .filter(|(owner, of, _)| owner == name && *of == field.name)
                {
                    keys.extend(names.iter().map(|alias| (*alias, index)));
                }
            }
            keys.sort_unstable();
            keys.dedup();
            if let Some(pair) = keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                bail!("{name}: two fields are read as {:?}", pair[0].0);
            }
            writeln!(out, "    ],\n    keys: &{keys:?},\n}};")?;
            writeln!(
                out,
                "impl Sealed for {rust} {{}}\nimpl WireMessage for {rust} {{\n    const SCHEMA: &'static MessageSchema = &{};\n}}",
                constant(name),
                rust = message.rust
            )?;
        }
        writeln!(
            out,
            "\n/// Sorted by name.\npub(super) static ALL: &[&MessageSchema] = &["
        )?;
        for name in self.messages.keys() {
            writeln!(out, "    &{},", constant(name))?;
        }
        writeln!(out, "];")?;
        Ok(out)
    }

    /// `Debug` implementations that show that a secret field is set, and nothing else of it.
    pub(super) fn redacted_debug(&self, secrets: &[(&str, &[&str])]) -> anyhow::Result<String> {
        let mut out = String::new();
        for (name, hidden) in secrets {
            let message = self
                .messages
                .get(*name)
                .with_context(|| format!("no message {name}"))?;
            if let Some(missing) = hidden
                .iter()
                .find(|field| message.fields.iter().all(|it| it.name != **field))
            {
                bail!("{name} has no field {missing}");
            }
            let short = message.rust.rsplit("::").next().unwrap_or_default();
            writeln!(
                out,
                "\nimpl fmt::Debug for {} {{\n    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{\n        f.debug_struct({short:?})",
                message.rust
            )?;
            for field in &message.fields {
                let field_name = &field.name;
                if !hidden.contains(&field_name.as_str()) {
                    writeln!(
                        out,
                        "            .field({field_name:?}, &self.{field_name})"
                    )?;
                } else if field.repeated {
                    writeln!(
                        out,
                        "            .field({field_name:?}, &Redacted(!self.{field_name}.is_empty()))"
                    )?;
                } else {
                    writeln!(
                        out,
                        "            .field({field_name:?}, &Redacted(self.{field_name}.is_some()))"
                    )?;
                }
            }
            writeln!(out, "            .finish()\n    }}\n}}")?;
        }
        Ok(out)
    }
}

fn make_field(owner: &DescriptorProto, field: &FieldDescriptorProto) -> anyhow::Result<Field> {
    let repeated = field.label() == Label::Repeated;
    let kind = match field.r#type() {
        Type::Double => Kind::Double,
        Type::Enum => Kind::Enum(type_name(field)),
        Type::Message => {
            let entry = owner.nested_type.iter().find(|nested| {
                nested.options.as_ref().is_some_and(|it| it.map_entry())
                    && field.type_name().ends_with(&format!(".{}", nested.name()))
            });
            match entry {
                Some(entry) => {
                    let value = entry.field.get(1).context("map entry without a value")?;
                    Kind::Map(Box::new(make_field(entry, value)?.kind))
                }
                None => Kind::Message(type_name(field)),
            }
        }
        Type::Float | Type::Group => bail!("field {}: no such type expected", field.name()),
        _ => Kind::Scalar,
    };
    // The wire has explicit presence everywhere. Map entries have none and need none.
    let map_entry = owner.options.as_ref().is_some_and(|it| it.map_entry());
    if !repeated && !map_entry && field.oneof_index.is_none() && !matches!(kind, Kind::Message(_)) {
        bail!("field {} must be `optional`", field.name());
    }
    Ok(Field {
        name: field.name().to_owned(),
        json: field.json_name().to_owned(),
        number: field.number(),
        repeated,
        kind,
    })
}

fn type_name(field: &FieldDescriptorProto) -> String {
    field.type_name().trim_start_matches('.').to_owned()
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Double | Kind::Scalar => "FieldKind::Scalar".into(),
        Kind::Enum(name) if name.starts_with("google.") => "FieldKind::Scalar".into(),
        Kind::Message(name) if name.starts_with("google.") => "FieldKind::Opaque".into(),
        Kind::Enum(name) => format!("FieldKind::Enum(&{})", constant(name)),
        Kind::Message(name) => format!("FieldKind::Message(&{})", constant(name)),
        Kind::Map(value) => match &**value {
            Kind::Message(name) => format!("FieldKind::MessageMap(&{})", constant(name)),
            _ => "FieldKind::ScalarMap".into(),
        },
    }
}

fn constant(name: &str) -> String {
    name.split('.')
        .map(|part| snake(part).to_uppercase())
        .collect::<Vec<_>>()
        .join("_")
}

/// Splits as prost does: `ModelAPIRetryConfig` is Model, API, Retry, Config.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (index, &letter) in letters.iter().enumerate() {
        let starts = index > 0
            && letter.is_uppercase()
            && (letters[index - 1].is_lowercase()
                || letters[index - 1].is_ascii_digit()
                    && letters
                        .get(index + 1)
                        .is_some_and(|next| next.is_lowercase())
                || letters[index - 1].is_uppercase()
                    && letters
                        .get(index + 1)
                        .is_some_and(|next| next.is_lowercase()));
        if starts {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(letter);
        }
    }
    words
}

fn upper_camel(name: &str) -> String {
    words(name)
        .iter()
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map(|first| {
                    first
                        .to_uppercase()
                        .chain(letters.flat_map(char::to_lowercase))
                        .collect::<String>()
                })
                .unwrap_or_default()
        })
        .collect()
}

fn snake(name: &str) -> String {
    words(name).join("_").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{snake, upper_camel};

    #[test]
    fn names_are_cased_as_prost_does() {
        assert_eq!(upper_camel("ModelAPIRetryConfig"), "ModelApiRetryConfig");
        assert_eq!(upper_camel("G3BoxConfig"), "G3BoxConfig");
        assert_eq!(snake("StepUpdate"), "step_update");
        assert_eq!(snake("GeminiAPIEndpoint"), "gemini_api_endpoint");
    }
}
