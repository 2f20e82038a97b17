use bytes::{Bytes, BytesMut};
use tokio_util::codec;

use crate::{Error, FrameCodec};

impl codec::Decoder for FrameCodec {
    type Item = Bytes;
    type Error = Error;

    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        Self::decode(self, src)
    }

    /// Ends cleanly between two frames; inside one, with [`Error::TornHeader`] or
    /// [`Error::TornBody`].
    fn decode_eof(&mut self, src: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        match Self::decode(self, src)? {
            Some(body) => Ok(Some(body)),
            None => self.check_end(src).map(|()| None),
        }
    }
}

impl<T: AsRef<[u8]>> codec::Encoder<T> for FrameCodec {
    type Error = Error;

    fn encode(&mut self, body: T, dst: &mut BytesMut) -> Result<(), Error> {
        Self::encode(self, body.as_ref(), dst)
    }
}
