//! Single cases of the sans-IO part, whole values.

use bytes::{Bytes, BytesMut};
use harness_framing::{DEFAULT_MAX_BODY_BYTES, Decoder, Error, FrameCodec, LengthFormat};

#[test]
fn defaults_are_those_of_the_handshake() {
    let codec = FrameCodec::default();
    assert_eq!(codec, FrameCodec::new(LengthFormat::U32Le));
    assert_eq!(codec.max_body_bytes(), 16_777_216);
    assert_eq!(DEFAULT_MAX_BODY_BYTES, 16_777_216);
    assert_eq!(codec.format().header_bytes(), 4);
}

#[test]
fn empty_body_is_a_frame() {
    let mut decoder = Decoder::default();
    decoder.push(&[0, 0, 0, 0]);
    assert_eq!(decoder.next_frame().unwrap(), Some(Bytes::new()));
    assert_eq!(decoder.next_frame().unwrap(), None);
    decoder.finish().unwrap();
}

#[test]
fn length_is_little_endian() {
    let mut wire = BytesMut::new();
    FrameCodec::default().encode(&[7; 258], &mut wire).unwrap();
    assert_eq!(wire[..4], [2, 1, 0, 0]);
    assert_eq!(wire.len(), 262);
}

/// F065: a length of 4 GB must not be waited for.
#[test]
fn huge_length_is_refused_on_the_fourth_byte() {
    let mut decoder = Decoder::default();
    decoder.push(&[0xFF; 3]);
    assert_eq!(decoder.next_frame().unwrap(), None);
    decoder.push(&[0xFF]);
    for _ in 0..2 {
        let error = decoder.next_frame().unwrap_err();
        assert!(error.is_too_large());
        assert_eq!(
            error.to_string(),
            "frame body of 4294967295 bytes is over the limit of 16777216"
        );
    }
}

#[test]
fn bytes_after_a_refused_header_are_dropped() {
    let mut decoder = Decoder::new(FrameCodec::default().with_max_body_bytes(3));
    decoder.push(&[4, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0]);
    assert!(decoder.next_frame().unwrap_err().is_too_large());
    decoder.push(&[9; 4096]);
    assert_eq!(decoder.buffered_bytes(), 4);
    assert!(decoder.next_frame().unwrap_err().is_too_large());
    assert!(decoder.finish().unwrap_err().is_too_large());
}

#[test]
fn a_body_at_the_limit_passes_and_one_more_byte_does_not() {
    let codec = FrameCodec::default().with_max_body_bytes(5);
    let mut wire = BytesMut::from(&b"before"[..]);
    assert!(
        codec
            .encode(b"123456", &mut wire)
            .unwrap_err()
            .is_too_large()
    );
    assert_eq!(&wire[..], b"before");
    codec.encode(b"12345", &mut wire).unwrap();
    let mut rest = wire.split_off(6);
    assert_eq!(
        codec.decode(&mut rest).unwrap(),
        Some(Bytes::from_static(b"12345"))
    );
}

#[test]
fn a_limit_beyond_the_prefix_is_lowered_to_it() {
    let codec = FrameCodec::default().with_max_body_bytes(usize::MAX);
    assert_eq!(codec.max_body_bytes(), u32::MAX as usize);
}

#[test]
fn the_end_says_where_the_stream_was_cut() {
    let cut = |bytes: &[u8]| {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        assert_eq!(decoder.next_frame().unwrap(), None);
        decoder.finish()
    };
    cut(&[]).unwrap();
    let header = cut(&[9, 0]).unwrap_err();
    assert!(
        matches!(
            header,
            Error::TornHeader {
                got_bytes: 2,
                want_bytes: 4
            }
        ),
        "{header:?}"
    );
    assert_eq!(
        header.to_string(),
        "stream ended inside a frame header, after 2 of 4 bytes"
    );
    let body = cut(&[9, 0, 0, 0]).unwrap_err();
    assert!(
        matches!(
            body,
            Error::TornBody {
                got_bytes: 0,
                want_bytes: 9
            }
        ),
        "{body:?}"
    );
    let body = cut(&[9, 0, 0, 0, 1, 2]).unwrap_err();
    assert!(
        matches!(
            body,
            Error::TornBody {
                got_bytes: 2,
                want_bytes: 9
            }
        ),
        "{body:?}"
    );
    assert!(body.is_torn());
}

#[test]
fn finish_looks_past_frames_not_taken_yet() {
    let mut decoder = Decoder::default();
    decoder.push(&[1, 0, 0, 0, b'a', 1, 0, 0, 0, b'b']);
    decoder.finish().unwrap();
    decoder.push(&[3, 0, 0, 0, b'c']);
    assert!(matches!(
        decoder.finish().unwrap_err(),
        Error::TornBody {
            got_bytes: 1,
            want_bytes: 3
        }
    ));
    assert_eq!(
        decoder.next_frame().unwrap(),
        Some(Bytes::from_static(b"a"))
    );
}
