//! The program `localharness`, driven over its pipes and its socket by a client that knows nothing
//! but JSON, with a model behind HTTP.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and says what it has measured"
)]

mod answers;
mod bounds;
mod connections;
mod door;
mod endings;
mod failures;
mod halts;
mod handshake;
mod mutate;
mod mutations;
mod secrets;
mod sessions;
mod support;
mod turns;
