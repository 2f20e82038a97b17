//! What a policy says, case by case.

use harness_policy::{Policy, Verdict};
use harness_types::PolicyDecision::{Allow, Ask, Deny};
use harness_types::{PolicyDecision, PolicyOutcome, PolicyRule, PolicySpec};

use crate::rules::{dynamic, policy, rule};

/// The verdict and the name of the rule, in short.
fn said(verdict: &Verdict<'_>) -> String {
    let what = match verdict {
        Verdict::Allow { .. } => "allow",
        Verdict::Deny { .. } => "deny",
        Verdict::Ask { .. } => "ask",
        Verdict::AskClient { .. } => "client",
    };
    format!(
        "{what} by {}",
        verdict.rule().map_or("fallback", |rule| rule.name())
    )
}

#[test]
fn precedence() {
    #[rustfmt::skip]
    let table: &[(&[PolicyRule], &str, &str)] = &[
        // Specific before general, whatever is decided.
        (&[rule(Deny, "*"), rule(Allow, "a")], "a", "allow by Allow a"),
        (&[rule(Deny, "*"), rule(Allow, "a")], "b", "deny by Deny *"),
        (&[rule(Deny, "*"), rule(Allow, "s/*")], "s/a", "allow by Allow s/*"),
        (&[rule(Deny, "s/*"), rule(Allow, "s/a")], "s/a", "allow by Allow s/a"),
        (&[rule(Deny, "s/*"), rule(Allow, "*")], "s/a", "deny by Deny s/*"),
        // The careful decision first.
        (&[rule(Allow, "a"), rule(Ask, "a"), rule(Deny, "a")], "a", "deny by Deny a"),
        (&[rule(Allow, "a"), rule(Ask, "a")], "a", "ask by Ask a"),
        (&[rule(Allow, "*"), rule(Ask, "*")], "a", "ask by Ask *"),
        // A rule speaks of its own server only.
        (&[rule(Deny, "a")], "s/a", "allow by fallback"),
        (&[rule(Deny, "s/a")], "a", "allow by fallback"),
        (&[rule(Deny, "s/a")], "t/a", "allow by fallback"),
        (&[rule(Deny, "s/*")], "t/a", "allow by fallback"),
        (&[rule(Deny, "s/*")], "a", "allow by fallback"),
        // Names are compared as they are.
        (&[rule(Deny, "A")], "a", "allow by fallback"),
        (&[rule(Deny, "a*")], "ab", "allow by fallback"),
        (&[], "a", "allow by fallback"),
    ];
    for (rules, call, expected) in table {
        let (server, tool) = match call.split_once('/') {
            Some((server, tool)) => (Some(server), tool),
            None => (None, *call),
        };
        let policy = policy(rules.iter().cloned());
        let verdict = policy.evaluate(tool, server, 0);
        assert_eq!(said(&verdict), *expected, "{call} with {rules:#?}");
    }
}

#[test]
fn an_empty_server_is_none() {
    let anywhere = PolicyRule {
        server: Some(String::new()),
        ..rule(Deny, "a")
    };
    let policy = policy([anywhere]);
    assert_eq!(said(&policy.evaluate("a", None, 0)), "deny by Deny a");
    assert_eq!(said(&policy.evaluate("a", Some(""), 0)), "deny by Deny a");
}

#[test]
fn the_fallback_decides_what_no_rule_does() {
    let with = |fallback: PolicyDecision| {
        Policy::compile(&PolicySpec {
            fallback,
            ..PolicySpec::default()
        })
        .unwrap()
    };
    assert_eq!(
        with(Allow).evaluate("a", None, 0),
        Verdict::Allow { rule: None }
    );
    assert_eq!(
        with(Ask).evaluate("a", None, 0),
        Verdict::Ask {
            rule: None,
            reason: None
        }
    );
    assert_eq!(
        with(Deny).evaluate("a", None, 0),
        Verdict::Deny {
            rule: None,
            reason: "no policy allows this call".into()
        }
    );
}

#[test]
fn a_refusal_gives_the_reason_or_names_the_rule() {
    let reason = |rule: PolicyRule| match policy([rule]).evaluate("a", None, 0) {
        Verdict::Deny { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    let explained = |text: &str| PolicyRule {
        reason: Some(text.into()),
        ..rule(Deny, "a")
    };
    assert_eq!(reason(explained("not on a Friday")), "not on a Friday");
    let named = r#"the policy "Deny a" does not allow this call"#;
    assert_eq!(reason(explained("")), named);
    assert_eq!(reason(rule(Deny, "a")), named);
    let nameless = PolicyRule {
        name: String::new(),
        ..rule(Deny, "a")
    };
    assert_eq!(
        reason(nameless),
        r#"the policy "a" does not allow this call"#
    );
}

#[test]
fn the_client_is_asked_rule_by_rule() {
    let explained = PolicyRule {
        reason: Some("looks dangerous".into()),
        ..dynamic(Deny, "a", "r0")
    };
    let policy = policy([
        rule(Allow, "a"),
        dynamic(Ask, "a", "r1"),
        rule(Ask, "b"),
        explained,
    ]);

    let first = policy.evaluate("a", None, 0);
    let Verdict::AskClient { rule, reason, next } = first else {
        panic!("{first:?}");
    };
    assert_eq!((rule.id(), reason), ("r0", Some("looks dangerous")));

    let second = policy.resume("a", None, next, PolicyOutcome::NoMatch);
    let Verdict::AskClient { rule, reason, next } = second else {
        panic!("{second:?}");
    };
    assert_eq!((rule.id(), reason), ("r1", None));

    let third = policy.resume("a", None, next, PolicyOutcome::NoMatch);
    assert_eq!(said(&third), "allow by Allow a");
}

#[test]
fn the_word_of_the_client_is_final() {
    for decision in [Allow, Ask, Deny] {
        let policy = policy([dynamic(decision, "a", "r"), rule(Deny, "*")]);
        let Verdict::AskClient { rule, next, .. } = policy.evaluate("a", None, 0) else {
            panic!("the client is asked");
        };
        let resume = |outcome| policy.resume("a", None, next, outcome);
        assert_eq!(
            resume(PolicyOutcome::Allow),
            Verdict::Allow { rule: Some(rule) }
        );
        let denied = |reason: Option<&str>| {
            resume(PolicyOutcome::Deny {
                reason: reason.map(str::to_owned),
            })
        };
        assert_eq!(
            denied(Some("no")),
            Verdict::Deny {
                rule: Some(rule),
                reason: "no".into()
            }
        );
        let named = format!("the policy \"{decision:?} a\" does not allow this call");
        for silent in [None, Some("")] {
            assert_eq!(
                denied(silent),
                Verdict::Deny {
                    rule: Some(rule),
                    reason: named.clone()
                }
            );
        }
    }
}

#[test]
fn a_position_no_verdict_carried_names_no_rule() {
    let policy = policy([dynamic(Ask, "a", "r"), rule(Deny, "*")]);
    for position in [3, u32::MAX] {
        assert_eq!(
            policy.evaluate("a", None, position),
            Verdict::Allow { rule: None }
        );
        assert_eq!(
            policy.resume("a", None, position, PolicyOutcome::Deny { reason: None }),
            Verdict::Deny {
                rule: None,
                reason: "no policy allows this call".into()
            }
        );
    }
    assert_eq!(
        policy.resume("a", None, 0, PolicyOutcome::Deny { reason: None }),
        Verdict::Deny {
            rule: None,
            reason: "no policy allows this call".into()
        }
    );
}
