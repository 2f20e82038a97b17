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
    assert_eq!(rig.tool(2, "seen"), ["ask 1"]);
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
    assert_eq!(rig.cut(), ["ask 1"]);
    assert_eq!(rig.state.requests().len(), 0);
    assert_eq!(
        rig.last_messages(2),
        [
            "model a look{}",
            r#"results a look Cancelled "the call was not run: the answer that held the call broke off""#,
        ]
    );
}
