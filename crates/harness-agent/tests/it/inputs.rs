//! What is said while a turn runs, and by whom.

use harness_types::{Command, Config, Input, InputPart, Media, Message};
use serde_json::json;

use crate::support::{Rig, config};

#[test]
fn inputs_of_a_running_turn_are_taken_all_at_once_at_the_next_boundary() {
    let mut rig = Rig::asked(config());
    rig.call("a", "put", json!({}));
    rig.user("one");
    rig.stop();
    rig.trigger("two");
    rig.user("three");
    assert_eq!(rig.state.queued().len(), 3);
    assert_eq!(rig.tool(1, "ok"), ["ask 1"]);
    assert_eq!(
        rig.last_messages(4),
        [
            r#"results a put Succeeded "ok""#,
            r#"user "one""#,
            r#"trigger "two""#,
            r#"user "three""#,
        ]
    );
    assert_eq!(rig.state.queued().len(), 0);
    assert_eq!(
        rig.steps()[2..],
        [
            r#"2 Done User>Model "one""#,
            r#"3 Done System>Model "two""#,
            r#"4 Done User>Model "three""#,
        ]
    );
}

#[test]
fn an_input_that_comes_during_the_last_answer_is_answered_in_the_same_turn() {
    let mut rig = Rig::asked(config());
    rig.text("first");
    rig.user("and this?");
    assert_eq!(rig.stop(), ["ask 1"]);
    rig.text("second");
    rig.stop();
    assert_eq!(rig.ends(), ["Completed"]);
    assert_eq!(
        rig.history(),
        [
            r#"user "hi""#,
            r#"model "first""#,
            r#"user "and this?""#,
            r#"model "second""#
        ]
    );
}

#[test]
fn a_trigger_makes_one_call_of_the_model() {
    let mut rig = Rig::new(config());
    assert_eq!(rig.trigger("tick"), ["ask 0"]);
    rig.text("noted");
    assert_eq!(rig.stop(), [""; 0]);
    assert_eq!(rig.state.model_calls(), 1);
    assert_eq!(rig.history(), [r#"trigger "tick""#, r#"model "noted""#]);
    assert_eq!(rig.step_at(0), r#"0 Done System>Model "tick""#);
}

#[test]
fn the_parts_of_an_input_reach_the_model_in_order() {
    let media = Media {
        mime_type: "image/png".into(),
        description: "a dot".into(),
        data: [1, 2].into(),
    };
    let input = Input::user([
        InputPart::text("look at "),
        InputPart::Media(media),
        InputPart::SlashCommand("plan".into()),
        InputPart::text("now"),
    ]);
    let mut rig = Rig::new(config());
    rig.command(Command::Input(input.clone()));
    assert_eq!(rig.requests[0].messages, [Message::Input(input)]);
    assert_eq!(rig.step_at(0), r#"0 Done User>Model "look at /plan now""#);
}

#[test]
fn one_input_too_many_is_refused_and_the_turn_goes_on() {
    let mut config = config();
    config.limits.queued_inputs = 2;
    let mut rig = Rig::asked(config);
    rig.user("1");
    rig.user("2");
    assert_eq!(rig.user("3"), [""; 0]);
    assert_eq!(rig.notes, ["input refused: 2 inputs are already waiting"]);
    assert_eq!(
        rig.step_at(1),
        r#"1 Error System>User "input refused: 2 inputs are already waiting" error "input refused: 2 inputs are already waiting""#
    );
    rig.text("x");
    assert_eq!(rig.stop(), ["ask 1"]);
    assert_eq!(rig.last_messages(2), [r#"user "1""#, r#"user "2""#]);
}

/// The halted turn leaves its inputs waiting; the next one takes them along. If it were refused,
/// nothing could ever begin a turn again.
#[test]
fn a_full_queue_of_a_halted_turn_does_not_lock_the_conversation() {
    let mut config = config();
    config.limits.queued_inputs = 1;
    let mut rig = Rig::asked(config);
    rig.user("waits");
    rig.halt();
    assert_eq!(rig.user("next"), ["ask 1"]);
    assert_eq!(
        rig.history(),
        [r#"user "hi""#, r#"user "waits""#, r#"user "next""#]
    );
}

#[test]
fn after_a_halt_what_waits_stays_until_somebody_speaks() {
    let mut rig = Rig::asked(Config::default());
    rig.user("waits");
    assert_eq!(rig.halt(), ["abort model 0"]);
    assert!(rig.state.is_held());
    assert_eq!(rig.timer(5), [""; 0]);
    assert_eq!(rig.user("go on"), ["ask 1"]);
    assert_eq!(rig.last_messages(2), [r#"user "waits""#, r#"user "go on""#]);
}
