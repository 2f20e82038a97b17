//! What every [`SessionStore`] has to do, as a test to call.
//!
//! ```
//! use std::sync::Arc;
//! use harness_testkit::session_store;
//! use harness_types::{MemoryStore, SessionStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let memory = Arc::new(MemoryStore::new());
//! session_store::conformance(|| Arc::clone(&memory) as Arc<dyn SessionStore>).await;
//! # }
//! ```

mod examples;

use std::sync::Arc;

use harness_types::{
    AnswerDelta, Conversation, ConversationId, HostAnswer, HostResponse, Loaded, ModelCallId,
    ModelPart, Record, RecordBody, RequestAnswer, RequestId, RequestOutcome, SessionStore,
    StepIndex, Timestamp, TrajectoryId, TurnId,
};
use serde_json::{Value, json};

pub use examples::examples;

/// Runs a store through everything the trait promises.
///
/// `make` opens the same storage each time; it is called again only after the store it made before
/// has been dropped. The storage must not hold anything yet.
///
/// # Panics
///
/// When the store breaks a promise.
pub async fn conformance(make: impl Fn() -> Arc<dyn SessionStore>) {
    nothing_is_nothing(&make).await;
    records_come_back(&make).await;
    streamed_text_may_be_merged(&make).await;
    views_of_work_may_be_replaced(&make).await;
    conversations_do_not_mix(&make).await;
    values_keep_their_exact_form(&make).await;
    time_may_go_back(&make).await;
    a_log_grows_over_many_openings(&make).await;
}

/// Appends in one go to a new conversation, and reads it from a store that is new too.
async fn kept(make: &impl Fn() -> Arc<dyn SessionStore>, records: &[Record]) -> Vec<Record> {
    let RecordBody::Opened { conversation } = &records[0].body else {
        panic!("a conversation begins with the record that it was opened");
    };
    let store = make();
    append(&store, conversation, records).await;
    drop(store);
    load(&make(), conversation).await
}

async fn append(store: &Arc<dyn SessionStore>, id: &ConversationId, records: &[Record]) {
    if let Err(error) = store.append(id, records).await {
        panic!("append failed: {error:?}");
    }
}

async fn find(store: &Arc<dyn SessionStore>, id: &ConversationId) -> Option<Loaded> {
    match store.load(id).await {
        Ok(loaded) => loaded,
        Err(error) => panic!("load failed: {error:?}"),
    }
}

/// The records of a conversation that is there and whole.
async fn load(store: &Arc<dyn SessionStore>, id: &ConversationId) -> Vec<Record> {
    let Some(loaded) = find(store, id).await else {
        panic!("the conversation is not there");
    };
    assert_eq!(loaded.notice, None, "something was lost");
    loaded.records
}

async fn nothing_is_nothing(make: &impl Fn() -> Arc<dyn SessionStore>) {
    let id = conversation(1);
    let store = make();
    assert_eq!(find(&store, &id).await, None, "nobody made it");
    append(&store, &id, &[opened(&id)]).await;
    append(&store, &id, &[]).await;
    drop(store);
    assert_eq!(load(&make(), &id).await, [opened(&id)]);
}

async fn records_come_back(make: &impl Fn() -> Arc<dyn SessionStore>) {
    let mut records = examples();
    let id = conversation(2);
    records[0] = opened(&id);
    let loaded = kept(make, &records).await;
    assert_eq!(loaded, records);
}

