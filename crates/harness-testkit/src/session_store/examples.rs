//! One record of every kind, with one value of every kind in them.

use std::time::Duration;

use harness_types::{
    Action, AnswerDelta, AnswerEnd, CallId, CallResult, CallStage, Choice, ConversationId,
    DiffBlock, DiffLine, DirEntry, EntryKind, FinishReason, HookCall, HookVerdict, HostAnswer,
    HostResponse, Input, InputId, InputKind, InputPart, LineChange, Media, ModalityCount,
    ModelCallId, ModelError, ModelErrorKind, ModelPart, PolicyOutcome, Question, QuestionAnswer,
    Quota, Record, RecordBody, Request, RequestAnswer, RequestId, RequestOutcome, RequestPayload,
    ResultContent, StepError, StepIndex, StopReason, TimerId, Timestamp, ToolCall, ToolClass,
    ToolOrigin, ToolResultStatus, TrajectoryId, TurnEnd, TurnId, TurnStage, Usage,
};
use serde_json::{Map, Value, json};

/// A log that holds at least one record of every kind, and in them every variant of every type.
///
/// It is a valid log only in that it begins as one: it is made for codecs and stores, not to be
/// folded into something. No two neighbours can be merged.
pub fn examples() -> Vec<Record> {
    let id = ConversationId::from_random([0xab; 16]);
    let root = TrajectoryId::root(&id);
    let mut bodies = Vec::new();
    bodies.push(RecordBody::Opened { conversation: id });
    bodies.push(RecordBody::Resumed);
    inputs(&root, &mut bodies);
    turns(&root, &mut bodies);
    answers(&root, &mut bodies);
    calls(&root, &mut bodies);
    requests(&root, &mut bodies);
    let timer = TimerId::new(9);
    bodies.push(RecordBody::SessionEnding { timer });
    bodies.push(RecordBody::SessionEnded);
    let record = |(n, body)| {
        let micros = i64::try_from(n).unwrap_or(0) + 1_764_000_000_000_000;
        let at = Timestamp::from_micros(micros);
        Record { at, body }
    };
    bodies.into_iter().enumerate().map(record).collect()
}

fn media() -> Media {
    Media {
        mime_type: "image/png".into(),
        description: "a dot".into(),
        data: [0x89, b'P', b'N', b'G', 0, 0xff][..].into(),
    }
}

