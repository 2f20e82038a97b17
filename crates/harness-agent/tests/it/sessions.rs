//! What is not a turn: refusals, the end of a session, a store that fails, a process that ends.

use harness_agent::Stimulus;
use harness_types::{Command, Conversation, Hook, HookVerdict, Touch};
use serde_json::json;

use crate::support::{Rig, config, stamp, with_hooks};

fn refuse(rig: &mut Rig) -> Vec<String> {
    rig.command(Command::Refuse {
        message: "bad frame".into(),
    })
}

const REFUSED: &str = r#"Error System>User "bad frame" error "bad frame""#;

#[test]
fn a_refusal_while_nothing_runs_tells_the_client_that_nothing_will() {
    let mut rig = Rig::new(config());
    assert_eq!(refuse(&mut rig), [""; 0]);
    assert_eq!(rig.steps(), [format!("0 {REFUSED}")]);
    assert_eq!(rig.ends(), [r#"Failed "bad frame""#]);
    assert_eq!(rig.user("hi"), ["ask 0"], "and takes nothing away");
}

#[test]
fn a_refusal_while_a_turn_runs_leaves_it_running() {
    let mut rig = Rig::asked(config());
    rig.text("Hel");
    refuse(&mut rig);
    rig.text("lo");
    rig.stop();
    assert_eq!(
        rig.steps()[1..],
        [
            r#"1 Done Model>User "Hello""#.to_owned(),
            format!("2 {REFUSED}")
        ]
    );
    assert_eq!(rig.ends(), ["Completed"]);
    assert_eq!(
        rig.history(),
        [r#"user "hi""#, r#"model "Hello""#],
        "the model is not told"
    );
}

#[test]
fn a_session_without_a_hook_ends_at_once() {
    let mut rig = Rig::new(config());
    assert_eq!(rig.command(Command::EndSession), [""; 0]);
    assert_eq!(rig.touches, [Touch::SessionEnded]);
    assert_eq!(rig.user("hi"), ["ask 0"], "the conversation stays usable");
}

#[test]
fn the_session_end_hook_is_waited_for_a_bounded_time() {
    let mut rig = Rig::new(with_hooks([Hook::SessionEnd]));
    assert_eq!(rig.command(Command::EndSession), ["timer 0 10s"]);
    assert_eq!(rig.open(), ["0: hook SessionEnd"]);
    assert_eq!(rig.command(Command::EndSession), [""; 0]);
    assert_eq!(
        rig.notes,
        ["the session is already ending; the second request was ignored"]
    );
    assert_eq!(rig.timer(0), [""; 0]);
    assert_eq!(rig.open(), [""; 0]);
    assert_eq!(rig.touches.last(), Some(&Touch::SessionEnded));
    assert_eq!(
        rig.notes,
        ["the session-end hook was not answered in time and is given up"]
    );
    rig.hook(0, HookVerdict::Continue);
    assert_eq!(rig.touches, [], "too late");
    assert_eq!(
        rig.command(Command::EndSession),
        ["timer 1 10s"],
        "it can be asked for again"
    );
}

#[test]
fn an_answered_session_end_hook_ends_the_session_once() {
    let mut rig = Rig::new(with_hooks([Hook::SessionEnd]));
    rig.command(Command::EndSession);
    rig.hook(
        0,
        HookVerdict::Failed {
            message: "x".into(),
        },
    );
    assert_eq!(rig.touches.last(), Some(&Touch::SessionEnded));
    assert_eq!(rig.timer(0), [""; 0]);
    assert_eq!(rig.touches, []);
}

#[test]
fn a_turn_runs_beside_an_open_session_end_hook() {
    let mut rig = Rig::new(with_hooks([Hook::SessionEnd]));
    rig.command(Command::EndSession);
    assert_eq!(rig.user("hi"), ["ask 0"]);
    rig.text("hello");
    rig.stop();
    assert_eq!(rig.ends(), ["Completed"]);
    rig.user("more");
    rig.halt();
    assert_eq!(
        rig.open(),
        ["0: hook SessionEnd"],
        "a halt is about the turn"
    );
}

#[test]
fn a_failing_store_ends_the_turn_and_not_the_conversation() {
    let mut rig = Rig::asked(config());
    rig.call("a", "look", json!({}));
    let failed = Stimulus::StoreFailed {
        message: "no space".into(),
    };
    assert_eq!(rig.step(failed), ["abort model 0", "abort tool 1"]);
    let why = "the session could not be saved, so the turn was stopped: no space";
    assert_eq!(rig.ends(), [format!("Failed {why:?}")]);
    assert_eq!(
        rig.step_at(2),
        format!("2 Error System>User {why:?} error {why:?}")
    );
    assert_eq!(rig.user("again"), ["ask 1"]);
}

#[test]
fn a_failing_store_does_not_leave_a_session_ending_for_ever() {
    let mut rig = Rig::new(with_hooks([Hook::SessionEnd]));
    rig.command(Command::EndSession);
    // The timer that bounds the wait is an effect that a failed save keeps from starting.
    rig.step(Stimulus::StoreFailed {
        message: "no space".into(),
    });
    assert_eq!(rig.open(), [""; 0]);
    assert_eq!(rig.touches.last(), Some(&Touch::SessionEnded));
}

/// Takes the conversation up again from its log, as a new process would.
fn restarted(rig: &mut Rig, notice: Option<&str>) {
    rig.state = Conversation::fold(&rig.records);
    let notice = notice.map(str::to_owned);
    let outcome = rig.machine.resume(&mut rig.state, stamp(), notice);
    assert_eq!(outcome.effects, []);
    rig.records.extend(outcome.records);
}

#[test]
fn f045_calls_and_requests_of_a_process_that_is_gone_are_closed() {
    let mut config = config();
    config.policy.fallback = harness_types::PolicyDecision::Ask;
    let mut rig = Rig::asked(config);
    rig.call("a", "put", json!({}));
    rig.call("b", "put", json!({}));
    rig.stop();
    rig.policy(0, harness_types::PolicyOutcome::Allow);
    restarted(&mut rig, None);
    assert_eq!(rig.open(), [""; 0]);
    assert_eq!(rig.ends(), ["Interrupted"]);
    let results = [
        r#"results a put Cancelled "outcome unknown: the harness was stopped while the call ran. Check what it did before you repeat it""#,
        r#"b put Cancelled "the call was not run: the harness was stopped before""#,
    ];
    assert_eq!(rig.last_messages(1), [results.join(" + ")]);
    assert_eq!(rig.policy(1, harness_types::PolicyOutcome::Allow), [""; 0]);
    assert_eq!(
        rig.notes.len(),
        1,
        "an answer to an old question is noted and ignored"
    );
    assert_eq!(rig.user("go on"), ["ask 1"]);
}

#[test]
fn f009_an_input_that_had_not_begun_a_turn_is_still_there() {
    let mut rig = Rig::new(with_hooks([Hook::PreTurn]));
    rig.user("hi");
    restarted(&mut rig, None);
    assert_eq!(
        rig.history(),
        [""; 0],
        "nothing was interrupted that the model knows of"
    );
    rig.user("there?");
    assert_eq!(rig.hook(1, HookVerdict::Continue), ["ask 0"]);
    assert_eq!(rig.history(), [r#"user "hi""#, r#"user "there?""#]);
}

#[test]
fn a_session_that_was_ending_may_end_again_after_a_restart() {
    let mut rig = Rig::new(with_hooks([Hook::SessionEnd]));
    rig.command(Command::EndSession);
    restarted(&mut rig, Some("the log was damaged"));
    let why = r#""the log was damaged""#;
    assert_eq!(
        rig.steps(),
        [format!("0 Error System>User {why} error {why}")]
    );
    assert_eq!(rig.command(Command::EndSession), ["timer 1 10s"]);
}

/// The turn itself was done; what was said while its last hook was open must not begin a turn by
/// itself, at whatever happens next.
#[test]
fn what_waited_at_the_end_of_a_turn_waits_for_somebody_to_speak_after_a_restart() {
    let mut rig = Rig::asked(with_hooks([Hook::PostTurn]));
    rig.text("done");
    rig.stop();
    rig.user("next");
    restarted(&mut rig, None);
    assert_eq!(rig.ends(), ["Completed"]);
    assert_eq!(rig.halt(), [""; 0]);
    assert!(rig.state.root().turn.is_none());
    assert_eq!(rig.user("there?"), ["ask 1"]);
    assert_eq!(rig.last_messages(2), [r#"user "next""#, r#"user "there?""#]);
}
