//! Tests of the public interface.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod compile;
mod evaluate;
mod properties;
mod rules;
