//! Tests of the public interface.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod conversations;
mod faults;
mod reading;
mod support;
