//! The table of output fields per SDK version, from the measured `data/gates.json`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::schema::Model;

const PACKAGE: &str = "antigravity.localharness";

/// The measured file.
#[derive(Deserialize)]
struct Measured {
    /// What the file is; for readers.
    #[serde(rename = "about")]
    _about: String,
    /// The last version measured: 22 is SDK 0.1.22.
    newest: u16,
    /// Message, field, first and last version that has it.
    fields: BTreeMap<String, BTreeMap<String, [u16; 2]>>,
}

/// Writes the table, checked against the schema.
pub(super) fn table(text: &str, model: &Model) -> anyhow::Result<String> {
    let measured: Measured = serde_json::from_str(text).context("data/gates.json")?;
    let mut out = String::new();
    writeln!(
        out,
        "\npub(crate) const NEWEST_PATCH: u16 = {};\n\npub(super) static MESSAGES: &[MessageGates] = &[",
        measured.newest
    )?;
    for (message, fields) in &measured.fields {
        let full = format!("{PACKAGE}.{message}");
        let schema = model
            .messages
            .get(&full)
            .with_context(|| format!("data/gates.json names {full}, which is not in proto/"))?;
        writeln!(
            out,
            "    MessageGates {{\n        message: {full:?},\n        fields: &["
        )?;
        for (field, [first, last]) in fields {
            let known = schema
                .fields
                .iter()
                .find(|it| it.name == *field)
                .with_context(|| format!("{full} has no field {field}"))?;
            if first > last || *last > measured.newest {
                bail!("{full}.{field}: {first}..={last} is no range of versions");
            }
            writeln!(
                out,
                "            FieldGate {{ field: {field:?}, json_name: {:?}, number: {}, first: {first}, last: {last} }},",
                known.json, known.number
            )?;
        }
        writeln!(out, "        ],\n    }},")?;
    }
    writeln!(out, "];")?;
    Ok(out)
}
