//! Answers that end, but not in a way that can be used.

use harness_types::{Config, FinishReason};
use serde_json::json;

use crate::support::{Rig, config};

fn blocked() -> FinishReason {
    FinishReason::Blocked("SAFETY".into())
}

fn malformed() -> FinishReason {
    FinishReason::MalformedCall("MALFORMED_FUNCTION_CALL".into())
}

const CALL_HINT: &str = "notice \"Your last answer held a tool call that could not be read. Make \
                         the call again with well-formed arguments, or answer in text.\"";
const EMPTY_HINT: &str = "notice \"Your last answer was empty. Answer in text or call a tool.\"";
const LONG_HINT: &str = "notice \"Your last answer reached the limit of output tokens and was \
                         thrown away. Answer more briefly, or work in smaller steps.\"";

#[test]
fn f016_a_malformed_call_is_asked_for_again_with_a_hint_and_then_given_up() {
    let mut rig = Rig::asked(Config {
        output_retries: 2,
        ..config()
    });
    assert_eq!(rig.finish(malformed()), ["ask 1"]);
    assert_eq!(rig.history(), [r#"user "hi""#, CALL_HINT]);
    let why = "the model made a tool call that cannot be read (MALFORMED_FUNCTION_CALL)";
    assert_eq!(
        rig.step_at(1),
        format!(
            r#"1 Error System>User "{why}; asking again (1 of 2)" error "{why}; asking again (1 of 2)""#
        )
    );
    assert_eq!(rig.finish(malformed()), ["ask 2"]);
    assert_eq!(rig.finish(malformed()), [""; 0]);
    let end = format!(r#"Failed "{why}; gave up after 3 answers that cannot be used""#);
    assert_eq!(rig.ends(), [end]);
}

#[test]
fn f016_a_good_answer_after_a_malformed_one_is_a_success() {
    let mut rig = Rig::asked(config());
    rig.finish(malformed());
    rig.finish(malformed());
    rig.text("fine");
    rig.stop();
    assert_eq!(rig.ends(), ["Completed"]);
    assert_eq!(
        rig.history(),
        [r#"user "hi""#, CALL_HINT, CALL_HINT, r#"model "fine""#]
    );
}

#[test]
fn an_empty_answer_before_any_work_is_asked_for_again() {
    let mut rig = Rig::asked(config());
    assert_eq!(rig.stop(), ["ask 1"]);
    assert_eq!(rig.last_messages(1), [EMPTY_HINT]);
}

#[test]
fn f017_an_empty_answer_after_tool_work_is_a_normal_end() {
    let mut rig = Rig::asked(config());
    rig.call("a", "put", json!({}));
    rig.stop();
    rig.tool(1, "done");
    assert_eq!(rig.stop(), [""; 0]);
    assert_eq!(rig.ends(), ["Completed"]);
    assert_eq!(
        rig.user("next"),
        ["ask 2"],
        "and the history is still one a model accepts"
    );
}

#[test]
fn f017_thoughts_alone_after_tool_work_are_kept_with_their_signature() {
    let mut rig = Rig::asked(config());
    rig.call("a", "put", json!({}));
    rig.stop();
    rig.tool(1, "done");
    rig.part(harness_types::ModelPart::Thought {
        text: "enough".into(),
        signature: Some("c2ln".into()),
    });
    rig.stop();
    assert_eq!(rig.last_messages(1), [r#"model thought "enough" ~c2ln"#]);
    assert_eq!(rig.user("next"), ["ask 2"]);
}

#[test]
fn an_answer_cut_by_the_token_limit_is_asked_for_again_unless_it_holds_calls() {
    let mut rig = Rig::asked(config());
    rig.text("half");
    assert_eq!(rig.finish(FinishReason::MaxTokens), ["ask 1"]);
    assert_eq!(rig.history(), [r#"user "hi""#, LONG_HINT]);
    assert_eq!(rig.step_at(1), r#"1 Done Model>User "half\n\n""#);
    rig.call("a", "put", json!({}));
    assert_eq!(rig.finish(FinishReason::MaxTokens), ["run 3 put {}"]);
}

#[test]
fn a_blocked_answer_gives_the_model_no_hint_and_the_client_the_word() {
    let mut rig = Rig::asked(Config {
        output_retries: 1,
        ..config()
    });
    rig.text("par");
    assert_eq!(rig.finish(blocked()), ["ask 1"]);
    assert_eq!(rig.history(), [r#"user "hi""#]);
    rig.finish(blocked());
    let end = r#"Failed "the model's answer was blocked (SAFETY); gave up after 2 answers that cannot be used""#;
    assert_eq!(rig.ends(), [end]);
}

#[test]
fn a_provider_s_words_reach_the_client() {
    let mut rig = Rig::asked(Config {
        output_retries: 0,
        ..config()
    });
    let call = rig.call_id();
    let message = Some("no recipes".to_owned());
    let end = harness_agent::ModelEnd::Finished {
        reason: blocked(),
        message,
    };
    rig.step(harness_agent::Stimulus::ModelEnded { call, end });
    let end = r#"Failed "the model's answer was blocked (SAFETY: no recipes); gave up after 1 answers that cannot be used""#;
    assert_eq!(rig.ends(), [end]);
}

#[test]
fn a_blocked_answer_whose_first_call_has_started_goes_on_from_there() {
    let mut rig = Rig::asked(config());
    rig.call("a", "look", json!({}));
    rig.call("b", "put", json!({}));
    assert_eq!(rig.finish(blocked()), [""; 0]);
    assert_eq!(rig.tool(1, "seen"), ["timer 0 1s"]);
    assert_eq!(rig.timer(0), ["ask 1"]);
    assert_eq!(
        rig.history(),
        [
            r#"user "hi""#,
            "model a look{}",
            r#"results a look Succeeded "seen""#
        ]
    );
}

#[test]
fn another_reason_counts_as_a_stop() {
    let mut rig = Rig::asked(config());
    rig.text("fine");
    rig.finish(FinishReason::Other("LANGUAGE".into()));
    assert_eq!(rig.ends(), ["Completed"]);
}

#[test]
fn the_count_of_unusable_answers_starts_anew_after_a_good_one() {
    let mut rig = Rig::asked(Config {
        output_retries: 1,
        ..config()
    });
    rig.finish(malformed());
    rig.call("a", "put", json!({}));
    rig.stop();
    assert_eq!(rig.tool(2, "ok"), ["ask 2"]);
    assert_eq!(rig.finish(malformed()), ["ask 3"]);
}
