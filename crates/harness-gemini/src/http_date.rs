//! The waits of a `retry-after` header (RFC 9110 §10.2.3).

use std::time::{Duration, SystemTime};

/// How long `retry-after: text` asks to wait at the time `now`: seconds, or a date in any of the
/// three forms of RFC 9110 §5.6.7. `None` for anything else and for waits that are over.
pub(crate) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a wait that nobody waits for.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        date(text)?.duration_since(now).ok()?
    };
    (!wait.is_zero()).then_some(wait)
}

fn date(text: &str) -> Option<SystemTime> {
    let fields: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|field| !field.is_empty())
        .collect();
    let (day, month, year, time) = match fields.as_slice() {
        // Sun, 06 Nov 1994 08:49:37 GMT and Sunday, 06-Nov-94 08:49:37 GMT
        [_, day, month, year, hour, minute, second, "GMT"] => {
            (day, month, year, [hour, minute, second])
        }
        // Sun Nov  6 08:49:37 1994
        [_, month, day, hour, minute, second, year] => (day, month, year, [hour, minute, second]),
        _ => return None,
    };
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = MONTHS.iter().position(|name| name == month)?;
    let year = match (year.len(), number(year, 9999)?) {
        (4, year) => year,
        (2, year) if year < 70 => 2000 + year,
        (2, year) => 1900 + year,
        _ => return None,
    };
    let day = number(day, 31)?;
    if year < 1970 || day == 0 {
        return None;
    }
    let [hour, minute, second] = time;
    // A leap second is 60.
    let seconds = number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?;
    let days = days_since_1970(year, month as u64 + 1, day);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(days * 86_400 + seconds))
}

fn number(text: &str, max: u64) -> Option<u64> {
    let number = text.parse().ok()?;
    (number <= max).then_some(number)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar, `year` being 1970 or later. Counts
/// years from March, so that a leap day is the last day of its year.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 1994-11-06 08:49:37 UTC.
    const EXAMPLE: u64 = 784_111_777;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn f019_seconds_and_all_three_forms_of_a_date() {
        let now = at(EXAMPLE - 9);
        for text in [
            "9",
            " 9 ",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(
                retry_after(text, now),
                Some(Duration::from_secs(9)),
                "{text}"
            );
        }
    }

    #[test]
    fn waits_that_are_over_or_unreadable_are_none() {
        let now = at(EXAMPLE + 1);
        for text in [
            "",
            "0",
            "-1",
            "1.5",
            "soon",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Sun, 00 Nov 2094 08:49:37 GMT",
            "Sun, 06 Nov 20945 08:49:37 GMT",
            "Sun, 06 Nov 1894 08:49:37 GMT",
        ] {
            assert_eq!(retry_after(text, now), None, "{text}");
        }
        assert_eq!(
            retry_after("99999999999999999999999", now),
            Some(Duration::from_secs(u64::MAX))
        );
    }

    #[test]
    fn days_are_counted_over_leap_years() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(1970, 3, 1), 59);
        assert_eq!(days_since_1970(2000, 2, 29), 11_016);
        assert_eq!(days_since_1970(2000, 3, 1), 11_017);
        assert_eq!(days_since_1970(2100, 3, 1), 47_541);
    }

    proptest! {
        #[test]
        fn the_next_day_is_one_day_later(year in 1970u64..2400, month in 1u64..=12, day in 1u64..28) {
            let today = days_since_1970(year, month, day);
            prop_assert_eq!(days_since_1970(year, month, day + 1), today + 1);
            prop_assert!(days_since_1970(year, 12, 31) + 1 == days_since_1970(year + 1, 1, 1));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}", digits in "[A-Za-z]{3}, [0-9]{1,5} [A-Z][a-z]{2} [0-9]{1,5} [0-9:]{0,9} GMT") {
            let _ = retry_after(&text, at(EXAMPLE));
            let _ = retry_after(&digits, at(EXAMPLE));
        }
    }
}
