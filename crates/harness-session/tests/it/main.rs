//! The store on a real file system: its promises, its format, and what it does when things break.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy sees no test in the functions that tests share"
)]

mod conformance;
mod damage;
mod flush;
mod folder;
mod format;
mod kill;
mod processes;
mod properties;
mod support;
