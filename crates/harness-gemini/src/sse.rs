//! Server-sent events without I/O.

use std::collections::VecDeque;

use bytes::Bytes;

/// An event longer than its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {max_bytes} bytes")]
pub struct EventTooLong {
    /// The bound, in bytes.
    pub max_bytes: usize,
}

/// Takes the data of events out of a byte stream, however it is cut into chunks.
///
/// It follows the WHATWG specification: lines end in LF, CR or CRLF, `data` lines of one event are
/// joined by LF, one space after the colon is dropped, comments and all other fields are skipped,
/// a byte order mark at the start is ignored. Bytes are not checked to be UTF-8. It departs from
/// the specification in one point: an event that the end of the stream cuts short is handed out
/// by [`SseDecoder::finish`] instead of being dropped, because some servers omit the last empty
/// line. Whether such an event is whole is for the reader of its data to say.
///
/// # Example
///
/// ```
/// use harness_gemini::SseDecoder;
///
/// let mut decoder = SseDecoder::default();
/// decoder.push(b": keep-alive\r\ndata: on")?;
/// assert_eq!(decoder.next_event(), None);
/// decoder.push(b"e\r\n\r\ndata: two")?;
/// assert_eq!(decoder.next_event().as_deref(), Some(&b"one"[..]));
/// assert_eq!(decoder.finish().as_deref(), Some(&b"two"[..]));
/// # Ok::<(), harness_gemini::EventTooLong>(())
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    max_bytes: usize,
    events: VecDeque<Bytes>,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The data of the event that has not ended yet.
    data: Data,
    /// The last byte was a CR, so that an LF right now belongs to the same line end.
    after_cr: bool,
    /// No line has ended yet.
    first_line: bool,
    stray: Option<Vec<u8>>,
}

/// The data lines of one event. The usual event has one line, which is kept without a copy.
#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    One(Bytes),
    Joined(Vec<u8>),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(line) => line.len(),
            Self::Joined(lines) => lines.len(),
        }
    }

    fn add(self, line: Bytes) -> Self {
        let mut lines = match self {
            Self::None => return Self::One(line),
            Self::One(first) => Vec::from(first),
            Self::Joined(lines) => lines,
        };
        lines.push(b'\n');
        lines.extend_from_slice(&line);
        Self::Joined(lines)
    }

    fn take(&mut self) -> Option<Bytes> {
        match std::mem::take(self) {
            Self::None => None,
            Self::One(line) => Some(line),
            Self::Joined(lines) => Some(lines.into()),
        }
    }
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::with_max_event_bytes(Self::DEFAULT_MAX_EVENT_BYTES)
    }
}

impl SseDecoder {
    /// The bound of [`SseDecoder::default`]: 64 MiB, because an answer of 50 MB may come as one
    /// event.
    pub const DEFAULT_MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

    /// How much of the first line that belongs to no event stream is kept, in bytes.
    const MAX_STRAY_BYTES: usize = 200;

    /// A decoder that refuses events, and single lines, of more than `max_bytes` bytes.
    pub fn with_max_event_bytes(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            events: VecDeque::new(),
            line: Vec::new(),
            data: Data::None,
            after_cr: false,
            first_line: true,
            stray: None,
        }
    }

    /// Takes in the next bytes. Memory grows with the bytes of the open event and of the events
    /// not yet taken out, never beyond twice the bound and the size of one chunk.
    ///
    /// # Errors
    ///
    /// [`EventTooLong`] when an event grows beyond the bound; the rest of the stream is then of no
    /// use. Events that ended before can still be taken out.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<(), EventTooLong> {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_cr) && chunk[0] == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let end = line_end(chunk);
            let piece = &chunk[..end.unwrap_or(chunk.len())];
            if self.data.len() + self.line.len() + piece.len() > self.max_bytes {
                return Err(EventTooLong {
                    max_bytes: self.max_bytes,
                });
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_cr = chunk[end] == b'\r';
            self.end_line();
            chunk = &chunk[end + 1..];
        }
        Ok(())
    }

    /// Takes the data of the next whole event out.
    pub fn next_event(&mut self) -> Option<Bytes> {
        self.events.pop_front()
    }

    /// Ends the stream and hands out the data of an event that it cut short. Whole events have to
    /// be taken out before.
    pub fn finish(&mut self) -> Option<Bytes> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.data.take()
    }

    /// The start, at most 200 bytes, of the first line that no event stream would hold. It tells
    /// a web page or a JSON document from an event stream.
    pub fn stray_line(&self) -> Option<&[u8]> {
        self.stray.as_deref()
    }

    fn end_line(&mut self) {
        let mut line = Bytes::from(std::mem::take(&mut self.line));
        if std::mem::take(&mut self.first_line) && line.starts_with(b"\xef\xbb\xbf") {
            line = line.slice(3..);
        }
        if line.is_empty() {
            self.events.extend(self.data.take());
            return;
        }
        let colon = line.iter().take(6).position(|byte| *byte == b':');
        match (colon, &line[..colon.unwrap_or(line.len())]) {
            (_, b"data") => {
                let start = match (colon, line.get(5)) {
                    (None, _) => 4,
                    (Some(_), Some(b' ')) => 6,
                    (Some(_), _) => 5,
                };
                self.data = std::mem::take(&mut self.data).add(line.slice(start..));
            }
            (Some(0), _) | (_, b"event" | b"id" | b"retry") => {}
            _ if self.stray.is_none() => {
                let kept = line.len().min(Self::MAX_STRAY_BYTES);
                self.stray = Some(line[..kept].to_vec());
            }
            _ => {}
        }
    }
}

