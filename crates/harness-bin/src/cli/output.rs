//! Writing to the terminal or to whatever stands in its place.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use rustix::termios::tcgetwinsize;

use super::spinner;
use crate::environment::Environment;

/// The two streams of the program. Answers go to standard output, everything else to standard
/// error.
///
/// A reader that has gone away makes later writes do nothing; [`Output::is_closed`] tells.
pub(crate) struct Output {
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    /// Whether standard output has colours.
    colourful_stdout: bool,
    /// Whether standard error has colours.
    colourful_stderr: bool,
    /// Whether a spinner may be drawn.
    spins: bool,
    /// Whether one is on the screen.
    spinning: bool,
    /// Whether the text written so far ends inside a line.
    mid_line: bool,
    /// Whether a blank line is wanted before further text.
    separate: bool,
    closed: bool,
}

/// How a piece of a line looks. Nothing depends on it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Dim,
    Bold,
    Good,
    Bad,
    Ask,
}

impl Style {
    fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Dim => 2,
            Self::Bold => 1,
            Self::Good => 32,
            Self::Bad => 31,
            Self::Ask => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

impl Output {
    /// The streams of this process.
    pub(crate) fn new(environment: &Environment) -> Self {
        let stdout_is_terminal = io::stdout().is_terminal();
        let stderr_is_terminal = io::stderr().is_terminal();
        let dumb = environment.get("TERM").is_none_or(|term| term == "dumb");
        // https://no-color.org: any value but the empty one.
        let colours = !dumb && environment.get("NO_COLOR").is_none();
        Self {
            stdout_is_terminal,
            stderr_is_terminal,
            colourful_stdout: stdout_is_terminal && colours,
            colourful_stderr: stderr_is_terminal && colours,
            spins: stderr_is_terminal && !dumb,
            spinning: false,
            mid_line: false,
            separate: false,
            closed: false,
        }
    }

    /// Whether a person sees standard error.
    pub(crate) fn stderr_is_terminal(&self) -> bool {
        self.stderr_is_terminal
    }

    /// Whether the reader of standard output has gone away.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes a piece of an answer to standard output.
    pub(crate) fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.erase();
        if std::mem::take(&mut self.separate) {
            self.end_line();
            self.raw("\n");
        }
        self.mid_line = !text.ends_with('\n');
        if self.stdout_is_terminal {
            self.raw(&printable(text));
        } else {
            self.raw(text);
        }
    }

    /// Wants a blank line before the next piece of text.
    pub(crate) fn separate(&mut self) {
        self.separate = true;
    }

    /// Ends a line that has been begun on standard output.
    pub(crate) fn end_line(&mut self) {
        if std::mem::take(&mut self.mid_line) {
            self.erase();
            self.raw("\n");
        }
    }

    /// Writes a line of machine-readable output to standard output.
    pub(crate) fn line(&mut self, line: &str) {
        self.erase();
        self.raw(&format!("{line}\n"));
    }

    /// Ends a line of text where both streams are one screen, so that what goes to standard error
    /// does not start behind it.
    pub(crate) fn make_room(&mut self) {
        if self.stdout_is_terminal && self.stderr_is_terminal {
            self.end_line();
        }
    }

    /// Writes a line to standard error.
    pub(crate) fn note(&mut self, pieces: &[(Style, &str)]) {
        self.erase();
        self.make_room();
        let mut line = String::new();
        for (style, text) in pieces {
            let text = printable(text);
            line.push_str(&match self.colourful_stderr {
                true => style.paint(&text),
                false => text,
            });
        }
        line.push('\n');
        // Nobody can be told when standard error is gone.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// Writes an error or a warning of the program itself to standard error.
    pub(crate) fn complain(&mut self, message: &str) {
        self.note(&[(Style::Bad, "harness: "), (Style::Plain, message)]);
    }

    /// `text` in a style, for standard output.
    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        if self.colourful_stdout {
            style.paint(text)
        } else {
            text.to_owned()
        }
    }

    /// Whether a spinner can be seen now.
    pub(crate) fn can_spin(&self) -> bool {
        self.spins && !(self.mid_line && self.stdout_is_terminal)
    }

    /// Draws the spinner, or its next picture.
    pub(crate) fn spin(&mut self, elapsed: Duration, doing: &str) {
        if !self.can_spin() {
            return;
        }
        let columns = tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
        let line = spinner::line(elapsed, &printable(doing), columns.max(20));
        let line = match self.colourful_stderr {
            true => Style::Dim.paint(&line),
            false => line,
        };
        let line = format!("\r\x1b[2K{line}");
        let _ = io::stderr().write_all(line.as_bytes());
        self.spinning = true;
    }

    /// Takes the spinner away.
    pub(crate) fn erase(&mut self) {
        if std::mem::take(&mut self.spinning) {
            let _ = io::stderr().write_all(b"\r\x1b[2K");
        }
    }

    fn raw(&mut self, text: &str) {
        if self.closed {
            return;
        }
        let mut stdout = io::stdout().lock();
        if stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .is_err()
        {
            self.closed = true;
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.erase();
    }
}

/// Makes text harmless for a terminal: what a model or a file says must not move the cursor, set
/// titles or colours, or pass for a prompt of ours.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            // Pictures of the control characters.
            '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or('�'),
            '\x7f' => '␡',
            '\u{80}'..='\u{9f}' => '�',
            // Letters that turn the direction of what follows.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '�',
            _ => c,
        })
        .collect()
}

/// `text` in one line of at most `columns` characters.
pub(crate) fn one_line(text: &str, columns: usize) -> String {
    let mut line = String::new();
    for (n, c) in text.trim().chars().enumerate() {
        if n + 1 >= columns {
            line.push('…');
            break;
        }
        line.push(if c.is_control() { ' ' } else { c });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_given_commands() {
        assert_eq!(
            printable("a\tb\n\x1b]0;title\x07\r\u{9b}2J\u{202e}x\x7f"),
            "a\tb\n␛]0;title␇␍�2J�x␡"
        );
    }

    #[test]
    fn long_and_broken_lines_are_cut() {
        assert_eq!(one_line(" cargo\ntest ", 20), "cargo test");
        assert_eq!(one_line("0123456789", 10), "012345678…");
        assert_eq!(one_line("012345678", 10), "012345678");
    }
}
