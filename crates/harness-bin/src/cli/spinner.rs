//! The line that shows that something is going on.

use std::time::Duration;

/// The time between two pictures.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// How long a turn runs before a spinner is shown: what is faster would only flicker.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);

const PICTURES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The spinner after `elapsed`, at most `columns` - 1 characters wide: in the last column the
/// cursor would wrap.
pub(crate) fn line(elapsed: Duration, doing: &str, columns: usize) -> String {
    let turn = elapsed.as_millis() / PERIOD.as_millis();
    let picture = PICTURES[(turn % PICTURES.len() as u128) as usize];
    let doing = if doing.is_empty() { "thinking" } else { doing };
    let line = format!("{picture} {} · {doing}", clock(elapsed));
    super::output::one_line(&line, columns.saturating_sub(1))
}

/// A duration for people: `12 s`, `3 min 05 s`.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {:02} s", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_time_and_tool_in_one_line() {
        let after = |millis, doing, columns| line(Duration::from_millis(millis), doing, columns);
        assert_eq!(
            after(12_000, "run_command: cargo test", 80),
            "⠋ 12 s · run_command: cargo test"
        );
        assert_eq!(after(12_345, "", 80), "⠸ 12 s · thinking");
        assert_eq!(after(185_000, "x", 80), "⠋ 3 min 05 s · x");
        assert_eq!(after(0, "run_command: long", 20).chars().count(), 19);
    }
}
