//! Large answers, large messages, and clients that do not read.

use std::time::{Duration, Instant};

use harness_testkit::process::resident_bytes;
use harness_types::ScriptedTurn;
use serde_json::json;

use super::support::{
    Fifo, Harness, ask, assert_stream, commands, config, input, millis, soon, texts, with,
};

const MIB: u64 = 1024 * 1024;

fn resident(harness: &Harness) -> u64 {
    resident_bytes(harness.process.pid()).unwrap()
}

#[tokio::test]
async fn an_answer_of_50_mb_arrives_whole() {
    let chunk = "0123456789abcde\n".repeat(64 * 1024);
    let chunks = 50;
    let turn = ScriptedTurn::new().text_chunks(vec![chunk.clone(); chunks]);
    let harness = Harness::start([turn, ScriptedTurn::new().text("short")]).await;
    let mut client = harness.open().await.with_deadline(Duration::from_secs(60));
    let before = resident(&harness);
    let start = Instant::now();
    let events = ask(&mut client, "write a book").await;
    println!(
        "50 MB answer: {} in {} updates, resident {} MiB before, {} MiB after",
        millis(start.elapsed()),
        events.len(),
        before / MIB,
        resident(&harness) / MIB
    );
    let text = &texts(&events)[&1].0;
    assert_eq!(text.len(), chunk.len() * chunks);
    assert!(
        text.as_bytes()
            .chunks(chunk.len())
            .all(|piece| piece == chunk.as_bytes())
    );
    assert!(
        resident(&harness) < 700 * MIB,
        "{} MiB",
        resident(&harness) / MIB
    );
    ask(&mut client, "shorter").await;
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn f024_a_message_of_20_mb_is_taken_while_others_are_answered() {
    let harness = Harness::start([]).await;
    let big = harness
        .model
        .route("big", [ScriptedTurn::new().text("read")]);
    let mut big = harness.open_with(config(&big)).await;
    let mut other = harness.open().await;
    let text = "lorem ipsum dolor sit amet\n".repeat(20 * 1024 * 1024 / 27);
    let message = input(&text).to_string();
    let (events, longest, pings) = {
        let sending = async {
            big.send_text(message).await.unwrap();
            big.until_idle().await.unwrap()
        };
        tokio::pin!(sending);
        let (mut longest, mut pings) = (Duration::ZERO, 0);
        loop {
            tokio::select! {
                events = &mut sending => break (events, longest, pings),
                ping = other.ping() => {
                    longest = longest.max(ping.unwrap());
                    pings += 1;
                }
            }
        }
    };
    println!(
        "20 MB message: {pings} pings beside it, the slowest took {}",
        millis(longest)
    );
    // Answered all along, not only before and after it.
    assert!(pings > 100, "{pings}");
    assert_eq!(texts(&events)[&0].0, text);
    let sent = &harness.model.requests()[0];
    assert!(sent.body_bytes > text.len());
    assert!(sent.last_text().contains(&text));
    big.ping().await.unwrap();
    big.close().await.unwrap();
    other.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn pings_are_answered_while_a_tool_runs() {
    let harness = Harness::start([]).await;
    let workspace = harness.workspace();
    let mut fifo = Fifo::new(&workspace);
    let line = "echo running > fifo; sleep 1001";
    harness
        .model
        .push(ScriptedTurn::new().call("run_command", json!({ "CommandLine": line })));
    let mut client = harness
        .open_with(with(harness.config(), commands(&workspace)))
        .await;
    client.send(&input("go")).await.unwrap();
    assert_eq!(fifo.line().await, "running");
    let mut times = Vec::new();
    for _ in 0..50 {
        times.push(client.ping().await.unwrap());
    }
    times.sort();
    println!(
        "ping while a tool runs: median {}, slowest {}",
        millis(times[25]),
        millis(times[49])
    );
    assert!(times[25] < Duration::from_millis(500), "{times:?}");
    client.send(&super::support::halt()).await.unwrap();
    client.until_idle().await.unwrap();
    client.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn f025_a_client_that_stops_reading_costs_little_and_loses_nothing() {
    let harness = Harness::start([]).await;
    // 100 KB in 200 chunks: shown one by one, each with the text so far, that is 10 MB a turn.
    let chunks: Vec<String> = (0..200)
        .map(|n| format!("{n:04} {}\n", "x".repeat(500)))
        .collect();
    let answer: String = chunks.concat();
    let (asking, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let stalled = harness.model.respond("stalled", move |request| {
        asking.send(request.index).unwrap();
        ScriptedTurn::new().text_chunks(chunks.clone()).into()
    });
    let other = harness
        .model
        .respond("other", |_| ScriptedTurn::new().text("fine").into());
    let mut stalled = harness.open_with(config(&stalled)).await;
    let mut other = harness.open_with(config(&other)).await;
    let turns = 50;
    let before = resident(&harness);
    let mut largest = 0;
    for n in 0..turns {
        stalled.send(&input(&format!("turn {n}"))).await.unwrap();
        // Goes on when the model has been asked, and has given its whole answer.
        let index = soon("the next model request", asked.recv()).await.unwrap();
        harness.model.outcome(index).await.unwrap();
        // Another conversation has a turn beside each of them.
        let events = ask(&mut other, "and you?").await;
        assert_eq!(texts(&events).len(), 2);
        largest = largest.max(resident(&harness));
    }
    println!(
        "{turns} turns of 100 KB unread: resident {} MiB before, at most {} MiB",
        before / MIB,
        largest / MIB
    );
    assert!(largest < before + 150 * MIB, "{} MiB", largest / MIB);

    // It reads again, and everything is there.
    let mut events = Vec::new();
    let last = format!("turn {}", turns - 1);
    loop {
        let more = stalled.until_idle().await.unwrap();
        let done = more
            .iter()
            .chain(&events)
            .any(|e: &serde_json::Value| e["stepUpdate"]["text"] == last.as_str());
        events.extend(more);
        if done {
            break;
        }
    }
    assert_stream(stalled.events());
    let texts = texts(&events);
    let inputs: Vec<_> = texts
        .values()
        .filter(|(text, _)| text.starts_with("turn "))
        .collect();
    assert_eq!(inputs.len(), turns);
    let answers = texts.values().filter(|(text, _)| *text == answer).count();
    assert_eq!(answers, turns);
    println!("read afterwards: {} events", events.len());
    stalled.close().await.unwrap();
    other.close().await.unwrap();
    harness.end().await;
}

#[tokio::test]
async fn sixty_conversations_stream_at_once() {
    let harness = Harness::start([]).await;
    let chunks: Vec<String> = (0..200).map(|n| format!("{n} ")).collect();
    let whole = chunks.concat();
    let url = harness.model.respond("all", move |_| {
        ScriptedTurn::new().text_chunks(chunks.clone()).into()
    });
    let mut clients = Vec::new();
    for _ in 0..60 {
        clients.push(harness.open_with(config(&url)).await);
    }
    let start = Instant::now();
    for client in &mut clients {
        client.send(&input("go")).await.unwrap();
    }
    for client in &mut clients {
        let events = client.until_idle().await.unwrap();
        assert_eq!(texts(&events)[&1].0, whole);
        assert_stream(client.events());
    }
    println!(
        "60 conversations: {}, resident {} MiB",
        millis(start.elapsed()),
        resident(&harness) / MIB
    );
    for client in clients {
        client.close().await.unwrap();
    }
    harness.end().await;
}
