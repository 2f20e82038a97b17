//! Tests of the public interface, against a peer that the tests play themselves.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[cfg(unix)]
mod discovery;
mod handlers;
mod opening;
mod peer;
#[cfg(unix)]
mod process;
mod turns;
