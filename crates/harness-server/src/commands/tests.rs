use harness_proto::json::from_json;
use harness_proto::localharness::InputEvent;
use harness_types::{ConversationId, StepIndex, TrajectoryId};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn say(message: &Value, asked: &Asked) -> Said {
    let parsed = from_json::<InputEvent>(&message.to_string()).unwrap();
    command(parsed.message.event, asked)
}

fn trajectory() -> TrajectoryId {
    TrajectoryId::root(&ConversationId::from_random([1; 16]))
}

/// Open requests: a host call `c1` with number 5, a question at step 3 with number 6.
fn open() -> Asked {
    let asked = Asked::default();
    let call = harness_types::ToolCall {
        id: harness_types::CallId::new("c1"),
        name: "lookup".into(),
        args: serde_json::Map::new(),
    };
    asked.note_call(&Request {
        id: RequestId::new(5),
        trajectory: trajectory(),
        step: Some(StepIndex::new(2)),
        payload: RequestPayload::HostCall { call },
    });
    let place = (trajectory().to_string(), 3);
    asked.lock().questions.insert(place, RequestId::new(6));
    asked
}

fn answered(request: u64, answer: RequestAnswer) -> Said {
    let request = RequestId::new(request);
    Said::Command(Command::Answer { request, answer })
}

fn host(response: HostResponse) -> Said {
    let media = Vec::new();
    answered(5, RequestAnswer::Host(HostAnswer { response, media }))
}

#[test]
fn a_host_answer_may_have_any_form() {
    let object = |value: Value| HostResponse::Value(value);
    let cases = [
        (
            json!({ "responseJson": "{\"a\": 1}" }),
            object(json!({ "a": 1 })),
        ),
        (json!({ "responseJson": "[1]" }), object(json!([1]))),
        (json!({ "responseJson": "" }), object(json!({}))),
        (json!({}), object(json!({}))),
        (
            json!({ "responseJson": "plain" }),
            HostResponse::Text("plain".into()),
        ),
        (
            json!({ "response": { "fields": [{ "name": "n", "value": { "numberValue": 1.5 } }] } }),
            object(json!({ "n": 1.5 })),
        ),
        (
            json!({ "errorMessage": "boom", "responseJson": "{}" }),
            HostResponse::Error("boom".into()),
        ),
        // An object that tells of an error is an object all the same.
        (
            json!({ "errorMessage": "", "responseJson": "{\"error\": \"boom\"}" }),
            object(json!({ "error": "boom" })),
        ),
    ];
    for (mut response, expected) in cases {
        response["id"] = json!("c1");
        let said = say(&json!({ "toolResponse": response }), &open());
        assert_eq!(said, host(expected), "{response}");
    }
}

#[test]
fn an_answer_is_taken_once() {
    let asked = open();
    let response = json!({ "toolResponse": { "id": "c1", "responseJson": "1" } });
    assert_eq!(say(&response, &asked), host(HostResponse::Value(json!(1))));
    assert!(matches!(say(&response, &asked), Said::Stray(_)));

    let question = json!({ "questionResponse": {
        "trajectoryId": trajectory().to_string(), "stepIndex": 3, "cancelled": true,
    } });
    assert_eq!(
        say(&question, &asked),
        answered(6, RequestAnswer::Question(None))
    );
    assert!(matches!(say(&question, &asked), Said::Stray(_)));

    // A request that was closed otherwise is not open any more.
    let asked = open();
    asked.forget(RequestId::new(5));
    assert!(matches!(say(&response, &asked), Said::Stray(_)));
}

#[test]
fn choices_that_are_none_do_not_become_others() {
    let answers = json!([
        { "multipleChoiceAnswer": { "selectedChoiceIndices": [-1, 0], "freeformResponse": "x" } },
        { "unanswered": true },
        {},
    ]);
    let said = say(
        &json!({ "questionResponse": {
            "trajectoryId": trajectory().to_string(), "stepIndex": 3,
            "response": { "answers": answers },
        } }),
        &open(),
    );
    let expected = vec![
        QuestionAnswer::Chosen {
            options: vec![u32::MAX, 0],
            text: "x".into(),
        },
        QuestionAnswer::Skipped,
        QuestionAnswer::Skipped,
    ];
    assert_eq!(said, answered(6, RequestAnswer::Question(Some(expected))));
}

