//! Which variables a command gets.

use std::collections::BTreeMap;
use std::ffi::OsString;

use harness_process::{Environment, TREE_VARIABLE};

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn parent() -> BTreeMap<OsString, OsString> {
    variables(&[
        ("HOME", "/home/u"),
        ("GEMINI_API_KEY", "k1"),
        (TREE_VARIABLE, "outer.1"),
    ])
}

/// F038: the harness's own key does not reach commands.
#[test]
fn denied_names_are_gone_and_the_rest_stays() {
    let environment = Environment::inherited().remove_all(["GEMINI_API_KEY", "ABSENT"]);
    assert_eq!(
        environment.resolve(parent()),
        variables(&[("HOME", "/home/u")])
    );
}

#[test]
fn explicit_values_win_in_any_order() {
    let expected = variables(&[("HOME", "/other"), ("GEMINI_API_KEY", "k2")]);
    let first = Environment::inherited()
        .set("GEMINI_API_KEY", "k2")
        .remove("GEMINI_API_KEY");
    let last = Environment::inherited()
        .remove("GEMINI_API_KEY")
        .set("GEMINI_API_KEY", "k2");
    for environment in [first, last] {
        let environment = environment.set_all([("HOME", "/first"), ("HOME", "/other")]);
        assert_eq!(environment.resolve(parent()), expected);
    }
}

#[test]
fn an_empty_environment_has_only_what_was_set() {
    let environment = Environment::empty().set("A", "1");
    assert_eq!(environment.resolve(parent()), variables(&[("A", "1")]));
}

#[test]
fn values_are_not_shown() {
    let environment = Environment::inherited()
        .set("TOKEN", "hunter2")
        .remove("KEY");
    assert_eq!(
        format!("{environment:?}"),
        r#"Environment { inherited: true, removed: {"KEY"}, set: ["TOKEN"] }"#
    );
}
