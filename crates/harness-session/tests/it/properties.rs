//! Whatever is appended, in whatever pieces: what is loaded folds into the same conversation.

use std::sync::Arc;

use harness_session::SqliteStore;
use harness_testkit::session_store::examples;
use harness_types::{
    Action, AnswerDelta, AnswerEnd, CallId, CallResult, CallStage, Conversation, FinishReason,
    Input, InputId, MemoryStore, ModelCallId, ModelPart, Record, RecordBody, ResultContent,
    SessionStore, StepIndex, Timestamp, ToolCall, ToolClass, ToolOrigin, ToolResultStatus,
    TrajectoryId, TurnEnd, TurnId,
};
use proptest::prelude::*;

use crate::support::{id, opened, run};

fn root() -> TrajectoryId {
    TrajectoryId::root(&id())
}

fn tool_call(n: u32) -> ToolCall {
    ToolCall {
        id: CallId::new(format!("c{n}")),
        name: "view_file".into(),
        args: serde_json::Map::from_iter([("n".to_owned(), n.into())]),
    }
}

fn part() -> impl Strategy<Value = ModelPart> {
    let text = "[a-zä\n]{0,6}";
    let signature = prop_oneof![8 => Just(None), 1 => Just(Some("c2ln".to_owned()))];
    prop_oneof![
        6 => (text, signature.clone())
            .prop_map(|(text, signature)| ModelPart::Text { text, signature }),
        3 => (text, signature)
            .prop_map(|(text, signature)| ModelPart::Thought { text, signature }),
        1 => (0..4_u32).prop_map(|n| ModelPart::Call { call: tool_call(n), signature: None }),
    ]
}

/// Records that mean something where they stand, most of the time.
fn body() -> impl Strategy<Value = RecordBody> {
    let step = || (0..6_u32).prop_map(StepIndex::new);
    let call = || (0..2_u64).prop_map(ModelCallId::new);
    let view = "[a-z]{0,5}".prop_map(|path| Action::ListDirectory {
        path,
        entries: Vec::new(),
    });
    let result = |text: &str| CallResult {
        status: ToolResultStatus::Succeeded,
        content: ResultContent::Text(text.to_owned()),
        media: Vec::new(),
        action: None,
        error: None,
    };
    let examples = examples();
    let start_answer = |call| RecordBody::ModelCallStarted {
        trajectory: root(),
        call,
        attempt: 0,
    };
    prop_oneof![
        12 => (call(), prop_oneof![2 => Just(None), 8 => step().prop_map(Some)], part()).prop_map(
            |(call, step, part)| RecordBody::AnswerDelta(AnswerDelta {
                trajectory: root(),
                call,
                step,
                part,
            })
        ),
        6 => (step(), view).prop_map(|(step, action)| RecordBody::CallProgressed {
            trajectory: root(),
            step,
            action,
        }),
        3 => call().prop_map(start_answer),
        2 => (0..3_u64).prop_map(|turn| RecordBody::TurnStarted {
            trajectory: root(),
            turn: TurnId::new(turn),
        }),
        2 => call().prop_map(|call| RecordBody::AnswerEnded {
            trajectory: root(),
            call,
            end: AnswerEnd::Complete { finish: FinishReason::Stop },
        }),
        4 => step().prop_map(|step| RecordBody::CallOpened {
            trajectory: root(),
            step,
            call: tool_call(step.get()),
            class: ToolClass::ReadOnly,
            origin: ToolOrigin::BuiltIn,
            action: Action::Tool { call: tool_call(step.get()) },
            summary: String::new(),
        }),
        4 => step().prop_map(|step| RecordBody::CallStageChanged {
            trajectory: root(),
            step,
            stage: CallStage::Running,
        }),
        2 => step().prop_map(move |step| RecordBody::CallFinished {
            trajectory: root(),
            step,
            result: result("done"),
        }),
        1 => Just(RecordBody::CallsSettled { trajectory: root() }),
        1 => (0..3_u64).prop_map(|n| RecordBody::InputQueued {
            input: InputId::new(n),
            body: Input::trigger("go"),
        }),
        1 => ((0..3_u64), step()).prop_map(|(n, step)| RecordBody::InputTaken {
            trajectory: root(),
            input: InputId::new(n),
            step,
        }),
        1 => Just(RecordBody::TurnEnded { trajectory: root(), end: TurnEnd::Completed }),
        2 => (1..examples.len()).prop_map(move |n| examples[n].body.clone()),
    ]
}

/// What is appended at once, and whether the store is opened anew afterwards.
fn pieces() -> impl Strategy<Value = Vec<(Vec<Record>, Opening)>> {
    let record = (any::<i64>(), body()).prop_map(|(micros, body)| Record {
        at: Timestamp::from_micros(micros),
        body,
    });
    let opening = prop_oneof![12 => Just(Opening::Same), 1 => Just(Opening::Anew)];
    let piece = (prop::collection::vec(record, 0..8), opening);
    prop::collection::vec(piece, 1..24)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Opening {
    Same,
    Anew,
}

async fn through(
    make: impl Fn() -> Arc<dyn SessionStore>,
    pieces: &[(Vec<Record>, Opening)],
) -> Vec<Record> {
    let mut store = make();
    for (records, opening) in pieces {
        store.append(&id(), records).await.unwrap();
        if *opening == Opening::Anew {
            drop(store);
            store = make();
            store.load(&id()).await.unwrap();
        }
    }
    drop(store);
    let loaded = make().load(&id()).await.unwrap().unwrap();
    assert_eq!(loaded.notice, None);
    loaded.records
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(256)
    })]

    #[test]
    fn the_fold_of_what_is_loaded_is_the_fold_of_what_was_appended(mut pieces in pieces()) {
        let begin = [
            RecordBody::TurnStarted { trajectory: root(), turn: TurnId::new(0) },
            RecordBody::ModelCallStarted {
                trajectory: root(),
                call: ModelCallId::new(0),
                attempt: 0,
            },
        ];
        let at = Timestamp::from_micros(0);
        let mut first = vec![opened()];
        first.extend(begin.map(|body| Record { at, body }));
        pieces.insert(0, (first, Opening::Same));
        let appended: Vec<&Record> = pieces.iter().flat_map(|(records, _)| records).collect();
        let state = Conversation::fold(appended.iter().copied());

        let folder = tempfile::tempdir().unwrap();
        let sqlite = || Arc::new(SqliteStore::new(folder.path())) as Arc<dyn SessionStore>;
        let memory = Arc::new(MemoryStore::new());
        let memory = || Arc::clone(&memory) as Arc<dyn SessionStore>;
        let kept = [run(through(sqlite, &pieces)), run(through(memory, &pieces))];
        for loaded in kept {
            prop_assert_eq!(&Conversation::fold(&loaded), &state);
            let lasting = |record: &&Record| !record.body.is_progress();
            let before: Vec<&Record> = appended.iter().copied().filter(lasting).collect();
            let after: Vec<&Record> = loaded.iter().filter(lasting).collect();
            prop_assert_eq!(after, before);
        }
    }
}