fn plain_media() -> Media {
    Media {
        description: String::new(),
        ..media()
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

fn call() -> ToolCall {
    ToolCall {
        id: CallId::new("call-1"),
        name: "view_file".into(),
        args: object(json!({"path": "/w/ü.txt", "n": [1, -2.5, null, true], "a": {}})),
    }
}

fn step(n: u32) -> StepIndex {
    StepIndex::new(n)
}

fn error() -> StepError {
    StepError {
        message: "the model is overloaded".into(),
        http_code: Some(503),
    }
}

fn inputs(root: &TrajectoryId, bodies: &mut Vec<RecordBody>) {
    bodies.push(RecordBody::InputQueued {
        input: InputId::new(0),
        body: Input {
            kind: InputKind::User,
            parts: vec![
                InputPart::Text("say \"hi\"\n".into()),
                InputPart::Media(media()),
                InputPart::SlashCommand("init".into()),
            ],
        },
    });
    bodies.push(RecordBody::InputQueued {
        input: InputId::new(1),
        body: Input::trigger("the build is red"),
    });
    let input = InputId::new(1);
    bodies.push(RecordBody::InputDropped { input });
    bodies.push(RecordBody::InputTaken {
        trajectory: root.clone(),
        input: InputId::new(0),
        step: step(0),
    });
    bodies.push(RecordBody::NoticeGiven {
        trajectory: root.clone(),
        text: "go on".into(),
    });
    for http_code in [Some(503), None] {
        bodies.push(RecordBody::ErrorShown {
            trajectory: root.clone(),
            step: step(1),
            error: StepError {
                http_code,
                ..error()
            },
        });
    }
}

fn turns(root: &TrajectoryId, bodies: &mut Vec<RecordBody>) {
    bodies.push(RecordBody::TurnStarted {
        trajectory: root.clone(),
        turn: TurnId::new(0),
    });
    let stages = [
        TurnStage::SessionStart,
        TurnStage::PreTurn,
        TurnStage::Running,
        TurnStage::Stopping {
            end: TurnEnd::Completed,
        },
        TurnStage::PostTurn {
            end: TurnEnd::Failed { error: error() },
        },
    ];
    bodies.extend(stages.map(|stage| RecordBody::TurnStageChanged {
        trajectory: root.clone(),
        stage,
    }));
    let reason = || "no".to_owned();
    let mut ends = vec![
        TurnEnd::Completed,
        TurnEnd::Finished {
            output: r#"{"answer":42}"#.into(),
        },
        TurnEnd::Halted,
        TurnEnd::Interrupted,
        TurnEnd::Denied { reason: reason() },
        TurnEnd::Failed { error: error() },
    ];
    let reasons = [
        StopReason::MaxModelCalls,
        StopReason::MaxToolCalls,
        StopReason::MaxInputTokens,
        StopReason::MaxOutputTokens,
        StopReason::MaxTotalTokens,
        StopReason::QuotaExhausted,
    ];
    ends.extend(reasons.map(|reason| TurnEnd::Stopped { reason }));
    bodies.extend(ends.into_iter().map(|end| RecordBody::TurnEnded {
        trajectory: root.clone(),
        end,
    }));
}

fn answers(root: &TrajectoryId, bodies: &mut Vec<RecordBody>) {
    let model_call = ModelCallId::new(0);
    bodies.push(RecordBody::ModelCallStarted {
        trajectory: root.clone(),
        call: model_call,
        attempt: 2,
    });
    let signature = || Some("c2ln".to_owned());
    let parts = [
        ModelPart::Thought {
            text: "hm".into(),
            signature: None,
        },
        ModelPart::Thought {
            text: String::new(),
            signature: signature(),
        },
        ModelPart::Text {
            text: "I look.".into(),
            signature: None,
        },
        ModelPart::Text {
            text: String::new(),
            signature: signature(),
        },
        ModelPart::Call {
            call: call(),
            signature: signature(),
        },
        ModelPart::Call {
            call: call(),
            signature: None,
        },
    ];
    bodies.extend(parts.map(|part| {
        RecordBody::AnswerDelta(AnswerDelta {
            trajectory: root.clone(),
            call: model_call,
            step: (part.text_bytes() > 0).then_some(step(2)),
            part,
        })
    }));
    let count = |modality: &str, tokens| ModalityCount {
        modality: modality.into(),
        tokens,
    };
    let full = Usage {
        prompt_tokens: 1000,
        cached_tokens: 900,
        candidates_tokens: 20,
        thoughts_tokens: 7,
        total_tokens: 1027,
        service_tier: Some("standard".into()),
        prompt_details: vec![count("TEXT", 740), count("IMAGE", 260)],
        cache_details: vec![count("TEXT", 900)],
        candidates_details: vec![count("TEXT", 20)],
    };
    bodies.extend(
        [full, Usage::default()].map(|usage| RecordBody::UsageReported {
            trajectory: root.clone(),
            call: model_call,
            usage,
        }),
    );
    let reason = || "why".to_owned();
    let finishes = [
        FinishReason::Stop,
        FinishReason::MaxTokens,
        FinishReason::Blocked("SAFETY".into()),
        FinishReason::MalformedCall("MALFORMED_FUNCTION_CALL".into()),
        FinishReason::Other("RECITATION".into()),
    ];
    let ends = finishes
        .map(|finish| AnswerEnd::Complete { finish })
        .into_iter()
        .chain([
            AnswerEnd::Partial { reason: reason() },
            AnswerEnd::Failed { reason: reason() },
            AnswerEnd::Unusable { reason: reason() },
        ]);
    bodies.extend(ends.map(|end| RecordBody::AnswerEnded {
        trajectory: root.clone(),
        call: model_call,
        end,
    }));
    let kinds = [
        ModelErrorKind::Status { code: 503 },
        ModelErrorKind::Connect,
        ModelErrorKind::Cut,
        ModelErrorKind::Silent,
        ModelErrorKind::Malformed,
        ModelErrorKind::Config,
        ModelErrorKind::Script,
    ];
    let (timer, wait) = (TimerId::new(0), Duration::from_millis(1500));
    bodies.extend(kinds.map(|kind| RecordBody::RetryScheduled {
        trajectory: root.clone(),
        step: step(3),
        error: ModelError {
            kind,
            message: "try again".into(),
            retry_after: None,
            quota: Quota::NotNamed,
        },
        timer,
        wait,
    }));
    bodies.push(RecordBody::RetryScheduled {
        trajectory: root.clone(),
        step: step(3),
        error: ModelError {
            kind: ModelErrorKind::Status { code: 429 },
            message: "tomorrow".into(),
            retry_after: Some(Duration::new(3, 5)),
            quota: Quota::Exhausted,
        },
        timer,
        wait,
    });
    bodies.push(RecordBody::RetryDue {
        trajectory: root.clone(),
        timer,
    });
}

fn questions() -> Vec<Question> {
    let question = |choice| Question {
        question: "Which?".into(),
        options: vec!["this".into(), "that".into()],
        choice,
    };
    vec![question(Choice::One), question(Choice::Many)]
}

fn question_answers() -> Vec<QuestionAnswer> {
    let chosen = QuestionAnswer::Chosen {
        options: vec![0, 1],
        text: "or both".into(),
    };
    vec![QuestionAnswer::Skipped, chosen]
}

fn actions() -> Vec<Action> {
    let path = || "/w".to_owned();
    let line = |change, text: &str| DiffLine {
        change,
        text: text.into(),
    };
    let entry = |name: &str, kind| DirEntry {
        name: name.into(),
        kind,
    };
    let mut actions = vec![
        Action::ListDirectory {
            path: path(),
            entries: vec![
                entry("src", EntryKind::Directory),
                entry("Cargo.toml", EntryKind::File { bytes: 812 }),
            ],
        },
        Action::ViewFile {
            path: path(),
            start_line: 0,
            end_line: 99,
            content_offset: 7,
        },
        Action::EditFile {
            path: path(),
            diff: vec![DiffBlock {
                start_line: 3,
                end_line: 5,
                lines: vec![
                    line(LineChange::Keep, "fn main() {"),
                    line(LineChange::Delete, "    old();"),
                    line(LineChange::Insert, "\tnew();"),
                ],
            }],
        },
        Action::SearchDirectory {
            path: path(),
            query: "fn \\w+".into(),
            results: Some(2),
        },
        Action::FindFile {
            path: path(),
            query: "*.rs".into(),
            output: Some("main.rs\n".into()),
        },
        Action::RunCommand {
            command_line: "make -j2".into(),
            working_dir: path(),
            exit_code: Some(137),
            output: Some("killed\r\n".into()),
        },
        Action::AskQuestion {
            questions: questions(),
            answers: question_answers(),
        },
        Action::Finish {
            output: "{}".into(),
        },
        Action::Tool { call: call() },
    ];
    let responses = [
        None,
        Some(HostResponse::Value(json!([1, {"b": 2, "a": null}]))),
        Some(HostResponse::Text("not {json".into())),
        Some(HostResponse::Error("threw".into())),
    ];
    actions.extend(responses.map(|response| Action::HostTool {
        call: call(),
        response,
    }));
    actions
}

fn result() -> CallResult {
    CallResult {
        status: ToolResultStatus::Succeeded,
        content: ResultContent::Text("1\tline".into()),
        media: Vec::new(),
        action: None,
        error: None,
    }
}

fn calls(root: &TrajectoryId, bodies: &mut Vec<RecordBody>) {
    let classes = [
        ToolClass::ReadOnly,
        ToolClass::Idempotent,
        ToolClass::Mutating,
        ToolClass::External,
    ];
    let origins = [
        ToolOrigin::BuiltIn,
        ToolOrigin::Host,
        ToolOrigin::Question,
        ToolOrigin::Finish,
    ];
    let kinds = classes.into_iter().cycle().zip(origins.into_iter().cycle());
    for (place, (action, (class, origin))) in (4..).zip(actions().into_iter().zip(kinds)) {
        bodies.push(RecordBody::CallOpened {
            trajectory: root.clone(),
            step: step(place),
            call: call(),
            class,
            origin,
            summary: if class == ToolClass::ReadOnly {
                String::new()
            } else {
                "looks around".into()
            },
            action: action.clone(),
        });
        bodies.push(RecordBody::CallProgressed {
            trajectory: root.clone(),
            step: step(place),
            action,
        });
    }
    let stages = [
        CallStage::Hook,
        CallStage::Policy { from: 2 },
        CallStage::Ready,
        CallStage::Running,
        CallStage::Ran {
            result: Box::new(result()),
        },
        CallStage::Done,
    ];
    bodies.extend(stages.map(|stage| RecordBody::CallStageChanged {
        trajectory: root.clone(),
        step: step(4),
        stage,
    }));
    bodies.push(RecordBody::CallModified {
        trajectory: root.clone(),
        step: step(4),
        args: object(json!({"path": "/elsewhere"})),
        action: Action::Tool { call: call() },
    });
    let statuses = [
        ToolResultStatus::Succeeded,
        ToolResultStatus::Failed,
        ToolResultStatus::Denied,
        ToolResultStatus::Cancelled,
    ];
    let full = |status| CallResult {
        status,
        content: ResultContent::Json(object(json!({"z": 1, "a": [0.5]}))),
        media: vec![media(), plain_media()],
        action: Some(Action::Tool { call: call() }),
        error: Some("it did not work".into()),
    };
    let results = std::iter::once(result()).chain(statuses.map(full));
    bodies.extend(results.map(|result| RecordBody::CallFinished {
        trajectory: root.clone(),
        step: step(4),
        result,
    }));
    bodies.push(RecordBody::CallsSettled {
        trajectory: root.clone(),
    });
}

fn requests(root: &TrajectoryId, bodies: &mut Vec<RecordBody>) {
    let tool = || "view_file".to_owned();
    let hooks = [
        HookCall::SessionStart,
        HookCall::SessionEnd,
        HookCall::PreTurn {
            shown: Some(InputId::new(0)),
            parts: vec![InputPart::text("hello")],
        },
        HookCall::PreTurn {
            shown: None,
            parts: Vec::new(),
        },
        HookCall::PostTurn {
            response: "done".into(),
        },
        HookCall::PreTool {
            tool: tool(),
            call: call(),
        },
        HookCall::PostTool {
            tool: tool(),
            call: call(),
            result: "ok".into(),
        },
        HookCall::ToolError {
            tool: tool(),
            call: call(),
            error: "no such file".into(),
        },
        HookCall::Stop {
            response: "done".into(),
            continuations: 1,
            error: Some("broken".into()),
            stop_reason: Some(StopReason::MaxModelCalls),
        },
        HookCall::Stop {
            response: String::new(),
            continuations: 0,
            error: None,
            stop_reason: None,
        },
    ];
    let mut payloads = vec![
        RequestPayload::HostCall { call: call() },
        RequestPayload::PolicyDecision {
            rule: "rule-1".into(),
            reason: Some("it writes".into()),
            tool: tool(),
            call: call(),
        },
        RequestPayload::PolicyDecision {
            rule: "rule-2".into(),
            reason: None,
            tool: tool(),
            call: call(),
        },
        RequestPayload::Question {
            questions: questions(),
        },
        RequestPayload::Confirmation {
            tool: tool(),
            call: call(),
            rule: "ask-first".into(),
        },
    ];
    payloads.extend(hooks.map(|hook| RequestPayload::Hook { hook }));
    bodies.extend(
        (0..)
            .zip(payloads)
            .map(|(n, payload)| RecordBody::RequestOpened {
                request: Request {
                    id: RequestId::new(n),
                    trajectory: root.clone(),
                    step: (n % 2 == 0).then_some(step(4)),
                    payload,
                },
            }),
    );
    let reason = || "too risky".to_owned();
    let message = reason;
    let verdicts = [
        HookVerdict::Continue,
        HookVerdict::Modify {
            args: object(json!({"path": "/tmp"})),
        },
        HookVerdict::Deny { reason: reason() },
        HookVerdict::KeepGoing { reason: reason() },
        HookVerdict::ReplaceError { message: message() },
        HookVerdict::Failed { message: message() },
    ];
    let policies = [
        PolicyOutcome::Allow,
        PolicyOutcome::Deny {
            reason: Some(reason()),
        },
        PolicyOutcome::Deny { reason: None },
        PolicyOutcome::NoMatch,
    ];
    let host = |response, media| RequestAnswer::Host(HostAnswer { response, media });
    let mut answers = vec![
        host(HostResponse::Value(Value::Null), Vec::new()),
        host(HostResponse::Text("text".into()), vec![plain_media()]),
        host(HostResponse::Error(reason()), Vec::new()),
        RequestAnswer::Question(None),
        RequestAnswer::Question(Some(question_answers())),
    ];
    answers.extend(verdicts.map(RequestAnswer::Hook));
    answers.extend(policies.map(RequestAnswer::Policy));
    let outcomes = answers
        .into_iter()
        .map(RequestOutcome::Answered)
        .chain([RequestOutcome::Cancelled]);
    bodies.extend(
        (0..)
            .zip(outcomes)
            .map(|(n, outcome)| RecordBody::RequestClosed {
                request: RequestId::new(n),
                outcome,
            }),
    );
}
