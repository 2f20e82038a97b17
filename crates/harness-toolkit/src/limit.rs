//! The one place that shortens text for the model.

use std::borrow::Cow;

/// How much of a text is shown: its beginning and its end.
///
/// The cuts are on line borders, so that no line is shown in part. Where that would throw away
/// more than half of an end (very long lines), they are on character borders instead.
///
/// ```
/// # use harness_toolkit::OutputLimit;
/// let limit = OutputLimit::new(8, 8);
/// assert_eq!(limit.apply("short"), "short");
///
/// let text: String = (1..=1000).map(|n| format!("{n}\n")).collect();
/// assert_eq!(
///     limit.apply(&text),
///     "1\n2\n3\n4\n[3880 bytes with 995 line ends left out]\n1000\n"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    head_bytes: usize,
    tail_bytes: usize,
}

impl OutputLimit {
    /// Shows at most the first `head_bytes` and the last `tail_bytes`, and one line that tells
    /// what is missing between them. A text that is no longer than both together is shown whole.
    pub const fn new(head_bytes: usize, tail_bytes: usize) -> Self {
        Self {
            head_bytes,
            tail_bytes,
        }
    }

    /// Shortens `text`.
    ///
    /// The counts in the added line are exact: bytes shown and bytes left out add up to the text,
    /// and so do line ends (`\n`).
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if text.len() <= self.head_bytes.saturating_add(self.tail_bytes) {
            return Cow::Borrowed(text);
        }
        let head = head(text, self.head_bytes);
        let tail = tail(text, self.tail_bytes);
        let dropped = &text[head.len()..text.len() - tail.len()];
        let lines = dropped.bytes().filter(|byte| *byte == b'\n').count();
        let border = if head.is_empty() || head.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        Cow::Owned(format!(
            "{head}{border}[{} bytes with {lines} line ends left out]\n{tail}",
            dropped.len()
        ))
    }
}

/// The first `limit` bytes at most, cut after a line end where that keeps at least half.
fn head(text: &str, limit: usize) -> &str {
    let head = &text[..text.floor_char_boundary(limit)];
    match head.rfind('\n') {
        Some(end) if end + 1 >= head.len() / 2 => &head[..=end],
        _ => head,
    }
}

/// The last `limit` bytes at most, cut before a line where that keeps at least half.
fn tail(text: &str, limit: usize) -> &str {
    let start = text.ceil_char_boundary(text.len() - limit.min(text.len()));
    let tail = &text[start..];
    if text[..start].ends_with('\n') {
        return tail;
    }
    match tail.find('\n') {
        Some(end) if end < tail.len() / 2 => &tail[end + 1..],
        _ => tail,
    }
}

/// Cuts `text` to at most `limit` bytes on a character border and marks the cut.
pub(crate) fn brief(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(limit)]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_single_long_line_is_cut_on_character_borders() {
        assert_eq!(
            OutputLimit::new(4, 4).apply("äöüäöüäöü"),
            "äö\n[10 bytes with 0 line ends left out]\nöü"
        );
    }

    #[test]
    fn brief_marks_its_cut() {
        assert_eq!(brief("abc", 3), "abc");
        assert_eq!(brief("äöü", 3), "ä…");
    }

    proptest! {
        #[test]
        fn what_is_shown_and_what_is_left_out_add_up(
            text in "[a-cä\n]{0,200}", head_bytes in 0usize..40, tail_bytes in 0usize..40,
        ) {
            let shown = OutputLimit::new(head_bytes, tail_bytes).apply(&text);
            if text.len() <= head_bytes + tail_bytes {
                prop_assert_eq!(&shown, &text);
                return Ok(());
            }
            let start = shown.find('[').expect("a mark");
            let mark_end = start + shown[start..].find("]\n").expect("a whole mark");
            let mark = &shown[start + 1..mark_end];
            let numbers: Vec<usize> = mark.split(' ').filter_map(|word| word.parse().ok()).collect();
            let head = &shown[..start];
            // A line end is added when the head does not have one.
            let head = if text.starts_with(head) { head } else { head.trim_end_matches('\n') };
            let tail = &shown[mark_end + 2..];
            prop_assert!(head.len() <= head_bytes + 1 && tail.len() <= tail_bytes);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            // The added line end may happen to be the one that follows in the text.
            let head_len = text.len() - tail.len() - numbers[0];
            prop_assert!(head_len == head.len() || head_len + 1 == head.len());
            let dropped = &text[head_len..text.len() - tail.len()];
            prop_assert_eq!(dropped.matches('\n').count(), numbers[1]);
        }
    }
}
