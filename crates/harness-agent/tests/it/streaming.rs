//! How an answer comes in: text, thoughts, signatures, token counts.

use harness_types::{AnswerDelta, CallId, Message, ModelPart, RecordBody, ToolCall, Touch, Usage};
use serde_json::json;

use crate::support::{Rig, args, config};

fn text(text: &str, signature: Option<&str>) -> ModelPart {
    ModelPart::Text {
        text: text.into(),
        signature: signature.map(str::to_owned),
    }
}

fn thought(text: &str, signature: Option<&str>) -> ModelPart {
    ModelPart::Thought {
        text: text.into(),
        signature: signature.map(str::to_owned),
    }
}

#[test]
fn a_turn_of_text_is_two_steps() {
    let mut rig = Rig::asked(config());
    assert_eq!(rig.text("Hel"), [""; 0]);
    assert_eq!(rig.step_at(1), r#"1 Active Model>User "Hel""#);
    rig.text("lo");
    assert_eq!(rig.stop(), [""; 0]);
    assert_eq!(
        rig.steps(),
        [r#"0 Done User>Model "hi""#, r#"1 Done Model>User "Hello""#]
    );
    assert_eq!(rig.history(), [r#"user "hi""#, r#"model "Hello""#]);
    assert_eq!(rig.ends(), ["Completed"]);
    let trajectory = rig.trajectory();
    let turn_ended = Touch::TurnEnded {
        trajectory,
        end: harness_types::TurnEnd::Completed,
    };
    assert_eq!(
        rig.touches.last(),
        Some(&turn_ended),
        "nothing is told after the end of a turn"
    );
}

#[test]
fn signatures_and_the_borders_of_signed_parts_are_kept_byte_for_byte() {
    let mut rig = Rig::asked(config());
    let call = ModelPart::Call {
        call: ToolCall {
            id: CallId::new("c"),
            name: "put".into(),
            args: args(json!({"n": 1})),
        },
        signature: Some("Y2FsbA==\u{0}\"é".into()),
    };
    let said = [
        thought("first ", None),
        thought("second", Some("c2lnMQ==")),
        thought("third", None),
        text("a", None),
        text("b", None),
        text("", Some("bm8gdGV4dA==")),
        text("c", Some("/+8=")),
        text("d", None),
        call.clone(),
    ];
    for part in said {
        rig.part(part);
    }
    rig.stop();
    let kept = vec![
        thought("first ", None),
        thought("second", Some("c2lnMQ==")),
        thought("third", None),
        text("ab", None),
        text("", Some("bm8gdGV4dA==")),
        text("c", Some("/+8=")),
        text("d", None),
        call,
    ];
    assert_eq!(rig.state.root().history[1], Message::Model(kept.clone()));
    rig.tool(2, "done");
    assert_eq!(
        rig.requests[1].messages[1],
        Message::Model(kept),
        "and go back as they came"
    );
    assert_eq!(
        rig.step_at(1),
        r#"1 Done Model>User "abcd" thinks "first secondthird""#
    );
}

#[test]
fn text_after_a_call_goes_on_in_the_step_of_the_answer() {
    let mut rig = Rig::asked(config());
    rig.text("one ");
    assert_eq!(rig.call("a", "look", json!({})), ["run 2 look {}"]);
    rig.text("two");
    rig.stop();
    assert_eq!(rig.step_at(1), r#"1 Done Model>User "one two""#);
    rig.tool(2, "seen");
    assert_eq!(
        rig.history(),
        [
            r#"user "hi""#,
            r#"model "one " + a look{} + "two""#,
            r#"results a look Succeeded "seen""#,
        ]
    );
}

#[test]
fn an_empty_piece_without_a_signature_is_nothing() {
    let mut rig = Rig::asked(config());
    let before = rig.records.len();
    rig.text("");
    rig.part(thought("", None));
    assert_eq!((rig.records.len(), rig.steps().len()), (before, 1));
}

#[test]
fn pieces_of_an_answer_nobody_waits_for_change_nothing() {
    let mut rig = Rig::asked(config());
    rig.halt();
    let before = (rig.records.clone(), rig.state.clone());
    let call = harness_types::ModelCallId::new(0);
    rig.step(harness_agent::Stimulus::ModelPart {
        call,
        part: text("late", None),
    });
    rig.step(harness_agent::Stimulus::ModelUsage {
        call,
        usage: Usage::default(),
    });
    let end = harness_agent::ModelEnd::Finished {
        reason: harness_types::FinishReason::Stop,
        message: None,
    };
    rig.step(harness_agent::Stimulus::ModelEnded { call, end });
    assert_eq!((rig.records, rig.state), before);
}

#[test]
fn f018_the_last_count_of_a_request_holds_and_requests_are_added_up() {
    let count = |thoughts: u64| Usage {
        prompt_tokens: 100,
        cached_tokens: 80,
        candidates_tokens: 1,
        thoughts_tokens: thoughts,
        total_tokens: 101 + thoughts,
        ..Usage::default()
    };
    let mut rig = Rig::asked(config());
    for n in 1..=5 {
        rig.usage(count(5 * n));
        assert_eq!(
            rig.state.usage(),
            Usage::default(),
            "not before the answer has ended"
        );
    }
    rig.call("a", "put", json!({}));
    rig.stop();
    assert_eq!(rig.state.usage(), count(25));
    assert!(rig.touches.contains(&Touch::Usage));
    rig.tool(1, "ok");
    rig.usage(count(5));
    rig.text("done");
    rig.stop();
    let total = Usage {
        prompt_tokens: 200,
        cached_tokens: 160,
        candidates_tokens: 2,
        thoughts_tokens: 30,
        total_tokens: 232,
        ..Usage::default()
    };
    assert_eq!(rig.state.usage(), total);
    assert_eq!(rig.state.root().usage, total);
}

#[test]
fn tokens_of_a_failed_answer_are_counted_too() {
    let mut rig = Rig::asked(config());
    rig.usage(Usage {
        prompt_tokens: 7,
        ..Usage::default()
    });
    rig.cut();
    assert_eq!(rig.state.usage().prompt_tokens, 7);
}

#[test]
fn calls_get_ids_that_differ_within_their_answer() {
    let mut rig = Rig::asked(config());
    for id in ["", "a", "a", "", "call-0-0", "a-2"] {
        rig.call(id, "send", json!({}));
    }
    rig.stop();
    assert_eq!(
        rig.last_messages(1),
        [
            "model call-0-0 send{} + a send{} + a-2 send{} + call-0-3 send{} + call-0-0-4 send{} \
             + a-2-5 send{}"
        ]
    );
    let ids: Vec<_> = rig
        .state
        .root()
        .steps
        .iter()
        .filter_map(|step| step.call.clone())
        .collect();
    let names = ["call-0-0", "a", "a-2", "call-0-3", "call-0-0-4", "a-2-5"];
    assert_eq!(ids, names.map(CallId::new));
}

#[test]
fn a_call_is_logged_without_a_step_until_it_opens() {
    let mut rig = Rig::asked(config());
    rig.call(
        "a",
        "put",
        json!({"toolSummary": "Writes it", "toolAction": "Writing", "n": "3"}),
    );
    let last = rig.records.last().map(|record| record.body.clone());
    let Some(RecordBody::AnswerDelta(AnswerDelta { step: None, .. })) = last else {
        panic!("a call is a delta without a step: {last:?}");
    };
    rig.stop();
    // The annotations are the client's, not the tool's; the history keeps what the model said.
    assert_eq!(
        rig.step_at(1),
        r#"1 Active Model>Environment "Writes it" call a does put{"n":3}"#
    );
    assert_eq!(
        rig.last_messages(1),
        [r#"model a put{"toolSummary":"Writes it","toolAction":"Writing","n":"3"}"#]
    );
}

/// Clients answer by call id alone: a late answer to one call must not be taken for another's.
#[test]
fn calls_of_different_answers_get_different_ids_too() {
    let mut rig = Rig::asked(config());
    for step in 1..4 {
        rig.call("same", "put", json!({"n": step}));
        rig.stop();
        rig.tool(step, "ok");
    }
    let steps = &rig.state.root().steps;
    let ids: Vec<_> = steps.iter().filter_map(|step| step.call.clone()).collect();
    assert_eq!(ids, ["same", "same-1", "same-2"].map(CallId::new));
}
