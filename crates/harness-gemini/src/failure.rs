//! Errors as the provider tells them: `google.rpc.Status` in JSON, or whatever came instead.

use std::time::{Duration, SystemTime};

use harness_types::{ModelError, ModelErrorKind, Quota};
use serde_json::Value;

use crate::http_date::retry_after;
use crate::target::Peer;

/// The error of an answer whose HTTP status is not 200. `header` is its `retry-after`.
pub(crate) fn from_response(
    peer: &Peer,
    code: u16,
    header: Option<&str>,
    body: &[u8],
    now: SystemTime,
) -> ModelError {
    let parsed = serde_json::from_slice::<Value>(body).ok();
    let status = parsed.as_ref().and_then(rpc_status);
    let mut error = match status {
        Some(status) => describe(peer, code, status),
        None => {
            let text = String::from_utf8_lossy(body);
            let text = match text.trim() {
                "" if (300..400).contains(&code) => "redirects are not followed",
                "" => "no explanation was given",
                text => text,
            };
            peer.error(
                ModelErrorKind::Status { code },
                &format!("HTTP {code} from {}: {text}", peer.host),
            )
        }
    };
    let named = header.and_then(|text| retry_after(text, now));
    error.retry_after = error.retry_after.max(named);
    error
}

/// The error that an `error` object inside a stream tells of.
pub(crate) fn from_stream(peer: &Peer, error: &Value) -> ModelError {
    let word = error.get("status").and_then(Value::as_str);
    let code = match (error.get("code").and_then(Value::as_u64), word) {
        (Some(code @ 100..=599), _) => u16::try_from(code).unwrap_or(500),
        (_, Some(word)) => http_code(word),
        (_, None) => 500,
    };
    describe(peer, code, error)
}

/// Google's gateways sometimes wrap an error in a list of one.
fn rpc_status(body: &Value) -> Option<&Value> {
    let body = match body {
        Value::Array(list) => list.first()?,
        other => other,
    };
    body.get("error").filter(|error| error.is_object())
}

fn describe(peer: &Peer, code: u16, status: &Value) -> ModelError {
    let word = status.get("status").and_then(Value::as_str).unwrap_or("");
    let message = status.get("message").and_then(Value::as_str).unwrap_or("");
    let details: &[Value] = status
        .get("details")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice);

    let mut text = format!("HTTP {code}");
    if !word.is_empty() {
        text.push(' ');
        text.push_str(word);
    }
    text.push_str(" from ");
    text.push_str(&peer.host);
    if !message.is_empty() {
        text.push_str(": ");
        text.push_str(message.trim());
    }
    let mut wait: Option<Duration> = None;
    let mut quota = if no_quota_at_all(message) {
        Quota::Exhausted
    } else {
        Quota::NotNamed
    };
    for detail in details {
        match kind_of(detail) {
            "RetryInfo" => {
                let delay = detail.get("retryDelay").and_then(Value::as_str);
                wait = wait.max(delay.and_then(duration));
            }
            "QuotaFailure" if violations(detail, "violations").any(is_daily) => {
                quota = Quota::Exhausted;
            }
            "ErrorInfo" => {
                let reason = detail.get("reason").and_then(Value::as_str).unwrap_or("");
                // Named by the provider for quotas that only time or money refills.
                if matches!(
                    reason,
                    "QUOTA_EXHAUSTED" | "INSUFFICIENT_G1_CREDITS_BALANCE"
                ) {
                    quota = Quota::Exhausted;
                }
                if !reason.is_empty() {
                    text.push_str(&format!(" (reason {reason})"));
                }
            }
            "BadRequest" => {
                for violation in violations(detail, "fieldViolations").take(3) {
                    let field = violation.get("field").and_then(Value::as_str);
                    let about = violation.get("description").and_then(Value::as_str);
                    if let (Some(field), Some(about)) = (field, about) {
                        text.push_str(&format!("; {field}: {about}"));
                    }
                }
            }
            _ => {}
        }
    }
    let mut error = peer.error(ModelErrorKind::Status { code }, &text);
    error.retry_after = wait;
    error.quota = quota;
    error
}

