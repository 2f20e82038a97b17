//! Models that go in circles, and those that only look like it (F039, F049).

use harness_types::{Config, Limits};
use serde_json::{Value, json};

use crate::support::{Rig, config};

fn tolerating(identical_calls: u32) -> Config {
    let limits = Limits {
        identical_calls,
        ..Limits::default()
    };
    Config { limits, ..config() }
}

/// Makes a call of `put` and ends it with `result`; gives the effects that follow.
fn work(rig: &mut Rig, args: Value, result: &str) -> Vec<String> {
    rig.call("a", "put", args);
    let run = rig.stop().join("");
    let step: u32 = run
        .split(' ')
        .nth(1)
        .expect("the call runs")
        .parse()
        .unwrap();
    rig.tool(step, result)
}

const NUDGE: &str = "notice \"You have made the same call 2 times and got the same result each \
                     time. Try something else, or say what stands in the way.\"";

#[test]
fn f039_the_same_call_with_the_same_result_is_told_once_and_then_stopped() {
    let mut rig = Rig::asked(tolerating(4));
    assert_eq!(work(&mut rig, json!({"n": 1}), "x"), ["ask 1"]);
    assert_eq!(work(&mut rig, json!({"n": 1}), "x"), ["ask 2"]);
    assert_eq!(rig.last_messages(1), [NUDGE]);
    assert_eq!(work(&mut rig, json!({"n": 1}), "x"), ["ask 3"]);
    assert_eq!(work(&mut rig, json!({"n": 1}), "x"), [""; 0]);
    let end = r#"Failed "stopped: the same call gave the same result 4 times in this turn""#;
    assert_eq!(rig.ends(), [end]);
}

#[test]
fn f039_two_calls_in_turn_are_a_circle_too() {
    let mut rig = Rig::asked(tolerating(4));
    let mut asked = 0;
    for n in 0.. {
        let effects = work(&mut rig, json!({"n": n % 2}), "x");
        if effects.is_empty() {
            break;
        }
        asked += 1;
        assert!(asked < 20, "A-B-A-B goes on for ever");
    }
    assert_eq!(asked, 6, "A has come 4 times");
}

#[test]
fn f049_other_arguments_or_another_result_are_progress() {
    let mut rig = Rig::asked(tolerating(4));
    for n in 0..40 {
        assert_eq!(
            work(&mut rig, json!({"n": n}), "edited").len(),
            1,
            "40 edits of 40 files"
        );
    }
    for n in 0..40 {
        let result = format!("{n} % done");
        assert_eq!(
            work(&mut rig, json!({"n": 1}), &result).len(),
            1,
            "polling a task"
        );
    }
    assert!(!rig.history().contains(&NUDGE.to_owned()));
}

#[test]
fn f049_the_guard_can_be_switched_off() {
    let mut rig = Rig::asked(tolerating(0));
    for _ in 0..50 {
        assert_eq!(work(&mut rig, json!({}), "x").len(), 1);
    }
}

#[test]
fn the_guard_counts_within_one_turn() {
    let mut rig = Rig::asked(tolerating(3));
    for _ in 0..5 {
        work(&mut rig, json!({}), "x");
        work(&mut rig, json!({}), "x");
        rig.text("done");
        rig.stop();
        rig.user("again");
    }
    assert_eq!(rig.ends(), ["Completed"; 5]);
}

#[test]
fn a_repeated_call_beside_a_new_one_is_progress() {
    let mut rig = Rig::asked(tolerating(3));
    for n in 0..6 {
        rig.call("a", "put", json!({}));
        rig.call("b", "put", json!({"n": n}));
        rig.stop();
        let first = 1 + 2 * n;
        rig.tool(first, "x");
        assert_eq!(rig.tool(first + 1, "x").len(), 1);
    }
}

#[test]
fn f039_calls_that_can_never_run_end_the_turn() {
    let mut rig = Rig::asked(config());
    for n in 0..4 {
        rig.call("a", &format!("no_such_tool_{n}"), json!({}));
        assert_eq!(rig.stop(), [format!("ask {}", n + 1)]);
    }
    rig.call("a", "put", json!({"path": 1}));
    assert_eq!(rig.stop(), [""; 0]);
    let end = r#"Failed "stopped: 5 answers in a row held only calls that could not run""#;
    assert_eq!(rig.ends(), [end]);
}

#[test]
fn one_call_that_runs_starts_that_count_anew() {
    let mut rig = Rig::asked(config());
    for n in 0..12 {
        if n % 4 == 3 {
            assert_eq!(work(&mut rig, json!({"n": n}), "x").len(), 1);
        } else {
            rig.call("a", "no_such_tool", json!({"n": n}));
            assert_eq!(rig.stop().len(), 1);
        }
    }
}

#[test]
fn an_unknown_tool_is_answered_with_the_names_of_those_there_are() {
    let mut rig = Rig::asked(Config::default());
    rig.call("a", "run_shell", json!({}));
    rig.stop();
    assert_eq!(
        rig.last_messages(1),
        [r#"results a run_shell Failed "there is no tool \"run_shell\"; the tools are: none""#]
    );
}

#[test]
fn an_answer_may_hold_so_many_calls_and_the_rest_is_answered() {
    let limits = Limits {
        calls_per_answer: 2,
        ..Limits::default()
    };
    let mut rig = Rig::asked(Config { limits, ..config() });
    for id in ["a", "b", "c", "d"] {
        rig.call(id, "look", json!({}));
    }
    rig.stop();
    rig.tool(1, "x");
    assert_eq!(rig.tool(2, "y"), ["ask 1"]);
    let refused = r#"look Failed "not run: one answer may hold at most 2 calls""#;
    assert_eq!(
        rig.last_messages(1),
        [format!(
            r#"results a look Succeeded "x" + b look Succeeded "y" + c {refused} + d {refused}"#
        )]
    );
}

#[test]
fn the_guard_against_calls_that_cannot_run_can_be_switched_off() {
    let limits = Limits {
        invalid_answers: 0,
        identical_calls: 0,
        ..Limits::default()
    };
    let mut rig = Rig::asked(Config { limits, ..config() });
    for _ in 0..20 {
        rig.call("a", "no_such_tool", json!({}));
        assert_eq!(rig.stop().len(), 1);
    }
}
