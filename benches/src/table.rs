//! The samples of a run, and how they are shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::contender::Side;
use crate::row::{Goal, Row, Spec, Unit};

/// All that was measured.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: BTreeMap<Row, Figures>,
    judges: bool,
}

/// What was measured for one row, in seconds or bytes. The n-th sample of one side and the n-th of
/// the other were taken one after the other.
#[derive(Debug, Default)]
struct Figures {
    ours: Vec<f64>,
    theirs: Vec<f64>,
    failed: Option<String>,
    note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Reached,
    Missed,
    NotJudged,
}

impl Table {
    /// A table that says whether figures are reached.
    pub(crate) fn judging() -> Self {
        Self {
            judges: true,
            ..Self::default()
        }
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, row: Row, side: Side, value: f64) {
        let figures = self.rows.entry(row).or_default();
        match side {
            Side::Ours => figures.ours.push(value),
            Side::Theirs => figures.theirs.push(value),
        }
    }

    /// Says why a row of ours could not be measured.
    pub(crate) fn fail(&mut self, row: Row, why: &str) {
        self.rows.entry(row).or_default().failed = Some(why.to_owned());
    }

    /// Says something about a row, such as why there is nothing beside ours.
    pub(crate) fn note(&mut self, row: Row, note: &str) {
        self.rows.entry(row).or_default().note = Some(note.to_owned());
    }

    /// Whether every row has a sample of ours and none has failed.
    pub(crate) fn is_complete(&self) -> bool {
        Row::ALL.iter().all(|row| {
            let figures = self.rows.get(row);
            figures.is_some_and(|f| !f.ours.is_empty() && f.failed.is_none())
        })
    }

    /// The table as text.
    pub(crate) fn render(&self) -> String {
        let mut text = line(["", "ours", "theirs", "ratio", "required", ""]);
        let mut notes = String::new();
        let (mut judged, mut reached) = (0, 0);
        let none = Figures::default();
        for row in Row::ALL {
            let spec = row.spec();
            let figures = self.rows.get(&row).unwrap_or(&none);
            let verdict = self.verdict(&spec, figures);
            judged += usize::from(verdict != Verdict::NotJudged);
            reached += usize::from(verdict == Verdict::Reached);
            let cell =
                |samples: &[f64]| median(samples).map_or("–".into(), |v| spec.unit.show(v));
            let ratio = median(&ratios(spec.goal, figures));
            let ratio = ratio.map_or("–".into(), |ratio| format!("{} ×", significant(ratio)));
            let required = match spec.goal {
                Goal::Less(times) => format!("≥ {times} ×"),
                Goal::Within(times) => format!("≤ {times} ×"),
                Goal::AtMost(value) => format!("≤ {}", spec.unit.show(value)),
                Goal::Watched => "–".into(),
            };
            let word = match verdict {
                _ if figures.failed.is_some() || figures.ours.is_empty() => "FAILED",
                Verdict::Reached => "reached",
                Verdict::Missed => "MISSED",
                Verdict::NotJudged => "",
            };
            text.push_str(&line([
                spec.title,
                &cell(&figures.ours),
                &cell(&figures.theirs),
                &ratio,
                &required,
                word,
            ]));
            for problem in figures.failed.iter().chain(&figures.note) {
                let _ = writeln!(notes, "{}: {problem}", spec.title);
            }
        }
        if judged > 0 {
            let _ = writeln!(
                text,
                "\n{reached} of {judged} required figures are reached."
            );
        }
        if !notes.is_empty() {
            let _ = write!(text, "\n{notes}");
        }
        text
    }

    /// The table with all samples.
    pub(crate) fn to_json(&self) -> Value {
        let none = Figures::default();
        let side = |samples: &[f64]| json!({"median": median(samples), "samples": samples});
        Row::ALL
            .iter()
            .map(|row| {
                let spec = row.spec();
                let figures = self.rows.get(row).unwrap_or(&none);
                let (goal, value) = match spec.goal {
                    Goal::Less(times) => ("theirs_over_ours_at_least", Some(times)),
                    Goal::Within(times) => ("ours_over_theirs_at_most", Some(times)),
                    Goal::AtMost(value) => ("ours_at_most", Some(value)),
                    Goal::Watched => ("none", None),
                };
                json!({
                    "key": spec.key,
                    "title": spec.title,
                    "unit": match spec.unit { Unit::Seconds => "seconds", Unit::Bytes => "bytes" },
                    "ours": side(&figures.ours),
                    "theirs": side(&figures.theirs),
                    "ratio": side(&ratios(spec.goal, figures)),
                    "goal": {"kind": goal, "value": value},
                    "reached": match self.verdict(&spec, figures) {
                        Verdict::Reached => Some(true),
                        Verdict::Missed => Some(false),
                        Verdict::NotJudged => None,
                    },
                    "failed": figures.failed,
                    "note": figures.note,
                })
            })
            .collect()
    }

