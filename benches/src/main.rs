//! End-to-end benchmarks of a built `localharness`, beside another program of the same wire.
//!
//! `cargo xtask bench` builds the program as it is shipped and starts this driver with its path.
//! Every figure is taken from outside: a driver spawns the program, is its SDK on the WebSocket
//! and its model behind HTTP, and looks at `/proc`. Both programs get the same driver, the same
//! configuration and the same answers, and take turns, one round each (A B A B …): what the
//! machine does meanwhile happens to both. A table shows the medians, the median of the ratios of
//! each round, and whether the ratio required of a row is reached.
//!
//! * [`row`]: what is measured and what is required; [`table`]: the samples and how they are shown.
//! * [`scene`]: how it is measured, one module for each kind of work.
//! * [`contender`], [`client`], [`model`], [`tree`]: a started program, and what it works with.
//!
//! The driver is one thread, so that an instant taken on one side of the program is compared with
//! one taken on the other side without a second thread in the way.
//!
//! # Exit status
//!
//! 0 when every row was measured, also when a figure is missed: a noisy machine is no reason to
//! fail. 1 when a row could not be measured.
//!
//! # Limits
//!
//! Linux only (`/proc`). Processor time has a resolution of 10 ms. `--smoke` measures every row
//! once, with small counts, and judges none.

mod client;
mod contender;
mod model;
mod row;
mod scene;
mod table;
mod tree;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;

use crate::contender::{Contender, Side};
use crate::scene::{Scale, Stage};
use crate::table::Table;

/// Measures a harness, beside another one when there is one.
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure.
    #[arg(long, value_name = "PATH")]
    harness: PathBuf,
    /// The program to compare it with.
    #[arg(long, value_name = "PATH")]
    peer: Option<PathBuf>,
    /// Writes all samples to this file.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Only shows that every row can be measured; the peer is left out.
    #[arg(long)]
    smoke: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let scale = if args.smoke {
        Scale::Smoke
    } else {
        Scale::Full
    };
    let ours = Contender::new(Side::Ours, &args.harness)?;
    let peer = match (&args.peer, scale) {
        (Some(path), Scale::Full) => Some(Contender::new(Side::Theirs, path)?),
        _ => None,
    };
    let stage = Stage { ours, peer, scale };
    let load = Load::now();
    let table = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(scene::all(&stage));

    let mut text = table.render();
    if scale == Scale::Smoke {
        text.push_str("\nA smoke run: counts are small, and nothing here is a figure.\n");
    } else if let Some(remark) = load.remark() {
        text.push_str(&format!("\n{remark}\n"));
    }
    std::io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &args.json {
        write_json(&stage, &load, &table, path)?;
    }
    Ok(match table.is_complete() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// How busy the machine was before the run.
#[derive(Debug)]
struct Load {
    cores: usize,
    /// The load average of the last minute.
    average: Option<f64>,
}

impl Load {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let average = text.split(' ').next().and_then(|word| word.parse().ok());
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            average,
        }
    }

    /// What a reader of the figures has to know, if anything.
    fn remark(&self) -> Option<String> {
        let average = self.average?;
        (average > self.cores as f64 / 2.0).then(|| {
            format!(
                "The machine had other work (load {average} on {} cores): the ratios are rough.",
                self.cores
            )
        })
    }
}

fn write_json(stage: &Stage, load: &Load, table: &Table, path: &Path) -> anyhow::Result<()> {
    let program = |contender: &Contender| contender.program().display().to_string();
    let json = serde_json::json!({
        "harness": program(&stage.ours),
        "peer": stage.peer.as_ref().map(program),
        "smoke": stage.scale == Scale::Smoke,
        "cores": load.cores,
        "load_average": load.average,
        "rows": table.to_json(),
    });
    std::fs::write(path, format!("{json:#}\n"))
        .with_context(|| format!("writing {}", path.display()))
}
