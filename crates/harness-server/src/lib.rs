//! The wire front end: stdio handshake, WebSocket, SDK dialects.
//!
//! # Where this sits
//!
//! Above `harness-host`; it translates the wire of the `google-antigravity` SDKs into the loop's
//! commands and the loop's updates into the wire, and knows nothing of models or tools. The program
//! around it decides what a conversation is made of (see [`harness_host::Assemble`]).
//!
//! # The life of a process
//!
//! 1. [`handshake`] reads an `InputConfig` from stdin, listens, and writes an `OutputConfig` with
//!    the port and a fresh key to stdout. Nothing else is ever written there.
//! 2. [`Server::run`] accepts WebSockets that bring the key. Each connection is one conversation.
//! 3. When stdin ends, or the program is told to stop, every connection gets a close frame, every
//!    conversation is closed, and [`Server::run`] returns.
//!
//! # Example
//!
//! The handshake against a client's bytes:
//!
//! ```
//! use harness_framing::FrameCodec;
//! use harness_proto::localharness::{InputConfig, OutputConfig};
//! use prost::Message as _;
//!
//! let mut stdin = Vec::new();
//! FrameCodec::default().write_frame(&mut stdin, &InputConfig::default().encode_to_vec())?;
//! let mut stdout = Vec::new();
//! let bound = harness_server::handshake(stdin.as_slice(), &mut stdout)?;
//!
//! let frame = FrameCodec::default().read_frame(stdout.as_slice())?.expect("one frame");
//! let answer = OutputConfig::decode(frame)?;
//! assert_eq!(answer.port(), i32::from(bound.port()));
//! assert_eq!(answer.api_key().len(), 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! Every bound is a constant of [`limits`].

mod commands;
mod connection;
mod dialect;
mod error;
mod events;
mod handshake;
mod initialise;
pub mod limits;
mod pump;
mod server;
mod settled;
mod upgrade;

pub use error::Error;
pub use handshake::{Bound, handshake};
pub use server::{Ending, Server};
