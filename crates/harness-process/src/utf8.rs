use std::str;

/// Decodes UTF-8 that arrives in pieces.
///
/// A character cut by the border of a piece is held back until its rest arrives. Bytes that can
/// never become valid turn into U+FFFD, one for each longest invalid piece. However the input was
/// cut, the texts put together equal [`String::from_utf8_lossy`] of all the bytes.
///
/// Holds at most three bytes.
///
/// ```
/// # use harness_process::Utf8Stream;
/// let mut text = String::new();
/// let mut decoder = Utf8Stream::new();
/// decoder.decode(b"\xe2", &mut text);
/// assert_eq!(text, "");
/// decoder.decode(b"\x89\xa4\xff\xe2", &mut text);
/// assert_eq!(text, "≤\u{fffd}");
/// decoder.finish(&mut text);
/// assert_eq!(text, "≤\u{fffd}\u{fffd}");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The first `held_len` bytes are a proper start of a character that is not complete.
    held: [u8; 3],
    held_len: usize,
}

impl Utf8Stream {
    /// Returns a decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the next bytes of the stream and appends the text to `out`.
    pub fn decode(&mut self, bytes: &[u8], out: &mut String) {
        let rest = self.complete_held(bytes, out);
        if self.held_len == 0 {
            self.decode_from_border(rest, out);
        }
    }

    /// Ends the stream: a character that is still incomplete is appended as U+FFFD.
    ///
    /// The decoder is at the start of a new stream afterwards.
    pub fn finish(&mut self, out: &mut String) {
        if self.held_len > 0 {
            self.held_len = 0;
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    /// Feeds bytes to the character that is held until it is complete or broken; returns the bytes
    /// that were not used.
    fn complete_held<'a>(&mut self, mut bytes: &'a [u8], out: &mut String) -> &'a [u8] {
        while self.held_len > 0 {
            let Some((&next, rest)) = bytes.split_first() else {
                break;
            };
            let mut character = [0; 4];
            character[..self.held_len].copy_from_slice(&self.held[..self.held_len]);
            character[self.held_len] = next;
            let character = &character[..=self.held_len];
            match str::from_utf8(character) {
                Ok(text) => {
                    out.push_str(text);
                    self.held_len = 0;
                    bytes = rest;
                }
                // Still a proper start, which is three bytes at the most.
                Err(error) if error.error_len().is_none() => {
                    self.held[..character.len()].copy_from_slice(character);
                    self.held_len = character.len();
                    bytes = rest;
                }
                // The held bytes were the invalid piece; `next` starts anew.
                Err(_) => {
                    out.push(char::REPLACEMENT_CHARACTER);
                    self.held_len = 0;
                }
            }
        }
        bytes
    }

    fn decode_from_border(&mut self, bytes: &[u8], out: &mut String) {
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            out.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            let cut_off = chunks.peek().is_none()
                && str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if cut_off {
                self.held[..invalid.len()].copy_from_slice(invalid);
                self.held_len = invalid.len();
            } else {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }
}
