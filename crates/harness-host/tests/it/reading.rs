//! What attachments promise to their readers.

use std::sync::Arc;

use harness_host::{Blueprint, Host, Limits, Session, StepChange, Update};
use harness_types::{
    Command, Config, Gate, HostAnswer, HostResponse, HostToolSpec, RequestAnswer, RequestId,
    RequestKind, ScriptedTurn, StepState, Usage,
};
use serde_json::json;

use crate::support::{host, host_of, line, lines, model, read_turn, say};

async fn open(host: &Host) -> Session {
    host.open(Blueprint::default()).await.unwrap()
}

#[tokio::test]
async fn a_reader_that_keeps_up_is_told_everything_in_order() {
    let usage = Usage {
        total_tokens: 3,
        ..Usage::default()
    };
    let gate = Gate::new();
    let turn = ScriptedTurn::new()
        .text_chunks(["Hel", "lo"])
        .gated(&gate)
        .usage(usage);
    let host = host([turn]);
    let session = open(&host).await;
    let mut reader = session.attach();
    session.send(say("hi")).await.unwrap();
    assert_eq!(line(&reader.next().await.unwrap()), "turn started");
    assert_eq!(line(&reader.next().await.unwrap()), r#"step 0 Done +"hi""#);
    for delta in ["Hel", "lo"] {
        gate.let_one_pass();
        let Some(Update::Step(change)) = reader.next().await else {
            panic!("a step")
        };
        // The end of the answer may already be there when the last piece is read.
        assert_eq!((change.step.index.get(), change.text_delta()), (1, delta));
    }
    let rest: Vec<_> = read_turn(&mut reader).await;
    let rest: Vec<_> = lines(&rest)
        .into_iter()
        .filter(|line| line != r#"step 1 Done +"""#)
        .collect();
    assert_eq!(rest, ["usage 3", "turn ended Completed"]);
}

#[tokio::test]
async fn a_stalled_reader_gets_ten_thousand_updates_as_a_few_in_their_latest_state() {
    let chunks: Vec<String> = (0..10_000).map(|n| format!("{n} ")).collect();
    let whole = chunks.concat();
    let thoughts = ScriptedTurn::new().thinking("Hm.").text_chunks(chunks);
    let host = host([thoughts]);
    let session = open(&host).await;
    let mut stalled = session.attach();
    session.send(say("count")).await.unwrap();
    // Something that is no progress: here it can only be the end of the turn, or its beginning.
    let mut quick = session.attach();
    read_turn(&mut quick).await;
    let all = read_turn(&mut stalled).await;
    assert_eq!(
        lines(&all),
        [
            "turn started".to_owned(),
            r#"step 0 Done +"count""#.to_owned(),
            format!("step 1 Done +{whole:?}"),
            "turn ended Completed".to_owned(),
        ]
    );
    let Update::Step(answer) = &all[2] else {
        panic!("a step: {all:?}")
    };
    assert_eq!(
        (answer.thinking_delta(), answer.step.text.as_str()),
        ("Hm.", whole.as_str())
    );
}

/// What a stalled reader costs must not depend on how fast others read.
#[tokio::test]
async fn a_stalled_reader_beside_a_quick_one_is_not_told_of_each_update_either() {
    let gate = Gate::new();
    let chunks: Vec<String> = (0..500).map(|n| format!("{n} ")).collect();
    let whole = chunks.concat();
    let host = host([ScriptedTurn::new().text_chunks(chunks).gated(&gate)]);
    let session = open(&host).await;
    let (mut stalled, mut quick) = (session.attach(), session.attach());
    session.send(say("count")).await.unwrap();
    let mut seen = String::new();
    let mut updates = 0;
    while seen != whole {
        gate.let_one_pass();
        loop {
            let Some(update) = quick.next().await else {
                panic!("the turn goes on")
            };
            if let Update::Step(StepChange { step, .. }) = &update
                && step.index.get() == 1
            {
                let Update::Step(change) = &update else {
                    unreachable!()
                };
                seen.push_str(change.text_delta());
                updates += 1;
                break;
            }
        }
    }
    assert_eq!(updates, 500, "the quick one saw every piece");
    let rest = read_turn(&mut quick).await;
    assert!(lines(&rest).contains(&"turn ended Completed".to_owned()));
    let all = read_turn(&mut stalled).await;
    let expected = [
        "turn started".to_owned(),
        r#"step 0 Done +"count""#.to_owned(),
        format!("step 1 Done +{whole:?}"),
        "turn ended Completed".to_owned(),
    ];
    assert_eq!(lines(&all), expected);
}

#[tokio::test]
async fn who_attaches_late_is_not_told_what_was_and_is_told_the_rest_right() {
    let gate = Gate::new();
    let turn = ScriptedTurn::new()
        .text_chunks(["one ", "two ", "three"])
        .gated(&gate);
    let host = host([turn, ScriptedTurn::new().text("next")]);
    let session = open(&host).await;
    let mut early = session.attach();
    session.send(say("hi")).await.unwrap();
    gate.let_one_pass();
    while line(&early.next().await.unwrap()) != r#"step 1 Active +"one ""# {}
    let (history, mut late) = session.attach_with_history();
    let before = history.steps.iter().map(|(_, step)| step.text.as_str());
    assert_eq!(before.collect::<Vec<_>>(), ["hi", "one "]);
    assert_eq!(late.take(), None);
    gate.open();
    let rest = read_turn(&mut late).await;
    let deltas: String = rest
        .iter()
        .filter_map(|update| match update {
            Update::Step(change) if change.step.index.get() == 1 => Some(change.text_delta()),
            _ => None,
        })
        .collect();
    assert_eq!(
        deltas, "two three",
        "what it has seen already is not new to it"
    );
    assert!(
        !lines(&rest).iter().any(|line| line.starts_with("step 0")),
        "{rest:?}"
    );
    session.send(say("more")).await.unwrap();
    let next = lines(&read_turn(&mut late).await);
    assert_eq!(next[..2], ["turn started", r#"step 2 Done +"more""#]);
}

#[tokio::test]
async fn history_is_what_a_late_reader_has_missed() {
    let usage = Usage {
        total_tokens: 5,
        ..Usage::default()
    };
    let host = host([ScriptedTurn::new().text("hello").usage(usage.clone())]);
    let session = open(&host).await;
    let mut reader = session.attach();
    session.send(say("hi")).await.unwrap();
    read_turn(&mut reader).await;
    let history = session.history();
    let texts: Vec<_> = history
        .steps
        .iter()
        .map(|(_, step)| step.text.as_str())
        .collect();
    assert_eq!((texts, history.usage), (vec!["hi", "hello"], usage));
}

fn with_host_tool() -> Blueprint {
    let config = Config {
        answers: [RequestKind::HostCall].into(),
        host_tools: vec![HostToolSpec {
            name: "ask_host".into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        }],
        ..Config::default()
    };
    Blueprint {
        config,
        ..Blueprint::default()
    }
}

fn answer() -> Command {
    let response = HostResponse::Text("here".into());
    let answer = RequestAnswer::Host(HostAnswer {
        response,
        media: Vec::new(),
    });
    Command::Answer {
        request: RequestId::new(0),
        answer,
    }
}

#[tokio::test]
async fn a_request_is_shown_while_it_is_open_and_not_after() {
    let call = ScriptedTurn::new().call("ask_host", json!({}));
    let host = host([call, ScriptedTurn::new().text("thanks")]);
    let session = host.open(with_host_tool()).await.unwrap();
    let (mut quick, mut slow) = (session.attach(), session.attach());
    session.send(say("hi")).await.unwrap();
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("request 0") {
        seen.push(line(&quick.next().await.unwrap()));
    }
    assert_eq!(
        seen,
        [
            "turn started",
            r#"step 0 Done +"hi""#,
            r#"step 1 Active +"""#,
            "request 0"
        ]
    );
    session.send(answer()).await.unwrap();
    let rest = lines(&read_turn(&mut quick).await);
    assert_eq!(
        rest[..2],
        [r#"step 1 Done +"""#, "closed 0"].map(str::to_owned),
        "{rest:?}"
    );
    let all = lines(&read_turn(&mut slow).await);
    assert!(
        !all.contains(&"request 0".to_owned()),
        "nobody can answer it any more: {all:?}"
    );
    assert!(all.contains(&"closed 0".to_owned()));
}

#[tokio::test]
async fn waiting_beyond_progress_is_not_woken_by_progress() {
    let gate = Gate::new();
    let host = host([ScriptedTurn::new().text_chunks(["a", "b"]).gated(&gate)]);
    let session = open(&host).await;
    let mut reader = session.attach();
    assert!(reader.only_progress(), "there is nothing at all");
    session.send(say("hi")).await.unwrap();
    reader.wait_beyond_progress().await;
    assert_eq!(line(&reader.take().unwrap()), "turn started");
    assert_eq!(line(&reader.next().await.unwrap()), r#"step 0 Done +"hi""#);
    gate.let_one_pass();
    reader.wait().await;
    assert!(reader.only_progress());
    let mut beyond = Box::pin(reader.wait_beyond_progress());
    assert!(
        futures_poll(beyond.as_mut()).is_pending(),
        "text of a running step may as well be read later"
    );
    gate.open();
    beyond.as_mut().await;
    drop(beyond);
    let rest = lines(&read_turn(&mut reader).await);
    assert_eq!(rest, [r#"step 1 Done +"ab""#, "turn ended Completed"]);
}

fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[tokio::test]
async fn a_closed_conversation_is_read_to_its_end_and_then_over() {
    let gate = Gate::new();
    let host = host([ScriptedTurn::new().text("x").gated(&gate)]);
    let session = open(&host).await;
    let (mut reader, mut idle) = (session.attach(), session.attach());
    session.send(say("hi")).await.unwrap();
    assert_eq!(line(&reader.next().await.unwrap()), "turn started");
    session.close().await;
    assert!(reader.is_closed());
    assert_eq!(line(&reader.next().await.unwrap()), r#"step 0 Done +"hi""#);
    assert_eq!(line(&reader.next().await.unwrap()), "turn ended Halted");
    assert_eq!(reader.next().await, None);
    assert_eq!(reader.next().await, None, "and stays over");
    while idle.next().await.is_some() {}
}

#[tokio::test]
async fn a_dropped_reader_costs_the_others_nothing() {
    let host = host_of(
        vec![model([
            ScriptedTurn::new().text("one"),
            ScriptedTurn::new().text("two"),
        ])],
        Limits::default(),
    );
    let session = Arc::new(open(&host).await);
    let (dropped, mut reader) = (session.attach(), session.attach());
    session.send(say("1")).await.unwrap();
    read_turn(&mut reader).await;
    drop(dropped);
    session.send(say("2")).await.unwrap();
    let turn = read_turn(&mut reader).await;
    assert!(turn.iter().any(|update| matches!(
        update,
        Update::Step(change) if change.step.state == StepState::Done && change.step.text == "two"
    )));
}

#[tokio::test]
async fn who_attaches_is_offered_what_still_has_to_be_answered() {
    let call = ScriptedTurn::new().call("ask_host", json!({}));
    let host = host([call, ScriptedTurn::new().text("thanks")]);
    let session = host.open(with_host_tool()).await.unwrap();
    let mut first = session.attach();
    session.send(say("hi")).await.unwrap();
    while line(&first.next().await.unwrap()) != "request 0" {}
    drop(first);

    let mut second = session.attach();
    let offered: Vec<_> = std::iter::from_fn(|| second.take()).collect();
    assert_eq!(lines(&offered), [r#"step 1 Active +"""#, "request 0"]);
    session.send(answer()).await.unwrap();
    let rest = lines(&read_turn(&mut second).await);
    assert_eq!(
        rest.last().map(String::as_str),
        Some("turn ended Completed")
    );
}
