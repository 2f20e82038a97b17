use bytes::{Bytes, BytesMut};

use crate::{Decoder, Error, FrameCodec};

/// Runs every way of reading frames over the same hostile bytes and panics where they disagree.
///
/// This is the entry of the fuzz target `framing`, and of the test that replays its corpus. Byte 0
/// of `input` is the limit of the codec, byte 1 the size of the pieces the decoder is fed, and the
/// rest is the stream. Input shorter than two bytes is a stream of nothing.
///
/// # Panics
///
/// When two readers see different frames or a different end, when a body is over the limit, when
/// the decoder holds more than it may, or when encoding the frames again gives other bytes. Each
/// of these is a fault of this crate.
pub fn fuzz_framing(input: &[u8]) {
    let (max, piece, stream) = match input {
        [max, piece, stream @ ..] => (usize::from(*max), usize::from(*piece).max(1), stream),
        _ => (0, 1, &[][..]),
    };
    let codec = FrameCodec::default().with_max_body_bytes(max);

    let whole = read_in_pieces(codec, stream, stream.len().max(1));
    assert_eq!(whole, read_in_pieces(codec, stream, piece));
    assert_eq!(whole, read_blocking(codec, stream));

    let mut again = BytesMut::new();
    for body in &whole.frames {
        assert!(
            codec.encode(body, &mut again).is_ok(),
            "frame over the limit came out"
        );
    }
    assert!(
        stream.starts_with(&again),
        "encoding again gave other bytes"
    );
    if whole.end == End::Clean {
        assert_eq!(again.len(), stream.len());
    }
}

/// What a reader saw of a stream.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    frames: Vec<Bytes>,
    end: End,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Clean,
    TooLarge(u64),
    TornHeader(usize),
    TornBody(usize, usize),
    Io,
}

impl From<Result<(), Error>> for End {
    fn from(result: Result<(), Error>) -> Self {
        match result {
            Ok(()) => Self::Clean,
            Err(Error::TooLarge { length_bytes, .. }) => Self::TooLarge(length_bytes),
            Err(Error::TornHeader { got_bytes, .. }) => Self::TornHeader(got_bytes),
            Err(Error::TornBody {
                got_bytes,
                want_bytes,
            }) => Self::TornBody(got_bytes, want_bytes),
            Err(Error::Io(_)) => Self::Io,
        }
    }
}

fn read_in_pieces(codec: FrameCodec, stream: &[u8], piece: usize) -> Outcome {
    let most = codec.format().header_bytes() + codec.max_body_bytes() + piece;
    let mut decoder = Decoder::new(codec);
    let mut frames = Vec::new();
    for bytes in stream.chunks(piece) {
        decoder.push(bytes);
        assert!(decoder.buffered_bytes() <= most, "decoder holds too much");
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    let end = End::from(Err(error));
                    assert_eq!(end, decoder.finish().into(), "error was not kept");
                    return Outcome { frames, end };
                }
            }
        }
    }
    Outcome {
        frames,
        end: decoder.finish().into(),
    }
}

fn read_blocking(codec: FrameCodec, mut stream: &[u8]) -> Outcome {
    let mut frames = Vec::new();
    loop {
        match codec.read_frame(&mut stream) {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => {
                return Outcome {
                    frames,
                    end: End::Clean,
                };
            }
            Err(error) => {
                return Outcome {
                    frames,
                    end: End::from(Err(error)),
                };
            }
        }
    }
}