/// Where the first line end is. Whole blocks are searched first, with the standard library's fast
/// search for one byte: an event may have megabytes.
fn line_end(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 512;
    let mut start = 0;
    for block in bytes.chunks(BLOCK) {
        if block.contains(&b'\n') || block.contains(&b'\r') {
            let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
            return block.iter().position(is_end).map(|at| start + at);
        }
        start += block.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<String> {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk).unwrap();
            while let Some(event) = decoder.next_event() {
                events.push(event);
            }
        }
        events.extend(decoder.finish());
        events
            .into_iter()
            .map(|event| String::from_utf8(event.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn f067_every_legal_spelling_is_read() {
        let cases: [(&str, &[&str]); 12] = [
            ("data: a\n\ndata: b\n\n", &["a", "b"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            ("data:a\n\ndata:  b\n\n", &["a", " b"]),
            ("data: a\ndata: b\ndata:\n\n", &["a\nb\n"]),
            (": hello\nevent: x\nid: 1\nretry: 2\ndata: a\n\n", &["a"]),
            ("\u{feff}data: a\n\n", &["a"]),
            ("data: a", &["a"]),
            ("data: a\n", &["a"]),
            ("data\n\n", &[""]),
            ("event: ping\n\n\n\ndata: [DONE]\n\n", &["[DONE]"]),
            ("datax: a\nDATA: b\n\n", &[]),
        ];
        for (wire, expected) in cases {
            assert_eq!(decode(&[wire.as_bytes()]), expected, "{wire:?}");
        }
    }

    #[test]
    fn f067_a_cr_and_its_lf_may_come_in_two_chunks() {
        assert_eq!(decode(&[b"data: a\r", b"\n\r", b"\ndata: b\r"]), ["a", "b"]);
    }

    #[test]
    fn an_event_beyond_the_bound_is_refused_and_earlier_ones_stay() {
        let mut decoder = SseDecoder::with_max_event_bytes(10);
        let error = EventTooLong { max_bytes: 10 };
        assert_eq!(decoder.push(b"data: 1234\n\ndata: 1\ndata: 12\n\n"), Ok(()));
        assert_eq!(decoder.push(b"data: 1234"), Ok(()));
        assert_eq!(decoder.push(b"5"), Err(error));
        assert_eq!(decoder.next_event().as_deref(), Some(&b"1234"[..]));
        assert_eq!(decoder.next_event().as_deref(), Some(&b"1\n12"[..]));
        assert_eq!(decoder.next_event(), None);

        let mut many_lines = SseDecoder::with_max_event_bytes(10);
        assert_eq!(
            many_lines.push(b"data: 1\ndata: 1\ndata: 1\ndata: 1\n"),
            Err(error)
        );
    }

    #[test]
    fn the_start_of_a_web_page_is_kept_for_the_error_message() {
        let mut decoder = SseDecoder::default();
        let page = format!("<html>{}\n<body>\n\n", "x".repeat(500));
        decoder.push(page.as_bytes()).unwrap();
        assert_eq!(decoder.stray_line(), Some(&page.as_bytes()[..200]));
        assert_eq!(decoder.finish(), None);
    }

    fn line_break() -> impl Strategy<Value = &'static str> {
        prop_oneof![Just("\n"), Just("\r\n"), Just("\r")]
    }

    proptest! {
        #[test]
        fn f067_any_chunking_gives_the_same_events(
            events in prop::collection::vec(
                (prop::collection::vec("[^\r\n]{0,12}", 1..4), line_break(), any::<bool>()), 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            closed in any::<bool>(),
        ) {
            let mut wire = String::new();
            let mut expected = Vec::new();
            for (lines, end, commented) in &events {
                if *commented {
                    wire.push_str(&format!(": é{end}event: e{end}"));
                }
                for line in lines {
                    wire.push_str(&format!("data: {line}{end}"));
                }
                wire.push_str(end);
                expected.push(lines.join("\n"));
            }
            if !closed {
                wire = wire.trim_end_matches(['\r', '\n']).to_owned();
            }
            let bytes = wire.as_bytes();
            let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.sort_unstable();
            let mut chunks = Vec::new();
            let mut start = 0;
            for place in places {
                chunks.push(&bytes[start..place]);
                start = place;
            }
            chunks.push(&bytes[start..]);
            prop_assert_eq!(decode(&chunks), expected);
        }

        #[test]
        fn line_ends_are_found_wherever_they_are(bytes in prop::collection::vec(
            prop_oneof![500 => Just(b'a'), 1 => Just(b'\n'), 1 => Just(b'\r')], 0..2000)) {
            let expected = bytes.iter().position(|b| matches!(b, b'\n' | b'\r'));
            prop_assert_eq!(line_end(&bytes), expected);
        }

        #[test]
        fn no_bytes_panic_and_the_bound_holds(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
        ) {
            let mut decoder = SseDecoder::with_max_event_bytes(64);
            for chunk in &chunks {
                if decoder.push(chunk).is_err() {
                    break;
                }
                while let Some(event) = decoder.next_event() {
                    prop_assert!(event.len() <= 64);
                }
            }
            prop_assert!(decoder.finish().is_none_or(|event| event.len() <= 64));
        }
    }
}
