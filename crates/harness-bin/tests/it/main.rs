//! The programs as their users see them. Each runs with an empty home and nobody at a terminal.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod chat;
mod demo;
mod doctor;
mod localharness;
mod program;
mod run;
#[cfg(target_os = "linux")]
mod terminal;
