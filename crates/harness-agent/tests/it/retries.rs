//! Model requests that fail and are repeated.

use std::time::Duration;

use harness_types::{Config, ModelError, ModelErrorKind, Quota, RetrySchedule};

use crate::support::{Rig, config, status};

fn retrying(max_retries: u32) -> Config {
    let retry = RetrySchedule {
        max_retries,
        ..RetrySchedule::default()
    };
    Config { retry, ..config() }
}

/// Fails until no repeat is scheduled and gives the effects of each failure.
fn fail_on(rig: &mut Rig, error: &ModelError) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for timer in 0.. {
        let effects = rig.fail(error.clone());
        let over = effects.is_empty();
        all.push(effects);
        if over {
            return all;
        }
        rig.timer(timer);
    }
    all
}

#[test]
fn waits_follow_the_schedule_and_then_the_turn_fails() {
    let mut rig = Rig::asked(retrying(6));
    let waits = fail_on(&mut rig, &status(503, None));
    let timers = [
        "timer 0 1s",
        "timer 1 2s",
        "timer 2 4s",
        "timer 3 8s",
        "timer 4 16s",
        "timer 5 30s",
    ];
    let expected: Vec<Vec<String>> = timers
        .iter()
        .map(|timer| vec![(*timer).to_owned()])
        .chain([Vec::new()])
        .collect();
    assert_eq!(waits, expected);
    assert_eq!(
        rig.ends(),
        [r#"Failed "status 503; gave up after 7 tries" (503)"#]
    );
    assert_eq!(rig.state.model_calls(), 7);
}

#[test]
fn a_wait_is_shown_before_it_is_waited() {
    let mut rig = Rig::asked(retrying(1));
    assert_eq!(rig.fail(status(503, None)), ["timer 0 1s"]);
    assert_eq!(
        rig.step_at(1),
        r#"1 Error System>User "status 503; asking again in 1.0 s" error "status 503; asking again in 1.0 s" (503)"#
    );
    assert_eq!(rig.last_records(2), ["answer_ended", "retry_scheduled"]);
}

#[test]
fn client_errors_are_not_repeated_and_carry_their_code() {
    for code in [400, 401, 403, 404] {
        let mut rig = Rig::asked(config());
        assert_eq!(rig.fail(status(code, None)), [""; 0]);
        assert_eq!(rig.ends(), [format!(r#"Failed "status {code}" ({code})"#)]);
        assert_eq!(
            rig.step_at(1),
            format!(r#"1 Error System>User "status {code}" error "status {code}" ({code})"#)
        );
    }
}

#[test]
fn f019_a_named_wait_is_obeyed() {
    let mut rig = Rig::asked(config());
    assert_eq!(rig.fail(status(503, Some(9))), ["timer 0 9s"]);
    rig.timer(0);
    assert_eq!(rig.fail(status(429, Some(60))), ["timer 1 60s"]);
    rig.timer(1);
    assert_eq!(
        rig.fail(status(429, Some(61))),
        [""; 0],
        "too long to wait unasked"
    );
    assert_eq!(
        rig.ends(),
        [r#"Failed "status 429; gave up after 3 tries" (429)"#]
    );
}

#[test]
fn a_429_without_a_wait_is_repeated_only_when_somebody_configured_that() {
    let mut rig = Rig::asked(config());
    assert_eq!(rig.fail(status(429, None)), [""; 0]);
    assert_eq!(rig.ends(), [r#"Failed "status 429" (429)"#]);

    let retry = RetrySchedule {
        configured: true,
        ..RetrySchedule::default()
    };
    let mut rig = Rig::asked(Config { retry, ..config() });
    assert_eq!(rig.fail(status(429, None)), ["timer 0 1s"]);
}

#[test]
fn a_used_up_quota_is_not_waited_for() {
    let mut rig = Rig::asked(config());
    let error = ModelError {
        quota: Quota::Exhausted,
        ..status(429, Some(1))
    };
    assert_eq!(rig.fail(error), [""; 0]);
    assert_eq!(rig.ends(), [r#"Failed "status 429" (429)"#]);
}

/// No status that is repeated is 400, 401 or 403 today; a provider that names a wait beside one
/// would make no difference either.
#[test]
fn codes_that_clients_give_up_on_are_not_repeated_even_with_a_named_wait() {
    for code in [400, 401, 403] {
        let mut rig = Rig::asked(config());
        assert_eq!(rig.fail(status(code, Some(1))), [""; 0]);
        assert_eq!(rig.ends().len(), 1);
    }
}

#[test]
fn f068_no_retries_means_none() {
    let mut rig = Rig::asked(retrying(0));
    assert_eq!(rig.fail(status(503, Some(1))), [""; 0]);
    assert_eq!(rig.ends(), [r#"Failed "status 503" (503)"#]);
}

#[test]
fn a_good_answer_starts_the_count_anew() {
    let mut rig = Rig::asked(retrying(1));
    rig.fail(status(503, None));
    rig.timer(0);
    rig.call("a", "put", serde_json::json!({}));
    rig.stop();
    assert_eq!(rig.tool(2, "ok"), ["ask 2"]);
    assert_eq!(
        rig.fail(status(503, None)),
        ["timer 1 1s"],
        "again the first wait"
    );
}

#[test]
fn every_kind_of_broken_transport_is_repeated_and_a_wrong_setup_is_not() {
    use ModelErrorKind::{Config, Connect, Cut, Malformed, Script, Silent};
    for kind in [Connect, Cut, Malformed, Silent] {
        let mut rig = Rig::asked(config());
        assert_eq!(rig.fail(ModelError::new(kind, "x")), ["timer 0 1s"]);
    }
    for kind in [Config, Script] {
        let mut rig = Rig::asked(config());
        assert_eq!(rig.fail(ModelError::new(kind, "x")), [""; 0]);
        assert_eq!(rig.ends(), [r#"Failed "x""#]);
    }
}

#[test]
fn only_the_timer_that_is_waited_for_ends_a_wait() {
    let mut rig = Rig::asked(config());
    rig.fail(status(503, None));
    assert_eq!(rig.timer(7), [""; 0]);
    assert_eq!(rig.timer(0), ["ask 1"]);
    assert_eq!(rig.timer(0), [""; 0], "a timer rings once");
}

#[test]
fn waits_shorten_by_chance_within_the_jitter() {
    let schedule = RetrySchedule::default();
    let wait = |chance| schedule.wait(harness_types::RetryClass::Backoff, 0, chance);
    assert_eq!(wait(0.0), Some(Duration::from_secs(1)));
    assert_eq!(wait(1.0), Some(Duration::from_millis(700)));
}

#[test]
fn a_failed_turn_leaves_a_conversation_that_goes_on() {
    let mut rig = Rig::asked(config());
    rig.fail(status(401, None));
    assert_eq!(rig.user("again"), ["ask 1"]);
    assert_eq!(rig.history(), [r#"user "hi""#, r#"user "again""#]);
}
