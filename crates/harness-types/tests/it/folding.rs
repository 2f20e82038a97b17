//! A fold takes any log. What makes no sense where it stands changes nothing, and nothing panics.

use harness_types::{
    AnswerDelta, AnswerEnd, Conversation, FinishReason, MemoryStore, ModelCallId, ModelPart,
    Record, RecordBody, SessionStore as _, StepIndex, Timestamp, Touch, TrajectoryId, TurnId,
    TurnStage,
};
use proptest::prelude::*;

use crate::records::{conversation, record};

fn opened() -> Record {
    let body = RecordBody::Opened {
        conversation: conversation(),
    };
    Record {
        at: Timestamp::from_micros(0),
        body,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// Whatever a log holds: steps are numbered without gaps, a text never shrinks, and a touch
    /// names something that is there.
    #[test]
    fn any_log_folds(records in prop::collection::vec(record(), 0..60)) {
        let mut folded = Conversation::fold([&opened()]);
        let mut texts: Vec<(String, String)> = Vec::new();
        for record in &records {
            let touch = folded.apply(record);
            let steps = &folded.root().steps;
            prop_assert!(steps.len() >= texts.len());
            for (n, step) in steps.iter().enumerate() {
                prop_assert_eq!(step.index.get() as usize, n);
                if let Some((text, thinking)) = texts.get(n) {
                    prop_assert!(step.text.starts_with(text) && step.thinking.starts_with(thinking));
                }
            }
            texts = steps.iter().map(|s| (s.text.clone(), s.thinking.clone())).collect();
            match touch {
                Some(Touch::Step { trajectory, step }) => {
                    prop_assert!(folded.step(&trajectory, step).is_some());
                }
                Some(Touch::RequestOpened(id)) => prop_assert!(folded.requests().contains_key(&id)),
                Some(Touch::RequestClosed(id)) => prop_assert!(!folded.requests().contains_key(&id)),
                _ => {}
            }
        }
        prop_assert_eq!(Conversation::fold([opened()].iter().chain(&records)), folded);
    }

    /// What a store keeps folds into what it was given, although it merges pieces of text.
    #[test]
    fn a_kept_log_folds_like_the_given_one(
        batches in prop::collection::vec(prop::collection::vec(record(), 0..8), 0..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store = MemoryStore::new();
        let mut given = vec![opened()];
        runtime.block_on(store.append(&conversation(), &given)).unwrap();
        for batch in batches {
            runtime.block_on(store.append(&conversation(), &batch)).unwrap();
            given.extend(batch);
        }
        let kept = runtime.block_on(store.load(&conversation())).unwrap().unwrap();
        prop_assert!(kept.records.len() <= given.len());
        prop_assert_eq!(Conversation::fold(&kept.records), Conversation::fold(&given));
    }
}

fn fold(bodies: impl IntoIterator<Item = RecordBody>) -> Conversation {
    let records: Vec<Record> = bodies
        .into_iter()
        .map(|body| Record {
            at: Timestamp::from_micros(0),
            body,
        })
        .collect();
    Conversation::fold([opened()].iter().chain(&records))
}

fn root() -> TrajectoryId {
    TrajectoryId::root(&conversation())
}

fn delta(step: u32, text: &str) -> RecordBody {
    RecordBody::AnswerDelta(AnswerDelta {
        trajectory: root(),
        call: ModelCallId::new(0),
        step: Some(StepIndex::new(step)),
        part: ModelPart::Text {
            text: text.into(),
            signature: None,
        },
    })
}

fn asked() -> [RecordBody; 3] {
    let trajectory = root();
    [
        RecordBody::TurnStarted {
            trajectory: trajectory.clone(),
            turn: TurnId::new(0),
        },
        RecordBody::TurnStageChanged {
            trajectory: trajectory.clone(),
            stage: TurnStage::Running,
        },
        RecordBody::ModelCallStarted {
            trajectory,
            call: ModelCallId::new(0),
            attempt: 0,
        },
    ]
}

#[test]
fn a_step_that_leaves_a_gap_is_not_opened() {
    let folded = fold(
        asked()
            .into_iter()
            .chain([delta(5, "lost"), delta(0, "kept")]),
    );
    let texts: Vec<_> = folded
        .root()
        .steps
        .iter()
        .map(|step| step.text.as_str())
        .collect();
    assert_eq!(texts, ["kept"]);
}

#[test]
fn an_answer_ends_once() {
    let end = || RecordBody::AnswerEnded {
        trajectory: root(),
        call: ModelCallId::new(0),
        end: AnswerEnd::Complete {
            finish: FinishReason::Stop,
        },
    };
    let once = fold(asked().into_iter().chain([delta(0, "a"), end()]));
    let twice = fold(
        asked()
            .into_iter()
            .chain([delta(0, "a"), end(), end(), delta(0, "late")]),
    );
    assert_eq!(once, twice);
    assert_eq!(once.root().history.len(), 1);
}

#[test]
fn an_empty_log_is_a_conversation_without_a_name() {
    let folded = Conversation::fold([]);
    assert_eq!(folded.id().as_str(), "0".repeat(32));
    assert_eq!((folded.root().steps.len(), folded.model_calls()), (0, 0));
}
