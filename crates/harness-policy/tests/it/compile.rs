//! Which specifications are refused.

use harness_policy::{Error, MAX_RULES, Policy};
use harness_types::PolicyDecision::{Allow, Ask, Deny};
use harness_types::PolicyRule;

use crate::rules::{dynamic, rule, spec};

fn error(rules: impl IntoIterator<Item = PolicyRule>) -> Error {
    Policy::compile(&spec(rules)).unwrap_err()
}

#[test]
fn a_rule_must_name_a_tool() {
    let nameless = PolicyRule {
        tool: String::new(),
        ..rule(Deny, "x")
    };
    let error = error([rule(Allow, "*"), nameless]);
    assert_eq!(
        error,
        Error::NoTool {
            rule: "Deny x".into()
        }
    );
    assert_eq!(
        error.to_string(),
        r#"policy rule "Deny x" names no tool; use "*" for every tool"#
    );
}

#[test]
fn a_dynamic_rule_must_have_an_id() {
    assert_eq!(
        error([dynamic(Ask, "run_command", "")]),
        Error::NoId {
            rule: "Ask run_command".into()
        }
    );
}

#[test]
fn ids_of_dynamic_rules_must_differ() {
    let expected = Error::DuplicateId {
        id: "rule_1".into(),
        first: "Ask a".into(),
        second: "Deny b".into(),
    };
    assert_eq!(
        error([dynamic(Ask, "a", "rule_1"), dynamic(Deny, "b", "rule_1")]),
        expected
    );
    // The id of a static rule is never sent, so it may repeat.
    let unused = PolicyRule {
        dynamic: false,
        ..dynamic(Allow, "c", "rule_1")
    };
    assert!(Policy::compile(&spec([dynamic(Ask, "a", "rule_1"), unused])).is_ok());
}

#[test]
fn a_static_rule_may_ask() {
    assert!(Policy::compile(&spec([rule(Ask, "run_command")])).is_ok());
}

#[test]
fn the_number_of_rules_is_bounded() {
    let rules = |count| std::iter::repeat_n(rule(Allow, "a"), count);
    assert!(Policy::compile(&spec(rules(MAX_RULES))).is_ok());
    assert_eq!(
        error(rules(MAX_RULES + 1)),
        Error::TooManyRules {
            count: MAX_RULES + 1,
            limit: MAX_RULES,
        }
    );
}

#[test]
fn rules_are_listed_in_order_of_precedence() {
    let policy = crate::rules::policy([
        rule(Allow, "*"),
        rule(Deny, "*"),
        rule(Allow, "s/*"),
        rule(Allow, "s/t"),
        rule(Ask, "t"),
    ]);
    let names: Vec<_> = policy.rules().map(harness_policy::Rule::name).collect();
    assert_eq!(
        names,
        ["Ask t", "Allow s/t", "Allow s/*", "Deny *", "Allow *"]
    );
}
