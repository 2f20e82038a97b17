//! Tests of process trees with real processes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy sees no test in the functions that tests share"
)]

mod bounded;
mod environment;
mod guard;
mod output;
mod support;
mod terminate;
mod tree;
mod utf8;
