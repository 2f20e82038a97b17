//! Agents through the facade.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod approvals;
mod making;
mod turns;