/// The last part of `type.googleapis.com/google.rpc.RetryInfo`.
fn kind_of(detail: &Value) -> &str {
    let url = detail.get("@type").and_then(Value::as_str).unwrap_or("");
    url.rsplit(['.', '/']).next().unwrap_or(url)
}

fn violations<'a>(detail: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    detail
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn is_daily(violation: &Value) -> bool {
    ["quotaId", "quotaMetric"].iter().any(|key| {
        let id = violation.get(key).and_then(Value::as_str).unwrap_or("");
        let id = id.to_ascii_lowercase();
        ["perday", "per_day", "daily", "permonth", "per_month"]
            .iter()
            .any(|word| id.contains(word))
    })
}

/// `limit: 0` in the message of a 429: the account has no quota for this model at all, so that no
/// wait helps.
fn no_quota_at_all(message: &str) -> bool {
    message.match_indices("limit: 0").any(|(at, found)| {
        let mut rest = message[at + found.len()..].chars();
        let next = rest.next();
        let continues = match next {
            Some('.') => rest.next().is_some_and(|c| c.is_ascii_digit()),
            Some(c) => c.is_ascii_digit(),
            None => false,
        };
        !continues
    })
}

/// A `google.protobuf.Duration` in JSON, such as `22s` or `0.5s`, when it is longer than zero.
fn duration(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    (!wait.is_zero()).then_some(wait)
}

