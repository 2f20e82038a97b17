//! Turns with tool calls: many small ones, and calls of the host that take their time.

use std::time::{Duration, Instant};

use anyhow::ensure;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::json;

use super::{Props, Sample, Scale, Scene};
use crate::client::{Client, Event};
use crate::contender::{Contender, Running};
use crate::model::{Answer, Model};
use crate::row::Row;

/// 50 turns in a new process, each of one call of a built-in tool and a short answer.
pub(super) struct ToolTurns {
    contender: Contender,
    model: Model,
    turns: usize,
}

impl Scene for ToolTurns {
    const ROWS: &'static [Row] = &[Row::ToolTurns, Row::MemoryAfterTurns];

    fn rounds(scale: Scale) -> usize {
        scale.pick(5, 1)
    }

    async fn set(props: &Props, contender: &Contender) -> anyhow::Result<Self> {
        Ok(Self {
            contender: contender.clone(),
            model: Model::start().await?,
            turns: props.scale.pick(50, 3),
        })
    }

    async fn play(&mut self) -> anyhow::Result<Vec<Sample>> {
        let running = self.contender.start().await?;
        let mut client = running.open(&self.model).await?;
        let call = json!({"AbsolutePath": running.small_file()});
        let answers = [
            Answer::calls([("view_file", call)]),
            Answer::pieces(["That is ", "all."]),
        ];
        let start = Instant::now();
        for _ in 0..self.turns {
            self.model.script(&answers);
            client.say("What is in the file?").await?;
            client.idle().await?;
            let [_, after] = self.model.exchanges()?;
            let seen = String::from_utf8_lossy(&after.body).contains("line 40 of a file");
            ensure!(seen, "the model was not shown the file");
        }
        let time = start.elapsed();
        let memory = running.resident_bytes()?;
        running.stop().await?;
        Ok(vec![
            self.contender.sample(Row::ToolTurns, time.as_secs_f64()),
            self.contender.sample(Row::MemoryAfterTurns, memory),
        ])
    }
}

/// Four calls of a host tool in one answer; the host takes its time for each of them.
pub(super) struct HostCalls {
    contender: Contender,
    client: Client,
    model: Model,
    answers: [Answer; 2],
    takes: Duration,
    _running: Running,
}

/// How many calls there are in the answer.
const CALLS: usize = 4;

impl Scene for HostCalls {
    const ROWS: &'static [Row] = &[Row::HostCalls];

    fn rounds(scale: Scale) -> usize {
        scale.pick(5, 1)
    }

    async fn set(props: &Props, contender: &Contender) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let running = contender.start().await?;
        let client = running.open(&model).await?;
        let calls = (0..CALLS).map(|n| ("wait", json!({ "n": n })));
        Ok(Self {
            contender: contender.clone(),
            client,
            model,
            answers: [Answer::calls(calls), Answer::pieces(["Done."])],
            takes: match props.scale {
                Scale::Full => Duration::from_millis(300),
                Scale::Smoke => Duration::from_millis(20),
            },
            _running: running,
        })
    }

    async fn play(&mut self) -> anyhow::Result<Vec<Sample>> {
        self.model.script(&self.answers);
        let mut called = FuturesUnordered::new();
        let mut answered = 0;
        let said_at = Instant::now();
        self.client.say("Wait.").await?;
        let idle_at = loop {
            tokio::select! {
                Some(id) = called.next() => {
                    let result = json!({"waited": true}).to_string();
                    let response = json!({"toolResponse": {"id": id, "responseJson": result}});
                    self.client.send(&response).await?;
                    answered += 1;
                }
                event = self.client.next() => match event? {
                    Event::ToolCall { id } => {
                        let takes = self.takes;
                        called.push(async move {
                            tokio::time::sleep(takes).await;
                            id
                        });
                    }
                    Event::Idle => break Instant::now(),
                    Event::Pong | Event::Other => {}
                },
            }
        };
        let [_, _] = self.model.exchanges()?;
        ensure!(answered == CALLS, "the host was called {answered} times");
        let time = idle_at.duration_since(said_at).as_secs_f64();
        Ok(vec![self.contender.sample(Row::HostCalls, time)])
    }
}
