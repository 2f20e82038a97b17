//! Answers that break off.

use serde_json::json;

use crate::support::{Rig, config};

#[test]
fn f015_a_cut_answer_is_asked_for_again_and_its_text_is_marked() {
    let mut rig = Rig::asked(config());
    rig.text("Half an ans");
    assert_eq!(rig.cut(), ["timer 0 1s"]);
    assert_eq!(rig.timer(0), ["ask 1"]);
    rig.text("A whole answer.");
    rig.stop();
    assert_eq!(
        rig.steps(),
        [
            r#"0 Done User>Model "hi""#,
            r#"1 Done Model>User "Half an ans\n\n""#,
            r#"2 Error System>User "broke off; asking again in 1.0 s" error "broke off; asking again in 1.0 s""#,
            r#"3 Done Model>User "A whole answer.""#,
        ]
    );
    assert_eq!(
        rig.history(),
        [r#"user "hi""#, r#"model "A whole answer.""#]
    );
    assert_eq!(rig.ends(), ["Completed"]);
}

#[test]
fn f015_nothing_is_marked_where_nothing_was_said() {
    let mut rig = Rig::asked(config());
    rig.cut();
    assert_eq!(rig.steps().len(), 2, "the input and the error");
}

#[test]
fn calls_of_a_cut_answer_that_have_not_begun_are_forgotten() {
    let mut rig = Rig::asked(config());
    rig.call("a", "put", json!({}));
    assert_eq!(rig.cut(), ["timer 0 1s"]);
    assert_eq!(rig.timer(0), ["ask 1"]);
    assert_eq!(rig.history(), [r#"user "hi""#]);
}

#[test]
fn once_a_call_has_started_a_cut_answer_is_kept_and_never_asked_again() {
    let mut rig = Rig::asked(config());
    rig.text("Looking. ");
    assert_eq!(rig.call("a", "look", json!({})), ["run 2 look {}"]);
    rig.call("b", "put", json!({}));
    assert_eq!(rig.cut(), [""; 0], "the running call goes on");
    assert_eq!(
        rig.tool(2, "seen"),
        ["timer 0 1s"],
        "a provider in trouble gets a pause"
    );
    assert_eq!(rig.timer(0), ["ask 1"]);
    assert_eq!(
        rig.history(),
        [
            r#"user "hi""#,
            r#"model "Looking. " + a look{}"#,
            r#"results a look Succeeded "seen""#,
        ]
    );
    assert_eq!(
        rig.step_at(3),
        r#"3 Error System>User "the model's answer broke off: broke off" error "the model's answer broke off: broke off""#
    );
}

#[test]
fn an_opened_call_that_waits_for_a_hook_is_closed_by_the_cut() {
    let mut rig = Rig::asked(crate::support::with_hooks([harness_types::Hook::PreTool]));
    assert_eq!(rig.call("a", "look", json!({})), [""; 0]);
    assert_eq!(rig.state.requests().len(), 1);
    assert_eq!(rig.cut(), ["timer 0 1s"]);
    assert_eq!(rig.state.requests().len(), 0);
    assert_eq!(
        rig.last_messages(2),
        [
            "model a look{}",
            r#"results a look Cancelled "the call was not run: the answer that held the call broke off""#,
        ]
    );
}

#[test]
fn answers_that_are_cut_again_and_again_end_the_turn() {
    let mut config = config();
    config.retry.max_retries = 2;
    let mut rig = Rig::asked(config);
    let mut waits = Vec::new();
    for timer in 0.. {
        let run = rig.call("a", "look", json!({"n": timer})).join("");
        let step: u32 = run.split(' ').nth(1).unwrap().parse().unwrap();
        rig.cut();
        let effects = rig.tool(step, "seen");
        let over = effects.is_empty();
        waits.extend(effects);
        if over {
            break;
        }
        assert_eq!(rig.timer(timer).len(), 1);
    }
    assert_eq!(waits, ["timer 0 1s", "timer 1 2s"]);
    assert_eq!(
        rig.ends(),
        [r#"Failed "the model's answer broke off 3 times in a row""#]
    );
}

#[test]
fn a_whole_answer_between_two_cut_ones_starts_the_waits_anew() {
    let mut rig = Rig::asked(config());
    rig.call("a", "look", json!({}));
    rig.cut();
    assert_eq!(rig.tool(1, "x"), ["timer 0 1s"]);
    rig.timer(0);
    let run = rig.call("b", "look", json!({"n": 1})).join("");
    let step: u32 = run.split(' ').nth(1).unwrap().parse().unwrap();
    rig.stop();
    assert_eq!(rig.tool(step, "y"), ["ask 2"]);
    let run = rig.call("c", "look", json!({"n": 2})).join("");
    let step: u32 = run.split(' ').nth(1).unwrap().parse().unwrap();
    rig.cut();
    assert_eq!(rig.tool(step, "z"), ["timer 1 1s"]);
}