async fn streamed_text_may_be_merged(make: &impl Fn() -> Arc<dyn SessionStore>) {
    let id = conversation(3);
    let delta = |step, text: &str, thought: Option<()>, signature: Option<&str>| {
        let (text, signature) = (text.to_owned(), signature.map(str::to_owned));
        let part = match thought {
            None => ModelPart::Text { text, signature },
            Some(()) => ModelPart::Thought { text, signature },
        };
        record(RecordBody::AnswerDelta(AnswerDelta {
            trajectory: TrajectoryId::root(&id),
            call: ModelCallId::new(0),
            step: Some(StepIndex::new(step)),
            part,
        }))
    };
    let mut records = turn(&id);
    let streamed = [
        delta(0, "a", Some(()), None),
        delta(0, "b", Some(()), None),
        delta(0, "c", None, None),
        delta(0, "d", None, None),
        delta(0, "", None, Some("c2ln")),
        delta(0, "e", None, None),
        delta(1, "f", None, None),
        delta(1, "g", None, None),
    ];
    records.extend(streamed);
    let store = make();
    for record in &records {
        append(&store, &id, std::slice::from_ref(record)).await;
    }
    drop(store);
    let one_by_one = load(&make(), &id).await;

    let other = conversation(4);
    let renamed = renamed(&records, &other);
    let at_once = kept(make, &renamed).await;

    for (appended, loaded) in [(&records, one_by_one), (&renamed, at_once)] {
        assert_eq!(Conversation::fold(&loaded), Conversation::fold(appended));
        assert!(loaded.len() <= appended.len());
        let signed = |record: &&Record| {
            matches!(&record.body, RecordBody::AnswerDelta(delta)
                if matches!(&delta.part, ModelPart::Text { signature: Some(_), .. }))
        };
        let before: Vec<_> = appended.iter().filter(signed).collect();
        let after: Vec<_> = loaded.iter().filter(signed).collect();
        assert_eq!(after, before, "a signed part was not left alone");
    }
}

async fn views_of_work_may_be_replaced(make: &impl Fn() -> Arc<dyn SessionStore>) {
    let id = conversation(5);
    let views = examples()
        .into_iter()
        .filter(|record| matches!(record.body, RecordBody::CallProgressed { .. }))
        .cycle()
        .take(9);
    let last = record(RecordBody::SessionEnded);
    let mut records = turn(&id);
    records.extend(renamed(&views.collect::<Vec<_>>(), &id));
    records.push(last.clone());
    let loaded = kept(make, &records).await;
    assert_eq!(Conversation::fold(&loaded), Conversation::fold(&records));
    assert_eq!(loaded.last(), Some(&last));
}

async fn conversations_do_not_mix(make: &impl Fn() -> Arc<dyn SessionStore>) {
    let ids = [conversation(6), conversation(7)];
    let store = make();
    let text = |id, n: u32| {
        record(RecordBody::NoticeGiven {
            trajectory: TrajectoryId::root(id),
            text: n.to_string(),
        })
    };
    for id in &ids {
        append(&store, id, &[opened(id)]).await;
    }
    for n in 0..20 {
        for id in &ids {
            append(&store, id, &[text(id, n)]).await;
        }
    }
    drop(store);
    let store = make();
    for id in &ids {
        let all: Vec<Record> = std::iter::once(opened(id))
            .chain((0..20).map(|n| text(id, n)))
            .collect();
        assert_eq!(load(&store, id).await, all);
    }
}

/// What the model is asked with later has to be what it was, to the byte.
async fn values_keep_their_exact_form(make: &impl Fn() -> Arc<dyn SessionStore>) {
    let mut deep = json!("the end");
    for _ in 0..126 {
        deep = json!([deep]);
    }
    let values = [
        json!({"z": 1, "a": {"y": null, "b": []}, "": ""}),
        json!([0.1, 1e300, -0.0, 1.0, 5e-324, f64::MAX]),
        numbers(),
        json!([u64::MAX, i64::MIN, i64::MAX]),
        json!("\0\u{1}\u{7f}\u{2028}\u{feff}\u{ffff}\u{10ffff}\"\\/\r\n\t"),
        deep,
        json!("long ".repeat(1 << 18)),
    ];
    let id = conversation(8);
    let answers = values.into_iter().enumerate().map(|(n, value)| {
        record(RecordBody::RequestClosed {
            request: RequestId::new(n as u64),
            outcome: RequestOutcome::Answered(RequestAnswer::Host(HostAnswer {
                response: HostResponse::Value(value),
                media: Vec::new(),
            })),
        })
    });
    let records: Vec<Record> = std::iter::once(opened(&id)).chain(answers).collect();
    let loaded = kept(make, &records).await;
    assert_eq!(loaded.len(), records.len());
    for (loaded, record) in loaded.iter().zip(&records) {
        // Values that are equal may still differ in the order of their keys.
        assert_eq!(text(loaded), text(record));
    }
    assert_eq!(loaded, records);
}

