//! The compiled policy against the plainest reading of the rules.

use harness_policy::{Policy, Verdict};
use harness_types::{PolicyDecision, PolicyOutcome, PolicyRule, PolicySpec};
use proptest::prelude::*;

/// The precedence levels written out: for every level, scan the rules as they were sent and take
/// the first that fits and has not been passed over.
fn reference<'s>(
    rules: &'s [PolicyRule],
    tool: &str,
    server: Option<&str>,
    passed: &[&str],
) -> Option<&'s PolicyRule> {
    let exact = |rule: &PolicyRule| rule.tool == tool && rule.server.as_deref() == server;
    let of_server = |rule: &PolicyRule| {
        rule.tool == "*" && rule.server.is_some() && rule.server.as_deref() == server
    };
    let any = |rule: &PolicyRule| rule.tool == "*" && rule.server.is_none();
    let fits: [&dyn Fn(&PolicyRule) -> bool; 3] = [&exact, &of_server, &any];
    for fit in fits {
        for decision in [
            PolicyDecision::Deny,
            PolicyDecision::Ask,
            PolicyDecision::Allow,
        ] {
            let found = rules.iter().find(|rule| {
                fit(rule) && rule.decision == decision && !passed.contains(&rule.name.as_str())
            });
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

fn decisions() -> impl Strategy<Value = PolicyDecision> {
    prop_oneof![
        Just(PolicyDecision::Allow),
        Just(PolicyDecision::Deny),
        Just(PolicyDecision::Ask),
    ]
}

/// Few names, so that rules meet; each rule has its own name and id.
fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
    let one = (
        prop_oneof![Just("*"), Just("a"), Just("b")],
        prop_oneof![Just(None), Just(Some("s")), Just(Some("t"))],
        decisions(),
        proptest::option::of(prop_oneof![Just(String::new()), Just("because".to_owned())]),
        any::<bool>(),
    );
    proptest::collection::vec(one, 0..12).prop_map(|rules| {
        (0..)
            .zip(rules)
            .map(
                |(index, (tool, server, decision, reason, dynamic))| PolicyRule {
                    tool: tool.to_owned(),
                    server: server.map(str::to_owned),
                    name: format!("rule {index}"),
                    id: format!("id {index}"),
                    decision,
                    reason,
                    dynamic,
                },
            )
            .collect()
    })
}

fn compile(rules: &[PolicyRule], fallback: PolicyDecision) -> Policy {
    Policy::compile(&PolicySpec {
        rules: rules.to_vec(),
        fallback,
        ..PolicySpec::default()
    })
    .unwrap()
}

/// What decided and how, without the position.
fn shape(verdict: &Verdict<'_>) -> (&'static str, Option<String>) {
    let kind = match verdict {
        Verdict::Allow { .. } => "allow",
        Verdict::Deny { .. } => "deny",
        Verdict::Ask { .. } => "ask",
        Verdict::AskClient { .. } => "client",
    };
    (kind, verdict.rule().map(|rule| rule.name().to_owned()))
}

fn expected(rule: Option<&PolicyRule>, fallback: PolicyDecision) -> (&'static str, Option<String>) {
    let kind = |decision| match decision {
        PolicyDecision::Allow => "allow",
        PolicyDecision::Deny => "deny",
        PolicyDecision::Ask => "ask",
        other => panic!("{other:?}"),
    };
    match rule {
        None => (kind(fallback), None),
        Some(rule) if rule.dynamic => ("client", Some(rule.name.clone())),
        Some(rule) => (kind(rule.decision), Some(rule.name.clone())),
    }
}

fn calls() -> impl Strategy<Value = (&'static str, Option<&'static str>)> {
    (
        prop_oneof![Just("a"), Just("b"), Just("c")],
        prop_oneof![
            Just(None),
            Just(Some("s")),
            Just(Some("t")),
            Just(Some("u"))
        ],
    )
}

proptest! {
    /// A client that says "no match" as long as it is asked walks the same rules as the
    /// reference, and ends at the same verdict.
    #[test]
    fn agrees_with_the_reference(
        rules in rules(),
        (tool, server) in calls(),
        fallback in decisions(),
    ) {
        let policy = compile(&rules, fallback);
        let mut verdict = policy.evaluate(tool, server, 0);
        let mut passed = Vec::new();
        loop {
            let by_reference = reference(&rules, tool, server, &passed);
            prop_assert_eq!(shape(&verdict), expected(by_reference, fallback));
            let Verdict::AskClient { rule, next, .. } = verdict else { break };
            passed.push(rule.name());
            verdict = policy.resume(tool, server, next, PolicyOutcome::NoMatch);
        }
        prop_assert!(passed.len() <= rules.len());
    }

    /// The decision does not depend on the order rules were sent in.
    #[test]
    fn order_is_irrelevant(
        (rules, shuffled) in rules().prop_flat_map(|rules| {
            (Just(rules.clone()), Just(rules).prop_shuffle())
        }),
        (tool, server) in calls(),
        fallback in decisions(),
    ) {
        // Rules of one rank differ in nothing but whether the client is asked; make them agree.
        let plain = |rules: Vec<PolicyRule>| -> Vec<PolicyRule> {
            rules
                .into_iter()
                .map(|rule| PolicyRule { dynamic: false, ..rule })
                .collect()
        };
        let one = compile(&plain(rules), fallback);
        let other = compile(&plain(shuffled), fallback);
        prop_assert_eq!(
            shape(&one.evaluate(tool, server, 0)).0,
            shape(&other.evaluate(tool, server, 0)).0
        );
    }

    /// A refusal always says something.
    #[test]
    fn refusals_are_never_empty(rules in rules(), (tool, server) in calls()) {
        if let Verdict::Deny { reason, .. } =
            compile(&rules, PolicyDecision::Deny).evaluate(tool, server, 0)
        {
            prop_assert!(!reason.is_empty());
        }
    }
}