/// The HTTP status of a `google.rpc.Code`, as `google/rpc/code.proto` maps it.
fn http_code(word: &str) -> u16 {
    match word {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        "NOT_FOUND" => 404,
        "ABORTED" | "ALREADY_EXISTS" => 409,
        "RESOURCE_EXHAUSTED" => 429,
        "CANCELLED" => 499,
        "UNIMPLEMENTED" => 501,
        "UNAVAILABLE" => 503,
        "DEADLINE_EXCEEDED" => 504,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use harness_types::Secret;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn peer() -> Peer {
        Peer::new("models.example", vec![Secret::new("key-12345678")])
    }

    fn parse(code: u16, header: Option<&str>, body: &str) -> ModelError {
        from_response(
            &peer(),
            code,
            header,
            body.as_bytes(),
            SystemTime::UNIX_EPOCH,
        )
    }

    fn status(code: u16, message: &str) -> ModelError {
        ModelError::new(ModelErrorKind::Status { code }, message)
    }

    #[test]
    fn f019_the_longest_named_wait_counts() {
        let body = json!({"error": {
            "code": 503, "status": "UNAVAILABLE", "message": "overloaded",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9.5s"}],
        }})
        .to_string();
        let expected = |wait| ModelError {
            retry_after: Some(wait),
            ..status(503, "HTTP 503 UNAVAILABLE from models.example: overloaded")
        };
        let short = Duration::from_millis(9500);
        assert_eq!(parse(503, None, &body), expected(short));
        assert_eq!(parse(503, Some("3"), &body), expected(short));
        let long = Duration::from_secs(30);
        assert_eq!(parse(503, Some("30"), &body), expected(long));
        let date = Some("Thu, 01 Jan 1970 00:00:30 GMT");
        assert_eq!(parse(503, date, &body), expected(long));
    }

    #[test]
    fn f019_a_used_up_daily_quota_is_told_from_a_short_one() {
        let quota = |id: &str| {
            let body = json!({"error": {"code": 429, "message": "slow down", "details": [{
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{"quotaMetric": "m", "quotaId": id, "quotaValue": "50"}],
            }]}});
            parse(429, None, &body.to_string()).quota
        };
        assert_eq!(
            quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
            Quota::Exhausted
        );
        assert_eq!(
            quota("GenerateRequestsPerMinutePerProject"),
            Quota::NotNamed
        );
        let message =
            |text: &str| parse(429, None, &json!({"error": {"message": text}}).to_string()).quota;
        assert_eq!(
            message("Quota exceeded, limit: 0, model: x"),
            Quota::Exhausted
        );
        assert_eq!(message("Quota exceeded, limit: 0"), Quota::Exhausted);
        assert_eq!(message("limit: 05 and limit: 0.5"), Quota::NotNamed);
        let info = json!({"error": {"message": "no", "details": [{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "QUOTA_EXHAUSTED",
        }]}});
        assert_eq!(
            parse(429, None, &info.to_string()),
            ModelError {
                quota: Quota::Exhausted,
                ..status(
                    429,
                    "HTTP 429 from models.example: no (reason QUOTA_EXHAUSTED)"
                )
            }
        );
    }

    #[test]
    fn field_violations_and_lists_of_one_are_read() {
        let body = json!([{"error": {
            "code": 400, "status": "INVALID_ARGUMENT", "message": "Invalid JSON payload",
            "details": [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [
                {"field": "tools[0]", "description": "unknown name"}, {"field": "x"},
            ]}],
        }}]);
        assert_eq!(
            parse(400, None, &body.to_string()),
            status(
                400,
                "HTTP 400 INVALID_ARGUMENT from models.example: Invalid JSON payload; \
                 tools[0]: unknown name"
            )
        );
    }

    #[test]
    fn other_bodies_are_shown_as_they_are_within_the_bound() {
        let text = |code, body: &str| parse(code, None, body).message;
        assert_eq!(
            text(502, " <h1>Bad gateway</h1>\n"),
            "HTTP 502 from models.example: <h1>Bad gateway</h1>"
        );
        assert_eq!(text(500, "7"), "HTTP 500 from models.example: 7");
        assert_eq!(
            text(302, ""),
            "HTTP 302 from models.example: redirects are not followed"
        );
        assert_eq!(
            text(500, ""),
            "HTTP 500 from models.example: no explanation was given"
        );
        let long = text(500, &"é".repeat(10_000));
        assert!(long.len() <= 4096 && long.ends_with("é…"), "{}", long.len());
    }

    #[test]
    fn f038_a_credential_that_the_server_repeats_is_masked() {
        let body = json!({"error": {"message": "API key key-12345678 not valid"}}).to_string();
        assert_eq!(
            parse(400, None, &body).message,
            "HTTP 400 from models.example: API key [secret] not valid"
        );
        assert_eq!(
            parse(400, None, "key-12345678?").message,
            "HTTP 400 from models.example: [secret]?"
        );
    }

    #[test]
    fn an_error_inside_a_stream_has_the_code_it_names() {
        let code = |error: Value| from_stream(&peer(), &error).kind;
        let expected = |code| ModelErrorKind::Status { code };
        assert_eq!(code(json!({"code": 429})), expected(429));
        assert_eq!(code(json!({"status": "UNAVAILABLE"})), expected(503));
        assert_eq!(
            code(json!({"code": 14, "status": "UNAVAILABLE"})),
            expected(503)
        );
        assert_eq!(code(json!({"code": 70000})), expected(500));
        assert_eq!(code(json!("what")), expected(500));
    }

    proptest! {
        #[test]
        fn no_body_and_no_header_panic(
            body in prop::collection::vec(any::<u8>(), 0..200), header in "\\PC{0,20}", code in 100u16..600,
        ) {
            let error = from_response(&peer(), code, Some(&header), &body, SystemTime::UNIX_EPOCH);
            prop_assert_eq!(error.http_code(), Some(code));
        }

        #[test]
        fn no_delay_panics(text in "[-+.0-9eEinfa]{0,12}s?") {
            let _ = duration(&text);
        }
    }
}