/// Numbers of all sizes with as many digits as there can be; the same in every run.
fn numbers() -> Value {
    let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
    let numbers = std::iter::repeat_with(|| {
        // xorshift64
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        f64::from_bits(bits)
    });
    numbers
        .filter(|number| number.is_finite())
        .take(200)
        .collect()
}

fn text(record: &Record) -> String {
    match serde_json::to_string(record) {
        Ok(text) => text,
        Err(error) => panic!("a record has no JSON form: {error}"),
    }
}

async fn time_may_go_back(make: &impl Fn() -> Arc<dyn SessionStore>) {
    let id = conversation(9);
    let mut records = turn(&id);
    let times = [5, 4, 4, 0, -1, i64::MIN, i64::MAX];
    for (micros, record) in times.into_iter().cycle().zip(&mut records) {
        record.at = Timestamp::from_micros(micros);
    }
    assert_eq!(kept(make, &records).await, records);
}

async fn a_log_grows_over_many_openings(make: &impl Fn() -> Arc<dyn SessionStore>) {
    let id = conversation(10);
    let mut records = vec![opened(&id)];
    append(&make(), &id, &records).await;
    for n in 0..8 {
        let store = make();
        assert_eq!(load(&store, &id).await, records);
        let more = [
            record(RecordBody::Resumed),
            record(RecordBody::TurnStarted {
                trajectory: TrajectoryId::root(&id),
                turn: TurnId::new(n),
            }),
        ];
        append(&store, &id, &more).await;
        records.extend(more);
    }
    assert_eq!(load(&make(), &id).await, records);
}

fn conversation(n: u8) -> ConversationId {
    ConversationId::from_random([n; 16])
}

fn record(body: RecordBody) -> Record {
    let at = Timestamp::from_micros(1_764_000_000_000_000);
    Record { at, body }
}

fn opened(id: &ConversationId) -> Record {
    let conversation = id.clone();
    record(RecordBody::Opened { conversation })
}

/// A conversation in which an answer is coming in.
fn turn(id: &ConversationId) -> Vec<Record> {
    let trajectory = TrajectoryId::root(id);
    let bodies = [
        RecordBody::TurnStarted {
            trajectory: trajectory.clone(),
            turn: TurnId::new(0),
        },
        RecordBody::ModelCallStarted {
            trajectory,
            call: ModelCallId::new(0),
            attempt: 0,
        },
    ];
    std::iter::once(opened(id))
        .chain(bodies.map(record))
        .collect()
}

/// The same records, of another conversation.
fn renamed(records: &[Record], id: &ConversationId) -> Vec<Record> {
    fn rename(value: &mut Value, id: &ConversationId) {
        let Value::Object(map) = value else { return };
        for key in ["conversation", "trajectory"] {
            if let Some(name) = map.get_mut(key) {
                *name = json!(id.as_str());
            }
        }
    }
    let rename = |record: &Record| {
        let mut value = serde_json::to_value(record)?;
        rename(&mut value, id);
        serde_json::from_value(value)
    };
    match records
        .iter()
        .map(rename)
        .collect::<Result<_, serde_json::Error>>()
    {
        Ok(records) => records,
        Err(error) => panic!("a record does not survive its JSON form: {error}"),
    }
}
