//! A process from its start to its end.

use super::{Props, Sample, Scale, Scene};
use crate::contender::Contender;
use crate::model::Model;
use crate::row::Row;

/// Starts a process, opens a conversation in it and ends it.
pub(super) struct Start {
    contender: Contender,
    model: Model,
}

impl Scene for Start {
    const ROWS: &'static [Row] = &[
        Row::Handshake,
        Row::Initialise,
        Row::MemoryInitialised,
        Row::Exit,
    ];

    fn rounds(scale: Scale) -> usize {
        scale.pick(25, 1)
    }

    async fn set(_: &Props, contender: &Contender) -> anyhow::Result<Self> {
        // Once unmeasured, so that the program is in memory.
        let model = Model::start().await?;
        contender.start().await?.stop().await?;
        Ok(Self {
            contender: contender.clone(),
            model,
        })
    }

    async fn play(&mut self) -> anyhow::Result<Vec<Sample>> {
        let running = self.contender.start().await?;
        let client = running.open(&self.model).await?;
        let initialised = running.started_at().elapsed();
        let handshake = running.handshake();
        let memory = running.resident_bytes()?;
        drop(client);
        let exit = running.stop().await?;
        let sample = |row, value| self.contender.sample(row, value);
        Ok(vec![
            sample(Row::Handshake, handshake.as_secs_f64()),
            sample(Row::Initialise, initialised.as_secs_f64()),
            sample(Row::MemoryInitialised, memory),
            sample(Row::Exit, exit.as_secs_f64()),
        ])
    }
}
