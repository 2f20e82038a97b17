//! The framing of the handshake, alone: no runtime, no sockets, no process.
//!
//! A message is written, arrives in two halves, and is read. Then one that announces more than it
//! may have is refused before anybody sets memory aside for it.
//!
//! ```sh
//! cargo run -p harness-examples --bin framing
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use bytes::BytesMut;
use harness_framing::{Decoder, FrameCodec};

fn main() -> Result<(), harness_framing::Error> {
    let codec = FrameCodec::default().with_max_body_bytes(1024);

    let mut wire = BytesMut::new();
    codec.encode(b"hello", &mut wire)?;
    codec.encode(b"world", &mut wire)?;
    println!("two messages take {} bytes: {wire:?}", wire.len());

    let mut decoder = Decoder::new(codec);
    let (first, second) = wire.split_at(11);
    for part in [first, second] {
        decoder.push(part);
        println!("{} bytes came", part.len());
        while let Some(body) = decoder.next_frame()? {
            println!("  a message: {}", String::from_utf8_lossy(&body));
        }
    }
    decoder.finish()?;

    let mut decoder = Decoder::new(codec);
    decoder.push(&5000u32.to_le_bytes());
    match decoder.next_frame() {
        Err(error) => println!("too long: {error}"),
        Ok(frame) => println!("unexpectedly accepted: {frame:?}"),
    }
    Ok(())
}
