//! What the harness wrote to its standard error: read always, kept in part.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::Secret;

/// How many lines are kept for error messages.
const KEPT_LINES: usize = 100;

/// How many bytes of a line are kept.
const KEPT_LINE_BYTES: usize = 2048;

/// How many lines the `Display` of a tail shows.
const SHOWN_LINES: usize = 3;

/// A secret shorter than this is not looked for: it would blank out ordinary words.
const SHORTEST_SECRET: usize = 8;

/// How long an error waits for the last words of the harness, which travel by another pipe than
/// the event that caused the error.
const SETTLE: Duration = Duration::from_millis(250);

/// The last lines a harness wrote to its standard error, at most 100 of at most 2 KiB each.
///
/// Credentials this crate was given are blanked out. `Display` shows the last three lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StderrTail {
    lines: Vec<String>,
}

impl StderrTail {
    /// The lines, oldest first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Whether the harness wrote nothing.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Display for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines.is_empty() {
            return f.write_str("its stderr is empty");
        }
        let shown = self.lines.len().saturating_sub(SHOWN_LINES);
        f.write_str("its stderr ends with: ")?;
        f.write_str(&self.lines[shown..].join(" | "))
    }
}

/// The place the lines are collected in.
#[derive(Debug, Clone)]
pub(crate) struct Stderr {
    shared: Arc<Mutex<Kept>>,
    /// `true` once the stream has ended; there is no more to wait for.
    ended: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    secrets: Vec<Secret>,
}

impl Stderr {
    /// Reads `stream` to its end in a task of its own.
    pub(crate) fn drain(stream: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let (sender, ended) = watch::channel(false);
        let shared = Arc::default();
        tokio::spawn(collect(stream, Arc::clone(&shared), sender));
        Self { shared, ended }
    }

    /// One for a connection without a process.
    pub(crate) fn none() -> Self {
        let (_, ended) = watch::channel(true);
        Self {
            shared: Arc::default(),
            ended,
        }
    }

    /// Blanks `secret` out of everything that is shown from now on.
    pub(crate) fn hide(&self, secret: &Secret) {
        let mut kept = lock(&self.shared);
        if secret.expose().len() >= SHORTEST_SECRET && !kept.secrets.contains(secret) {
            kept.secrets.push(secret.clone());
        }
    }

    /// What there is now.
    pub(crate) fn tail(&self) -> StderrTail {
        let kept = lock(&self.shared);
        let clean = |line: &String| {
            kept.secrets.iter().fold(line.clone(), |line, secret| {
                line.replace(secret.expose(), "[redacted]")
            })
        };
        StderrTail {
            lines: kept.lines.iter().map(clean).collect(),
        }
    }

    /// What there is when the stream has ended, or after 250 ms.
    pub(crate) async fn last_words(&self) -> StderrTail {
        let mut ended = self.ended.clone();
        let _ = timeout(SETTLE, ended.wait_for(|ended| *ended)).await;
        self.tail()
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn collect(
    mut stream: impl AsyncRead + Unpin,
    kept: Arc<Mutex<Kept>>,
    ended: watch::Sender<bool>,
) {
    let mut splitter = Splitter::default();
    let mut chunk = vec![0; 8 * 1024];
    let mut keep = |line: String| {
        tracing::debug!(target: "harness_client::stderr", "{line}");
        let mut kept = lock(&kept);
        if kept.lines.len() == KEPT_LINES {
            kept.lines.pop_front();
        }
        kept.lines.push_back(line);
    };
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        splitter.push(&chunk[..read], &mut keep);
    }
    splitter.finish(&mut keep);
    ended.send_replace(true);
}

/// Cuts bytes into lines of bounded length.
#[derive(Debug, Default)]
struct Splitter {
    line: Vec<u8>,
    /// Bytes of this line that were not kept.
    dropped: usize,
}

impl Splitter {
    fn push(&mut self, bytes: &[u8], keep: &mut impl FnMut(String)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (body, ends) = match piece.strip_suffix(b"\n") {
                Some(body) => (body, true),
                None => (piece, false),
            };
            let room = KEPT_LINE_BYTES - self.line.len();
            let taken = body.len().min(room);
            self.line.extend_from_slice(&body[..taken]);
            self.dropped += body.len() - taken;
            if ends {
                self.finish(keep);
            }
        }
    }

    fn finish(&mut self, keep: &mut impl FnMut(String)) {
        let mut bytes = self.line.as_slice();
        if self.dropped > 0 {
            bytes = whole_characters(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches('\r');
        if self.dropped > 0 {
            keep(format!("{text}…"));
        } else if !text.trim().is_empty() {
            keep(text.to_owned());
        }
        self.line.clear();
        self.dropped = 0;
    }
}

/// Leaves out a character at the end of which only a part is there.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<String> {
        let (mut splitter, mut lines) = (Splitter::default(), Vec::new());
        for piece in pieces {
            splitter.push(piece, &mut |line| lines.push(line));
        }
        splitter.finish(&mut |line| lines.push(line));
        lines
    }

    #[test]
    fn lines_are_put_together() {
        assert_eq!(split(&[b"a", b"b\n\nc\r\n", b"d"]), ["ab", "c", "d"]);
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        // The limit falls inside the last "ü".
        let long = format!("x{}", "ü".repeat(KEPT_LINE_BYTES));
        let kept = format!("x{}…", "ü".repeat((KEPT_LINE_BYTES - 1) / 2));
        assert_eq!(split(&[long.as_bytes(), b"\nnext"]), [kept, "next".into()]);
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(split(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
    }

    #[tokio::test]
    async fn the_last_lines_are_kept_without_secrets() {
        let text: String = (0..150).map(|n| format!("line {n} s3cret-k3y\n")).collect();
        let stderr = Stderr::drain(std::io::Cursor::new(text.into_bytes()));
        stderr.hide(&Secret::new("s3cret-k3y"));
        let tail = stderr.last_words().await;
        assert_eq!(tail.lines().len(), KEPT_LINES);
        assert_eq!(tail.lines().first().unwrap(), "line 50 [redacted]");
        assert_eq!(
            tail.to_string(),
            "its stderr ends with: line 147 [redacted] | line 148 [redacted] | line 149 [redacted]"
        );
    }
}
