//! Reading and writing over `std::io`.

use std::io::{self, Read, Write};

use bytes::Bytes;
use harness_framing::{Error, FrameCodec};

/// Gives one byte a read, and an interruption before each.
struct Dribble<'a> {
    bytes: &'a [u8],
    interrupt: bool,
}

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupt = !self.interrupt;
        if self.interrupt {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let want = buffer.len().min(1);
        self.bytes.read(&mut buffer[..want])
    }
}

/// Takes one byte a write.
#[derive(Default)]
struct Narrow {
    bytes: Vec<u8>,
    flushes: usize,
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let take = bytes.len().min(1);
        self.bytes.extend_from_slice(&bytes[..take]);
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes += 1;
        Ok(())
    }
}

#[test]
fn partial_reads_and_writes_make_whole_frames() {
    let codec = FrameCodec::default();
    let mut writer = Narrow::default();
    codec.write_frame(&mut writer, b"hello").unwrap();
    codec.write_frame(&mut writer, b"").unwrap();
    assert_eq!(writer.bytes, b"\x05\0\0\0hello\0\0\0\0");
    assert_eq!(writer.flushes, 2);

    let mut reader = Dribble {
        bytes: &writer.bytes,
        interrupt: false,
    };
    let mut next = || codec.read_frame(&mut reader).unwrap();
    assert_eq!(next(), Some(Bytes::from_static(b"hello")));
    assert_eq!(next(), Some(Bytes::new()));
    assert_eq!(next(), None);
}

#[test]
fn large_bodies_arrive_whole() {
    let body: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut wire = Vec::new();
    FrameCodec::default().write_frame(&mut wire, &body).unwrap();
    let read = FrameCodec::default().read_frame(&wire[..]).unwrap();
    assert_eq!(read, Some(Bytes::from(body)));
}

#[test]
fn nothing_is_written_for_a_body_over_the_limit() {
    let mut writer = Narrow::default();
    let codec = FrameCodec::default().with_max_body_bytes(1);
    assert!(
        codec
            .write_frame(&mut writer, b"ab")
            .unwrap_err()
            .is_too_large()
    );
    assert!(writer.bytes.is_empty());
}

/// A reader that would block for ever after the header shows that the error needs nothing more.
#[test]
fn a_length_over_the_limit_is_refused_without_reading_on() {
    struct ThenPanic(&'static [u8]);
    impl Read for ThenPanic {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "read past the header");
            self.0.read(buffer)
        }
    }
    let error = FrameCodec::default()
        .read_frame(ThenPanic(&[0xFF; 4]))
        .unwrap_err();
    assert!(matches!(
        error,
        Error::TooLarge {
            length_bytes: 0xFFFF_FFFF,
            max_bytes: 16_777_216
        }
    ));
}

#[test]
fn a_cut_stream_says_where() {
    let read = |bytes: &'static [u8]| FrameCodec::default().read_frame(bytes);
    assert_eq!(read(b"").unwrap(), None);
    assert!(matches!(
        read(b"\x05\0\0").unwrap_err(),
        Error::TornHeader {
            got_bytes: 3,
            want_bytes: 4
        }
    ));
    assert!(matches!(
        read(b"\x05\0\0\0abc").unwrap_err(),
        Error::TornBody {
            got_bytes: 3,
            want_bytes: 5
        }
    ));
}

#[test]
fn failures_of_the_stream_keep_their_source() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("wire cut"))
        }
    }
    let error = FrameCodec::default().read_frame(Broken).unwrap_err();
    assert_eq!(error.to_string(), "reading or writing a frame failed");
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("wire cut"));
}
