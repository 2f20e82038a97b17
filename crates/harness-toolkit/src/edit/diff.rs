//! What changed in a text, as hunks.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use harness_types::{DiffBlock, DiffLine, LineChange};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use crate::limit::brief;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// The most lines and bytes of all hunks together.
const MAX_LINES: usize = 1000;
const MAX_BYTES: usize = 128 * 1024;

/// The most bytes shown of one line.
const MAX_LINE_BYTES: usize = 2000;

/// Above so many changed lines, finding out which of them stayed costs more than it tells.
const MAX_COMPARED_LINES: usize = 20_000;

/// How long the shortest description is looked for.
const PATIENCE: Duration = Duration::from_millis(200);

/// The hunks that lead from one text to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Diff {
    /// The hunks, with three lines of context.
    pub(super) blocks: Vec<DiffBlock>,
    /// For each hunk, the first new line it covers, from 0.
    new_starts: Vec<usize>,
    /// Changed lines that did not fit.
    left_out: usize,
}

impl Diff {
    pub(super) fn new(old: &str, new: &str) -> Self {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let mut diff = Self {
            blocks: Vec::new(),
            new_starts: Vec::new(),
            left_out: 0,
        };
        let mut room = Room {
            lines: MAX_LINES,
            bytes: MAX_BYTES,
        };
        for group in group_diff_ops(operations(&old, &new), CONTEXT) {
            diff.add(&group, &old, &new, &mut room);
        }
        diff
    }

    fn add(&mut self, group: &[DiffOp], old: &[&str], new: &[&str], room: &mut Room) {
        let Some(first) = group.first() else {
            return;
        };
        let (start, new_start) = (first.old_range().start, first.new_range().start);
        let mut end = start;
        let mut lines = Vec::new();
        for operation in group {
            let (removed, added) = (operation.old_range(), operation.new_range());
            let (kept, removed, added) = match operation {
                DiffOp::Equal { .. } => (removed, 0..0, 0..0),
                _ => (0..0, removed, added),
            };
            let all = (kept.map(|at| (LineChange::Keep, old[at])))
                .chain(removed.map(|at| (LineChange::Delete, old[at])))
                .chain(added.map(|at| (LineChange::Insert, new[at])));
            for (change, line) in all {
                let line = line.strip_suffix('\n').unwrap_or(line);
                let line = line.strip_suffix('\r').unwrap_or(line);
                let text = brief(line, MAX_LINE_BYTES).into_owned();
                if !room.take(&text) {
                    self.left_out += usize::from(change != LineChange::Keep);
                    continue;
                }
                end += usize::from(change != LineChange::Insert);
                lines.push(DiffLine { change, text });
            }
        }
        if !lines.is_empty() {
            self.new_starts.push(new_start);
            self.blocks.push(DiffBlock {
                start_line: number(start),
                end_line: number(end),
                lines,
            });
        }
    }

    /// The unified form, for the model.
    pub(super) fn unified(&self) -> String {
        let mut text = String::new();
        for (block, new_start) in self.blocks.iter().zip(&self.new_starts) {
            let count = |other: LineChange| {
                let shown = block.lines.iter().filter(|line| line.change != other);
                shown.count()
            };
            let (old, new) = (count(LineChange::Insert), count(LineChange::Delete));
            // By convention an empty side names the line before.
            let old_start = block.start_line as usize + usize::from(old > 0);
            let new_start = new_start + usize::from(new > 0);
            let _ = writeln!(text, "@@ -{old_start},{old} +{new_start},{new} @@");
            for line in &block.lines {
                let sign = match line.change {
                    LineChange::Keep => ' ',
                    LineChange::Insert => '+',
                    LineChange::Delete => '-',
                };
                let _ = writeln!(text, "{sign}{}", line.text);
            }
        }
        if self.left_out > 0 {
            let _ = writeln!(text, "… {} more changed lines", self.left_out);
        }
        text
    }
}

/// What may still be shown. Once something did not fit, nothing does: a hunk has no holes.
struct Room {
    lines: usize,
    bytes: usize,
}

