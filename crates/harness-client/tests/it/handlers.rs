//! Host tools, hooks, decisions and questions: answered always, once, and never with permission
//! by accident.

use std::sync::Arc;

use harness_client::{
    Answer, CloseCause, ConfirmationVerdict, Handlers, HostTool, Limits, Media, PolicyVerdict,
    PreToolVerdict, PreTurnVerdict, Selection, StopVerdict, ToolReply,
};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};
use tokio_tungstenite::tungstenite::Message;

use crate::peer::{Peer, ROOT, soon};

fn tool(name: &str) -> HostTool {
    HostTool::new(name, "A tool.", json!({"type": "object"}))
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"toolCall": {"id": id, "name": name, "argumentsJson": arguments, "trajectoryId": ROOT}})
}

/// What the client answers to `request`.
async fn answer(handlers: Handlers, request: Value) -> Value {
    let (_session, mut peer) = Peer::open(handlers).await;
    peer.send(request).await;
    peer.receive().await
}

#[tokio::test]
async fn host_tools_answer() {
    let tools = Handlers::new()
        .tool(tool("add"), |call| async move {
            let number = |name: &str| call.argument(name).as_i64().ok_or("not a number");
            Ok(json!({"sum": number("a")? + number("b")?}).into())
        })
        .tool(tool("say"), |_| async { Ok("done".into()) })
        .tool(tool("draw"), |_| async {
            let media = Media {
                mime_type: "image/png".into(),
                description: "a dot".into(),
                data: vec![1].into(),
            };
            Ok(ToolReply::from("see").with_media(media))
        })
        .tool(tool("crash"), |_| async { panic!("secret") })
        .blocking_tool(tool("block"), |call| Ok(call.id.into()))
        .blocking_tool(tool("block_crash"), |_| panic!("secret"));
    #[rustfmt::skip]
    let table = [
        (call("1", "add", r#"{"a": 1, "b": 2}"#),
         json!({"id": "1", "responseJson": r#"{"sum":3}"#})),
        (call("1", "add", "{}"), json!({"id": "1", "errorMessage": "not a number"})),
        (call("1", "add", "[1]"),
         json!({"id": "1", "errorMessage": "the arguments are no JSON object (line 1, column 0)"})),
        (json!({"toolCall": {"id": "1", "name": "add", "arguments": {"fields": [
            {"name": "a", "value": {"numberValue": 1}},
            {"name": "b", "value": {"numberValue": 5}}]}}}),
         json!({"id": "1", "responseJson": r#"{"sum":6}"#})),
        (call("2", "say", ""), json!({"id": "2", "responseJson": r#"{"result":"done"}"#})),
        (call("3", "draw", "{}"),
         json!({"id": "3", "responseJson": r#"{"result":"see"}"#, "supplementalMedia": [
            {"mimeType": "image/png", "description": "a dot", "data": "AQ=="}]})),
        (call("4", "crash", "{}"), json!({"id": "4", "errorMessage": "the handler panicked"})),
        (call("5", "block", "{}"), json!({"id": "5", "responseJson": r#"{"result":"5"}"#})),
        (call("6", "block_crash", "{}"), json!({"id": "6", "errorMessage": "the handler panicked"})),
        (call("7", "nope", "{}"),
         json!({"id": "7", "errorMessage": "there is no tool \"nope\" in this program"})),
    ];
    for (request, expected) in table {
        let answer = answer(tools.clone(), request.clone()).await;
        assert_eq!(answer, json!({ "toolResponse": expected }), "{request}");
    }
}

#[tokio::test]
async fn host_tools_run_side_by_side() {
    let barrier = Arc::new(Barrier::new(4));
    let meet = move |_| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok("met".into())
        }
    };
    let (_session, mut peer) = Peer::open(Handlers::new().tool(tool("meet"), meet)).await;
    for id in ["1", "2", "3", "4"] {
        peer.send(call(id, "meet", "{}")).await;
    }
    let mut answered = Vec::new();
    for _ in 0..4 {
        answered.push(
            peer.receive().await["toolResponse"]["id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    answered.sort_unstable();
    assert_eq!(answered, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn a_slow_handler_holds_nothing_up() {
    let release = Arc::new(Notify::new());
    let wait = {
        let release = Arc::clone(&release);
        move |_| {
            let release = Arc::clone(&release);
            async move {
                release.notified().await;
                Ok("late".into())
            }
        }
    };
    let handlers = Handlers::new()
        .tool(tool("wait"), wait)
        .pre_tool(|_| async { Ok(PreToolVerdict::Allow) });
    let (_session, mut peer) = Peer::open(handlers).await;
    peer.send(call("1", "wait", "{}")).await;
    peer.send_message(Message::Ping("a".into())).await;
    assert_eq!(peer.next().await, Message::Pong("a".into()));
    let hook = json!({"callHookRequest": {"requestId": "h", "type": "LIFECYCLE_HOOK_PRE_TOOL",
        "preToolArgs": {"toolName": "view_file"}}});
    peer.send(hook).await;
    assert_eq!(peer.receive().await["callHookResponse"]["requestId"], "h");
    release.notify_one();
    assert_eq!(peer.receive().await["toolResponse"]["id"], "1");
}

#[tokio::test]
async fn repeated_requests_are_answered_once() {
    let tools = Handlers::new().tool(tool("say"), |_| async { Ok("x".into()) });
    let (_session, mut peer) = Peer::open(tools).await;
    peer.send(call("1", "say", "{}")).await;
    peer.send(call("1", "say", "{}")).await;
    assert_eq!(peer.receive().await["toolResponse"]["id"], "1");
    peer.send(call("1", "say", "{}")).await;
    peer.send(call("2", "say", "{}")).await;
    assert_eq!(peer.receive().await["toolResponse"]["id"], "2");
    // Models use ids again in later turns.
    peer.idle().await;
    peer.send(call("1", "say", "{}")).await;
    assert_eq!(peer.receive().await["toolResponse"]["id"], "1");
}

fn hook(kind: &str, args: Value) -> Value {
    let mut request = args;
    request["requestId"] = "h1".into();
    request["type"] = format!("LIFECYCLE_HOOK_{kind}").into();
    json!({ "callHookRequest": request })
}

fn hook_answer(result: Value) -> Value {
    let mut response = result;
    response["requestId"] = "h1".into();
    json!({ "callHookResponse": response })
}

#[tokio::test]
async fn hooks_decide() {
    let handlers = Handlers::new()
        .pre_turn(|turn| async move {
            Ok(match turn.text().as_str() {
                "no" => PreTurnVerdict::Deny("not that".into()),
                _ => PreTurnVerdict::Allow,
            })
        })
        .pre_tool(|call| async move {
            Ok(match (call.tool.as_str(), call.server.as_deref()) {
                ("run_command", None) => PreToolVerdict::Deny("no commands".into()),
                ("send", Some("mail")) => {
                    let mut arguments = call.arguments;
                    arguments.insert("to".into(), "me".into());
                    PreToolVerdict::Modify(arguments)
                }
                _ => PreToolVerdict::Allow,
            })
        })
        .on_tool_error(|failure| async move { Ok(Some(format!("again: {}", failure.error))) })
        .on_stop(|stop| async move {
            Ok(match stop.continuations {
                0 => StopVerdict::Continue("check it".into()),
                _ => StopVerdict::Stop,
            })
        })
        .post_turn(|_| async { Err("full disk".into()) });
    #[rustfmt::skip]
    let table = [
        (hook("PRE_TURN", json!({"preTurnArgs": {"userInput": {"parts": [{"text": "yes"}]}}})),
         json!({"preTurnResult": {"decision": "ALLOW"}})),
        (hook("PRE_TURN", json!({"preTurnArgs": {"userInput": {"parts": [{"text": "no"}]}}})),
         json!({"preTurnResult": {"decision": "DENY", "reason": "not that"}})),
        (hook("PRE_TOOL", json!({"preToolArgs": {"toolName": "view_file"}})),
         json!({"preToolResult": {"decision": "ALLOW"}})),
        (hook("PRE_TOOL", json!({"preToolArgs": {"toolName": "run_command", "serverName": ""}})),
         json!({"preToolResult": {"decision": "DENY", "reason": "no commands"}})),
        (hook("PRE_TOOL", json!({"preToolArgs": {
            "toolName": "send", "serverName": "mail", "argumentsJson": r#"{"to":"all"}"#}})),
         json!({"preToolResult": {"decision": "ALLOW",
            "modifiedArgumentsJson": r#"{"to":"me"}"#,
            "modifiedArgs": {"fields": [{"name": "to", "value": {"stringValue": "me"}}]}}})),
        (hook("ON_TOOL_ERROR", json!({"onToolErrorArgs": {"errorMessage": "broken"}})),
         json!({"onToolErrorResult": {"customErrorMessage": "again: broken"}})),
        (hook("STOP", json!({"stopArgs": {}})),
         json!({"stopResult": {"decision": "CONTINUE", "reason": "check it"}})),
        (hook("STOP", json!({"stopArgs": {"continuationCount": 1}})),
         json!({"stopResult": {"decision": "ALLOW_STOP"}})),
        (hook("POST_TURN", json!({"postTurnArgs": {}})), json!({"errorMessage": "full disk"})),
        // Not registered, and nothing to deny.
        (hook("POST_TOOL", json!({"postToolArgs": {}})), json!({"emptyResult": {}})),
        (hook("ON_SESSION_START", json!({})), json!({"emptyResult": {}})),
        (json!({"callHookRequest": {"requestId": "h1", "type": 77}}), json!({"emptyResult": {}})),
    ];
    for (request, expected) in table {
        let answer = answer(handlers.clone(), request.clone()).await;
        assert_eq!(answer, hook_answer(expected), "{request}");
    }
}

#[tokio::test]
async fn what_goes_wrong_is_never_permission() {
    let erring = Handlers::new()
        .pre_turn(|_| async { Err("e".into()) })
        .pre_tool(|_| async { Err("e".into()) })
        .policy(|_| async { Err("e".into()) })
        .questions(|_| async { Err("e".into()) })
        .confirm(|_| async { Err("e".into()) });
    let panicking = Handlers::new()
        .pre_turn(|_| async { panic!() })
        .pre_tool(|_| async { panic!() })
        .policy(|_| async { panic!() })
        .questions(|_| async { panic!() })
        .confirm(|_| async { panic!() });
    let waiting = |request: Value| {
        let mut update = json!({
            "trajectoryId": ROOT, "stepIndex": 4, "state": "STATE_WAITING_FOR_USER",
        });
        update
            .as_object_mut()
            .unwrap()
            .extend(request.as_object().unwrap().clone());
        json!({ "stepUpdate": update })
    };
    let requests = [
        hook("PRE_TURN", json!({})),
        hook("PRE_TOOL", json!({"preToolArgs": {"toolName": "t"}})),
        // Without a call there is nothing to permit.
        hook("PRE_TOOL", json!({})),
        hook("PRE_TOOL", json!({"preToolArgs": {"argumentsJson": "{"}})),
        json!({"policyDecisionRequest": {"requestId": "p1", "ruleId": "r"}}),
        waiting(json!({"questionsRequest": {"questions": [{}]}})),
        waiting(json!({"toolConfirmationRequest": {}})),
    ];
    for handlers in [Handlers::new(), erring, panicking] {
        for request in &requests {
            let answer = answer(handlers.clone(), request.clone()).await;
            let no = answer["callHookResponse"]["preTurnResult"]["decision"] == "DENY"
                || answer["callHookResponse"]["preToolResult"]["decision"] == "DENY"
                || answer["policyDecisionResponse"]["outcome"] == "POLICY_EVALUATION_OUTCOME_DENY"
                || answer["questionResponse"]["cancelled"] == true
                || answer["toolConfirmation"]["accepted"] == false;
            assert!(no, "{handlers:?} {request}: {answer}");
        }
    }
}

#[tokio::test]
async fn policies_are_decided() {
    let handlers = Handlers::new().policy(|question| async move {
        assert_eq!(question.reason.as_deref(), Some("because"));
        assert_eq!(*question.call.argument("CommandLine"), "ls");
        Ok(match question.rule_id.as_str() {
            "yes" => PolicyVerdict::Allow,
            "no" => PolicyVerdict::Deny(Some("never".into())),
            _ => PolicyVerdict::NoMatch,
        })
    });
    for (rule, expected) in [
        ("yes", json!({"outcome": "POLICY_EVALUATION_OUTCOME_ALLOW"})),
        (
            "no",
            json!({"outcome": "POLICY_EVALUATION_OUTCOME_DENY", "denyReason": "never"}),
        ),
        (
            "other",
            json!({"outcome": "POLICY_EVALUATION_OUTCOME_NO_MATCH"}),
        ),
    ] {
        let request = json!({"policyDecisionRequest": {
            "requestId": "7", "ruleId": rule, "reason": "because",
            "toolArgs": {"toolName": "run_command", "argumentsJson": r#"{"CommandLine":"ls"}"#},
        }});
        let mut expected = expected;
        expected["requestId"] = "7".into();
        let answer = answer(handlers.clone(), request).await;
        assert_eq!(answer, json!({ "policyDecisionResponse": expected }));
    }
}

#[tokio::test]
async fn questions_are_put_once_for_each_time_a_step_waits() {
    let handlers = Handlers::new().questions(|questions| async move {
        assert_eq!(questions.len(), 2);
        assert_eq!(questions[0].text, "Which?");
        assert_eq!(questions[0].choices, ["a", "b", "c"]);
        assert_eq!(questions[0].selection, Selection::Many);
        // Out of range, and one answer too few.
        Ok(vec![Answer::Choices(vec![0, 2, 3])])
    });
    let (_session, mut peer) = Peer::open(handlers).await;
    let asked = json!({
        "state": "STATE_WAITING_FOR_USER",
        "questionsRequest": {"questions": [
            {"multipleChoice": {"question": "Which?", "choices": ["a", "b", "c"],
                                "isMultiSelect": true}},
            {"somethingNew": {}},
            {"multipleChoice": {"question": "Why?", "choices": ["x", "y"]}},
        ]},
    });
    let expected = json!({"questionResponse": {
        "trajectoryId": ROOT, "stepIndex": 3,
        "response": {"answers": [
            {"multipleChoiceAnswer": {"selectedChoiceIndices": [0, 2]}},
            {"unanswered": true},
            {"unanswered": true},
        ]},
    }});
    peer.step(3, asked.clone()).await;
    peer.step(3, asked.clone()).await;
    assert_eq!(peer.receive().await, expected);
    peer.step(3, asked.clone()).await;
    peer.step(3, json!({"state": "STATE_ACTIVE"})).await;
    peer.step(3, asked).await;
    assert_eq!(peer.receive().await, expected);
    peer.sync().await;
}

#[tokio::test]
async fn confirmations_are_given() {
    let handlers = Handlers::new().confirm(|asked| async move {
        assert_eq!(asked.step.request_text(), "May I?");
        Ok(ConfirmationVerdict::Accept)
    });
    let (_session, mut peer) = Peer::open(handlers).await;
    let asked = json!({
        "state": "STATE_WAITING_FOR_USER", "requestText": "May I?", "toolConfirmationRequest": {},
    });
    peer.step(2, asked).await;
    assert_eq!(
        peer.receive().await,
        json!({"toolConfirmation": {"trajectoryId": ROOT, "stepIndex": 2, "accepted": true}})
    );
}

/// Tells when it is dropped.
struct Witness(Arc<Notify>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_halt_drops_handlers_and_no_answer_follows() {
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let forever = {
        let (begun, dropped) = (Arc::clone(&begun), Arc::clone(&dropped));
        move |_| {
            let (begun, witness) = (Arc::clone(&begun), Witness(Arc::clone(&dropped)));
            async move {
                begun.notify_one();
                let _witness = witness;
                std::future::pending().await
            }
        }
    };
    let handlers = Handlers::new().tool(tool("forever"), forever);
    let (session, mut peer) = Peer::open(handlers).await;
    let turn = session.chat("go").await.unwrap();
    peer.receive().await;
    peer.running().await;
    peer.send(call("1", "forever", "{}")).await;
    soon(begun.notified()).await;
    session.halt().await.unwrap();
    soon(dropped.notified()).await;
    assert_eq!(peer.receive().await, json!({"haltRequest": true}));
    peer.idle().await;
    soon(turn.text()).await.unwrap();
    peer.sync().await;
}

#[tokio::test]
async fn a_flood_of_requests_ends_the_connection() {
    let mut limits = Limits::default();
    limits.max_open_requests = 3;
    let forever = |_| std::future::pending();
    let handlers = Handlers::new().tool(tool("forever"), forever);
    let (session, mut peer) = Peer::open_with(handlers, limits).await;
    for id in 0..4 {
        peer.send(call(&id.to_string(), "forever", "{}")).await;
    }
    let cause = soon(session.closed()).await.cause;
    let problem = "more than 3 requests are open at once".to_owned();
    assert_eq!(cause, CloseCause::Protocol { problem });
}
