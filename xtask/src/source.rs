//! Just enough of Rust's lexical grammar to look for words in code and not in comments, text
//! or documentation.

/// Which parts of a source text are replaced by spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blank {
    /// Comments only: string literals can still be read.
    Comments,
    /// Comments, and what string and character literals hold.
    CommentsAndLiterals,
}

/// Replaces the named parts of `source` by spaces. Line breaks stay, so a position in the result
/// has the line number it has in the source.
pub(crate) fn blanked(source: &str, blank: Blank) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut result = String::with_capacity(source.len());
    let mut at = 0;
    while at < characters.len() {
        let (length, is_blanked) = match token(&characters[at..]) {
            Token::Comment(length) => (length, true),
            Token::Literal(length) => (length, blank == Blank::CommentsAndLiterals),
            Token::Other(length) => (length, false),
        };
        for &character in &characters[at..at + length] {
            result.push(if is_blanked && character != '\n' {
                ' '
            } else {
                character
            });
        }
        at += length;
    }
    result
}

/// The 1-based lines on which `word` stands alone, not as a part of a longer identifier.
pub(crate) fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    code.lines()
        .enumerate()
        .filter(|(_, line)| word_positions(line, word).next().is_some())
        .map(|(index, _)| index + 1)
        .collect()
}

/// The byte positions at which `word` stands alone in `code`.
pub(crate) fn word_positions<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let before = code[..at].chars().next_back();
            let after = code[at + word.len()..].chars().next();
            !before.is_some_and(is_word_character) && !after.is_some_and(is_word_character)
        })
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// What a text starts with, and for how many characters (at least one).
enum Token {
    Comment(usize),
    Literal(usize),
    Other(usize),
}

fn token(text: &[char]) -> Token {
    match text {
        ['/', '/', ..] => Token::Comment(length_until(text, |rest| rest[0] == '\n')),
        ['/', '*', ..] => Token::Comment(block_comment(text)),
        ['"', ..] => Token::Literal(quoted(text, '"')),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => Token::Literal(quoted(text, '\'')),
        // A prefix such as `r`, `br` or `c` belongs to the literal; a longer word does not, and
        // is taken whole so that its last letter is not read as a prefix.
        [first, ..] if is_word_character(*first) => {
            let word = length_until(text, |rest| !is_word_character(rest[0]));
            let prefix: String = text[..word].iter().collect();
            match (prefix.as_str(), &text[word..]) {
                ("r" | "br" | "cr", ['"' | '#', ..]) => match raw_string(&text[word..]) {
                    Some(length) => Token::Literal(word + length),
                    None => Token::Other(word),
                },
                ("b" | "c", rest @ ['"', ..]) => Token::Literal(word + quoted(rest, '"')),
                ("b", rest @ ['\'', ..]) => Token::Literal(word + quoted(rest, '\'')),
                _ => Token::Other(word),
            }
        }
        _ => Token::Other(1),
    }
}

/// How many characters pass before `ends` is true of the rest.
fn length_until(text: &[char], ends: impl Fn(&[char]) -> bool) -> usize {
    (0..text.len())
        .find(|&at| ends(&text[at..]))
        .unwrap_or(text.len())
}

/// The length of a block comment; block comments nest.
fn block_comment(text: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        match text[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// The length of a literal between two `quote`s with backslash escapes.
fn quoted(text: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            character if character == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The length of `#…#"…"#…#`, or `None` if no string follows (a raw identifier).
fn raw_string(text: &[char]) -> Option<usize> {
    let hashes = length_until(text, |rest| rest[0] != '#');
    if text.get(hashes) != Some(&'"') {
        return None;
    }
    let body = &text[hashes + 1..];
    let ends = |rest: &[char]| {
        rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|&c| c == '#')
    };
    let length = length_until(body, ends);
    Some((hashes + 1 + length + 1 + hashes).min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_stays() {
        let source = r##"let a = "un\"safe"; // unsafe
/* unsafe /* nested unsafe */ unsafe */ let b = r#"unsafe " "#;
let c = b"unsafe"; let d = '"'; let e: &'static str = br"unsafe\";
fn r#unsafe_like<'a>(x: &'a str) { unsafe { x } }
"##;
        assert_eq!(
            blanked(source, Blank::CommentsAndLiterals)
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>(),
            [
                "let a = ;",
                "let b = ;",
                "let c = ; let d = ; let e: &'static str = ;",
                "fn r#unsafe_like<'a>(x: &'a str) { unsafe { x } }",
            ]
        );
    }

    #[test]
    fn literals_can_be_kept() {
        let source = "x(\"// no comment\", '\\'', r\"/*\"); // gone\n";
        assert_eq!(
            blanked(source, Blank::Comments),
            "x(\"// no comment\", '\\'', r\"/*\");        \n"
        );
    }

    #[test]
    fn positions_keep_their_lines() {
        let source = "/*\n\n*/ \"\n\" unsafe\n// unsafe\nunsafe_code unsafe_ my_unsafe\nunsafe{}";
        let code = blanked(source, Blank::CommentsAndLiterals);
        assert_eq!(code.lines().count(), source.lines().count());
        assert_eq!(lines_with_word(&code, "unsafe"), [4, 7]);
    }

    #[test]
    fn a_text_that_ends_in_the_middle_of_a_token_is_read_to_its_end() {
        for source in [
            "\"open",
            "'\\",
            "/* open",
            "r#\"open\"",
            "br##",
            "'a",
            "b'",
            "\"\\",
        ] {
            assert_eq!(
                blanked(source, Blank::Comments).chars().count(),
                source.chars().count()
            );
        }
    }
}