impl Room {
    fn take(&mut self, text: &str) -> bool {
        if self.lines == 0 || self.bytes < text.len() {
            self.lines = 0;
            return false;
        }
        self.lines -= 1;
        self.bytes -= text.len();
        true
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// How `old` becomes `new`. Only what is between their common ends is compared.
fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let pairs = old_rest.iter().rev().zip(new_rest.iter().rev());
    let after = pairs.take_while(|(a, b)| a == b).count();
    let old_middle = &old_rest[..old_rest.len() - after];
    let new_middle = &new_rest[..new_rest.len() - after];

    let mut all = Vec::new();
    if before > 0 {
        all.push(DiffOp::Equal {
            old_index: 0,
            new_index: 0,
            len: before,
        });
    }
    if old_middle.len() + new_middle.len() > MAX_COMPARED_LINES {
        all.push(DiffOp::Replace {
            old_index: before,
            old_len: old_middle.len(),
            new_index: before,
            new_len: new_middle.len(),
        });
    } else {
        let deadline = Instant::now() + PATIENCE;
        let middle =
            capture_diff_slices_deadline(Algorithm::Myers, old_middle, new_middle, Some(deadline));
        all.extend(middle.into_iter().map(|operation| moved(operation, before)));
    }
    if after > 0 {
        all.push(DiffOp::Equal {
            old_index: old.len() - after,
            new_index: new.len() - after,
            len: after,
        });
    }
    all
}

fn moved(mut operation: DiffOp, by: usize) -> DiffOp {
    match &mut operation {
        DiffOp::Equal {
            old_index,
            new_index,
            ..
        }
        | DiffOp::Delete {
            old_index,
            new_index,
            ..
        }
        | DiffOp::Insert {
            old_index,
            new_index,
            ..
        }
        | DiffOp::Replace {
            old_index,
            new_index,
            ..
        } => {
            *old_index += by;
            *new_index += by;
        }
    }
    operation
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hunks_have_three_lines_of_context() {
        let old: String = (1..=30).map(|n| format!("{n}\n")).collect();
        let new = old.replace("\n5\n", "\nfive\n").replace("\n20\n", "\n");
        let diff = Diff::new(&old, &new);
        assert_eq!(
            diff.unified(),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
             @@ -17,7 +17,6 @@\n 17\n 18\n 19\n-20\n 21\n 22\n 23\n"
        );
        let ranges: Vec<_> = diff
            .blocks
            .iter()
            .map(|it| (it.start_line, it.end_line))
            .collect();
        assert_eq!(ranges, [(1, 8), (16, 23)]);
    }

    #[test]
    fn nothing_to_something_and_back() {
        assert_eq!(Diff::new("", "a\nb").unified(), "@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(Diff::new("a\r\n", "").unified(), "@@ -1,1 +0,0 @@\n-a\n");
        assert_eq!(Diff::new("a\n", "a\n").blocks, []);
    }

    #[test]
    fn huge_changes_are_shortened() {
        let text =
            |word: &str| -> String { (0..30_000).map(|n| format!("{word} {n}\n")).collect() };
        let diff = Diff::new(&text("a"), &text("b"));
        assert_eq!(diff.blocks.len(), 1);
        assert_eq!(diff.blocks[0].lines.len(), MAX_LINES);
        assert_eq!(diff.blocks[0].end_line, 1000);
        assert!(diff.unified().ends_with("… 59000 more changed lines\n"));

        let diff = Diff::new("", &"x".repeat(1_000_000));
        assert_eq!(
            diff.blocks[0].lines[0].text.len(),
            MAX_LINE_BYTES + "…".len()
        );
    }

    proptest! {
        #[test]
        fn hunks_turn_the_old_text_into_the_new_one(
            old in prop::collection::vec("[a-c]", 0..40), new in prop::collection::vec("[a-c]", 0..40),
        ) {
            let diff = Diff::new(&old.join("\n"), &new.join("\n"));
            // An added or missing line end at the end counts as a change of that line.
            let mut result: Vec<&str> = Vec::new();
            let mut at = 0;
            for (block, new_start) in diff.blocks.iter().zip(&diff.new_starts) {
                let start = block.start_line as usize;
                result.extend(old[at..start].iter().map(String::as_str));
                prop_assert_eq!(result.len(), *new_start);
                at = start;
                for line in &block.lines {
                    if line.change != LineChange::Insert {
                        prop_assert_eq!(&line.text, &old[at]);
                        at += 1;
                    }
                    if line.change != LineChange::Delete {
                        result.push(&line.text);
                    }
                }
                prop_assert_eq!(at, block.end_line as usize);
            }
            result.extend(old[at..].iter().map(String::as_str));
            prop_assert_eq!(result, new);
        }
    }
}
