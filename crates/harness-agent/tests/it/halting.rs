//! A halt at every stage of a turn. It leaves nothing running, nothing open, and a history a model
//! accepts (F023).

use harness_types::{AgentBehavior, Hook, HookVerdict, PolicyDecision};
use serde_json::json;

use crate::support::{Rig, config, status, with_hooks};

/// Halts, and shows that nothing is left and the next input works. Gives the effects of the halt.
fn halt(rig: &mut Rig) -> Vec<String> {
    let effects = rig.halt();
    assert_eq!(rig.ends().last().map(String::as_str), Some("Halted"));
    assert!(rig.state.root().turn.is_none());
    assert_eq!(rig.open(), [""; 0]);
    let ended = rig.ends().len();
    assert_eq!(rig.halt(), [""; 0], "a second halt does nothing");
    assert_eq!(rig.ends().len(), ended, "and the end is told once");
    effects
}

fn goes_on(mut rig: Rig, asks: &str) {
    assert_eq!(rig.user("next"), [asks]);
}

#[test]
fn with_nothing_running_nothing_happens() {
    let mut rig = Rig::new(config());
    let before = rig.records.clone();
    assert_eq!(rig.halt(), [""; 0]);
    assert_eq!(rig.records, before);
}

#[test]
fn f023_while_the_model_answers() {
    let mut rig = Rig::asked(config());
    rig.text("I was about to");
    assert_eq!(halt(&mut rig), ["abort model 0"]);
    assert_eq!(rig.history(), [r#"user "hi""#, r#"model "I was about to""#]);
    assert_eq!(rig.step_at(1), r#"1 Done Model>User "I was about to""#);
    goes_on(rig, "ask 1");
}

#[test]
fn f023_while_the_model_has_said_calls_that_have_not_begun() {
    let mut rig = Rig::asked(config());
    rig.call("a", "put", json!({}));
    assert_eq!(halt(&mut rig), ["abort model 0"]);
    assert_eq!(rig.history(), [r#"user "hi""#]);
    goes_on(rig, "ask 1");
}

#[test]
fn f023_while_tools_run_and_wait_each_call_is_answered_in_order() {
    let mut rig = Rig::asked(config());
    for (id, name) in [
        ("a", "look"),
        ("b", "peek"),
        ("c", "put"),
        ("d", "no_such_tool"),
    ] {
        rig.call(id, name, json!({}));
    }
    rig.stop();
    rig.tool(1, "seen");
    assert_eq!(halt(&mut rig), ["abort tool 2"]);
    let results = [
        r#"results a look Succeeded "seen""#,
        r#"b peek Cancelled "the call was stopped; what it did so far stays: halted""#,
        r#"c put Cancelled "the call was not run: halted""#,
        r#"d no_such_tool Failed "there is no tool \"no_such_tool\"; the tools are: look, peek, put, set, send, host_a, host_b""#,
    ];
    assert_eq!(rig.last_messages(1), [results.join(" + ")]);
    assert_eq!(rig.tool(2, "late"), [""; 0]);
    goes_on(rig, "ask 1");
}

#[test]
fn f023_while_a_read_only_call_runs_beside_the_answer() {
    let mut rig = Rig::asked(config());
    rig.call("a", "look", json!({}));
    rig.call("b", "put", json!({}));
    assert_eq!(halt(&mut rig), ["abort model 0", "abort tool 1"]);
    assert_eq!(
        rig.last_messages(2),
        [
            "model a look{}",
            r#"results a look Cancelled "the call was stopped; what it did so far stays: halted""#,
        ]
    );
    goes_on(rig, "ask 1");
}

#[test]
fn f023_while_the_client_runs_a_tool_whose_late_answer_is_dropped() {
    let mut rig = Rig::asked(config());
    rig.call("a", "host_a", json!({}));
    rig.stop();
    assert_eq!(halt(&mut rig), [""; 0]);
    let before = rig.state.clone();
    assert_eq!(rig.host(0, "late"), [""; 0]);
    assert_eq!(rig.state, before);
    assert_eq!(
        rig.notes,
        [
            "an answer to request 0 was ignored: it is not open (answered already, cancelled, or \
          never asked)"
        ]
    );
    goes_on(rig, "ask 1");
}

#[test]
fn f068_in_the_wait_before_a_repeated_request() {
    let mut rig = Rig::asked(config());
    rig.fail(status(503, None));
    assert_eq!(halt(&mut rig), [""; 0]);
    assert_eq!(rig.timer(0), [""; 0], "its timer rings for nobody");
    goes_on(rig, "ask 1");
}

#[test]
fn while_a_question_is_open() {
    let mut config = config();
    config.behavior = AgentBehavior::Interactive;
    config.tools.insert("ask_question".into());
    let mut rig = Rig::asked(config);
    let questions = json!({"questions": [{"question": "q?", "options": ["a", "b"]}]});
    rig.call("a", "ask_question", questions);
    rig.stop();
    assert_eq!(rig.open(), ["0 at 1: questions 1"]);
    halt(&mut rig);
    goes_on(rig, "ask 1");
}

#[test]
fn while_somebody_is_asked_whether_a_call_may_run() {
    let mut config = config();
    config.policy.fallback = PolicyDecision::Ask;
    let mut rig = Rig::asked(config);
    rig.call("a", "put", json!({}));
    rig.stop();
    assert_eq!(rig.open(), ["0 at 1: confirm policy_put "]);
    assert_eq!(halt(&mut rig), [""; 0]);
    goes_on(rig, "ask 1");
}

#[test]
fn while_a_hook_of_a_call_is_open() {
    let mut rig = Rig::asked(with_hooks([Hook::PreTool]));
    rig.call("a", "put", json!({}));
    rig.stop();
    assert_eq!(halt(&mut rig), [""; 0]);
    assert_eq!(
        rig.last_messages(1),
        [r#"results a put Cancelled "the call was not run: halted""#]
    );
    goes_on(rig, "ask 1");
}

#[test]
fn a_call_that_has_run_keeps_its_result_when_only_the_hook_after_it_is_missing() {
    let mut rig = Rig::asked(with_hooks([Hook::PostTool]));
    rig.call("a", "put", json!({}));
    rig.stop();
    rig.tool(1, "written");
    assert_eq!(rig.stages(), ["1 Ran"]);
    assert_eq!(halt(&mut rig), [""; 0]);
    assert_eq!(
        rig.last_messages(1),
        [r#"results a put Succeeded "written""#]
    );
    goes_on(rig, "ask 1");
}

#[test]
fn while_the_hooks_before_a_turn_are_open() {
    for hook in [Hook::SessionStart, Hook::PreTurn] {
        let mut rig = Rig::new(with_hooks([hook]));
        assert_eq!(rig.user("hi"), [""; 0]);
        halt(&mut rig);
        assert_eq!(rig.history(), [""; 0]);
        assert_eq!(rig.state.queued().len(), 1, "what was said is not lost");
        assert_eq!(rig.user("again"), [""; 0]);
        assert_eq!(rig.hook(1, HookVerdict::Continue), ["ask 0"]);
        assert_eq!(rig.history(), [r#"user "hi""#, r#"user "again""#]);
    }
}

#[test]
fn while_the_hooks_after_a_turn_are_open() {
    for hook in [Hook::Stop, Hook::PostTurn] {
        let mut rig = Rig::asked(with_hooks([hook]));
        rig.text("done");
        assert_eq!(rig.stop(), [""; 0]);
        assert_eq!(rig.state.requests().len(), 1);
        assert_eq!(halt(&mut rig), [""; 0]);
        assert_eq!(rig.last_messages(1), [r#"model "done""#]);
        goes_on(rig, "ask 1");
    }
}
