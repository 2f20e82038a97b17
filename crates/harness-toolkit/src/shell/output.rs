//! What a command printed, as text for the model.

use harness_process::{BoundedOutput, Utf8Stream};

use super::ansi::Plain;

/// How much is kept of the beginning and of the end.
const HEAD_BYTES: usize = 16 * 1024;
const TAIL_BYTES: usize = 48 * 1024;

/// Takes bytes as they come and keeps the two ends of their text.
#[derive(Debug)]
pub(super) struct Output {
    decoder: Utf8Stream,
    plain: Plain,
    kept: BoundedOutput,
    decoded: String,
    text: String,
}

impl Output {
    pub(super) fn new() -> Self {
        Self {
            decoder: Utf8Stream::new(),
            plain: Plain::default(),
            kept: BoundedOutput::new(HEAD_BYTES, TAIL_BYTES),
            decoded: String::new(),
            text: String::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.decoded.clear();
        self.text.clear();
        self.decoder.decode(bytes, &mut self.decoded);
        self.plain.feed(&self.decoded, &mut self.text);
        self.kept.push(&self.text);
    }

    pub(super) fn so_far(&self) -> String {
        self.kept.snapshot().to_string()
    }

    pub(super) fn finish(mut self) -> String {
        self.decoded.clear();
        self.text.clear();
        self.decoder.finish(&mut self.decoded);
        self.plain.feed(&self.decoded, &mut self.text);
        self.plain.finish(&mut self.text);
        self.kept.push(&self.text);
        self.kept.finish().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f030_characters_cut_by_a_read_are_put_together() {
        let mut output = Output::new();
        for byte in "≤ 漢字\r\n".bytes() {
            output.push(&[byte]);
        }
        output.push(b"\xff");
        assert_eq!(output.finish(), "≤ 漢字\n\u{fffd}");
    }

    #[test]
    fn f032_the_ends_of_huge_output_are_kept_with_exact_counts() {
        let mut output = Output::new();
        let mut total = 0;
        for number in 0..1_000_000 {
            let line = format!("{number}\n");
            total += line.len();
            output.push(line.as_bytes());
        }
        let text = output.finish();
        let lines: Vec<&str> = text.lines().collect();
        assert!(text.len() <= HEAD_BYTES + TAIL_BYTES + 80);
        assert_eq!(lines.first(), Some(&"0"));
        assert_eq!(lines.last(), Some(&"999999"));
        let mark = lines
            .iter()
            .find(|line| line.starts_with('['))
            .expect("a mark");
        let shown_lines = lines.len() - 1;
        let shown_bytes = text.len() - mark.len() - 1;
        assert_eq!(
            *mark,
            format!(
                "[{} bytes with {} line ends left out]",
                total - shown_bytes,
                1_000_000 - shown_lines
            )
        );
    }
}
