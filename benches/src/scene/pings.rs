//! How soon a ping is answered.

use anyhow::Context as _;
use serde_json::json;

use super::{Props, Sample, Scale, Scene};
use crate::client::Client;
use crate::contender::{Contender, Running};
use crate::model::{Answer, Model};
use crate::row::Row;
use crate::table::median;
use crate::tree::NEEDLE;

/// Pings on an idle conversation, then as many as there is time for while it searches files.
pub(super) struct Pings {
    contender: Contender,
    client: Client,
    model: Model,
    answers: [Answer; 2],
    _running: Running,
}

impl Scene for Pings {
    const ROWS: &'static [Row] = &[Row::PingIdle, Row::PingBusy];

    fn rounds(scale: Scale) -> usize {
        scale.pick(15, 1)
    }

    async fn set(props: &Props, contender: &Contender) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let running = contender.start().await?;
        let client = running.open(&model).await?;
        let search = json!({
            "Query": NEEDLE,
            "SearchPath": props.tree.path(),
            "MatchPerLine": true,
        });
        let calls = (0..4).map(|_| ("grep_search", search.clone()));
        let mut scene = Self {
            contender: contender.clone(),
            client,
            model,
            answers: [Answer::calls(calls), Answer::pieces(["Done."])],
            _running: running,
        };
        scene.play().await?;
        Ok(scene)
    }

    async fn play(&mut self) -> anyhow::Result<Vec<Sample>> {
        let mut idle = Vec::new();
        for _ in 0..20 {
            let (took, _) = self.client.ping().await?;
            idle.push(took.as_secs_f64());
        }
        self.model.script(&self.answers);
        self.client.say("Search.").await?;
        let mut busy = Vec::new();
        loop {
            let (took, is_idle) = self.client.ping().await?;
            busy.push(took.as_secs_f64());
            if is_idle {
                break;
            }
        }
        let [_, _] = self.model.exchanges()?;
        let sample = |row, pings: &[f64]| {
            let middle = median(pings).context("there was no ping")?;
            anyhow::Ok(self.contender.sample(row, middle))
        };
        Ok(vec![
            sample(Row::PingIdle, &idle)?,
            sample(Row::PingBusy, &busy)?,
        ])
    }
}
