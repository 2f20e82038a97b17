//! The fixtures, tried on each other.

#![expect(
    clippy::unwrap_used,
    reason = "clippy sees no test in the functions that tests share"
)]

mod http;
mod server;
mod wire;
