use std::fmt;

/// Keeps the beginning and the end of a text of any length in bounded memory.
///
/// Whatever is pushed, at most `head + 2 × tail + 8` bytes are held between pushes, and twice the
/// tail's part during one, plus the spare capacity of two strings. While the whole text is no longer than `head + tail` nothing is dropped.
///
/// What is kept is cut on line borders, so that no line is shown in part; where that would throw
/// away more than half of an end (very long lines), on character borders instead.
///
/// ```
/// # use harness_process::{BoundedOutput, Dropped};
/// let mut output = BoundedOutput::new(8, 8);
/// for line in 1..=1000 {
///     output.push(&format!("{line}\n"));
/// }
/// let kept = output.finish();
/// assert_eq!(kept.head, "1\n2\n3\n4\n");
/// assert_eq!(kept.tail, "1000\n");
/// assert_eq!(kept.dropped, Some(Dropped { bytes: 3880, lines: 995 }));
/// ```
#[derive(Clone, Debug)]
pub struct BoundedOutput {
    head_limit: usize,
    tail_limit: usize,
    head: String,
    /// A character did not fit any more; what follows goes to the tail.
    head_is_full: bool,
    /// Follows `head` without a gap until it is cut for the first time. Once cut it is longer than
    /// its limit, so that the character before the kept end is known.
    tail: String,
    total_bytes: u64,
    total_lines: u64,
}

impl BoundedOutput {
    /// Returns a collector that keeps the first `head_bytes` and the last `tail_bytes`.
    pub fn new(head_bytes: usize, tail_bytes: usize) -> Self {
        Self {
            head_limit: head_bytes,
            tail_limit: tail_bytes,
            head: String::new(),
            head_is_full: false,
            tail: String::new(),
            total_bytes: 0,
            total_lines: 0,
        }
    }

    /// Appends text.
    pub fn push(&mut self, text: &str) {
        self.total_bytes += text.len() as u64;
        self.total_lines += line_ends(text);

        let mut text = text;
        if !self.head_is_full {
            let cut = text.floor_char_boundary(self.head_limit - self.head.len());
            self.head.push_str(&text[..cut]);
            text = &text[cut..];
            self.head_is_full = !text.is_empty();
        }
        if text.len() > self.most_tail_bytes() {
            self.tail.clear();
            text = &text[self.tail_start(text)..];
        }
        self.tail.push_str(text);
        if self.tail.len() > self.most_tail_bytes() {
            let start = self.tail_start(&self.tail);
            self.tail.drain(..start);
        }
    }

    /// Cutting only at twice the limit makes the work for each byte constant. The 8 leave room for
    /// a character that did not fit the head and for one before the kept end.
    fn most_tail_bytes(&self) -> usize {
        self.tail_limit.saturating_mul(2).saturating_add(8)
    }

    /// Returns where the last `tail_limit` bytes and the character before them begin.
    fn tail_start(&self, text: &str) -> usize {
        text.floor_char_boundary(text.len() - self.tail_limit - 1)
    }

    /// Returns the length of everything pushed so far.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Returns the number of line ends (`\n`) in everything pushed so far.
    pub fn total_lines(&self) -> u64 {
        self.total_lines
    }

    /// Returns what is kept of everything pushed so far, and goes on collecting.
    pub fn snapshot(&self) -> BoundedText {
        let whole = self.total_bytes == (self.head.len() + self.tail.len()) as u64;
        if whole && self.total_bytes <= (self.head_limit.saturating_add(self.tail_limit)) as u64 {
            return BoundedText {
                head: [self.head.as_str(), self.tail.as_str()].concat(),
                tail: String::new(),
                dropped: None,
            };
        }
        let head = cut_head(&self.head);
        let tail = cut_tail(&self.tail, self.tail_limit);
        BoundedText {
            head: head.to_owned(),
            tail: tail.to_owned(),
            dropped: Some(Dropped {
                bytes: self.total_bytes - (head.len() + tail.len()) as u64,
                lines: self.total_lines - line_ends(head) - line_ends(tail),
            }),
        }
    }

    /// Ends the text and returns what is kept of it.
    pub fn finish(self) -> BoundedText {
        self.snapshot()
    }
}

/// What [`BoundedOutput`] kept.
///
/// `Display` gives the text with a line in square brackets where something was dropped. To word
/// that line otherwise, put `head` and `tail` together yourself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedText {
    /// The beginning; the whole text when nothing was dropped.
    pub head: String,
    /// The end; empty when nothing was dropped.
    pub tail: String,
    /// What was between `head` and `tail`.
    pub dropped: Option<Dropped>,
}

impl fmt::Display for BoundedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        if let Some(Dropped { bytes, lines }) = self.dropped {
            if !self.head.is_empty() && !self.head.ends_with('\n') {
                f.write_str("\n")?;
            }
            writeln!(f, "[{bytes} bytes with {lines} line ends left out]")?;
        }
        f.write_str(&self.tail)
    }
}

/// How much is missing from a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Its length in bytes; at least 1.
    pub bytes: u64,
    /// The number of line ends (`\n`) in it. Cut on line borders, this is the number of lines.
    pub lines: u64,
}

fn line_ends(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// Cuts back to the last line end, unless that loses more than half.
fn cut_head(head: &str) -> &str {
    match head.rfind('\n') {
        Some(end) if end + 1 >= head.len() / 2 => &head[..=end],
        _ => head,
    }
}

/// Takes the last `limit` bytes, from the first line that begins there unless that loses more than
/// half.
fn cut_tail(text: &str, limit: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(limit));
    let tail = &text[start..];
    let on_border = text[..start].ends_with('\n');
    match tail.find('\n') {
        Some(end) if !on_border && end < tail.len() / 2 => &tail[end + 1..],
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_does_not_grow_with_the_text() {
        let mut output = BoundedOutput::new(1000, 1000);
        let piece = "0123456789abcde\n".repeat(4096);
        let mut pushed = 0;
        for size in (1..400).cycle().map(|size| size * 16).take(4000) {
            output.push(&piece[..size]);
            pushed += size as u64;
            let held = output.head.capacity() + output.tail.capacity();
            assert!(held <= 10_000, "{held} bytes after {pushed}");
        }
        assert_eq!(
            (output.total_bytes(), output.total_lines()),
            (pushed, pushed / 16)
        );
        let kept = output.finish();
        let dropped = Dropped {
            bytes: pushed - 1984,
            lines: (pushed - 1984) / 16,
        };
        assert_eq!(kept.dropped, Some(dropped));
        assert_eq!(
            (kept.head.as_str(), kept.tail.as_str()),
            (&piece[..992], &piece[..992])
        );
    }
}
