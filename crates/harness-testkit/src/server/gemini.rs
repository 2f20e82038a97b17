//! The Gemini form of a scripted turn. Field names and error shapes: the public REST reference of
//! `v1beta` (`GenerateContentResponse`, `google.rpc.Status`).

use harness_types::{FinishReason, ModelError, ModelErrorKind, ModelPart, Quota, Usage};
use serde_json::{Map, Value, json};

/// One chunk with one part.
pub(crate) fn part_chunk(part: &ModelPart) -> Value {
    let (mut json, signature) = match part {
        ModelPart::Text { text, signature } => (json!({ "text": text }), signature),
        ModelPart::Thought { text, signature } => {
            (json!({ "text": text, "thought": true }), signature)
        }
        ModelPart::Call { call, signature } => {
            let mut function = json!({ "name": call.name, "args": call.args });
            if !call.id.as_str().is_empty() {
                function["id"] = json!(call.id);
            }
            (json!({ "functionCall": function }), signature)
        }
        other => (
            json!({ "text": format!("[unknown part {other:?}]") }),
            &None,
        ),
    };
    if let Some(signature) = signature {
        json["thoughtSignature"] = json!(signature);
    }
    json!({ "candidates": [{ "content": { "role": "model", "parts": [json] }, "index": 0 }] })
}

/// The last chunk of an answer.
pub(crate) fn end_chunk(
    finish: Option<(&FinishReason, Option<&str>)>,
    usage: Option<&Usage>,
) -> Value {
    let mut chunk = Map::new();
    if let Some((reason, message)) = finish {
        let mut candidate = json!({ "finishReason": finish_word(reason), "index": 0 });
        if let Some(message) = message {
            candidate["finishMessage"] = json!(message);
        }
        chunk.insert("candidates".into(), json!([candidate]));
    }
    if let Some(usage) = usage {
        chunk.insert("usageMetadata".into(), usage_json(usage));
    }
    Value::Object(chunk)
}

fn finish_word(reason: &FinishReason) -> &str {
    match reason {
        FinishReason::Stop => "STOP",
        FinishReason::MaxTokens => "MAX_TOKENS",
        FinishReason::Blocked(word)
        | FinishReason::MalformedCall(word)
        | FinishReason::Other(word) => word,
        _ => "OTHER",
    }
}

fn usage_json(usage: &Usage) -> Value {
    let mut json = Map::new();
    for (name, count) in [
        ("promptTokenCount", usage.prompt_tokens),
        ("cachedContentTokenCount", usage.cached_tokens),
        ("candidatesTokenCount", usage.candidates_tokens),
        ("thoughtsTokenCount", usage.thoughts_tokens),
        ("totalTokenCount", usage.total_tokens),
    ] {
        if count > 0 {
            json.insert(name.into(), json!(count));
        }
    }
    if let Some(tier) = &usage.service_tier {
        json.insert("serviceTier".into(), json!(tier));
    }
    for (name, details) in [
        ("promptTokensDetails", &usage.prompt_details),
        ("cacheTokensDetails", &usage.cache_details),
        ("candidatesTokensDetails", &usage.candidates_details),
    ] {
        if !details.is_empty() {
            let details: Vec<_> = details
                .iter()
                .map(|d| json!({ "modality": d.modality, "tokenCount": d.tokens }))
                .collect();
            json.insert(name.into(), json!(details));
        }
    }
    Value::Object(json)
}

/// The HTTP status an error has on the wire; 400 for those that have none there.
pub(crate) fn status_of(error: &ModelError) -> u16 {
    match error.kind {
        ModelErrorKind::Status { code } => code,
        _ => 400,
    }
}

/// The body of an error answer, which is also the shape of an error inside a stream.
pub(crate) fn error_json(error: &ModelError) -> Value {
    let code = status_of(error);
    let status = match code {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        _ => "UNKNOWN",
    };
    let mut details = Vec::new();
    if error.quota == Quota::Exhausted {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                "quotaId": "GenerateRequestsPerDayPerProjectPerModel",
            }],
        }));
    }
    if let Some(wait) = error.retry_after {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{}s", wait.as_secs_f64()),
        }));
    }
    let mut body = json!({ "code": code, "message": error.message, "status": status });
    if !details.is_empty() {
        body["details"] = json!(details);
    }
    json!({ "error": body })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use harness_types::{CallId, ModalityCount, ToolCall};

    use super::*;

    #[test]
    fn chunks_have_the_provider_shape() {
        let call = |id: &str| ModelPart::Call {
            call: ToolCall {
                id: CallId::new(id),
                name: "look".into(),
                args: Map::new(),
            },
            signature: Some("c2ln".into()),
        };
        let part = |chunk: Value| chunk["candidates"][0]["content"]["parts"][0].clone();
        assert_eq!(
            part(part_chunk(&call("a"))),
            json!({
                "functionCall": { "name": "look", "args": {}, "id": "a" },
                "thoughtSignature": "c2ln",
            })
        );
        assert_eq!(
            part(part_chunk(&call("")))["functionCall"],
            json!({ "name": "look", "args": {} })
        );
        let usage = Usage {
            prompt_tokens: 3,
            total_tokens: 5,
            prompt_details: vec![ModalityCount {
                modality: "TEXT".into(),
                tokens: 3,
            }],
            ..Usage::default()
        };
        let reason = FinishReason::Blocked("SAFETY".into());
        assert_eq!(
            end_chunk(Some((&reason, Some("no"))), Some(&usage)),
            json!({
                "candidates": [{ "finishReason": "SAFETY", "index": 0, "finishMessage": "no" }],
                "usageMetadata": {
                    "promptTokenCount": 3,
                    "totalTokenCount": 5,
                    "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": 3 }],
                },
            })
        );
    }

    #[test]
    fn errors_carry_the_wait_and_the_quota() {
        let error = ModelError {
            retry_after: Some(Duration::from_millis(2_500)),
            quota: Quota::Exhausted,
            ..ModelError::new(ModelErrorKind::Status { code: 429 }, "slow down")
        };
        assert_eq!(
            error_json(&error),
            json!({ "error": {
                "code": 429,
                "message": "slow down",
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                        "violations": [{
                            "quotaMetric":
                                "generativelanguage.googleapis.com/generate_content_requests",
                            "quotaId": "GenerateRequestsPerDayPerProjectPerModel",
                        }],
                    },
                    {
                        "@type": "type.googleapis.com/google.rpc.RetryInfo",
                        "retryDelay": "2.5s",
                    },
                ],
            } })
        );
    }
}
