//! Searching many files: the whole turn, and the tool beside the program people know.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::{Props, Sample, Scale, Scene};
use crate::client::Client;
use crate::contender::{Contender, Running, Side};
use crate::model::{Answer, Model};
use crate::row::Row;
use crate::tree::{NEEDLE, NEEDLE_FILES, Program, RESULT};

/// A turn with `grep_search` and one with `find_by_name`, over the same tree.
pub(super) struct Search {
    contender: Contender,
    client: Client,
    model: Model,
    grep: Answer,
    find: Answer,
    done: Answer,
    tree: PathBuf,
    rg: Option<Program>,
    fd: Option<Program>,
    _running: Running,
}

impl Scene for Search {
    const ROWS: &'static [Row] = &[Row::GrepTurn, Row::FindTurn, Row::GrepAlone, Row::FindAlone];

    fn rounds(scale: Scale) -> usize {
        scale.pick(21, 1)
    }

    async fn set(props: &Props, contender: &Contender) -> anyhow::Result<Self> {
        let model = Model::start().await?;
        let running = contender.start().await?;
        let client = running.open(&model).await?;
        let tree = props.tree.path().to_owned();
        let grep = json!({"Query": NEEDLE, "SearchPath": tree, "MatchPerLine": true});
        let find = json!({"Pattern": NEEDLE_FILES, "SearchDirectory": tree});
        let mut scene = Self {
            contender: contender.clone(),
            client,
            model,
            grep: Answer::calls([("grep_search", grep)]),
            find: Answer::calls([("find_by_name", find)]),
            done: Answer::pieces(["Done."]),
            tree,
            rg: props.rg,
            fd: props.fd,
            _running: running,
        };
        // Once unmeasured, so that the files are in memory.
        scene.play().await?;
        Ok(scene)
    }

    async fn play(&mut self) -> anyhow::Result<Vec<Sample>> {
        let grep = self.turn(&self.grep.clone()).await?;
        let find = self.turn(&self.find.clone()).await?;
        let sample = |row, time: Duration| self.contender.sample(row, time.as_secs_f64());
        let mut samples = vec![
            sample(Row::GrepTurn, grep.turn),
            sample(Row::FindTurn, find.turn),
        ];
        if self.contender.side() == Side::Theirs {
            return Ok(samples);
        }
        samples.push(sample(Row::GrepAlone, grep.tool));
        samples.push(sample(Row::FindAlone, find.tool));
        let tree = self.tree.clone().into_os_string();
        let programs = [
            (Row::GrepAlone, self.rg, ["-nF", "--hidden", NEEDLE]),
            (
                Row::FindAlone,
                self.fd,
                ["--color=never", "--glob", NEEDLE_FILES],
            ),
        ];
        for (row, program, args) in programs {
            let Some(program) = program else { continue };
            let args = args.into_iter().map(OsString::from);
            let took = program.run(args.chain([tree.clone()]))?;
            samples.push(Sample {
                row,
                side: Side::Theirs,
                value: took.as_secs_f64(),
            });
        }
        Ok(samples)
    }
}

struct Times {
    /// From the input to idle.
    turn: Duration,
    /// From the end of the answer that calls the tool to the next request at the model.
    tool: Duration,
}

impl Search {
    async fn turn(&mut self, call: &Answer) -> anyhow::Result<Times> {
        self.model.script([call, &self.done]);
        let said_at = Instant::now();
        self.client.say("Search.").await?;
        let idle_at = self.client.idle().await?;
        let [asks, shows] = self.model.exchanges()?;
        let found = String::from_utf8_lossy(&shows.body).contains(RESULT);
        ensure!(found, "the model was not shown what was found");
        let called_at = asks.ended_at.context("the call has no end")?;
        Ok(Times {
            turn: idle_at.duration_since(said_at),
            tool: shows.asked_at.saturating_duration_since(called_at),
        })
    }
}
