//! The codec as seen by `tokio_util`.

use bytes::{Bytes, BytesMut};
use harness_framing::{Error, FrameCodec};
use tokio_util::codec::{Decoder, Encoder};

#[test]
fn encoder_and_decoder_are_the_same_codec() {
    let mut codec = FrameCodec::default();
    let mut wire = BytesMut::new();
    Encoder::encode(&mut codec, Bytes::from_static(b"one"), &mut wire).unwrap();
    Encoder::encode(&mut codec, b"two".as_slice(), &mut wire).unwrap();
    let mut next = || Decoder::decode(&mut codec, &mut wire).unwrap();
    assert_eq!(next(), Some(Bytes::from_static(b"one")));
    assert_eq!(next(), Some(Bytes::from_static(b"two")));
    assert_eq!(next(), None);
}

#[test]
fn the_end_of_the_stream_is_clean_only_between_frames() {
    let end = |bytes: &[u8]| FrameCodec::default().decode_eof(&mut BytesMut::from(bytes));
    assert_eq!(end(b"").unwrap(), None);
    assert_eq!(end(b"\x01\0\0\0a").unwrap(), Some(Bytes::from_static(b"a")));
    assert!(matches!(
        end(b"\x01\0\0").unwrap_err(),
        Error::TornHeader {
            got_bytes: 3,
            want_bytes: 4
        }
    ));
    assert!(matches!(
        end(b"\x02\0\0\0a").unwrap_err(),
        Error::TornBody {
            got_bytes: 1,
            want_bytes: 2
        }
    ));
    assert!(end(&[0xFF; 4]).unwrap_err().is_too_large());
}
