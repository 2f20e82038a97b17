//! Takes a range of lines out of a stream, and counts the rest.

use super::text::floor_border;

/// What is asked of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// First line, from 0.
    pub(super) first: u64,
    /// Line after the last one.
    pub(super) end: u64,
    /// Bytes of the range that are not shown at its start.
    pub(super) offset: u64,
    /// The most bytes that are shown.
    pub(super) limit: usize,
}

/// Reads a text once from start to end, keeping only what is wanted.
#[derive(Debug)]
pub(super) struct Scan {
    wanted: Wanted,
    /// The line the next byte belongs to.
    line: u64,
    total_bytes: u64,
    last_byte: Option<u8>,
    crlf_lines: u64,
    range_bytes: u64,
    /// The range from a little before the offset on, up to a little after the limit.
    kept: Vec<u8>,
    kept_from: u64,
    /// Lines of the range that end before what is kept.
    skipped_lines: u64,
}

/// How far characters may reach over a cut.
const MARGIN: u64 = 4;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    /// Lines of the text; a line end at its end begins no further line.
    pub(super) total_lines: u64,
    /// Bytes of the text.
    pub(super) total_bytes: u64,
    /// Lines that end with CR LF.
    pub(super) crlf_lines: u64,
    /// Bytes of the wanted lines.
    pub(super) range_bytes: u64,
    /// The bytes to show, cut on line borders unless they are part of one long line.
    pub(super) shown: Vec<u8>,
    /// Where in the range they begin: the offset, moved back to a character border.
    pub(super) offset: u64,
    /// The line they begin in, from 0.
    pub(super) first: u64,
    /// How to see what follows in the range.
    pub(super) next: Next,
}

/// What follows the bytes that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: the range is shown to its end.
    End,
    /// Whole lines from this one on, counted from 0.
    Line(u64),
    /// The rest of a line, from this offset in the range.
    Offset(u64),
}

impl Scan {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            line: 0,
            total_bytes: 0,
            last_byte: None,
            crlf_lines: 0,
            range_bytes: 0,
            kept: Vec::new(),
            kept_from: wanted.offset.saturating_sub(MARGIN),
            skipped_lines: 0,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if (self.wanted.first..self.wanted.end).contains(&self.line) {
                self.keep(piece);
            }
            if let [before @ .., b'\n'] = piece {
                self.line += 1;
                let before = before.last().or(self.last_byte.as_ref());
                self.crlf_lines += u64::from(before == Some(&b'\r'));
            }
            self.last_byte = piece.last().copied();
        }
        self.total_bytes += bytes.len() as u64;
    }

    fn keep(&mut self, piece: &[u8]) {
        let start = self.range_bytes;
        self.range_bytes += piece.len() as u64;
        let skip = self.kept_from.saturating_sub(start).min(piece.len() as u64);
        #[expect(clippy::cast_possible_truncation, reason = "no longer than the piece")]
        let (skipped, rest) = piece.split_at(skip as usize);
        self.skipped_lines += u64::from(skipped.ends_with(b"\n"));
        let room = self.wanted.limit + 2 * MARGIN as usize - self.kept.len();
        self.kept.extend_from_slice(&rest[..rest.len().min(room)]);
    }

    pub(super) fn finish(self) -> Scanned {
        let wanted = self.wanted;
        let margin = usize::try_from(wanted.offset - self.kept_from).unwrap_or(0);
        let begin = floor_border(&self.kept, margin);
        let end = self.kept.len().min(begin + wanted.limit);
        let offset = self.kept_from + begin as u64;
        let passed = &self.kept[..begin];
        let first = wanted.first + self.skipped_lines + count_lines(passed);
        let reaches_end = self.kept_from + end as u64 >= self.range_bytes;
        let (end, next) = if reaches_end {
            (end, Next::End)
        } else if let Some(last) = self.kept[begin..end].iter().rposition(|it| *it == b'\n') {
            let end = begin + last + 1;
            (end, Next::Line(first + count_lines(&self.kept[begin..end])))
        } else {
            let end = floor_border(&self.kept, end);
            (end, Next::Offset(self.kept_from + end as u64))
        };
        let open_line = self.last_byte.is_some_and(|last| last != b'\n');
        Scanned {
            total_lines: self.line + u64::from(open_line),
            total_bytes: self.total_bytes,
            crlf_lines: self.crlf_lines,
            range_bytes: self.range_bytes,
            shown: self.kept[begin..end].to_vec(),
            offset,
            first,
            next,
        }
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scan(text: &str, step: usize, wanted: Wanted) -> Scanned {
        let mut scan = Scan::new(wanted);
        for chunk in text.as_bytes().chunks(step) {
            scan.feed(chunk);
        }
        scan.finish()
    }

    #[test]
    fn a_line_end_at_the_end_begins_no_line() {
        let wanted = Wanted {
            first: 0,
            end: 9,
            offset: 0,
            limit: 99,
        };
        let lines = |text| scan(text, 3, wanted).total_lines;
        assert_eq!(
            [
                lines(""),
                lines("a"),
                lines("a\n"),
                lines("a\nb"),
                lines("\n\n"),
                lines("a\r\nb\r\n")
            ],
            [0, 1, 1, 2, 2, 2]
        );
        assert_eq!(scan("a\r\nb\n\r\n", 1, wanted).crlf_lines, 2);
    }

    fn text() -> impl Strategy<Value = String> {
        "([a-cäł€😀]{0,9}(\n|\r\n)){0,8}[a-cä😀]{0,9}"
    }

    proptest! {
        #[test]
        fn paging_shows_every_byte_of_a_range_once(
            text in text(), step in 1usize..20, first in 0u64..6, count in 1u64..8, limit in 4usize..30,
        ) {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let end = first + count;
            let inside = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(lines.len());
            let range: String = lines[inside(first)..inside(end)].concat();

            let mut wanted = Wanted { first, end, offset: 0, limit };
            let mut seen = Vec::new();
            loop {
                let scanned = scan(&text, step, wanted);
                prop_assert_eq!(scanned.total_lines, lines.len() as u64);
                prop_assert_eq!(scanned.total_bytes, text.len() as u64);
                prop_assert!(scanned.shown.len() <= limit);
                prop_assert!(std::str::from_utf8(&scanned.shown).is_ok());
                let before = count_lines(&seen);
                prop_assert_eq!(scanned.first, first + before);
                seen.extend_from_slice(&scanned.shown);
                wanted = match scanned.next {
                    Next::End => break,
                    Next::Line(line) => {
                        prop_assert!(scanned.shown.ends_with(b"\n"));
                        Wanted { first: line, offset: 0, ..wanted }
                    }
                    Next::Offset(offset) => {
                        prop_assert!(!scanned.shown.is_empty());
                        Wanted { offset, ..wanted }
                    }
                };
            }
            prop_assert_eq!(String::from_utf8(seen).expect("UTF-8"), range);
        }

        #[test]
        fn an_offset_inside_a_character_is_moved_back(
            text in text(), step in 1usize..20, offset in 0u64..40,
        ) {
            let wanted = Wanted { first: 0, end: 99, offset, limit: 999 };
            let scanned = scan(&text, step, wanted);
            if offset <= text.len() as u64 {
                let start = text.floor_char_boundary(usize::try_from(offset).expect("small"));
                prop_assert_eq!(scanned.offset, start as u64);
                prop_assert_eq!(scanned.shown, &text.as_bytes()[start..]);
                prop_assert_eq!(scanned.first, count_lines(&text.as_bytes()[..start]));
            }
        }
    }
}
