//! The runtime and the built-in tools as a loop uses them, on real files and processes.

#![expect(
    clippy::expect_used,
    reason = "what a test needs and does not get fails it"
)]

#[cfg(feature = "edit")]
mod edit;
#[cfg(feature = "files")]
mod files;
mod paths;
mod registry;
#[cfg(feature = "search")]
mod search;
#[cfg(feature = "shell")]
mod shell;
#[cfg(any(feature = "files", feature = "shell"))]
mod support;
