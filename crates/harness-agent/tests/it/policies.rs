//! What rules decide about calls, and who is asked.

use harness_types::{
    Config, Containment, PolicyDecision, PolicyOutcome, PolicyRule, RequestAnswer, RequestKind,
};
use serde_json::json;

use crate::support::{Rig, config};

fn rule(tool: &str, decision: PolicyDecision) -> PolicyRule {
    PolicyRule {
        tool: tool.to_owned(),
        server: None,
        name: format!("rule of {tool}"),
        id: String::new(),
        decision,
        reason: None,
        dynamic: false,
    }
}

fn dynamic(tool: &str, decision: PolicyDecision, id: &str) -> PolicyRule {
    PolicyRule {
        id: id.to_owned(),
        dynamic: true,
        reason: Some(format!("{id} asks")),
        ..rule(tool, decision)
    }
}

fn with_rules(rules: impl IntoIterator<Item = PolicyRule>) -> Config {
    let mut config = config();
    config.policy.rules = rules.into_iter().collect();
    config
}

fn called(config: Config) -> (Rig, Vec<String>) {
    let mut rig = Rig::asked(config);
    rig.call("a", "put", json!({}));
    let effects = rig.stop();
    (rig, effects)
}

fn result(rig: &Rig) -> String {
    rig.last_messages(1).remove(0)
}

#[test]
fn rules_know_tools_by_their_policy_name() {
    let (_, effects) = called(with_rules([
        rule("policy_put", PolicyDecision::Allow),
        rule("*", PolicyDecision::Deny),
    ]));
    assert_eq!(effects, ["run 1 put {}"]);
    let (rig, effects) = called(with_rules([rule("put", PolicyDecision::Deny)]));
    assert_eq!(effects, ["run 1 put {}"], "{:?}", rig.steps());
}