#[test]
fn f022_hooks_say_what_they_mean_and_nothing_else() {
    let deny = |reason: &str| HookVerdict::Deny {
        reason: reason.into(),
    };
    let failed = |message: &str| HookVerdict::Failed {
        message: message.into(),
    };
    let changed = serde_json::Map::from_iter([("a".to_owned(), json!(1))]);
    let cases = [
        (json!({}), HookVerdict::Continue),
        (json!({ "emptyResult": {} }), HookVerdict::Continue),
        (json!({ "errorMessage": "down" }), failed("down")),
        (json!({ "preTurnResult": {} }), HookVerdict::Continue),
        (
            json!({ "preTurnResult": { "decision": "ALLOW" } }),
            HookVerdict::Continue,
        ),
        (
            json!({ "preTurnResult": { "decision": "DENY", "reason": "no" } }),
            deny("no"),
        ),
        (
            json!({ "preToolResult": { "decision": "DENY" } }),
            deny(NO_REASON),
        ),
        (
            json!({ "preToolResult": { "decision": 0 } }),
            HookVerdict::Continue,
        ),
        (
            json!({ "preToolResult": { "modifiedArgumentsJson": "{\"a\": 1}" } }),
            HookVerdict::Modify { args: changed },
        ),
        (
            json!({ "onToolErrorResult": { "customErrorMessage": "other" } }),
            HookVerdict::ReplaceError {
                message: "other".into(),
            },
        ),
        (
            json!({ "stopResult": { "decision": "ALLOW_STOP" } }),
            HookVerdict::Continue,
        ),
        (
            json!({ "stopResult": { "decision": "CONTINUE", "reason": "tests fail" } }),
            HookVerdict::KeepGoing {
                reason: "tests fail".into(),
            },
        ),
    ];
    for (mut response, verdict) in cases {
        response["requestId"] = json!("hook_request_9");
        let said = say(&json!({ "callHookResponse": response }), &Asked::default());
        assert_eq!(
            said,
            answered(9, RequestAnswer::Hook(verdict)),
            "{response}"
        );
    }
    let unreadable = json!({ "callHookResponse": {
        "requestId": "hook_request_9", "preToolResult": { "modifiedArgumentsJson": "[1]" },
    } });
    let said = say(&unreadable, &Asked::default());
    let refused = matches!(
        &said,
        Said::Command(Command::Answer {
            answer: RequestAnswer::Hook(HookVerdict::Failed { .. }),
            ..
        })
    );
    assert!(refused, "{said:?}");
}

#[test]
fn a_policy_answer_that_is_not_understood_is_a_refusal() {
    let outcome = |word: Value| {
        let message = json!({ "policyDecisionResponse": { "requestId": "4", "outcome": word } });
        say(&message, &Asked::default())
    };
    let policy = |outcome| answered(4, RequestAnswer::Policy(outcome));
    assert_eq!(
        outcome(json!("POLICY_EVALUATION_OUTCOME_ALLOW")),
        policy(PolicyOutcome::Allow)
    );
    assert_eq!(
        outcome(json!("POLICY_EVALUATION_OUTCOME_NO_MATCH")),
        policy(PolicyOutcome::NoMatch)
    );
    let plain = PolicyOutcome::Deny { reason: None };
    assert_eq!(
        outcome(json!("POLICY_EVALUATION_OUTCOME_DENY")),
        policy(plain)
    );
    for word in [Value::Null, json!(0), json!(99), json!("PERHAPS")] {
        let said = outcome(word.clone());
        let refused = matches!(
            &said,
            Said::Command(Command::Answer {
                answer: RequestAnswer::Policy(PolicyOutcome::Deny { reason: Some(_) }),
                ..
            })
        );
        assert!(refused, "{word}: {said:?}");
    }
}

#[test]
fn inputs_keep_their_parts_in_order() {
    let message = json!({ "userInput": { "parts": [
        { "text": "a" },
        { "media": { "mimeType": "image/png", "description": "d", "data": "AAE=" } },
        { "slashCommand": { "name": "plan" } },
        { "text": "b" },
    ] } });
    let expected = Input::user([
        InputPart::Text("a".into()),
        InputPart::Media(Media {
            mime_type: "image/png".into(),
            description: "d".into(),
            data: (&[0, 1][..]).into(),
        }),
        InputPart::SlashCommand("plan".into()),
        InputPart::Text("b".into()),
    ]);
    let said = say(&message, &Asked::default());
    assert_eq!(said, Said::Command(Command::Input(expected)));
    for mime_type in ["", "image", "image/", "application/zip", "x/y"] {
        let media = json!({ "media": { "mimeType": mime_type, "data": "AA==" } });
        let message = json!({ "userInput": { "parts": [media] } });
        let said = say(&message, &Asked::default());
        assert!(matches!(said, Said::Unusable(_)), "{mime_type}: {said:?}");
    }
}

proptest! {
    #[test]
    fn no_identifier_can_do_harm(id in "\\PC{0,40}", number in any::<u64>(), step in any::<u32>()) {
        let asked = open();
        for id in [id.clone(), format!("hook_request_{id}"), format!("hook_request_{number}0"), number.to_string()] {
            for message in [
                json!({ "callHookResponse": { "requestId": id } }),
                json!({ "policyDecisionResponse": { "requestId": id } }),
                json!({ "toolResponse": { "id": format!("{id} ") } }),
                json!({ "questionResponse": { "trajectoryId": id, "stepIndex": step } }),
            ] {
                let said = say(&message, &asked);
                prop_assert!(!matches!(said, Said::Unusable(_)), "{said:?}");
            }
        }
        let response = json!({ "toolResponse": { "id": "c1" } });
        prop_assert!(matches!(say(&response, &asked), Said::Command(_)));
    }
}
