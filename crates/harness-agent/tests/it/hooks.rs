//! The eight hooks: when they are asked, what they may decide, and what their failures mean.

use harness_types::{Command, Hook, HookVerdict, RequestAnswer, RequestKind};
use serde_json::json;

use crate::support::{Rig, args, with_hooks};

fn go_on() -> HookVerdict {
    HookVerdict::Continue
}

fn deny() -> HookVerdict {
    HookVerdict::Deny {
        reason: "not today".into(),
    }
}

fn broken() -> HookVerdict {
    HookVerdict::Failed {
        message: "KeyError".into(),
    }
}

const NO_SUCH_VERDICT: &str =
    "an answer to request 0 was ignored: that verdict does not belong to this hook";

/// A rig with an open call of `put` at step 1.
fn called(hook: Hook) -> Rig {
    let mut rig = Rig::asked(with_hooks([hook]));
    rig.call("a", "put", json!({"n": 1, "path": "/x"}));
    rig.stop();
    rig
}

#[test]
fn all_hooks_of_a_conversation_are_asked_in_order() {
    let mut rig = Rig::new(with_hooks([
        Hook::SessionStart,
        Hook::SessionEnd,
        Hook::PreTurn,
        Hook::PostTurn,
        Hook::PreTool,
        Hook::PostTool,
        Hook::ToolError,
        Hook::Stop,
    ]));
    let mut asked = Vec::new();
    let mut effects = rig.user("hi");
    let mut answered = 0;
    let mut next = |rig: &mut Rig, effects: &mut Vec<String>| {
        let open = rig.open();
        let [only] = open.as_slice() else {
            panic!("one hook at a time: {open:?}")
        };
        asked.push(only.split('{').next().unwrap().trim().to_owned());
        effects.extend(rig.hook(answered, go_on()));
        answered += 1;
    };
    next(&mut rig, &mut effects);
    next(&mut rig, &mut effects);
    effects.extend(rig.call("a", "put", json!({})));
    effects.extend(rig.stop());
    next(&mut rig, &mut effects);
    effects.extend(rig.tool(1, "ok"));
    next(&mut rig, &mut effects);
    effects.extend(rig.call("b", "put", json!({})));
    effects.extend(rig.stop());
    next(&mut rig, &mut effects);
    effects.extend(rig.tool_fails(2, "no"));
    next(&mut rig, &mut effects);
    effects.extend(rig.text("done"));
    effects.extend(rig.stop());
    next(&mut rig, &mut effects);
    next(&mut rig, &mut effects);
    effects.extend(rig.user("second turn"));
    next(&mut rig, &mut effects);
    effects.extend(rig.command(Command::EndSession));
    next(&mut rig, &mut effects);
    assert_eq!(
        asked,
        [
            "0: hook SessionStart",
            "1: hook PreTurn",
            "2 at 1: hook PreTool",
            "3 at 1: hook PostTool",
            "4 at 2: hook PreTool",
            "5 at 2: hook ToolError",
            "6: hook Stop",
            "7: hook PostTurn",
            "8: hook PreTurn",
            "9: hook SessionEnd",
        ]
    );
    assert_eq!(
        effects,
        [
            "ask 0",
            "run 1 put {}",
            "ask 1",
            "run 2 put {}",
            "ask 2",
            "ask 3",
            "timer 0 10s"
        ]
    );
}

