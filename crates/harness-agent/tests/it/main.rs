//! Tests of the public interface: the machine by itself, then with its driver.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod budgets;
mod cut_answers;
mod driving;
mod early_start;
mod finishing;
mod fold_law;
mod halting;
mod hooks;
mod inputs;
mod policies;
mod questions;
mod repetition;
mod retries;
mod scheduling;
mod sessions;
mod streaming;
mod support;
mod unusable;
