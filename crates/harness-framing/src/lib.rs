//! Length-prefixed messages without I/O of its own.
//!
//! A message travels as a four-byte little-endian length followed by that many bytes of body. The
//! agent harness uses it for its start-up handshake: the client writes one message to the
//! harness's standard input, the harness answers with one on its standard output. A length of
//! zero is a message with an empty body, not an end mark. This layout was observed on the wire of
//! the published harness, release 0.1.22.
//!
//! This is the lowest crate of the workspace: it knows bytes, nothing of what they mean.
//!
//! | to … | use |
//! |---|---|
//! | feed bytes as they come, take messages out | [`Decoder`] |
//! | work on a buffer you own | [`FrameCodec::decode`], [`FrameCodec::encode`] |
//! | read or write one message, blocking | [`FrameCodec::read_frame`], [`FrameCodec::write_frame`] |
//! | frame an async stream | `tokio_util::codec::Framed` with a [`FrameCodec`] (feature `tokio-util`) |
//!
//! # Example
//!
//! ```
//! use harness_framing::{Decoder, FrameCodec};
//!
//! let codec = FrameCodec::default();
//! let mut wire = bytes::BytesMut::new();
//! codec.encode(b"ping", &mut wire)?;
//! assert_eq!(&wire[..], b"\x04\0\0\0ping");
//!
//! let mut decoder = Decoder::new(codec);
//! decoder.push(&wire[..6]);
//! assert_eq!(decoder.next_frame()?, None);
//! decoder.push(&wire[6..]);
//! assert_eq!(decoder.next_frame()?.as_deref(), Some(&b"ping"[..]));
//! decoder.finish()?; // nothing was left over
//! # Ok::<(), harness_framing::Error>(())
//! ```
//!
//! # Features
//!
//! * `tokio-util` (off by default): [`FrameCodec`] implements `tokio_util::codec::Decoder` and
//!   `tokio_util::codec::Encoder`.
//!
//! # Limits
//!
//! A body may have at most [`DEFAULT_MAX_BODY_BYTES`] (16 MiB) unless
//! [`FrameCodec::with_max_body_bytes`] says otherwise. A header that announces more is an error as
//! soon as its fourth byte is there, before memory is set aside for the body. Memory grows with
//! the bytes that arrive, never with the length that was announced. There are no time limits: they
//! belong to whoever owns the stream.

mod blocking;
mod codec;
mod decoder;
mod error;
mod fuzz;
#[cfg(feature = "tokio-util")]
mod tokio_codec;

pub use codec::{DEFAULT_MAX_BODY_BYTES, FrameCodec, LengthFormat};
pub use decoder::Decoder;
pub use error::Error;
pub use fuzz::fuzz_framing;
