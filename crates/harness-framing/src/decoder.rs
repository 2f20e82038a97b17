use bytes::{Bytes, BytesMut};

use crate::{Error, FrameCodec};

/// Turns a stream of bytes, cut anywhere, into frames.
///
/// [`push`] what arrives, then take frames with [`next_frame`] until it returns `None`; at the end
/// of the stream call [`finish`]. A caller that takes all frames after each push keeps at most one
/// incomplete frame plus the bytes of that push in memory.
///
/// A header over the limit ends the stream for good: every later call returns the same error, and
/// bytes pushed after the error was reported are dropped rather than stored.
///
/// [`push`]: Self::push
/// [`next_frame`]: Self::next_frame
/// [`finish`]: Self::finish
#[derive(Debug, Default)]
pub struct Decoder {
    codec: FrameCodec,
    /// Starts at a frame border. While `failed`, starts with the header that was refused.
    buffer: BytesMut,
    failed: bool,
}

impl Decoder {
    /// Returns a decoder with an empty buffer.
    pub fn new(codec: FrameCodec) -> Self {
        Self {
            codec,
            buffer: BytesMut::new(),
            failed: false,
        }
    }

    /// Appends bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.failed {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Returns the next complete body, `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] when the next header breaks the limit.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, Error> {
        let frame = self.codec.decode(&mut self.buffer);
        if frame.is_err() {
            self.failed = true;
            // The header alone is enough to report the same error again.
            self.buffer.truncate(self.codec.format.header_bytes());
        }
        frame
    }

    /// Returns how many bytes wait for the rest of their frame (or to be taken out).
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Says whether the stream, now at its end, ended between two frames.
    ///
    /// Frames that are complete but were not taken out are not an error and are kept.
    ///
    /// # Errors
    ///
    /// [`Error::TornHeader`] or [`Error::TornBody`] when the last frame is incomplete,
    /// [`Error::TooLarge`] when its header breaks the limit.
    pub fn finish(&self) -> Result<(), Error> {
        let mut rest = &self.buffer[..];
        loop {
            self.codec.check_end(rest)?;
            let Some(length) = self.codec.checked_length(rest)? else {
                return Ok(());
            };
            rest = &rest[self.codec.format.header_bytes() + length..];
        }
    }
}
