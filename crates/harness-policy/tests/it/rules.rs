//! Short ways to write rules.

use harness_policy::Policy;
use harness_types::{PolicyDecision, PolicyRule, PolicySpec};

/// A static rule named after itself; `server/tool` for a tool of a server.
pub(crate) fn rule(decision: PolicyDecision, target: &str) -> PolicyRule {
    let (server, tool) = match target.split_once('/') {
        Some((server, tool)) => (Some(server.to_owned()), tool),
        None => (None, target),
    };
    PolicyRule {
        tool: tool.to_owned(),
        server,
        name: format!("{decision:?} {target}"),
        id: String::new(),
        decision,
        reason: None,
        dynamic: false,
    }
}

/// The same rule, decided by the client.
pub(crate) fn dynamic(decision: PolicyDecision, target: &str, id: &str) -> PolicyRule {
    PolicyRule {
        id: id.to_owned(),
        dynamic: true,
        ..rule(decision, target)
    }
}

pub(crate) fn spec(rules: impl IntoIterator<Item = PolicyRule>) -> PolicySpec {
    PolicySpec {
        rules: rules.into_iter().collect(),
        ..PolicySpec::default()
    }
}

pub(crate) fn policy(rules: impl IntoIterator<Item = PolicyRule>) -> Policy {
    Policy::compile(&spec(rules)).unwrap()
}
