//! Finds a piece of text and puts another in its place, blind to the form of line ends.

use std::ops::Range;

/// The most places that are looked at.
pub(super) const MAX_MATCHES: usize = 100_000;

/// A text in which every CR LF counts as LF, with the way back to the bytes as they are.
#[derive(Debug)]
pub(super) struct Folded<'a> {
    raw: &'a [u8],
    bytes: Vec<u8>,
    /// The line ends, as indexes into `bytes`, that are CR LF in `raw`; ascending.
    crlf: Vec<usize>,
    /// Where each line begins in `bytes`.
    lines: Vec<usize>,
}

impl<'a> Folded<'a> {
    pub(super) fn new(raw: &'a [u8]) -> Self {
        let mut folded = Self {
            raw,
            bytes: Vec::with_capacity(raw.len()),
            crlf: Vec::new(),
            lines: vec![0],
        };
        for line in raw.split_inclusive(|byte| *byte == b'\n') {
            match line {
                [text @ .., b'\r', b'\n'] => {
                    folded.bytes.extend_from_slice(text);
                    folded.crlf.push(folded.bytes.len());
                    folded.bytes.push(b'\n');
                }
                line => folded.bytes.extend_from_slice(line),
            }
            if line.ends_with(b"\n") {
                folded.lines.push(folded.bytes.len());
            }
        }
        folded
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The line, from 1, that the byte at `at` belongs to.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// The bytes of a range of lines, from 1 and inclusive; everything when it makes no sense.
    pub(super) fn range(&self, start: Option<i64>, end: Option<i64>) -> Range<usize> {
        let positive = |line: Option<i64>| {
            line.and_then(|line| usize::try_from(line).ok())
                .filter(|line| *line > 0)
        };
        let start = positive(start).unwrap_or(1);
        let begin = self.lines.get(start - 1).copied();
        let stop = match positive(end) {
            Some(end) if end < start => None,
            Some(end) => Some(self.lines.get(end).copied().unwrap_or(self.bytes.len())),
            None => Some(self.bytes.len()),
        };
        match (begin, stop) {
            (Some(begin), Some(stop)) => begin..stop,
            _ => 0..self.bytes.len(),
        }
    }

    /// The place in the bytes as they are. A place before a line end is before all of it.
    fn raw_at(&self, at: usize) -> usize {
        at + self.crlf.partition_point(|end| *end < at)
    }

    /// Where `target` is, overlapping places too; `None` when there are too many.
    pub(super) fn find(&self, target: &[u8]) -> Option<Vec<usize>> {
        find(&self.bytes, target)
    }

    /// Puts `new` in place of `old` at each of `places`, which must not overlap. All other bytes
    /// stay; so do those at the ends of `old` that `new` shares. Line ends get the form they have
    /// around there.
    pub(super) fn splice(&self, places: &[usize], old: &[u8], new: &[u8]) -> Vec<u8> {
        let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let pairs = old[before..].iter().rev().zip(new[before..].iter().rev());
        let after = pairs.take_while(|(a, b)| a == b).count();
        let insert = &new[before..new.len() - after];

        let mut out = Vec::with_capacity(self.raw.len() + places.len() * insert.len());
        let mut done = 0;
        for &place in places {
            let start = self.raw_at(place + before);
            let end = self.raw_at(place + old.len() - after);
            out.extend_from_slice(&self.raw[done..start]);
            if self.uses_crlf(place..place + old.len()) {
                for line in insert.split_inclusive(|byte| *byte == b'\n') {
                    match line {
                        [text @ .., b'\n'] => {
                            out.extend_from_slice(text);
                            out.extend_from_slice(b"\r\n");
                        }
                        text => out.extend_from_slice(text),
                    }
                }
            } else {
                out.extend_from_slice(insert);
            }
            done = end;
        }
        out.extend_from_slice(&self.raw[done..]);
        out
    }

    /// Whether most line ends of a range are CR LF; of the whole text when there is none in it.
    fn uses_crlf(&self, range: Range<usize>) -> bool {
        let count = |range: &Range<usize>| {
            let crlf = self.crlf.partition_point(|end| *end < range.end)
                - self.crlf.partition_point(|end| *end < range.start);
            let ends = self.lines.partition_point(|start| *start <= range.end)
                - self.lines.partition_point(|start| *start <= range.start);
            (crlf, ends)
        };
        let (crlf, ends) = match count(&range) {
            (_, 0) => (self.crlf.len(), self.lines.len() - 1),
            counts => counts,
        };
        2 * crlf > ends
    }
}

/// Turns CR LF into LF.
pub(super) fn fold(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\n").into_bytes()
}

/// All places of `needle`, overlapping ones too, in time linear in both lengths (Knuth, Morris and
/// Pratt); `None` when there are more than [`MAX_MATCHES`].
fn find(text: &[u8], needle: &[u8]) -> Option<Vec<usize>> {
    if needle.is_empty() {
        return Some(Vec::new());
    }
    // For each prefix of the needle, the longest proper prefix that is also its end.
    let mut shorter = vec![0; needle.len()];
    let mut matched = 0;
    for at in 1..needle.len() {
        while matched > 0 && needle[at] != needle[matched] {
            matched = shorter[matched - 1];
        }
        matched += usize::from(needle[at] == needle[matched]);
        shorter[at] = matched;
    }
    let mut places = Vec::new();
    let mut matched = 0;
    for (at, byte) in text.iter().enumerate() {
        while matched > 0 && *byte != needle[matched] {
            matched = shorter[matched - 1];
        }
        matched += usize::from(*byte == needle[matched]);
        if matched == needle.len() {
            if places.len() == MAX_MATCHES {
                return None;
            }
            places.push(at + 1 - matched);
            matched = shorter[matched - 1];
        }
    }
    Some(places)
}

/// Leaves out places that overlap an earlier one.
pub(super) fn apart(places: &[usize], len: usize) -> Vec<usize> {
    let mut free = 0;
    let mut kept = places.to_vec();
    kept.retain(|&place| {
        let fits = place >= free;
        if fits {
            free = place + len;
        }
        fits
    });
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spliced(raw: &str, old: &str, new: &str) -> String {
        let folded = Folded::new(raw.as_bytes());
        let (old, new) = (fold(old), fold(new));
        let places = apart(&folded.find(&old).expect("few places"), old.len());
        String::from_utf8(folded.splice(&places, &old, &new)).expect("UTF-8")
    }

    #[test]
    fn line_ends_keep_their_form() {
        assert_eq!(
            spliced("a\r\nb\r\nc\r\n", "b\nc", "B\nc"),
            "a\r\nB\r\nc\r\n"
        );
        assert_eq!(
            spliced("a\r\nb\r\n", "b", "b\nx\ny"),
            "a\r\nb\r\nx\r\ny\r\n"
        );
        assert_eq!(spliced("a\nb\n", "b\r\n", "b\r\nc\r\n"), "a\nb\nc\n");
        assert_eq!(spliced("a\r\nb\nc\n", "b\nc", "b\nx\nc"), "a\r\nb\nx\nc\n");
        assert_eq!(spliced("a\r\nb", "a\nb", "ab"), "ab");
        // What the replacement shares with the target is not touched, whatever its form.
        assert_eq!(
            spliced("a\r\nb\nc\r\n", "a\nb\nc", "a\nb\nC"),
            "a\r\nb\nC\r\n"
        );
    }

    #[test]
    fn ranges_that_make_no_sense_mean_everything() {
        let folded = Folded::new(b"one\r\ntwo\nthree");
        let range = |start, end| folded.range(start, end);
        assert_eq!(range(Some(2), Some(2)), 4..8);
        assert_eq!(range(Some(2), Some(99)), 4..13);
        assert_eq!(range(Some(2), None), 4..13);
        assert_eq!(range(None, Some(1)), 0..4);
        for (start, end) in [
            (Some(0), Some(0)),
            (Some(99), None),
            (Some(3), Some(1)),
            (Some(-1), None),
        ] {
            assert_eq!(range(start, end), 0..13);
        }
        assert_eq!(
            [folded.line_of(0), folded.line_of(4), folded.line_of(12)],
            [1, 2, 3]
        );
    }

    proptest! {
        #[test]
        fn places_are_those_of_a_naive_search(text in "[ab]{0,40}", needle in "[ab]{1,4}") {
            let naive: Vec<usize> = (0..text.len())
                .filter(|&at| text[at..].starts_with(&needle))
                .collect();
            prop_assert_eq!(find(text.as_bytes(), needle.as_bytes()), Some(naive));
        }

        #[test]
        fn bytes_outside_the_target_stay(
            before in "([a-c]{0,3}(\n|\r\n|\r)){0,4}", after in "([a-c]{0,3}(\n|\r\n|\r)){0,4}",
            old in "[x\n]{0,5}", new in "[xy\n]{0,6}",
        ) {
            // The border keeps a line end of the target apart from a CR before it.
            let raw = format!("{before}<{old}>{after}");
            let result = spliced(&raw, &format!("<{old}>"), &format!("<{new}>"));
            prop_assert!(result.starts_with(&[&before, "<"].concat()));
            prop_assert!(result.ends_with(&[">", &after].concat()));
            let inner = &result[before.len() + 1..result.len() - after.len() - 1];
            prop_assert_eq!(inner.replace("\r\n", "\n"), new);
        }

        #[test]
        fn without_cr_it_is_a_plain_replacement(
            text in "[ab\n]{0,30}", old in "[ab\n]{1,3}", new in "[ab\n]{0,3}",
        ) {
            prop_assert_eq!(spliced(&text, &old, &new), text.replace(&old, &new));
        }
    }
}
