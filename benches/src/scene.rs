//! How the rows are measured: a scene is set for each program and played in rounds, one program
//! after the other in each round.

mod answers;
mod conversations;
mod pings;
mod search;
mod start;
mod tools;
mod turns;

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;

use crate::contender::{Contender, Side};
use crate::row::Row;
use crate::table::Table;
use crate::tree::{Program, Tree};

/// No round takes this long unless something hangs.
const ROUND_DEADLINE: Duration = Duration::from_secs(120);

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Enough for figures.
    Full,
    /// Enough to see that it can be measured.
    Smoke,
}

impl Scale {
    /// One of two counts.
    fn pick(self, full: usize, smoke: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Smoke => smoke,
        }
    }
}

/// Who takes part, and how much is measured.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) ours: Contender,
    pub(crate) peer: Option<Contender>,
    pub(crate) scale: Scale,
}

/// A sample: whose, of which row, in seconds or bytes.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) row: Row,
    pub(crate) side: Side,
    pub(crate) value: f64,
}

/// Work that a program is put to, again and again.
trait Scene: Sized {
    /// What it measures.
    const ROWS: &'static [Row];

    /// Whether the peer takes part.
    const CAST: Cast = Cast::Both;

    /// How often it is played.
    fn rounds(scale: Scale) -> usize;

    /// Gets a program ready.
    async fn set(props: &Props, contender: &Contender) -> anyhow::Result<Self>;

    /// Does the work once.
    async fn play(&mut self) -> anyhow::Result<Vec<Sample>>;
}

/// Who takes part in a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cast {
    Both,
    OursAlone,
}

/// What the scenes share.
struct Props {
    scale: Scale,
    tree: Tree,
    rg: Option<Program>,
    fd: Option<Program>,
}

/// Measures every row.
pub(crate) async fn all(stage: &Stage) -> Table {
    let mut table = match stage.scale {
        Scale::Full => Table::judging(),
        Scale::Smoke => Table::default(),
    };
    binary_sizes(stage, &mut table);
    let tree = match Tree::new(stage.scale.pick(20_000, 300)) {
        Ok(tree) => tree,
        Err(error) => {
            for row in Row::ALL {
                table.fail(row, &format!("making files to search: {error:#}"));
            }
            return table;
        }
    };
    let props = Props {
        scale: stage.scale,
        tree,
        rg: Program::rg(),
        fd: Program::fd(),
    };
    for (program, row, name) in [
        (props.rg, Row::GrepAlone, "rg"),
        (props.fd, Row::FindAlone, "fd"),
    ] {
        if program.is_none() {
            table.note(row, &format!("{name} is not installed"));
        }
    }
    perform::<start::Start>(stage, &props, &mut table).await;
    perform::<turns::Turns>(stage, &props, &mut table).await;
    perform::<pings::Pings>(stage, &props, &mut table).await;
    perform::<answers::Chunks>(stage, &props, &mut table).await;
    perform::<tools::ToolTurns>(stage, &props, &mut table).await;
    perform::<tools::HostCalls>(stage, &props, &mut table).await;
    perform::<search::Search>(stage, &props, &mut table).await;
    perform::<conversations::Conversations>(stage, &props, &mut table).await;
    perform::<answers::LongAnswer>(stage, &props, &mut table).await;
    table
}

fn binary_sizes(stage: &Stage, table: &mut Table) {
    for contender in std::iter::once(&stage.ours).chain(&stage.peer) {
        match std::fs::metadata(contender.program()) {
            Ok(metadata) => table.add(Row::BinarySize, contender.side(), metadata.len() as f64),
            Err(error) => table.fail(Row::BinarySize, &error.to_string()),
        }
    }
}

/// Plays a scene, round by round. A program that fails once is left out from then on.
async fn perform<S: Scene>(stage: &Stage, props: &Props, table: &mut Table) {
    let titles: Vec<_> = S::ROWS.iter().map(|row| row.spec().title).collect();
    // Progress is for people; nobody misses it.
    let _ = writeln!(std::io::stderr(), "measuring {}", titles.join("; "));
    let peer = match S::CAST {
        Cast::Both => stage.peer.as_ref(),
        Cast::OursAlone => None,
    };
    let mut playing = Vec::new();
    for contender in std::iter::once(&stage.ours).chain(peer) {
        let set = in_time(S::set(props, contender)).await;
        match set.context("getting ready") {
            Ok(scene) => playing.push((contender.side(), scene)),
            Err(error) => leave::<S>(table, contender.side(), &error),
        }
    }
    for _ in 0..S::rounds(stage.scale) {
        let mut next = Vec::with_capacity(playing.len());
        for (side, mut scene) in playing {
            match in_time(scene.play()).await {
                Ok(samples) => {
                    for sample in samples {
                        table.add(sample.row, sample.side, sample.value);
                    }
                    next.push((side, scene));
                }
                Err(error) => leave::<S>(table, side, &error),
            }
        }
        playing = next;
    }
}

async fn in_time<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(ROUND_DEADLINE, work)
        .await
        .with_context(|| format!("it took more than {ROUND_DEADLINE:?}"))?
}

fn leave<S: Scene>(table: &mut Table, side: Side, error: &anyhow::Error) {
    for row in S::ROWS {
        match side {
            Side::Ours => table.fail(*row, &format!("{error:#}")),
            Side::Theirs => table.note(*row, &format!("the peer failed: {error:#}")),
        }
    }
}
