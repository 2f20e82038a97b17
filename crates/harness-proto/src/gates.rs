//! Which output field exists in which SDK version.
//!
//! Every SDK parses what the harness sends strictly: one unknown field ends its connection. The
//! table was measured from the descriptors in all published versions (`data/gates.json`) and
//! covers `OutputEvent` and the messages below it in the package `antigravity.localharness`.
//! [`Encoding`](crate::json::Encoding) applies it while writing.
//!
//! Enum values have no gate: written as numbers they parse in every version.

use crate::SdkVersion;

/// Returns whether an SDK of this version knows a field.
///
/// `message` is a full name and `field` a name from the `.proto` file. A message the table does
/// not list is not gated; a field it does not list in a message it lists was in no version. A
/// version newer than the table counts as its newest, an older one as its oldest.
///
/// ```
/// use harness_proto::{SdkVersion, gates};
///
/// let step = "antigravity.localharness.StepUpdate";
/// assert!(!gates::allows(step, "mcp_tool", SdkVersion::new(0, 1, 2)));
/// assert!(gates::allows(step, "mcp_tool", SdkVersion::new(0, 1, 3)));
/// ```
pub fn allows(message: &str, field: &str, version: SdkVersion) -> bool {
    let Some(gates) = of_message(message) else {
        return true;
    };
    gates
        .fields
        .iter()
        .find(|gate| gate.field == field)
        .is_some_and(|gate| gate.allows(version.measured_patch()))
}

/// Returns all gates: message, field, field number, first and last version.
pub fn iter() -> impl Iterator<Item = Gate> {
    table::MESSAGES.iter().flat_map(|message| {
        message.fields.iter().map(|gate| Gate {
            message: message.message,
            field: gate.field,
            number: gate.number,
            first: SdkVersion::new(0, 1, gate.first),
            last: SdkVersion::new(0, 1, gate.last),
        })
    })
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gate {
    /// Full name of the message.
    pub message: &'static str,
    /// Name of the field in the `.proto` file.
    pub field: &'static str,
    /// Number of the field.
    pub number: u32,
    /// The first version that has it.
    pub first: SdkVersion,
    /// The last version that has it; the newest of the table means "still there".
    pub last: SdkVersion,
}

pub(crate) use table::NEWEST_PATCH;

#[derive(Debug)]
pub(crate) struct MessageGates {
    message: &'static str,
    fields: &'static [FieldGate],
}

#[derive(Debug)]
struct FieldGate {
    field: &'static str,
    json_name: &'static str,
    number: u32,
    first: u16,
    last: u16,
}

impl FieldGate {
    fn allows(&self, patch: u16) -> bool {
        (self.first..=self.last).contains(&patch)
    }
}

impl MessageGates {
    /// Returns whether the field with this JSON name exists in 0.1.`patch`.
    pub(crate) fn allows_json(&self, json_name: &str, patch: u16) -> bool {
        self.fields
            .iter()
            .find(|gate| gate.json_name == json_name)
            .is_some_and(|gate| gate.allows(patch))
    }
}

pub(crate) fn of_message(message: &str) -> Option<&'static MessageGates> {
    let index = table::MESSAGES
        .binary_search_by(|gates| gates.message.cmp(message))
        .ok()?;
    table::MESSAGES.get(index)
}

mod table {
    use super::{FieldGate, MessageGates};

    include!("gen/gates.rs");
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "antigravity.localharness.OutputEvent";

    #[test]
    fn removed_and_added_fields_are_gated_on_both_sides() {
        let allowed = |field| {
            (0..=NEWEST_PATCH)
                .filter(|patch| allows(OUTPUT, field, SdkVersion::new(0, 1, *patch)))
                .collect::<Vec<_>>()
        };
        assert_eq!(allowed("usage_metadata"), (0..=9).collect::<Vec<_>>());
        assert_eq!(allowed("usage_update"), (10..=22).collect::<Vec<_>>());
        assert_eq!(allowed("seq_num"), (0..=22).collect::<Vec<_>>());
        assert_eq!(allowed("no_such_field"), Vec::<u16>::new());
    }

    #[test]
    fn messages_outside_the_table_are_not_gated() {
        assert!(allows("genai.Value", "function_value", SdkVersion::OLDEST));
        assert!(allows("no.such.Message", "x", SdkVersion::OLDEST));
    }

    #[test]
    fn newer_versions_count_as_the_newest() {
        assert!(allows(OUTPUT, "usage_update", SdkVersion::new(1, 0, 0)));
        assert!(!allows(OUTPUT, "usage_metadata", SdkVersion::new(1, 0, 0)));
    }

    #[test]
    fn messages_are_sorted_for_the_search() {
        assert!(table::MESSAGES.is_sorted_by(|a, b| a.message < b.message));
        assert!(iter().all(|gate| allows(gate.message, gate.field, gate.first)));
    }
}
