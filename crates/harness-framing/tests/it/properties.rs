//! What holds for all bytes and all ways of cutting them.

use bytes::{Bytes, BytesMut};
use harness_framing::{Decoder, Error, FrameCodec, fuzz_framing};
use proptest::collection::vec;
use proptest::prelude::*;

/// Splits `bytes` at `cuts`, taken modulo what is left.
fn split<'a>(mut bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for cut in cuts {
        let (piece, rest) = bytes.split_at(cut % (bytes.len() + 1));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..300), 0..8)
}

fn encode(frames: &[Vec<u8>]) -> BytesMut {
    let mut wire = BytesMut::new();
    for body in frames {
        assert!(FrameCodec::default().encode(body, &mut wire).is_ok());
    }
    wire
}

proptest! {
    #[test]
    fn round_trip_under_any_cutting(frames in frames(), cuts in vec(any::<usize>(), 0..40)) {
        let wire = encode(&frames);
        let mut decoder = Decoder::default();
        let mut seen = Vec::new();
        for piece in split(&wire, &cuts) {
            decoder.push(piece);
            while let Some(body) = decoder.next_frame().unwrap() {
                seen.push(body.to_vec());
            }
        }
        prop_assert_eq!(seen, frames);
        prop_assert_eq!(decoder.buffered_bytes(), 0);
        prop_assert!(decoder.finish().is_ok());
    }

    /// Cutting a stream anywhere is clean exactly at the borders of frames, and otherwise the
    /// error counts what was there.
    #[test]
    fn every_cut_is_told(frames in frames(), at in any::<prop::sample::Index>()) {
        let wire = encode(&frames);
        let at = at.index(wire.len() + 1);
        let mut start = 0;
        let mut whole = 0;
        for body in &frames {
            if start + 4 + body.len() > at {
                break;
            }
            start += 4 + body.len();
            whole += 1;
        }

        let mut decoder = Decoder::default();
        decoder.push(&wire[..at]);
        for body in &frames[..whole] {
            let seen = decoder.next_frame().unwrap();
            prop_assert_eq!(seen.as_deref(), Some(&body[..]));
        }
        prop_assert_eq!(decoder.next_frame().unwrap(), None);
        match (at - start, decoder.finish()) {
            (0, Ok(())) => {}
            (left @ 1..4, Err(Error::TornHeader { got_bytes, want_bytes: 4 })) => {
                prop_assert_eq!(got_bytes, left);
            }
            (left, Err(Error::TornBody { got_bytes, want_bytes })) => {
                prop_assert_eq!((got_bytes, want_bytes), (left - 4, frames[whole].len()));
            }
            (left, end) => prop_assert!(false, "{left} bytes left over, but the end is {end:?}"),
        }
    }

    /// An announced length costs no memory, whether it is refused or still to come.
    #[test]
    fn memory_follows_bytes_not_lengths(length in any::<u32>(), body in vec(any::<u8>(), 0..64)) {
        let mut src = BytesMut::new();
        src.extend_from_slice(&length.to_le_bytes());
        src.extend_from_slice(&body);
        let before = (src.capacity(), src.clone());
        let codec = FrameCodec::default();
        let refused = length as usize > codec.max_body_bytes();
        match codec.decode(&mut src) {
            Err(error) => {
                prop_assert!(refused && error.is_too_large());
                prop_assert_eq!((src.capacity(), src), before);
            }
            Ok(None) => {
                prop_assert!(!refused && body.len() < length as usize);
                prop_assert_eq!((src.capacity(), src), before);
            }
            Ok(Some(seen)) => prop_assert_eq!(&seen[..], &body[..length as usize]),
        }
    }

    #[test]
    fn readers_agree_on_any_bytes(input in vec(any::<u8>(), 0..400)) {
        fuzz_framing(&input);
    }

    /// Random bytes hardly ever announce short lengths; these do.
    #[test]
    fn readers_agree_on_nearly_valid_streams(
        frames in vec(vec(any::<u8>(), 0..40), 0..8),
        max in 0..50_u8,
        piece in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let wire = encode(&frames);
        let mut input = vec![max, piece];
        input.extend_from_slice(&wire[..cut.index(wire.len() + 1)]);
        fuzz_framing(&input);
    }
}

#[test]
fn taken_frames_are_independent_of_the_decoder() {
    let mut decoder = Decoder::default();
    decoder.push(&[1, 0, 0, 0, b'x', 1, 0, 0, 0]);
    let first = decoder.next_frame().unwrap();
    decoder.push(b"y");
    let second = decoder.next_frame().unwrap();
    drop(decoder);
    assert_eq!(
        (first, second),
        (
            Some(Bytes::from_static(b"x")),
            Some(Bytes::from_static(b"y"))
        )
    );
}
