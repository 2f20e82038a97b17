//! What it costs to append, and to take a long session up again.
//!
//! `cargo bench -p harness-session`

use divan::{Bencher, black_box};
use harness_session::SqliteStore;
use harness_types::{
    Action, AnswerDelta, AnswerEnd, CallId, CallResult, CallStage, ConversationId, FinishReason,
    ModelCallId, ModelPart, Record, RecordBody, ResultContent, SessionStore, StepIndex, Timestamp,
    ToolCall, ToolClass, ToolOrigin, ToolResultStatus, TrajectoryId, TurnId, Usage,
};
use tempfile::TempDir;

fn main() {
    divan::main();
}

fn id() -> ConversationId {
    ConversationId::from_random([3; 16])
}

fn record(body: RecordBody) -> Record {
    let at = Timestamp::from_micros(1_764_000_000_000_000);
    Record { at, body }
}

fn opened() -> Record {
    let conversation = id();
    record(RecordBody::Opened { conversation })
}

/// Two steps: an answer with a text and a call, and the call.
fn two_steps(n: u32) -> Vec<Record> {
    let trajectory = TrajectoryId::root(&id());
    let (text_step, call_step) = (StepIndex::new(n * 2), StepIndex::new(n * 2 + 1));
    let model_call = ModelCallId::new(n.into());
    let call = ToolCall {
        id: CallId::new(format!("call-{n}")),
        name: "view_file".into(),
        args: serde_json::Map::from_iter([("path".to_owned(), "/w/src/main.rs".into())]),
    };
    let action = Action::ViewFile {
        path: "/w/src/main.rs".into(),
        start_line: 0,
        end_line: 20,
        content_offset: 0,
    };
    let delta = |step, part| {
        RecordBody::AnswerDelta(AnswerDelta {
            trajectory: trajectory.clone(),
            call: model_call,
            step,
            part,
        })
    };
    let stage = |stage| RecordBody::CallStageChanged {
        trajectory: trajectory.clone(),
        step: call_step,
        stage,
    };
    let bodies = vec![
        RecordBody::ModelCallStarted {
            trajectory: trajectory.clone(),
            call: model_call,
            attempt: 0,
        },
        delta(
            Some(text_step),
            ModelPart::Text {
                text: "I look at the file before I change anything. ".repeat(4),
                signature: None,
            },
        ),
        delta(
            None,
            ModelPart::Call {
                call: call.clone(),
                signature: None,
            },
        ),
        RecordBody::CallOpened {
            trajectory: trajectory.clone(),
            step: call_step,
            call,
            class: ToolClass::ReadOnly,
            origin: ToolOrigin::BuiltIn,
            action,
            summary: String::new(),
        },
        RecordBody::UsageReported {
            trajectory: trajectory.clone(),
            call: model_call,
            usage: Usage::default(),
        },
        RecordBody::AnswerEnded {
            trajectory: trajectory.clone(),
            call: model_call,
            end: AnswerEnd::Complete {
                finish: FinishReason::Stop,
            },
        },
        stage(CallStage::Ready),
        stage(CallStage::Running),
        RecordBody::CallFinished {
            trajectory: trajectory.clone(),
            step: call_step,
            result: CallResult {
                status: ToolResultStatus::Succeeded,
                content: ResultContent::Text("let x = 1; // a line of code\n".repeat(20)),
                media: Vec::new(),
                action: None,
                error: None,
            },
        },
        RecordBody::CallsSettled { trajectory },
    ];
    bodies.into_iter().map(record).collect()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    // The store's futures are ready at once.
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    match runtime {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => panic!("{error}"),
    }
}

/// A store with a conversation of so many steps.
fn store(steps: u32) -> (TempDir, SqliteStore) {
    let Ok(folder) = tempfile::tempdir() else {
        panic!("no temporary folder");
    };
    let store = SqliteStore::new(folder.path());
    let mut records = vec![opened()];
    records.push(record(RecordBody::TurnStarted {
        trajectory: TrajectoryId::root(&id()),
        turn: TurnId::new(0),
    }));
    records.extend((0..steps / 2).flat_map(two_steps));
    append(&store, &records);
    (folder, store)
}

fn append(store: &SqliteStore, records: &[Record]) {
    if let Err(error) = wait(store.append(&id(), records)) {
        panic!("{error:?}");
    }
}

/// One record that is written at once, in the middle of a session.
#[divan::bench(sample_count = 2000, sample_size = 1)]
fn append_one(bencher: Bencher<'_, '_>) {
    let (_folder, store) = store(100);
    let records = two_steps(7);
    bencher.bench_local(|| append(&store, black_box(&records[6..7])));
}

/// The records of two steps, in one go.
#[divan::bench(sample_count = 1000, sample_size = 1)]
fn append_two_steps(bencher: Bencher<'_, '_>) {
    let (_folder, store) = store(100);
    let records = two_steps(7);
    bencher.bench_local(|| append(&store, black_box(&records)));
}

/// A piece of streamed text.
#[divan::bench(sample_count = 5000, sample_size = 1)]
fn append_text(bencher: Bencher<'_, '_>) {
    let (_folder, store) = store(100);
    let records = &two_steps(7)[1..2];
    bencher.bench_local(|| append(&store, black_box(records)));
}

/// The first record of a conversation.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn create(bencher: Bencher<'_, '_>) {
    bencher
        .with_inputs(|| match tempfile::tempdir() {
            Ok(folder) => (SqliteStore::new(folder.path()), folder),
            Err(error) => panic!("{error}"),
        })
        .bench_local_refs(|(store, _)| append(store, &[opened()]));
}

#[divan::bench(args = [100, 10_000], sample_count = 20, sample_size = 1)]
fn load(bencher: Bencher<'_, '_>, steps: u32) {
    let (folder, store) = store(steps);
    drop(store);
    bencher.bench_local(|| {
        let store = SqliteStore::new(folder.path());
        match wait(store.load(&id())) {
            Ok(Some(loaded)) => (loaded, store),
            other => panic!("{other:?}"),
        }
    });
}
