//! Which calls start before the answer that holds them has ended.

use serde_json::json;

use crate::support::{Rig, config};

#[test]
fn read_only_calls_start_as_soon_as_they_are_whole() {
    let mut rig = Rig::asked(config());
    assert_eq!(
        rig.call("a", "look", json!({"n": 1})),
        [r#"run 1 look {"n":1}"#]
    );
    assert_eq!(rig.call("b", "peek", json!({})), ["run 2 peek {}"]);
    assert_eq!(
        rig.tool(2, "second"),
        [""; 0],
        "the model is asked when the answer has ended"
    );
    assert_eq!(rig.stop(), [""; 0]);
    assert_eq!(rig.tool(1, "first"), ["ask 1"]);
    assert_eq!(
        rig.last_messages(1),
        [r#"results a look Succeeded "first" + b peek Succeeded "second""#]
    );
}

#[test]
fn nothing_starts_early_behind_a_call_that_does_not() {
    for first in ["put", "set", "send", "host_a", "no_such_tool"] {
        let mut rig = Rig::asked(config());
        assert_eq!(rig.call("a", first, json!({})), [""; 0], "{first}");
        assert_eq!(rig.call("b", "look", json!({})), [""; 0], "{first}");
        assert_eq!(
            rig.steps().len(),
            1,
            "{first}: no step before its turn, so order is kept"
        );
    }
}

#[test]
fn all_results_may_be_there_before_the_answer_ends() {
    let mut rig = Rig::asked(config());
    rig.call("a", "look", json!({}));
    rig.tool(1, "seen");
    rig.text("and now");
    assert_eq!(rig.stop(), ["ask 1"]);
}

#[test]
fn an_early_call_with_bad_arguments_is_answered_at_once() {
    let mut rig = Rig::asked(config());
    assert_eq!(rig.call("a", "look", json!({"path": 5})), [""; 0]);
    assert_eq!(
        rig.step_at(1),
        r#"1 Error Model>Environment call a does look{"path":5} error "arguments of look: `path`: expected string, got number 5""#
    );
    assert_eq!(rig.stop(), ["ask 1"]);
}
