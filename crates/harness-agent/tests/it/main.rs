//! Tests of the public interface: the machine by itself, then with its driver.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod fold_law;
mod support;
