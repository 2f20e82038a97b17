//! Tests of the framing codec through its public face.

mod blocking;
mod corpus;
mod decode;
mod properties;
#[cfg(feature = "tokio-util")]
mod tokio_codec;
