//! F032: output of any size in bounded memory.

use harness_process::{BoundedOutput, BoundedText, Dropped};
use proptest::collection::vec;
use proptest::prelude::*;

fn collect(head: usize, tail: usize, pieces: &[&str]) -> BoundedText {
    let mut output = BoundedOutput::new(head, tail);
    for piece in pieces {
        output.push(piece);
    }
    output.finish()
}

#[test]
fn short_text_is_kept_whole() {
    let whole = BoundedText {
        head: "one\ntwo\nthr".to_owned(),
        tail: String::new(),
        dropped: None,
    };
    assert_eq!(collect(6, 5, &["one\ntwo\nthr"]), whole);
    assert_eq!(whole.to_string(), "one\ntwo\nthr");
    assert_eq!(collect(0, 0, &[]).to_string(), "");
}

#[test]
fn long_text_is_cut_on_lines() {
    let kept = collect(10, 10, &["first\nsecond\n", "third\nfourth\n", "last\n"]);
    let expected = BoundedText {
        head: "first\n".to_owned(),
        tail: "last\n".to_owned(),
        dropped: Some(Dropped {
            bytes: 20,
            lines: 3,
        }),
    };
    assert_eq!(kept, expected);
    assert_eq!(
        kept.to_string(),
        "first\n[20 bytes with 3 line ends left out]\nlast\n"
    );
}

#[test]
fn a_line_that_begins_at_the_kept_end_stays() {
    let kept = collect(6, 5, &["first\nsecond\nlast\n"]);
    assert_eq!(
        (kept.head.as_str(), kept.tail.as_str()),
        ("first\n", "last\n")
    );
}

#[test]
fn one_long_line_is_cut_on_characters() {
    let kept = collect(4, 4, &["äöüäöüäöü"]);
    let expected = BoundedText {
        head: "äö".to_owned(),
        tail: "öü".to_owned(),
        dropped: Some(Dropped {
            bytes: 10,
            lines: 0,
        }),
    };
    assert_eq!(kept, expected);
    assert_eq!(
        kept.to_string(),
        "äö\n[10 bytes with 0 line ends left out]\nöü"
    );
    assert_eq!(
        collect(3, 3, &["äöüäöüäöü"]).to_string(),
        "ä\n[14 bytes with 0 line ends left out]\nü"
    );
}

#[test]
fn nothing_kept_is_still_counted() {
    let kept = collect(0, 0, &["a\n", "b\n", "", "c"]);
    let expected = BoundedText {
        head: String::new(),
        tail: String::new(),
        dropped: Some(Dropped { bytes: 5, lines: 2 }),
    };
    assert_eq!(kept, expected);
}

#[test]
fn a_snapshot_does_not_disturb() {
    let mut output = BoundedOutput::new(2, 2);
    output.push("abc");
    assert_eq!(output.snapshot().to_string(), "abc");
    output.push("def");
    assert_eq!((output.total_bytes(), output.total_lines()), (6, 0));
    assert_eq!(
        output.finish().to_string(),
        "ab\n[2 bytes with 0 line ends left out]\nef"
    );
}

fn text() -> impl Strategy<Value = String> {
    "[a-c\näß≤𝄞]{0,120}"
}

fn line_ends(text: &str) -> u64 {
    text.matches('\n').count() as u64
}

proptest! {
    #[test]
    fn counts_are_exact_and_ends_are_ends(
        pieces in vec(text(), 0..12),
        head in 0..60_usize,
        tail in 0..60_usize,
    ) {
        let whole = pieces.concat();
        let kept = collect(head, tail, &pieces.iter().map(String::as_str).collect::<Vec<_>>());
        // The same, however it was cut.
        prop_assert_eq!(&kept, &collect(head, tail, &[&whole]));
        match kept.dropped {
            None => {
                prop_assert!(whole.len() <= head + tail);
                prop_assert_eq!((kept.head, kept.tail), (whole, String::new()));
            }
            Some(dropped) => {
                prop_assert!(whole.len() > head + tail);
                prop_assert!(whole.starts_with(&kept.head) && whole.ends_with(&kept.tail));
                prop_assert!(kept.head.len() <= head && kept.tail.len() <= tail);
                let middle = &whole[kept.head.len()..whole.len() - kept.tail.len()];
                let expected = Dropped {
                    bytes: middle.len() as u64,
                    lines: line_ends(middle),
                };
                prop_assert_eq!(dropped, expected);
                // At least half of each end is used; a character of up to 4 bytes may not fit.
                prop_assert!(kept.head.len() * 2 + 6 >= head, "{} of {head}", kept.head.len());
                prop_assert!(kept.tail.len() * 2 + 6 >= tail, "{} of {tail}", kept.tail.len());
            }
        }
    }
}
