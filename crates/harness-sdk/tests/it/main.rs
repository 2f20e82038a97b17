//! Agents through the facade.

mod approvals;
mod making;
mod turns;
