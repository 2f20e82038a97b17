//! Answers of many pieces, and a long one.

use std::time::Instant;

use super::{Cast, Props, Sample, Scale, Scene};
use crate::client::Client;
use crate::contender::{Contender, Running};
use crate::model::{Answer, Model};
use crate::row::Row;

/// An answer of many small pieces that come as fast as they are taken.
pub(super) struct Chunks {
    contender: Contender,
    running: Running,
    client: Client,
    model: Model,
    answer: Answer,
}

impl Scene for Chunks {
    const ROWS: &'static [Row] = &[Row::ChunksTime, Row::ChunksCpu, Row::ChunksBytes];

    fn rounds(scale: Scale) -> usize {
        scale.pick(9, 1)
    }

    async fn set(props: &Props, contender: &Contender) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let running = contender.start().await?;
        let mut client = running.open(&model).await?;
        let warm_up = Answer::text("A short answer.");
        model.script([&warm_up]);
        client.say("Hello.").await?;
        client.idle().await?;
        let count = props.scale.pick(4000, 200);
        Ok(Self {
            contender: contender.clone(),
            running,
            client,
            model,
            answer: Answer::pieces((0..count).map(|n| format!("w{n:05} "))),
        })
    }

    async fn play(&mut self) -> anyhow::Result<Vec<Sample>> {
        self.model.script([&self.answer]);
        let (bytes, cpu) = (self.client.received_bytes(), self.running.cpu_time()?);
        let said_at = Instant::now();
        self.client.say("Tell me everything.").await?;
        let time = self.client.idle().await?.duration_since(said_at);
        let bytes = self.client.received_bytes() - bytes;
        let cpu = self.running.cpu_time()?.saturating_sub(cpu).as_secs_f64();
        let [_] = self.model.exchanges()?;
        let sample = |row, value| self.contender.sample(row, value);
        Ok(vec![
            sample(Row::ChunksTime, time.as_secs_f64()),
            // Less than the resolution is not nothing.
            sample(Row::ChunksCpu, cpu.max(0.01)),
            sample(Row::ChunksBytes, bytes as f64),
        ])
    }
}

/// An answer of 50 MB in a process of its own.
pub(super) struct LongAnswer {
    contender: Contender,
    model: Model,
    answer: Answer,
}

impl Scene for LongAnswer {
    const ROWS: &'static [Row] = &[Row::LongAnswerTime, Row::LongAnswerMemory];
    const CAST: Cast = Cast::OursAlone;

    fn rounds(scale: Scale) -> usize {
        scale.pick(3, 1)
    }

    async fn set(props: &Props, contender: &Contender) -> anyhow::Result<Self> {
        let piece = "All work and no play. ".repeat(50_000 / 22);
        let count = props.scale.pick(1000, 20);
        Ok(Self {
            contender: contender.clone(),
            model: Model::start().await?,
            answer: Answer::pieces((0..count).map(|_| &piece)),
        })
    }

    async fn play(&mut self) -> anyhow::Result<Vec<Sample>> {
        let running = self.contender.start().await?;
        let mut client = running.open(&self.model).await?;
        self.model.script([&self.answer]);
        let said_at = Instant::now();
        client.say("Write a book.").await?;
        let time = client.idle().await?.duration_since(said_at);
        let peak = running.peak_bytes()?;
        let [_] = self.model.exchanges()?;
        running.stop().await?;
        Ok(vec![
            self.contender
                .sample(Row::LongAnswerTime, time.as_secs_f64()),
            self.contender.sample(Row::LongAnswerMemory, peak),
        ])
    }
}
