//! F030: text that arrives in pieces.

use harness_process::Utf8Stream;
use proptest::collection::vec;
use proptest::prelude::*;

fn decode(pieces: &[&[u8]]) -> String {
    let mut decoder = Utf8Stream::new();
    let mut text = String::new();
    for piece in pieces {
        decoder.decode(piece, &mut text);
    }
    decoder.finish(&mut text);
    text
}

#[test]
fn characters_cut_anywhere_come_out_whole() {
    for character in ["é", "≤", "𝄞"] {
        for cut in 0..=character.len() {
            let (first, last) = character.as_bytes().split_at(cut);
            assert_eq!(decode(&[first, last]), character);
        }
    }
}

#[test]
fn invalid_bytes_are_shown_once() {
    assert_eq!(decode(&[b"a\xff", b"b"]), "a\u{fffd}b");
    assert_eq!(decode(&[b"a\xe2\x89", b"b"]), "a\u{fffd}b");
    assert_eq!(decode(&[b"\xe2", b"\xe2\x89\xa4"]), "\u{fffd}≤");
    assert_eq!(decode(&[b"\xf0\x9d", b"\x84"]), "\u{fffd}");
    // A surrogate half and an overlong form are invalid byte by byte.
    assert_eq!(decode(&[b"\xed", b"\xa0\x80"]), "\u{fffd}\u{fffd}\u{fffd}");
    assert_eq!(decode(&[b"\xc0", b"\x80"]), "\u{fffd}\u{fffd}");
}

#[test]
fn finish_begins_a_new_stream() {
    let mut decoder = Utf8Stream::new();
    let mut text = String::new();
    decoder.decode(b"\xe2\x89", &mut text);
    decoder.finish(&mut text);
    decoder.decode(b"\xa4", &mut text);
    decoder.finish(&mut text);
    decoder.finish(&mut text);
    assert_eq!(text, "\u{fffd}\u{fffd}");
}

/// Bytes that are often at the edge of validity.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<char>().prop_map(|c| c.to_string().into_bytes()),
        any::<char>().prop_map(|c| {
            let mut bytes = c.to_string().into_bytes();
            bytes.pop();
            bytes
        }),
        vec(any::<u8>(), 0..3),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_cutting_gives_the_lossy_whole(bytes in bytes(), sizes in vec(0..6_usize, 0..200)) {
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for size in sizes {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        prop_assert_eq!(decode(&pieces), String::from_utf8_lossy(&bytes));
    }
}
