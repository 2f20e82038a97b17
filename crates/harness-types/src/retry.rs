//! When to ask a model again: pure arithmetic, executed by the loop alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Whether, and when, a failed request is worth repeating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryClass {
    /// Repeating cannot help.
    Never,
    /// Worth repeating after the schedule's next wait.
    Backoff,
    /// As [`RetryClass::Backoff`], but only when somebody configured a schedule.
    IfConfigured,
    /// The provider named the wait.
    After(Duration),
}

impl RetryClass {
    /// The longest wait named by a provider that is waited without asking anybody.
    pub const LONGEST_NAMED_WAIT: Duration = Duration::from_secs(60);
}

/// How often, and after which waits, a request is repeated.
///
/// The wait before repeat `n` (from 0) is `initial * multiplier^n`, at most `max_wait`, shortened
/// by up to `jitter` of itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RetrySchedule {
    /// Repeats after the first try.
    pub max_retries: u32,
    /// The first wait.
    pub initial: Duration,
    /// The factor from one wait to the next; values below 1 or not finite count as 1.
    pub multiplier: f64,
    /// The share of a wait that chance may take off, 0 to 1; other values are clamped.
    pub jitter: f64,
    /// No wait is longer.
    pub max_wait: Duration,
    /// Whether somebody asked for this schedule, rather than leaving the default.
    pub configured: bool,
}

impl Default for RetrySchedule {
    fn default() -> Self {
        Self {
            max_retries: 6,
            initial: Duration::from_secs(1),
            multiplier: 2.0,
            jitter: 0.3,
            max_wait: Duration::from_secs(30),
            configured: false,
        }
    }
}

impl RetrySchedule {
    /// The wait before repeat number `attempt` (0 is the first repeat), or `None` when that would
    /// be one repeat too many or `class` forbids it. `chance` is in 0..1.
    pub fn wait(&self, class: RetryClass, attempt: u32, chance: f64) -> Option<Duration> {
        if attempt >= self.max_retries {
            return None;
        }
        match class {
            RetryClass::Never => None,
            RetryClass::IfConfigured if !self.configured => None,
            RetryClass::After(wait) => Some(wait),
            RetryClass::Backoff | RetryClass::IfConfigured => {
                let multiplier = if self.multiplier.is_finite() {
                    self.multiplier.max(1.0)
                } else {
                    1.0
                };
                let exponent = i32::try_from(attempt).unwrap_or(i32::MAX);
                let full = self.initial.as_secs_f64() * multiplier.powi(exponent);
                let capped = full.min(self.max_wait.as_secs_f64());
                let jitter = if self.jitter.is_finite() {
                    self.jitter.clamp(0.0, 1.0)
                } else {
                    0.0
                };
                let chance = if chance.is_finite() {
                    chance.clamp(0.0, 1.0)
                } else {
                    0.0
                };
                Some(Duration::from_secs_f64(capped * (1.0 - jitter * chance)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_then_end() {
        let schedule = RetrySchedule {
            max_retries: 4,
            max_wait: Duration::from_secs(5),
            ..RetrySchedule::default()
        };
        let waits: Vec<_> = (0..5)
            .map(|n| schedule.wait(RetryClass::Backoff, n, 0.0))
            .collect();
        let secs = |s| Some(Duration::from_secs(s));
        assert_eq!(waits, [secs(1), secs(2), secs(4), secs(5), None]);
        assert_eq!(schedule.wait(RetryClass::IfConfigured, 0, 0.0), None);
        let configured = RetrySchedule {
            configured: true,
            ..schedule
        };
        assert_eq!(configured.wait(RetryClass::IfConfigured, 0, 0.0), secs(1));
        assert_eq!(
            schedule.wait(RetryClass::After(Duration::from_secs(9)), 0, 0.9),
            secs(9)
        );
    }

    proptest! {
        #[test]
        fn f068_odd_configurations_never_panic_and_never_exceed_the_cap(
            initial in 0u64..10_000_000, multiplier in any::<f64>(), jitter in any::<f64>(),
            attempt in any::<u32>(), chance in any::<f64>(),
        ) {
            let schedule = RetrySchedule {
                max_retries: u32::MAX,
                initial: Duration::from_millis(initial),
                multiplier,
                jitter,
                ..RetrySchedule::default()
            };
            if let Some(wait) = schedule.wait(RetryClass::Backoff, attempt, chance) {
                prop_assert!(wait <= schedule.max_wait);
            }
        }
    }
}