    fn verdict(&self, spec: &Spec, figures: &Figures) -> Verdict {
        let ratio = median(&ratios(spec.goal, figures));
        let reached = match spec.goal {
            _ if !self.judges => None,
            Goal::Less(times) => ratio.map(|ratio| ratio >= times),
            Goal::Within(times) => ratio.map(|ratio| ratio <= times),
            Goal::AtMost(value) => median(&figures.ours).map(|ours| ours <= value),
            Goal::Watched => None,
        };
        match reached {
            Some(true) => Verdict::Reached,
            Some(false) => Verdict::Missed,
            None => Verdict::NotJudged,
        }
    }
}

fn line(cells: [&str; 6]) -> String {
    let [title, ours, theirs, ratio, required, word] = cells;
    let line = format!("{title:<44} {ours:>10} {theirs:>10} {ratio:>9} {required:>10}  {word}");
    format!("{}\n", line.trim_end())
}

/// The ratio of each round, the way round in which the goal is stated.
fn ratios(goal: Goal, figures: &Figures) -> Vec<f64> {
    let pairs = figures.ours.iter().zip(&figures.theirs);
    pairs
        .map(|(ours, theirs)| match goal {
            Goal::Within(_) => ours / theirs,
            Goal::Less(_) | Goal::AtMost(_) | Goal::Watched => theirs / ours,
        })
        .collect()
}

/// The middle sample, or the mean of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    match sorted.len() % 2 {
        0 => Some((sorted.get(half - 1)? + upper) / 2.0),
        _ => Some(upper),
    }
}

impl Unit {
    fn show(self, value: f64) -> String {
        let (scaled, unit) = match self {
            Self::Seconds if value < 1e-3 => (value * 1e6, "µs"),
            Self::Seconds if value < 1.0 => (value * 1e3, "ms"),
            Self::Seconds => (value, "s"),
            Self::Bytes if value < 1e6 => (value / 1e3, "kB"),
            Self::Bytes => (value / 1e6, "MB"),
        };
        format!("{} {unit}", significant(scaled))
    }
}

/// A number with three significant digits, or all digits before the point.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn numbers_are_short() {
        let shown = |unit: Unit, value| unit.show(value);
        assert_eq!(shown(Unit::Seconds, 0.000_123_4), "123 µs");
        assert_eq!(shown(Unit::Seconds, 0.067), "67.0 ms");
        assert_eq!(shown(Unit::Seconds, 1.449), "1.45 s");
        assert_eq!(shown(Unit::Bytes, 131_326_296.0), "131 MB");
        assert_eq!(shown(Unit::Bytes, 800.0), "0.80 kB");
    }

    #[test]
    fn rows_are_judged_by_the_median_of_their_pairs() {
        let mut table = Table::judging();
        // The pairs are 30, 30 and 10 times; the medians alone would say 20.
        for (ours, theirs) in [(1.0, 30.0), (2.0, 60.0), (3.0, 30.0)] {
            table.add(Row::Handshake, Side::Ours, ours);
            table.add(Row::Handshake, Side::Theirs, theirs);
        }
        table.add(Row::HostCalls, Side::Ours, 0.4);
        table.add(Row::GrepAlone, Side::Ours, 0.2);
        table.add(Row::GrepAlone, Side::Theirs, 0.4);
        table.add(Row::Exit, Side::Ours, 0.4);
        let verdict = |row: Row| table.verdict(&row.spec(), &table.rows[&row]);
        assert_eq!(verdict(Row::Handshake), Verdict::Reached);
        assert_eq!(verdict(Row::HostCalls), Verdict::Missed);
        assert_eq!(verdict(Row::GrepAlone), Verdict::Reached);
        assert_eq!(verdict(Row::Exit), Verdict::NotJudged);
    }

    #[test]
    fn a_run_without_a_peer_is_complete_but_one_without_a_row_is_not() {
        let mut table = Table::default();
        for row in Row::ALL {
            assert!(!table.is_complete());
            table.add(row, Side::Ours, 1.0);
        }
        assert!(table.is_complete());
        table.fail(Row::Exit, "it never ended");
        assert!(!table.is_complete());
        assert!(table.render().contains("FAILED"));
    }

    #[test]
    fn the_keys_are_unique() {
        let keys: std::collections::BTreeSet<_> = Row::ALL.map(|row| row.spec().key).into();
        assert_eq!(keys.len(), Row::ALL.len());
    }
}
