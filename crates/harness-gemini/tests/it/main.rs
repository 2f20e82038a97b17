//! The crate over real sockets.

#![expect(
    clippy::unwrap_used,
    reason = "clippy sees no test in the functions that tests share"
)]

mod answers;
mod errors;
mod requests;
mod server;
