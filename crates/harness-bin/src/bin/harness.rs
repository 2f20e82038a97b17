//! Runs agents at a terminal and in scripts.

use std::process::ExitCode;

fn main() -> ExitCode {
    harness_bin::cli::main(std::env::args_os())
}
