use std::io;

/// What can go wrong with a stream of frames.
///
/// Except for [`Error::Io`], every variant says that the peer (or, while encoding, the caller)
/// broke the framing. The stream has no way to get back in step after that.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A header announced, or a caller handed over, a body above the limit.
    #[error("frame body of {length_bytes} bytes is over the limit of {max_bytes}")]
    TooLarge {
        /// The body's length, as announced or as handed over.
        length_bytes: u64,
        /// The limit of the codec that refused it.
        max_bytes: u64,
    },

    /// The stream ended inside a length prefix.
    #[error("stream ended inside a frame header, after {got_bytes} of {want_bytes} bytes")]
    TornHeader {
        /// How much of the header had arrived; at least 1.
        got_bytes: usize,
        /// How long a header is.
        want_bytes: usize,
    },

    /// The stream ended between a complete length prefix and the end of its body.
    #[error("stream ended inside a frame body, after {got_bytes} of {want_bytes} bytes")]
    TornBody {
        /// How much of the body had arrived; may be 0.
        got_bytes: usize,
        /// How much the header announced.
        want_bytes: usize,
    },

    /// The stream below failed.
    #[error("reading or writing a frame failed")]
    Io(#[from] io::Error),
}

impl Error {
    /// Returns whether the stream ended in the middle of a frame.
    ///
    /// A stream that ends between two frames is not an error at all.
    pub fn is_torn(&self) -> bool {
        matches!(self, Self::TornHeader { .. } | Self::TornBody { .. })
    }

    /// Returns whether a body was over the limit.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }
}