#[test]
fn a_denied_call_never_runs_and_the_model_is_told_why() {
    let mut deny = rule("policy_put", PolicyDecision::Deny);
    let (rig, effects) = called(with_rules([deny.clone()]));
    assert_eq!(effects, ["ask 1"]);
    assert_eq!(
        result(&rig),
        r#"results a put Denied "the policy \"rule of policy_put\" does not allow this call""#
    );
    deny.reason = Some("read only today".into());
    let (rig, _) = called(with_rules([deny]));
    assert_eq!(result(&rig), r#"results a put Denied "read only today""#);
    assert_eq!(
        rig.step_at(1),
        r#"1 Error Model>User call a error "read only today""#
    );
    assert_eq!(rig.state.tool_calls(), 0);
}

#[test]
fn a_static_question_is_put_to_whoever_confirms() {
    let ask = || with_rules([rule("policy_put", PolicyDecision::Ask)]);
    let (mut rig, effects) = called(ask());
    assert_eq!(effects, [""; 0]);
    assert_eq!(
        rig.open(),
        ["0 at 1: confirm policy_put rule of policy_put"]
    );
    assert_eq!(
        rig.step_at(1),
        "1 Active Model>Environment call a does put{} asks 0"
    );
    assert_eq!(rig.policy(0, PolicyOutcome::Allow), ["run 1 put {}"]);
    assert_eq!(
        rig.step_at(1),
        "1 Active Model>Environment call a does put{}"
    );

    for (outcome, reason) in [
        (
            PolicyOutcome::Deny { reason: None },
            "the user refused the call",
        ),
        (
            PolicyOutcome::Deny {
                reason: Some("no!".into()),
            },
            "no!",
        ),
        (
            PolicyOutcome::NoMatch,
            "the question whether the call may run was not answered",
        ),
    ] {
        let (mut rig, _) = called(ask());
        assert_eq!(rig.policy(0, outcome), ["ask 1"]);
        assert_eq!(result(&rig), format!("results a put Denied {reason:?}"));
    }
}

#[test]
fn nobody_to_ask_is_a_denial() {
    for (rule, kind) in [
        (rule("*", PolicyDecision::Ask), RequestKind::Confirmation),
        (
            dynamic("*", PolicyDecision::Allow, "r"),
            RequestKind::PolicyDecision,
        ),
    ] {
        let mut config = with_rules([rule]);
        config.answers.remove(&kind);
        let (rig, effects) = called(config);
        assert_eq!(effects, ["ask 1"]);
        assert_eq!(
            result(&rig),
            r#"results a put Denied "approval is needed, and nobody is connected who could be asked""#
        );
    }
}

#[test]
fn the_client_s_word_about_its_rule_is_final() {
    let rules = || {
        with_rules([
            dynamic("policy_put", PolicyDecision::Deny, "mine"),
            rule("policy_put", PolicyDecision::Allow),
        ])
    };
    let (mut rig, effects) = called(rules());
    assert_eq!(effects, [""; 0]);
    assert_eq!(rig.open(), ["0 at 1: policy mine policy_put"]);
    assert_eq!(rig.policy(0, PolicyOutcome::Allow), ["run 1 put {}"]);

    let (mut rig, _) = called(rules());
    assert_eq!(
        rig.policy(0, PolicyOutcome::Deny { reason: None }),
        ["ask 1"]
    );
    assert_eq!(result(&rig), r#"results a put Denied "mine asks""#);
}

#[test]
fn no_match_asks_the_next_rule_until_one_decides() {
    let (mut rig, _) = called(with_rules([
        dynamic("policy_put", PolicyDecision::Deny, "first"),
        dynamic("policy_put", PolicyDecision::Ask, "second"),
        dynamic("*", PolicyDecision::Allow, "third"),
        rule("policy_look", PolicyDecision::Deny),
    ]));
    assert_eq!(rig.open(), ["0 at 1: policy first policy_put"]);
    assert_eq!(rig.policy(0, PolicyOutcome::NoMatch), [""; 0]);
    assert_eq!(rig.open(), ["1 at 1: policy second policy_put"]);
    assert_eq!(
        rig.policy(0, PolicyOutcome::Allow),
        [""; 0],
        "a late answer decides nothing"
    );
    assert_eq!(rig.policy(1, PolicyOutcome::NoMatch), [""; 0]);
    assert_eq!(rig.open(), ["2 at 1: policy third policy_put"]);
    assert_eq!(
        rig.policy(2, PolicyOutcome::NoMatch),
        ["run 1 put {}"],
        "then the fallback"
    );
}

#[test]
fn no_match_may_lead_to_a_static_question() {
    let (mut rig, _) = called(with_rules([
        dynamic("policy_put", PolicyDecision::Deny, "first"),
        rule("*", PolicyDecision::Ask),
    ]));
    rig.policy(0, PolicyOutcome::NoMatch);
    assert_eq!(rig.open(), ["1 at 1: confirm policy_put rule of *"]);
    assert_eq!(rig.policy(1, PolicyOutcome::Allow), ["run 1 put {}"]);
}

#[test]
fn an_answer_of_another_kind_leaves_the_question_open() {
    let (mut rig, _) = called(with_rules([dynamic("*", PolicyDecision::Ask, "r")]));
    rig.answer(0, RequestAnswer::Question(None));
    assert_eq!(
        rig.notes,
        ["an answer to request 0 was ignored: it is not a PolicyDecision answer"]
    );
    assert_eq!(rig.open(), ["0 at 1: policy r policy_put"]);
}

#[test]
fn f025_others_go_on_while_somebody_is_asked() {
    let mut rig = Rig::asked(with_rules([dynamic(
        "policy_peek",
        PolicyDecision::Ask,
        "r",
    )]));
    assert_eq!(rig.call("a", "peek", json!({})), [""; 0]);
    assert_eq!(rig.call("b", "look", json!({})), ["run 2 look {}"]);
    rig.stop();
    assert_eq!(rig.tool(2, "x"), [""; 0], "the answers go back together");
    assert_eq!(rig.policy(0, PolicyOutcome::Allow), ["run 1 peek {}"]);
    assert_eq!(rig.tool(1, "y"), ["ask 1"]);
}

#[test]
fn a_path_outside_the_workspace_is_refused_before_anybody_is_asked() {
    let mut config = with_rules([rule("*", PolicyDecision::Ask)]);
    config.policy.containment = Containment::Contained;
    let workspace = std::env::temp_dir();
    config.workspaces = vec![workspace.clone()];
    let mut rig = Rig::asked(config);
    rig.call("a", "put", json!({"path": "/etc/passwd"}));
    rig.call(
        "b",
        "put",
        json!({"path": workspace.join("x").display().to_string()}),
    );
    rig.stop();
    let outside = rig.step_at(1);
    assert!(
        outside.starts_with(
            r#"1 Error Model>User call a error "access to \"/etc/passwd\" is refused: it is outside the allowed directories"#
        ),
        "{outside}"
    );
    assert_eq!(rig.open(), ["0 at 2: confirm policy_put rule of *"]);
}

#[test]
fn a_hook_cannot_lead_a_call_out_of_the_workspace() {
    use harness_types::{Hook, HookVerdict};
    let mut config = crate::support::with_hooks([Hook::PreTool]);
    config.policy.containment = Containment::Contained;
    let mut rig = Rig::asked(config);
    rig.call("a", "put", json!({}));
    rig.stop();
    let changed = HookVerdict::Modify {
        args: crate::support::args(json!({"path": "/etc/x"})),
    };
    assert_eq!(rig.hook(0, changed), ["ask 1"]);
    assert!(
        result(&rig).starts_with("results a put Denied"),
        "{}",
        result(&rig)
    );
}
