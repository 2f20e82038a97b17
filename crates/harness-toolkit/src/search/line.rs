//! Shortens a line so that its match stays in sight.

use std::ops::Range;

/// The most bytes of a line that are shown.
const MAX_LINE_BYTES: usize = 512;

/// How much of that is before the match.
const BEFORE_BYTES: usize = 128;

/// Decodes a line and cuts it around `found` on character borders, marking each cut. The line end
/// is not part of it.
pub(super) fn around(line: &[u8], found: Range<usize>) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    let found = found.start.min(line.len())..found.end.min(line.len());
    let start = found.start.saturating_sub(BEFORE_BYTES);
    // Near the end of the line, more of what is before fits.
    let start = start.min(line.len() - MAX_LINE_BYTES);
    let end = start + MAX_LINE_BYTES;
    let start = border(line, start);
    let end = border(line, end);
    let mut text = String::with_capacity(MAX_LINE_BYTES + 8);
    if start > 0 {
        text.push('…');
    }
    text.push_str(&String::from_utf8_lossy(&line[start..end]));
    if end < line.len() {
        text.push('…');
    }
    text
}

/// The first place at or after `at` that does not cut a character.
fn border(line: &[u8], at: usize) -> usize {
    let is_inner = |index: &usize| line.get(*index).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at..at + 4).find(|index| !is_inner(index)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_lines_are_whole() {
        assert_eq!(around(b"  let x;\r\n", 2..5), "  let x;");
        assert_eq!(around(b"caf\xe9", 0..1), "caf\u{fffd}");
        assert_eq!(around(b"", 0..0), "");
    }

    proptest! {
        #[test]
        fn a_short_match_is_never_cut_away(before in "[aé€😀]{0,900}", after in "[aé€😀]{0,900}") {
            let line = format!("{before}NEEDLE{after}\n");
            let shown = around(line.as_bytes(), before.len()..before.len() + 6);
            prop_assert!(shown.contains("NEEDLE"));
            prop_assert!(!shown.contains(char::REPLACEMENT_CHARACTER));
            prop_assert!(shown.len() <= MAX_LINE_BYTES + 9);
            let inner = shown.trim_start_matches('…').trim_end_matches('…');
            prop_assert!(line.contains(inner));
        }
    }
}
