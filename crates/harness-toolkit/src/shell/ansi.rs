//! Takes out of terminal output what only a terminal understands.

/// Removes escape sequences (colours, cursor movement, titles) and control characters other than
/// tab, line end, backspace and carriage return, from text that arrives in pieces. CR LF becomes
/// LF.
///
/// The grammar is that of ECMA-48. A sequence that is broken off by a line end is over there, so
/// that no broken program can hide what follows.
#[derive(Debug, Default)]
pub(super) struct Plain {
    state: State,
    /// A carriage return whose line end may follow.
    held_return: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate character.
    Short,
    /// In a control sequence.
    Control,
    /// In a title or another string; ends with BEL or ESC \.
    Str,
    /// After ESC in a string.
    StringEscape,
}

impl Plain {
    /// Appends what is left of `text` to `out`.
    pub(super) fn feed(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            self.step(c, out);
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self, out: &mut String) {
        if std::mem::take(&mut self.held_return) {
            out.push('\r');
        }
        self.state = State::Text;
    }

    fn step(&mut self, c: char, out: &mut String) {
        self.state = match (self.state, c) {
            (State::StringEscape, '\\') => State::Text,
            // Whatever it was in, this begins anew.
            (State::Str, '\x1b') => State::StringEscape,
            (_, '\x1b') => State::Escape,
            (State::Str, '\x07' | '\u{9c}') => State::Text,
            (State::Text, '\u{9b}') | (State::Escape | State::StringEscape, '[') => State::Control,
            (State::Escape | State::StringEscape, ']' | 'P' | 'X' | '^' | '_') => State::Str,
            (State::Escape | State::StringEscape | State::Short, ' '..='/') => State::Short,
            (State::Escape | State::StringEscape | State::Short, '0'..='~') => State::Text,
            (State::Control, ' '..='?') => State::Control,
            (State::Control, '@'..='~') => State::Text,
            (State::Str, c) if c != '\n' => State::Str,
            (_, c) => {
                self.show(c, out);
                State::Text
            }
        };
    }

    fn show(&mut self, c: char, out: &mut String) {
        if std::mem::take(&mut self.held_return) && c != '\n' {
            out.push('\r');
        }
        match c {
            '\r' => self.held_return = true,
            '\t' | '\n' | '\x08' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(pieces: &[&str]) -> String {
        let mut out = String::new();
        let mut plain = Plain::default();
        for piece in pieces {
            plain.feed(piece, &mut out);
        }
        plain.finish(&mut out);
        out
    }

    #[test]
    fn what_a_terminal_understands_is_gone() {
        for (text, shown) in [
            ("\x1b[31mred\x1b[0m \x1b[38;5;12mx\x1b[K", "red x"),
            (
                "\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
                "alink",
            ),
            ("\x1b(Bplain\x1b=\x1b>", "plain"),
            ("\u{9b}1mbold", "bold"),
            ("a\r\nb\rc\x08\t\0\x07\x7fd\r", "a\nb\rc\x08\td\r"),
            ("\x1b]broken\nnext", "\nnext"),
            ("\x1b[12\nnext", "\nnext"),
            ("\x1b[1\x1b[31mred", "red"),
            ("\x1bPdata\x1b[31mred", "red"),
            ("end\x1b", "end"),
        ] {
            assert_eq!(plain(&[text]), shown, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_text_is_cut(
            text in "([a-z;0-9\n\r\x07\\\\äß]|\x1b\\[|\x1b\\]|\x1b){0,40}", at in 0usize..80,
        ) {
            let at = text.floor_char_boundary(at);
            prop_assert_eq!(plain(&[&text[..at], &text[at..]]), plain(&[&text]));
        }

        #[test]
        fn text_without_controls_stays(text in "[^\\p{Cc}]{0,40}") {
            prop_assert_eq!(plain(&[&text]), text);
        }
    }
}
