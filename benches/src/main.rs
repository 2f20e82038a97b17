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
use std::path::PathBuf;
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
    let table = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(scene::all(&stage));

    std::io::stdout().write_all(table.render().as_bytes())?;
    if let Some(path) = &args.json {
        write_json(&stage, &table, path)?;
    }
    Ok(match table.is_complete() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn write_json(stage: &Stage, table: &Table, path: &PathBuf) -> anyhow::Result<()> {
    let program = |contender: &Contender| contender.program().display().to_string();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let json = serde_json::json!({
        "harness": program(&stage.ours),
        "peer": stage.peer.as_ref().map(program),
        "smoke": stage.scale == Scale::Smoke,
        "cores": cores,
        "rows": table.to_json(),
    });
    std::fs::write(path, format!("{json:#}\n"))
        .with_context(|| format!("writing {}", path.display()))
}
