//! Text in the encodings that occur.

use std::borrow::Cow;
use std::io::{self, Read};

/// What some programs put in front of UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// The byte order of UTF-16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

/// The byte order when a file begins with the mark of UTF-16.
pub(crate) fn utf16(start: &[u8]) -> Option<Order> {
    match start {
        // UTF-32 begins alike and is not text to anything here.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(Order::Little),
        [0xfe, 0xff, ..] => Some(Order::Big),
        _ => None,
    }
}

/// Whether the start of a file is that of data rather than text: it holds a NUL.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    start.contains(&0)
}

/// Decodes what should be UTF-8. Bytes that are not are taken as Latin-1 one by one, so that old
/// text stays readable; their number is returned.
pub(super) fn decode(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return (Cow::Borrowed(text), 0);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut foreign = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().copied().map(char::from));
        foreign += chunk.invalid().len();
    }
    (Cow::Owned(text), foreign)
}

/// The last place at or before `at` where no UTF-8 character is cut.
pub(super) fn floor_border(bytes: &[u8], at: usize) -> usize {
    let at = at.min(bytes.len());
    let is_inner = |index: usize| bytes.get(index).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&index| !is_inner(index))
        .unwrap_or(at)
}

/// Turns UTF-16 into UTF-8 while it is read. The mark must have been read before.
pub(super) struct Utf16Reader<R> {
    inner: R,
    order: Order,
    /// A byte without its other half.
    odd: Option<u8>,
    /// The first half of a surrogate pair.
    high: Option<u16>,
    ready: Vec<u8>,
    given: usize,
    ended: bool,
}

impl<R: Read> Utf16Reader<R> {
    pub(super) fn new(inner: R, order: Order) -> Self {
        Self {
            inner,
            order,
            odd: None,
            high: None,
            ready: Vec::new(),
            given: 0,
            ended: false,
        }
    }

    fn refill(&mut self) -> io::Result<()> {
        let mut raw = [0; 16 * 1024];
        let read = self.inner.read(&mut raw)?;
        self.ready.clear();
        self.given = 0;
        let mut text = String::with_capacity(read);
        let mut units = Vec::with_capacity(read / 2 + 2);
        units.extend(self.high.take());
        for &byte in &raw[..read] {
            let Some(first) = self.odd.take() else {
                self.odd = Some(byte);
                continue;
            };
            units.push(match self.order {
                Order::Little => u16::from_le_bytes([first, byte]),
                Order::Big => u16::from_be_bytes([first, byte]),
            });
        }
        if read == 0 {
            self.ended = true;
            // Half a unit at the end is not text.
            if self.odd.take().is_some() {
                units.push(0xfffd);
            }
        } else if let Some(0xd800..=0xdbff) = units.last() {
            self.high = units.pop();
        }
        text.extend(char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER)));
        self.ready = text.into_bytes();
        Ok(())
    }
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() && !self.ended {
            self.refill()?;
        }
        let len = buffer.len().min(self.ready.len() - self.given);
        buffer[..len].copy_from_slice(&self.ready[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn latin_1_stays_readable() {
        assert_eq!(
            decode(b"caf\xe9 \xc3\xa9"),
            (Cow::Owned("café é".to_owned()), 1)
        );
        assert_eq!(decode("é".as_bytes()), (Cow::Borrowed("é"), 0));
    }

    /// Gives a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(buffer.len()).min(self.0.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    proptest! {
        #[test]
        fn utf_16_reads_as_the_standard_library_decodes_it(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            step in 1usize..5,
            big in any::<bool>(),
        ) {
            let order = if big { Order::Big } else { Order::Little };
            let units: Vec<u16> = bytes
                .chunks(2)
                .map(|pair| match (pair, order) {
                    ([a, b], Order::Little) => u16::from_le_bytes([*a, *b]),
                    ([a, b], Order::Big) => u16::from_be_bytes([*a, *b]),
                    _ => 0xfffd,
                })
                .collect();
            let mut text = String::new();
            Utf16Reader::new(Trickle(&bytes, step), order)
                .read_to_string(&mut text)
                .expect("UTF-8");
            prop_assert_eq!(text, String::from_utf16_lossy(&units));
        }

        #[test]
        fn borders_are_those_of_the_text(text in "\\PC{0,12}", at in 0usize..60) {
            prop_assert_eq!(floor_border(text.as_bytes(), at), text.floor_char_boundary(at));
        }
    }
}
