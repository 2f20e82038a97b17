//! What a conversation may spend, exactly.

use harness_types::{Budget, BudgetScope, Config, Conversation, Usage};
use serde_json::json;

use crate::support::{Rig, config, stamp};

fn spending(budget: Budget) -> Config {
    Config { budget, ..config() }
}

/// Works one call of `put` with the given count of tokens, and gives the effects that follow.
fn work(rig: &mut Rig, usage: Usage) -> Vec<String> {
    let n = rig.state.model_calls();
    rig.usage(usage);
    rig.call("a", "put", json!({"n": n}));
    let run = rig.stop();
    let [run] = run.as_slice() else {
        panic!("one call runs: {run:?}")
    };
    let step: u32 = run.split(' ').nth(1).unwrap().parse().unwrap();
    rig.tool(step, &format!("result {n}"))
}

fn tokens(prompt: u64, candidates: u64, thoughts: u64) -> Usage {
    Usage {
        prompt_tokens: prompt,
        candidates_tokens: candidates,
        thoughts_tokens: thoughts,
        total_tokens: prompt + candidates + thoughts,
        ..Usage::default()
    }
}

#[test]
fn model_calls_are_counted_exactly() {
    let mut rig = Rig::asked(spending(Budget {
        max_model_calls: Some(2),
        ..Budget::default()
    }));
    assert_eq!(work(&mut rig, Usage::default()), ["ask 1"]);
    assert_eq!(work(&mut rig, Usage::default()), [""; 0]);
    assert_eq!(rig.ends(), ["Stopped MaxModelCalls"]);
    assert_eq!(rig.state.model_calls(), 2);
    assert_eq!(rig.user("go on"), [""; 0], "it holds for the conversation");
    assert_eq!(rig.ends().len(), 2);
}

#[test]
fn repeated_requests_count_as_model_calls() {
    let mut rig = Rig::asked(spending(Budget {
        max_model_calls: Some(1),
        ..Budget::default()
    }));
    rig.fail(crate::support::status(503, None));
    assert_eq!(rig.timer(0), [""; 0]);
    assert_eq!(rig.ends(), ["Stopped MaxModelCalls"]);
}

#[test]
fn no_model_calls_at_all() {
    let mut rig = Rig::new(spending(Budget {
        max_model_calls: Some(0),
        ..Budget::default()
    }));
    assert_eq!(rig.user("hi"), [""; 0]);
    assert_eq!(rig.ends(), ["Stopped MaxModelCalls"]);
}

#[test]
fn tool_calls_are_counted_when_they_start() {
    let mut rig = Rig::asked(spending(Budget {
        max_tool_calls: Some(2),
        ..Budget::default()
    }));
    for id in ["a", "b", "c"] {
        rig.call(id, "look", json!({}));
    }
    rig.call("d", "no_such_tool", json!({}));
    rig.stop();
    rig.tool(1, "x");
    assert_eq!(rig.tool(2, "y"), [""; 0]);
    assert_eq!(rig.state.tool_calls(), 2);
    assert_eq!(rig.ends(), ["Stopped MaxToolCalls"]);
    assert!(
        rig.step_at(3).ends_with(
            r#"error "not run: the budget of tool calls is used up; make no further calls""#
        ),
        "{}",
        rig.step_at(3)
    );
}

#[test]
fn tokens_stop_the_turn_when_the_limit_is_reached() {
    let limits = [
        (
            Budget {
                max_input_tokens: Some(20),
                ..Budget::default()
            },
            "Stopped MaxInputTokens",
        ),
        (
            Budget {
                max_output_tokens: Some(10),
                ..Budget::default()
            },
            "Stopped MaxOutputTokens",
        ),
        (
            Budget {
                max_total_tokens: Some(30),
                ..Budget::default()
            },
            "Stopped MaxTotalTokens",
        ),
    ];
    for (budget, end) in limits {
        let mut rig = Rig::asked(spending(budget));
        assert_eq!(work(&mut rig, tokens(10, 2, 2)), ["ask 1"], "{end}");
        assert_eq!(work(&mut rig, tokens(10, 3, 3)), [""; 0], "{end}");
        assert_eq!(rig.ends(), [end]);
    }
}

#[test]
fn the_last_answer_is_shown_whole() {
    let mut rig = Rig::asked(spending(Budget {
        max_total_tokens: Some(1),
        ..Budget::default()
    }));
    rig.usage(tokens(100, 100, 0));
    rig.text("the answer");
    rig.stop();
    assert_eq!(rig.ends(), ["Completed"]);
    assert_eq!(rig.user("more"), [""; 0]);
    assert_eq!(rig.ends(), ["Completed", "Stopped MaxTotalTokens"]);
}

#[test]
fn a_budget_counts_from_the_beginning_or_from_when_the_conversation_was_taken_up() {
    for (scope, effects) in [
        (BudgetScope::Lifetime, vec![]),
        (BudgetScope::SinceResumed, vec!["ask 2".to_owned()]),
    ] {
        let mut rig = Rig::asked(spending(Budget {
            max_model_calls: Some(2),
            scope,
            ..Budget::default()
        }));
        assert_eq!(work(&mut rig, Usage::default()), ["ask 1"]);
        rig.state = Conversation::fold(&rig.records);
        let resumed = rig.machine.resume(&mut rig.state, stamp(), None);
        rig.records.extend(resumed.records);
        assert_eq!(rig.user("go on"), effects, "{scope:?}");
    }
}