#[test]
fn hooks_are_told_what_they_are_about() {
    let mut rig = Rig::new(with_hooks([Hook::PreTurn, Hook::PostTurn]));
    rig.trigger("tick");
    rig.user("hello");
    assert_eq!(
        rig.open(),
        [r#"0: hook PreTurn { shown: Some(InputId(0)), parts: [] }"#],
        "triggers are not the user's"
    );
    rig.hook(0, go_on());
    rig.text("All done.");
    rig.stop();
    assert_eq!(
        rig.open(),
        [r#"1: hook PostTurn { response: "All done." }"#]
    );

    let rig = called(Hook::PreTool);
    assert_eq!(
        rig.open(),
        [
            r#"0 at 1: hook PreTool { tool: "policy_put", call: ToolCall { id: CallId("a"), name: "put", args: {"n": Number(1), "path": String("/x")} } }"#
        ]
    );
}

#[test]
fn nobody_who_answers_hooks_means_no_hooks() {
    let mut config = with_hooks([Hook::PreTurn, Hook::PreTool, Hook::Stop]);
    config.answers.remove(&RequestKind::Hook);
    let mut rig = Rig::asked(config);
    rig.call("a", "put", json!({}));
    assert_eq!(rig.stop(), ["run 1 put {}"]);
    assert_eq!(rig.open(), [""; 0]);
}

#[test]
fn pre_turn_denies_a_turn_before_the_model_hears_of_it() {
    for (verdict, reason) in [
        (deny(), "not today"),
        (
            broken(),
            "refused, because the pre-turn hook failed: KeyError",
        ),
    ] {
        let mut rig = Rig::new(with_hooks([Hook::PreTurn]));
        rig.user("hi");
        assert_eq!(rig.hook(0, verdict), [""; 0]);
        assert_eq!(rig.ends(), [format!("Denied {reason:?}")]);
        assert_eq!((rig.history().len(), rig.state.queued().len()), (0, 0));
        rig.user("else");
        assert_eq!(rig.hook(1, go_on()), ["ask 0"]);
        assert_eq!(rig.history(), [r#"user "else""#]);
    }
}

#[test]
fn session_start_cannot_refuse_and_its_failure_is_noted() {
    let mut rig = Rig::new(with_hooks([Hook::SessionStart]));
    rig.user("hi");
    assert_eq!(rig.hook(0, deny()), [""; 0]);
    assert_eq!(rig.notes, [NO_SUCH_VERDICT]);
    assert_eq!(rig.hook(0, broken()), ["ask 0"]);
    assert_eq!(rig.notes, ["a hook failed and was ignored: KeyError"]);
}

#[test]
fn f022_no_opinion_of_a_pre_tool_hook_lets_the_call_run() {
    let mut rig = called(Hook::PreTool);
    assert_eq!(rig.hook(0, go_on()), [r#"run 1 put {"n":1,"path":"/x"}"#]);
}

#[test]
fn f022_a_denial_and_a_failure_refuse_with_a_reason() {
    for (verdict, reason) in [
        (deny(), "not today"),
        (
            broken(),
            "refused, because the pre-tool hook failed: KeyError",
        ),
    ] {
        let mut rig = called(Hook::PreTool);
        assert_eq!(rig.hook(0, verdict), ["ask 1"]);
        assert_eq!(
            rig.last_messages(1),
            [format!("results a put Denied {reason:?}")]
        );
        assert_eq!(
            rig.step_at(1),
            format!("1 Error Model>User call a error {reason:?}"),
            "a refused call is shown without what it would have done"
        );
    }
}

#[test]
fn f059_a_denial_of_a_hook_is_final_and_asks_nobody() {
    let mut config = with_hooks([Hook::PreTool]);
    config.policy.fallback = harness_types::PolicyDecision::Ask;
    let mut rig = Rig::asked(config);
    rig.call("a", "put", json!({}));
    rig.stop();
    assert_eq!(rig.hook(0, deny()), ["ask 1"]);
    assert_eq!(rig.open(), [""; 0]);
}

#[test]
fn pre_tool_changes_some_arguments_and_keeps_the_others() {
    let mut rig = called(Hook::PreTool);
    let changed = HookVerdict::Modify {
        args: args(json!({"path": "/y"})),
    };
    assert_eq!(rig.hook(0, changed), [r#"run 1 put {"n":1,"path":"/y"}"#]);
    assert_eq!(
        rig.step_at(1),
        r#"1 Active Model>Environment call a does put{"n":1,"path":"/y"}"#
    );
    assert_eq!(
        rig.last_messages(1),
        [r#"model a put{"n":1,"path":"/x"}"#],
        "the model's own words stay"
    );
}

#[test]
fn changed_arguments_are_checked_like_others() {
    let mut rig = called(Hook::PreTool);
    let changed = HookVerdict::Modify {
        args: args(json!({"path": []})),
    };
    assert_eq!(rig.hook(0, changed), ["ask 1"]);
    assert_eq!(
        rig.last_messages(1),
        [
            r#"results a put Failed "arguments as changed by the pre-tool hook: `path`: expected string, got array []""#
        ]
    );
}

#[test]
fn a_changed_call_still_has_to_pass_the_policy() {
    let mut config = with_hooks([Hook::PreTool]);
    config.policy.fallback = harness_types::PolicyDecision::Deny;
    let mut rig = Rig::asked(config);
    rig.call("a", "put", json!({}));
    rig.stop();
    let changed = HookVerdict::Modify {
        args: args(json!({"path": "/y"})),
    };
    assert_eq!(rig.hook(0, changed), ["ask 1"]);
    assert_eq!(
        rig.last_messages(1),
        [r#"results a put Denied "no policy allows this call""#]
    );
}

#[test]
fn a_call_that_cannot_run_asks_no_hook() {
    let mut rig = Rig::asked(with_hooks([Hook::PreTool, Hook::ToolError]));
    rig.call("a", "no_such_tool", json!({}));
    rig.call("b", "put", json!({"path": 1}));
    assert_eq!(rig.stop(), ["ask 1"]);
    assert_eq!(rig.open(), [""; 0]);
}

#[test]
fn hooks_of_several_calls_are_open_together() {
    let mut rig = Rig::asked(with_hooks([Hook::PreTool]));
    rig.call("a", "look", json!({}));
    rig.call("b", "put", json!({}));
    rig.stop();
    assert_eq!(rig.state.requests().len(), 2);
    assert_eq!(
        rig.hook(1, go_on()),
        [""; 0],
        "a writer still waits for the call before it"
    );
    assert_eq!(rig.hook(0, go_on()), ["run 1 look {}"]);
    assert_eq!(rig.tool(1, "x"), ["run 2 put {}"]);
}

#[test]
fn the_hooks_after_a_call_see_its_end_and_may_only_put_an_error_differently() {
    let mut rig = called(Hook::ToolError);
    rig.tool_fails(1, "disk full");
    assert!(
        rig.open()[0].ends_with(r#"error: "disk full" }"#),
        "{:?}",
        rig.open()
    );
    let message = "the disk is full: ask the user".to_owned();
    assert_eq!(
        rig.hook(0, HookVerdict::ReplaceError { message }),
        ["ask 1"]
    );
    assert_eq!(
        rig.last_messages(1),
        [r#"results a put Failed "the disk is full: ask the user""#]
    );
    assert!(
        rig.step_at(1).ends_with(r#"error "disk full""#),
        "observers see the error itself"
    );

    let mut rig = called(Hook::PostTool);
    rig.tool(1, "written");
    for verdict in [
        HookVerdict::ReplaceError {
            message: "x".into(),
        },
        deny(),
    ] {
        assert_eq!(rig.hook(0, verdict), [""; 0]);
        assert_eq!(rig.notes, [NO_SUCH_VERDICT]);
    }
    assert_eq!(rig.hook(0, broken()), ["ask 1"]);
    assert_eq!(
        rig.notes,
        ["the hook after a call failed and was ignored: KeyError"]
    );
    assert_eq!(
        rig.last_messages(1),
        [r#"results a put Succeeded "written""#]
    );
}

#[test]
fn the_stop_hook_keeps_a_turn_going_a_bounded_number_of_times() {
    let mut config = with_hooks([Hook::Stop]);
    config.limits.stop_continuations = 2;
    let mut rig = Rig::asked(config);
    let more = || HookVerdict::KeepGoing {
        reason: "and the tests?".into(),
    };
    for n in 0..3 {
        rig.text("done");
        assert_eq!(rig.stop(), [""; 0]);
        let told = format!(
            "{n}: hook Stop {{ response: \"done\", continuations: {n}, error: None, stop_reason: None }}"
        );
        assert_eq!(rig.open(), [told]);
        let effects = rig.hook(n, more());
        if n < 2 {
            assert_eq!(effects, [format!("ask {}", n + 1)]);
            assert_eq!(rig.last_messages(1), [r#"notice "and the tests?""#]);
        } else {
            assert_eq!(effects, [""; 0]);
        }
    }
    assert_eq!(
        rig.notes,
        ["the stop hook has continued this turn 2 times already"]
    );
    assert_eq!(rig.ends(), ["Completed"]);
}

#[test]
fn the_stop_hook_cannot_keep_a_failed_turn_going() {
    let mut rig = Rig::asked(with_hooks([Hook::Stop]));
    rig.fail(crate::support::status(401, None));
    let told = r#"0: hook Stop { response: "", continuations: 0, error: Some("status 401"), stop_reason: None }"#;
    assert_eq!(rig.open(), [told]);
    let more = HookVerdict::KeepGoing {
        reason: "again".into(),
    };
    assert_eq!(rig.hook(0, more), [""; 0]);
    assert_eq!(rig.ends(), [r#"Failed "status 401" (401)"#]);
}

#[test]
fn an_answer_of_another_kind_leaves_the_hook_open() {
    let mut rig = called(Hook::PreTool);
    let wrong = RequestAnswer::Policy(harness_types::PolicyOutcome::Allow);
    assert_eq!(rig.answer(0, wrong), [""; 0]);
    assert_eq!(
        rig.notes,
        ["an answer to request 0 was ignored: it is not a Hook answer"]
    );
    assert_eq!(rig.hook(0, go_on()).len(), 1);
    assert_eq!(rig.hook(0, deny()), [""; 0], "the first answer holds");
    assert_eq!(
        rig.notes,
        [
            "an answer to request 0 was ignored: it is not open (answered already, cancelled, or \
          never asked)"
        ]
    );
}

#[test]
fn an_input_that_comes_while_the_turn_ends_begins_the_next_one() {
    let mut rig = Rig::asked(with_hooks([Hook::PostTurn]));
    rig.text("done");
    rig.stop();
    assert_eq!(rig.user("next"), [""; 0]);
    assert_eq!(rig.hook(0, go_on()), ["ask 1"]);
    assert_eq!(rig.ends(), ["Completed"]);
}

/// The hook has judged what it was shown, and nothing that was said after.
#[test]
fn pre_turn_drops_only_what_it_was_shown() {
    let mut rig = Rig::new(with_hooks([Hook::PreTurn]));
    rig.user("judged");
    rig.user("said later");
    assert_eq!(rig.hook(0, deny()), [""; 0]);
    assert_eq!(rig.ends(), [r#"Denied "not today""#]);
    assert_eq!(
        rig.open(),
        [r#"1: hook PreTurn { shown: Some(InputId(1)), parts: [Text("said later")] }"#]
    );
    assert_eq!(rig.hook(1, go_on()), ["ask 0"]);
    assert_eq!(rig.history(), [r#"user "said later""#]);
}
