//! Turns of one short text: what the harness adds to the time of the model.

use std::time::Instant;

use anyhow::Context as _;

use super::{Props, Sample, Scale, Scene};
use crate::client::Client;
use crate::contender::{Contender, Running};
use crate::model::{Answer, Model};
use crate::row::Row;

/// Turns without tools, in one conversation. The first is not measured.
pub(super) struct Turns {
    contender: Contender,
    client: Client,
    model: Model,
    answer: Answer,
    _running: Running,
}

impl Scene for Turns {
    const ROWS: &'static [Row] = &[Row::Request, Row::Idle];

    fn rounds(scale: Scale) -> usize {
        scale.pick(60, 2)
    }

    async fn set(_: &Props, contender: &Contender) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let running = contender.start().await?;
        let client = running.open(&model).await?;
        let mut scene = Self {
            contender: contender.clone(),
            client,
            model,
            answer: Answer::text("A short answer."),
            _running: running,
        };
        scene.play().await?;
        Ok(scene)
    }

    async fn play(&mut self) -> anyhow::Result<Vec<Sample>> {
        self.model.script([&self.answer]);
        let said_at = Instant::now();
        self.client.say("A short question.").await?;
        let idle_at = self.client.idle().await?;
        let [exchange] = self.model.exchanges()?;
        let ended_at = exchange.ended_at.context("the answer has no end")?;
        let sample = |row, from: Instant, to: Instant| {
            self.contender
                .sample(row, to.saturating_duration_since(from).as_secs_f64())
        };
        Ok(vec![
            sample(Row::Request, said_at, exchange.asked_at),
            sample(Row::Idle, ended_at, idle_at),
        ])
    }
}
