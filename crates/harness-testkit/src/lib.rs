//! Fixtures for the tests of this workspace: a model behind HTTP, a client on the wire, and
//! witnesses of what a process does to the machine.
//!
//! | to … | use |
//! |---|---|
//! | answer model requests over HTTP, in Gemini form | [`FakeModelServer`] |
//! | start a harness and speak its wire by hand | [`WireProcess`], [`WireClient`] |
//! | see whether a process lives, and what it costs | [`process`] |
//! | see what was changed on disk | [`TreeSnapshot`] |
//! | keep a child away from the real home | [`EmptyHome`] |
//! | find a program of the workspace | [`binary_path`] |
//! | hold a session store to its promises | [`session_store`] |
//!
//! The model of in-process tests, `ScriptedModel`, is in `harness-types`, where programs can use
//! it too; [`FakeModelServer`] plays the same scripts.
//!
//! # The program `fake-harness`
//!
//! This crate also builds `fake-harness`, a harness of a few lines that answers every input with
//! its text. Tests of clients can start it when the real one would only be in the way.
//!
//! # Limits
//!
//! For development only, and never published. Witnesses read `/proc`, so they are for Linux.
//! Waiting methods give up after [`DEADLINE`]; under a paused clock that may be at once.

mod binary;
mod error;
mod home;
pub mod process;
mod server;
pub mod session_store;
mod snapshot;
mod wire;

pub use binary::binary_path;
pub use error::{DEADLINE, Error};
pub use home::EmptyHome;
pub use server::{FakeModelServer, Outcome, RecordedRequest, ServerTurn, check_gemini_request};
pub use snapshot::{Entry, TreeSnapshot};
pub use wire::{Spawn, WireClient, WireProcess, is_idle};
