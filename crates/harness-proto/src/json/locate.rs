//! From the position of an error to the field it is in.

/// Longest path returned, in bytes; the keys in it are the peer's.
const MAX_PATH: usize = 256;

/// Open arrays and objects followed; the reader gives up at 128.
const MAX_FRAMES: usize = 160;

enum Frame {
    /// The last key, once one was read.
    Object(Option<(usize, usize)>),
    Array(usize),
}

/// Returns the path of the value at a position, such as `config.models[0].name`.
///
/// The text need not be JSON: what follows the position is not looked at, and what comes before
/// it was accepted by the parser.
pub(super) fn path(json: &str, line: usize, column: usize) -> String {
    let bytes = json.as_bytes();
    let end = offset(bytes, line, column);
    let mut frames: Vec<Frame> = Vec::new();
    let mut at = 0;
    // Whether a string in an object would be a key.
    let mut key_next = false;
    while at < end && frames.len() < MAX_FRAMES {
        match bytes.get(at) {
            Some(b'{') => {
                frames.push(Frame::Object(None));
                key_next = true;
            }
            Some(b'[') => frames.push(Frame::Array(0)),
            Some(b'}' | b']') => {
                frames.pop();
            }
            Some(b',') => match frames.last_mut() {
                Some(Frame::Array(index)) => *index += 1,
                _ => key_next = true,
            },
            Some(b'"') => {
                let start = at + 1;
                let stop = string_end(bytes, start);
                if key_next && let Some(Frame::Object(key)) = frames.last_mut() {
                    *key = Some((start, stop));
                    key_next = false;
                }
                at = stop;
            }
            _ => {}
        }
        at += 1;
    }
    render(json, &frames)
}

fn offset(bytes: &[u8], line: usize, column: usize) -> usize {
    let mut start = 0;
    for _ in 1..line {
        match bytes
            .get(start..)
            .and_then(|rest| rest.iter().position(|byte| *byte == b'\n'))
        {
            Some(found) => start += found + 1,
            None => break,
        }
    }
    (start + column).min(bytes.len())
}

/// The position of the closing quote, or the end of the text.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn render(json: &str, frames: &[Frame]) -> String {
    let mut path = String::new();
    for frame in frames {
        match frame {
            Frame::Object(None) => {}
            Frame::Object(Some((start, stop))) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(json.get(*start..*stop).unwrap_or_default());
            }
            Frame::Array(index) => path.push_str(&format!("[{index}]")),
        }
    }
    shorten(path)
}

/// Cuts a path at a character border.
pub(super) fn shorten(mut path: String) -> String {
    if path.len() > MAX_PATH {
        path.truncate(path.floor_char_boundary(MAX_PATH));
        path.push('…');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_follow_keys_and_indexes() {
        let json = r#"{"a":{"b\"{":[1,{"c":2},3]},"d":4}"#;
        let at = |needle: &str| path(json, 1, json.find(needle).unwrap() + 1);
        assert_eq!(at("1,"), "a.b\\\"{[0]");
        assert_eq!(at("2}"), "a.b\\\"{[1].c");
        assert_eq!(at("3]"), "a.b\\\"{[2]");
        assert_eq!(at("4}"), "d");
        assert_eq!(path(json, 1, json.len()), "");
    }

    #[test]
    fn long_keys_are_cut_between_characters() {
        let json = format!("{{\"x{}\":1", "é".repeat(1_000));
        let path = path(&json, 1, json.len());
        assert_eq!(path, format!("x{}…", "é".repeat(127)));
    }

    proptest! {
        #[test]
        fn any_text_and_position_has_some_path(
            text in r#"([\[\]{}",:\\a1é \n]){0,40}"#, line in 0usize..5, column in 0usize..50,
        ) {
            path(&text, line, column);
        }
    }
}
