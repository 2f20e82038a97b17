//! The structured final answer.

use harness_types::{Config, Hook, HookVerdict, PolicyDecision};
use serde_json::json;

use crate::support::{Rig, config, with_hooks};

fn with_schema(config: Config) -> Config {
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    });
    Config {
        finish_schema: Some(schema),
        ..config
    }
}

#[test]
fn a_finish_call_ends_the_turn_with_its_arguments() {
    let mut rig = Rig::asked(with_schema(config()));
    rig.call("a", "finish", json!({"n": 42, "toolSummary": "Done"}));
    assert_eq!(rig.stop(), [""; 0]);
    assert_eq!(rig.ends(), [r#"Finished {"n":42}"#]);
    assert_eq!(
        rig.step_at(1),
        r#"1 Done Model>User "Done" call a Finish { output: "{\"n\":42}" }"#
    );
    assert_eq!(
        rig.last_messages(1),
        [r#"results a finish Succeeded "The answer has been taken.""#]
    );
    assert_eq!(rig.user("thanks"), ["ask 1"]);
}

#[test]
fn an_answer_that_does_not_fit_the_schema_goes_back_to_the_model() {
    let mut rig = Rig::asked(with_schema(config()));
    rig.call("a", "finish", json!({"m": 42}));
    assert_eq!(rig.stop(), ["ask 1"]);
    assert_eq!(
        rig.last_messages(1),
        [r#"results a finish Failed "arguments of finish: `n`: required, but missing""#]
    );
    rig.call("b", "finish", json!({"n": 1}));
    rig.stop();
    assert_eq!(rig.ends(), [r#"Finished {"n":1}"#]);
}

#[test]
fn other_calls_of_the_answer_are_made_before_the_turn_ends() {
    let mut rig = Rig::asked(with_schema(config()));
    rig.call("a", "put", json!({}));
    rig.call("b", "finish", json!({"n": 1}));
    rig.call("c", "put", json!({}));
    assert_eq!(rig.stop(), ["run 1 put {}"]);
    assert_eq!(rig.tool(1, "x"), ["run 3 put {}"]);
    assert_eq!(rig.tool(3, "y"), [""; 0]);
    assert_eq!(rig.ends(), [r#"Finished {"n":1}"#]);
}

#[test]
fn policies_and_hooks_decide_about_it_as_about_any_call() {
    let mut config = with_schema(config());
    config.policy.fallback = PolicyDecision::Deny;
    let mut rig = Rig::asked(config);
    rig.call("a", "finish", json!({"n": 1}));
    assert_eq!(rig.stop(), ["ask 1"]);
    assert_eq!(
        rig.last_messages(1),
        [r#"results a finish Denied "no policy allows this call""#]
    );

    let mut rig = Rig::asked(with_schema(with_hooks([Hook::PreTool])));
    rig.call("a", "finish", json!({"n": 1}));
    rig.stop();
    let args = crate::support::args(json!({"n": 2}));
    rig.hook(0, HookVerdict::Modify { args });
    assert_eq!(rig.ends(), [r#"Finished {"n":2}"#]);
}

#[test]
fn the_stop_hook_may_ask_for_another_answer() {
    let mut rig = Rig::asked(with_schema(with_hooks([Hook::Stop])));
    rig.call("a", "finish", json!({"n": 1}));
    rig.stop();
    assert_eq!(
        rig.hook(
            0,
            HookVerdict::KeepGoing {
                reason: "why 1?".into()
            }
        ),
        ["ask 1"]
    );
    rig.call("b", "finish", json!({"n": 2}));
    rig.stop();
    rig.hook(1, HookVerdict::Continue);
    assert_eq!(rig.ends(), [r#"Finished {"n":2}"#]);
}

#[test]
fn without_a_schema_there_is_no_such_tool() {
    let mut rig = Rig::asked(config());
    rig.call("a", "finish", json!({"n": 1}));
    assert_eq!(rig.stop(), ["ask 1"]);
    assert!(
        rig.step_at(1).contains("there is no tool"),
        "{}",
        rig.step_at(1)
    );
}

#[test]
fn text_alone_still_ends_a_turn_that_has_a_schema() {
    let mut rig = Rig::asked(with_schema(config()));
    rig.text("no structure");
    rig.stop();
    assert_eq!(rig.ends(), ["Completed"]);
}
