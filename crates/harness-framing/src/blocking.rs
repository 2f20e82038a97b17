use std::io::{ErrorKind, Read, Write};

use bytes::{Bytes, BytesMut};

use crate::{Error, FrameCodec};

/// The first allocation for a body of unknown honesty; later ones double what has arrived.
const FIRST_READ_BYTES: usize = 8 * 1024;

impl FrameCodec {
    /// Reads one frame from a blocking reader and returns its body; `None` when the stream ends
    /// before a frame begins.
    ///
    /// Reads not one byte past the frame, so the reader can be handed on afterwards. Memory grows
    /// as the body arrives. Interrupted reads are repeated. The reader must block: on
    /// [`ErrorKind::WouldBlock`] what was read so far is lost.
    ///
    /// ```
    /// # use harness_framing::FrameCodec;
    /// let mut stdin = &b"\x02\0\0\0hi..."[..];
    /// let body = FrameCodec::default().read_frame(&mut stdin)?;
    /// assert_eq!(body.as_deref(), Some(&b"hi"[..]));
    /// assert_eq!(stdin, b"...");
    /// # Ok::<(), harness_framing::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] on a header over the limit, [`Error::TornHeader`] or
    /// [`Error::TornBody`] when the stream ends inside the frame, [`Error::Io`] when the reader
    /// fails.
    pub fn read_frame(&self, mut reader: impl Read) -> Result<Option<Bytes>, Error> {
        let header_bytes = self.format.header_bytes();
        let mut frame = BytesMut::zeroed(header_bytes);
        let got = fill(&mut reader, &mut frame)?;
        if got < header_bytes {
            frame.truncate(got);
            return self.check_end(&frame).map(|()| None);
        }
        // A full header always gives a length.
        let length = self.checked_length(&frame)?.unwrap_or_default();

        let mut body = BytesMut::new();
        while body.len() < length {
            let start = body.len();
            let step = start.max(FIRST_READ_BYTES).min(length - start);
            body.resize(start + step, 0);
            let got = fill(&mut reader, &mut body[start..])?;
            if got < step {
                return Err(Error::TornBody {
                    got_bytes: start + got,
                    want_bytes: length,
                });
            }
        }
        Ok(Some(body.freeze()))
    }

    /// Writes one frame to a blocking writer and flushes it.
    ///
    /// Header and body are handed over in one piece, so that a frame which fits the pipe is
    /// written whole or not at all.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] when `body` is over the limit (nothing is written then), [`Error::Io`]
    /// when the writer fails.
    pub fn write_frame(&self, mut writer: impl Write, body: &[u8]) -> Result<(), Error> {
        let mut frame = BytesMut::new();
        self.encode(body, &mut frame)?;
        writer.write_all(&frame)?;
        writer.flush()?;
        Ok(())
    }
}

/// Reads until `buffer` is full or the stream ends; returns how much was read.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}
