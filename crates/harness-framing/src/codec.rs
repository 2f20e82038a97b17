use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::Error;

/// The limit of a codec that was not told another one: 16 MiB.
///
/// A handshake message is a few hundred bytes; the limit is there to turn a stream that is not
/// framed at all (its first four bytes read as a length) into an error.
pub const DEFAULT_MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// How a frame says the length of its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LengthFormat {
    /// Four bytes, little-endian, counting the body alone.
    #[default]
    U32Le,
}

impl LengthFormat {
    /// Returns the number of bytes before the body.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::U32Le => 4,
        }
    }

    /// Returns the longest body the prefix can express.
    const fn max_body_bytes(self) -> usize {
        match self {
            // On a target whose usize is 32 bits wide this is the identity.
            Self::U32Le => u32::MAX as usize,
        }
    }

    /// Returns the body length a header announces, `None` while the header is incomplete.
    pub(crate) fn body_bytes(self, header: &[u8]) -> Option<u32> {
        match self {
            Self::U32Le => header.first_chunk().copied().map(u32::from_le_bytes),
        }
    }

    fn put_header(self, length: u32, dst: &mut BytesMut) {
        match self {
            Self::U32Le => dst.put_u32_le(length),
        }
    }
}

/// The layout of frames and the longest body allowed, for both directions.
///
/// The codec holds no bytes: it works on buffers, readers and writers of the caller. [`Decoder`]
/// is the variant that owns its buffer.
///
/// [`Decoder`]: crate::Decoder
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameCodec {
    pub(crate) format: LengthFormat,
    pub(crate) max_body_bytes: usize,
}

impl FrameCodec {
    /// Returns a codec for `format` with a limit of [`DEFAULT_MAX_BODY_BYTES`].
    pub const fn new(format: LengthFormat) -> Self {
        Self {
            format,
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
        }
    }

    /// Sets the longest body to accept and to produce, in bytes.
    ///
    /// A value beyond what the length prefix can express is lowered to that.
    #[must_use]
    pub const fn with_max_body_bytes(mut self, max: usize) -> Self {
        let expressible = self.format.max_body_bytes();
        self.max_body_bytes = if max < expressible { max } else { expressible };
        self
    }

    /// Returns the longest body this codec accepts and produces, in bytes.
    pub const fn max_body_bytes(&self) -> usize {
        self.max_body_bytes
    }

    /// Returns the layout of the length prefix.
    pub const fn format(&self) -> LengthFormat {
        self.format
    }

    /// Appends one frame to `dst`.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] when `body` is over the limit; `dst` is unchanged then.
    pub fn encode(&self, body: &[u8], dst: &mut BytesMut) -> Result<(), Error> {
        let length = u32::try_from(body.len())
            .ok()
            .filter(|_| body.len() <= self.max_body_bytes)
            .ok_or_else(|| self.too_large(body.len() as u64))?;
        dst.reserve(self.format.header_bytes() + body.len());
        self.format.put_header(length, dst);
        dst.put_slice(body);
        Ok(())
    }

    /// Takes the first complete frame off the front of `src` and returns its body.
    ///
    /// `None` means that more bytes are needed; `src` is unchanged then. The body shares memory
    /// with `src`, nothing is copied.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] as soon as a header that breaks the limit is complete. `src` is
    /// unchanged, so that asking again gives the same error.
    pub fn decode(&self, src: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        let Some(length) = self.checked_length(src)? else {
            return Ok(None);
        };
        let header = self.format.header_bytes();
        if src.len() - header < length {
            return Ok(None);
        }
        src.advance(header);
        Ok(Some(src.split_to(length).freeze()))
    }

    /// Checks what is left in `src` once the stream has ended and [`decode`] has returned `None`.
    ///
    /// [`decode`]: Self::decode
    ///
    /// # Errors
    ///
    /// [`Error::TornHeader`] or [`Error::TornBody`] when the stream ended inside a frame,
    /// [`Error::TooLarge`] when what is left is a header that breaks the limit.
    pub fn check_end(&self, src: &[u8]) -> Result<(), Error> {
        let header = self.format.header_bytes();
        match self.checked_length(src)? {
            None if src.is_empty() => Ok(()),
            None => Err(Error::TornHeader {
                got_bytes: src.len(),
                want_bytes: header,
            }),
            // A whole frame is not torn; whoever asks has not taken it out yet.
            Some(length) if src.len() - header >= length => Ok(()),
            Some(length) => Err(Error::TornBody {
                got_bytes: src.len() - header,
                want_bytes: length,
            }),
        }
    }

    /// Returns the body length announced at the front of `src`, `None` while unknown.
    pub(crate) fn checked_length(&self, src: &[u8]) -> Result<Option<usize>, Error> {
        let Some(length) = self.format.body_bytes(src) else {
            return Ok(None);
        };
        match usize::try_from(length) {
            Ok(length) if length <= self.max_body_bytes => Ok(Some(length)),
            _ => Err(self.too_large(u64::from(length))),
        }
    }

    fn too_large(&self, length_bytes: u64) -> Error {
        Error::TooLarge {
            length_bytes,
            max_bytes: self.max_body_bytes as u64,
        }
    }
}

impl Default for FrameCodec {
    /// Returns a codec for [`LengthFormat::U32Le`] with a limit of [`DEFAULT_MAX_BODY_BYTES`].
    fn default() -> Self {
        Self::new(LengthFormat::default())
    }
}
