//! `check-layers`: the dependencies between the crates, and a few other rules of the house that
//! a compiler does not check.
//!
//! Normal and build dependencies count, optional ones too; development dependencies do not.

mod check;
mod graph;
mod reserved;
mod table;
mod unsafe_code;

use anyhow::bail;

use crate::shell;

/// Compares the workspace with the table and prints every violation.
///
/// # Errors
///
/// When there is a violation, or the workspace cannot be read.
pub(crate) fn check_layers() -> anyhow::Result<()> {
    let graph = graph::read(&shell::metadata()?)?;
    let violations = check::violations(&graph);
    if violations.is_empty() {
        let edges: usize = graph
            .crates
            .iter()
            .map(|each| each.dependencies.len())
            .sum();
        println!(
            "check-layers: {} crates, {edges} dependencies: ok",
            graph.crates.len()
        );
        return Ok(());
    }
    for violation in &violations {
        eprintln!("error: {violation}");
    }
    bail!("check-layers: {} violations", violations.len());
}
