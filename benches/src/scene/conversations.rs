//! Many conversations in one process.

use std::time::Instant;

use futures_util::future::try_join_all;

use super::{Props, Sample, Scale, Scene};
use crate::contender::Contender;
use crate::model::{Answer, Model};
use crate::row::Row;

/// Opens conversations in a new process, all at once; then has one turn in each, all at once.
pub(super) struct Conversations {
    contender: Contender,
    model: Model,
    count: usize,
}

impl Scene for Conversations {
    const ROWS: &'static [Row] = &[
        Row::ConversationsOpen,
        Row::ConversationsTime,
        Row::ConversationsMemory,
    ];

    fn rounds(scale: Scale) -> usize {
        scale.pick(7, 1)
    }

    async fn set(props: &Props, contender: &Contender) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        model.always(&Answer::pieces(["A short ", "answer."]));
        Ok(Self {
            contender: contender.clone(),
            model,
            count: props.scale.pick(60, 4),
        })
    }

    async fn play(&mut self) -> anyhow::Result<Vec<Sample>> {
        let running = self.contender.start().await?;
        let start = Instant::now();
        let opening = (0..self.count).map(|_| running.open(&self.model));
        let mut clients = try_join_all(opening).await?;
        let open = start.elapsed();
        let start = Instant::now();
        let turns = clients.iter_mut().map(|client| async {
            client.say("A short question.").await?;
            client.idle().await
        });
        try_join_all(turns).await?;
        let time = start.elapsed();
        let memory = running.resident_bytes()?;
        drop(clients);
        running.stop().await?;
        let sample = |row, value| self.contender.sample(row, value);
        Ok(vec![
            sample(Row::ConversationsOpen, open.as_secs_f64()),
            sample(Row::ConversationsTime, time.as_secs_f64()),
            sample(Row::ConversationsMemory, memory),
        ])
    }
}
