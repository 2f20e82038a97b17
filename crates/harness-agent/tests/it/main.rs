//! Tests of the public interface: the machine by itself, then with its driver.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod cut_answers;
mod early_start;
mod fold_law;
mod inputs;
mod retries;
mod scheduling;
mod streaming;
mod support;
mod unusable;
