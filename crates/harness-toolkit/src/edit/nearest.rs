//! Finds where a text that does not match was probably meant to be (F086).

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::limit::brief;

/// How many places and lines are shown.
const MAX_PLACES: usize = 3;
const MAX_LINES: usize = 8;
const MAX_LINE_BYTES: usize = 200;

/// How many lines of a file are compared letter by letter.
const MAX_COMPARED: usize = 20_000;

/// How alike two lines must be, in hundredths.
const ALIKE: usize = 50;

/// Tells which lines of `text` are most like `target`. Empty when none is.
pub(super) fn nearest(text: &str, target: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = target.lines().collect();
    let mut out = String::new();
    let places = by_equal_lines(&lines, &wanted);
    if places.is_empty() {
        if let Some(index) = by_letters(&lines, &wanted) {
            let _ = writeln!(out, "The line most like its beginning is:");
            show(&mut out, &lines, index, 1);
        }
        return out;
    }
    for (start, equal) in places {
        let end = (start + wanted.len()).min(lines.len());
        let here = &lines[start..end];
        let spaces_only = here.len() == wanted.len()
            && here.iter().zip(&wanted).all(|(a, b)| a.trim() == b.trim());
        let _ = match spaces_only {
            true => writeln!(
                out,
                "Lines {} to {end} differ only in spaces or tabs:",
                start + 1
            ),
            false => writeln!(
                out,
                "Lines {} to {end} have {equal} of its {} lines:",
                start + 1,
                wanted.len()
            ),
        };
        // The first difference is what the model has to see.
        let differs = here.iter().zip(&wanted).position(|(a, b)| a != b);
        let from = differs.unwrap_or(0).saturating_sub(MAX_LINES / 2);
        show(
            &mut out,
            &lines,
            start + from,
            (here.len() - from).min(MAX_LINES),
        );
    }
    out
}

fn show(out: &mut String, lines: &[&str], start: usize, count: usize) {
    for (index, line) in lines.iter().enumerate().skip(start).take(count) {
        let _ = writeln!(out, "{}: {}", index + 1, brief(line, MAX_LINE_BYTES));
    }
}

/// The starts of the places that share most lines with `wanted`, spaces at the ends aside, with
/// how many they share.
fn by_equal_lines(lines: &[&str], wanted: &[&str]) -> Vec<(usize, usize)> {
    // Braces and the like are everywhere.
    let telling = |line: &str| line.trim().len() > 2;
    let mut offsets: HashMap<&str, Vec<usize>> = HashMap::new();
    for (offset, line) in wanted.iter().enumerate().filter(|(_, line)| telling(line)) {
        let places = offsets.entry(line.trim()).or_default();
        if places.len() < 16 {
            places.push(offset);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        for offset in offsets.get(line.trim()).into_iter().flatten() {
            if let Some(start) = index.checked_sub(*offset) {
                *votes.entry(start).or_default() += 1;
            }
        }
    }
    let mut best: Vec<(usize, usize)> = votes.into_iter().collect();
    best.sort_by_key(|&(start, equal)| (std::cmp::Reverse(equal), start));
    let most = best.first().map_or(0, |best| best.1);
    best.retain(|&(_, equal)| equal == most);
    best.truncate(MAX_PLACES);
    best
}

/// The line whose pairs of letters are most like those of the first telling line of `wanted`.
fn by_letters(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let first = wanted.iter().find(|line| !line.trim().is_empty())?;
    let wanted = pairs(first);
    let scores = lines
        .iter()
        .take(MAX_COMPARED)
        .enumerate()
        .map(|(index, line)| {
            let pairs = pairs(line);
            let total = pairs.len() + wanted.len();
            let shared = shared(&pairs, &wanted);
            (200 * shared / total.max(1), std::cmp::Reverse(index))
        });
    let (score, index) = scores.max()?;
    (score >= ALIKE).then_some(index.0)
}

fn pairs(line: &str) -> Vec<[u8; 2]> {
    let line = brief(line.trim(), MAX_LINE_BYTES);
    let mut pairs: Vec<[u8; 2]> = line
        .as_bytes()
        .windows(2)
        .map(|it| [it[0], it[1]])
        .collect();
    pairs.sort_unstable();
    pairs
}

/// How many items two sorted lists share.
fn shared(mut a: &[[u8; 2]], mut b: &[[u8; 2]]) -> usize {
    let mut count = 0;
    while let ([first_a, rest_a @ ..], [first_b, rest_b @ ..]) = (a, b) {
        match first_a.cmp(first_b) {
            std::cmp::Ordering::Less => a = rest_a,
            std::cmp::Ordering::Greater => b = rest_b,
            std::cmp::Ordering::Equal => {
                count += 1;
                (a, b) = (rest_a, rest_b);
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_indentation_is_named() {
        let text = "fn a() {\n    one();\n    two();\n}\n";
        assert_eq!(
            nearest(text, "  one();\n  two();"),
            "Lines 2 to 3 differ only in spaces or tabs:\n2:     one();\n3:     two();\n"
        );
    }

    #[test]
    fn one_wrong_line_in_the_middle_is_shown() {
        let text = "<a>\n<bcd x=1>\n<cde>\n<def>\n";
        assert_eq!(
            nearest(text, "<bcd x=1>\n<ccc>\n<def>"),
            "Lines 2 to 4 have 2 of its 3 lines:\n2: <bcd x=1>\n3: <cde>\n4: <def>\n"
        );
    }

    #[test]
    fn a_misspelt_line_is_found() {
        let text = "alpha\nlet total = count + 1;\nomega\n";
        assert_eq!(
            nearest(text, "let totl = count + 1;"),
            "The line most like its beginning is:\n2: let total = count + 1;\n"
        );
        assert_eq!(nearest(text, "zzzzzz"), "");
        assert_eq!(nearest("", "x"), "");
    }
}
