//! The model asks the user.

use harness_types::{AgentBehavior, Config, QuestionAnswer, RequestAnswer, RequestKind};
use serde_json::{Value, json};

use crate::support::{Rig, config};

fn interactive() -> Config {
    let mut config = config();
    config.behavior = AgentBehavior::Interactive;
    config.tools.insert("ask_question".into());
    config
}

fn two_questions() -> Value {
    json!({"questions": [
        {"question": "Which?", "options": ["red", "blue"]},
        {"question": "What else?", "options": ["a", "b", "c"], "is_multi_select": true},
    ]})
}

fn asking(config: Config, args: Value) -> (Rig, Vec<String>) {
    let mut rig = Rig::asked(config);
    rig.call("a", "ask_question", args);
    let effects = rig.stop();
    (rig, effects)
}

fn chosen(options: &[u32], text: &str) -> QuestionAnswer {
    QuestionAnswer::Chosen {
        options: options.to_vec(),
        text: text.into(),
    }
}

fn answered(answers: Option<Vec<QuestionAnswer>>) -> String {
    let (mut rig, effects) = asking(interactive(), two_questions());
    assert_eq!(effects, [""; 0]);
    assert_eq!(rig.open(), ["0 at 1: questions 2"]);
    assert!(
        rig.step_at(1).starts_with("1 Waiting Model>Environment"),
        "{}",
        rig.step_at(1)
    );
    assert_eq!(rig.answer(0, RequestAnswer::Question(answers)), ["ask 1"]);
    rig.last_messages(1).remove(0)
}

fn told(text: &str) -> String {
    format!("results a ask_question Succeeded {text:?}")
}

#[test]
fn answers_are_told_with_their_questions() {
    assert_eq!(
        answered(Some(vec![chosen(&[1], ""), chosen(&[0, 2], "and d")])),
        told("Q1: Which?\nA1: blue\nQ2: What else?\nA2: a, c, and d")
    );
}

#[test]
fn skipped_missing_and_odd_answers_are_named() {
    assert_eq!(
        answered(Some(vec![QuestionAnswer::Skipped])),
        told("Q1: Which?\nA1: skipped by the user\nQ2: What else?\nA2: skipped by the user")
    );
    assert_eq!(
        answered(Some(vec![chosen(&[], "green"), chosen(&[7], "")])),
        told(
            "Q1: Which?\nA1: green\nQ2: What else?\nA2: (choice 7, which is not among the options)"
        )
    );
    assert_eq!(
        answered(Some(vec![chosen(&[0, 1], ""), chosen(&[], "")])),
        told("Q1: Which?\nA1: red\nQ2: What else?\nA2: no choice made")
    );
}

#[test]
fn a_dismissed_question_is_a_failed_call() {
    assert_eq!(
        answered(None),
        r#"results a ask_question Failed "the user dismissed the questions without an answer""#
    );
}

#[test]
fn nobody_is_asked_where_nobody_is() {
    let nobody = r#"results a ask_question Failed "no user is there to answer; decide yourself and say what you assumed""#;
    let alone = Config {
        behavior: AgentBehavior::Autonomous,
        ..interactive()
    };
    let mut deaf = interactive();
    deaf.answers.remove(&RequestKind::Question);
    for config in [alone, deaf] {
        let (rig, effects) = asking(config, two_questions());
        assert_eq!(effects, ["ask 1"]);
        assert_eq!(rig.last_messages(1), [nobody]);
    }
}

#[test]
fn questions_that_cannot_be_asked_are_told_where_they_are_wrong() {
    for (args, why) in [
        (
            json!({}),
            "questions: expected a non-empty array of questions",
        ),
        (
            json!({"questions": []}),
            "questions: expected a non-empty array of questions",
        ),
        (
            json!({"questions": [{"options": ["a", "b"]}]}),
            "questions[0].question: expected a string",
        ),
        (
            json!({"questions": [{"question": "q", "options": ["a", 1]}]}),
            "questions[0].options: expected at least two strings, found 1",
        ),
    ] {
        let (rig, effects) = asking(interactive(), args);
        assert_eq!(effects, ["ask 1"]);
        let why = format!("arguments of ask_question: {why}");
        assert_eq!(
            rig.last_messages(1),
            [format!("results a ask_question Failed {why:?}")]
        );
    }
}
