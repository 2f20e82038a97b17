//! Any record, whether a loop would write it or not, and its JSON form.

use std::time::Duration;

use harness_types::{
    Action, AnswerDelta, AnswerEnd, CallId, CallResult, CallStage, ConversationId, FinishReason,
    HookCall, HookVerdict, HostAnswer, HostResponse, Input, InputId, InputPart, Media, ModelCallId,
    ModelError, ModelErrorKind, ModelPart, PolicyOutcome, Question, QuestionAnswer, Quota, Record,
    RecordBody, Request, RequestAnswer, RequestId, RequestOutcome, RequestPayload, ResultContent,
    StepError, StepIndex, StopReason, TimerId, Timestamp, ToolCall, ToolClass, ToolOrigin,
    ToolResultStatus, TrajectoryId, TurnEnd, TurnId, TurnStage, Usage,
};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

pub(crate) fn conversation() -> ConversationId {
    ConversationId::from_random([7; 16])
}

fn trajectory() -> impl Strategy<Value = TrajectoryId> {
    // One that does not exist stands for every mistake a log can hold.
    select(vec![7u8, 7, 7, 7, 7, 8])
        .prop_map(|n| TrajectoryId::root(&ConversationId::from_random([n; 16])))
}

fn step() -> impl Strategy<Value = StepIndex> {
    (0u32..6).prop_map(StepIndex::new)
}

fn call() -> impl Strategy<Value = ModelCallId> {
    (0u64..3).prop_map(ModelCallId::new)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["", "a", "\u{0}", "é\n\"", "🦀"]).prop_map(str::to_owned),
        ".{0,6}"
    ]
}

fn signature() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.2, text())
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Exact only with serde_json's `float_roundtrip`, which a store needs to build with.
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn args() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((text(), json()), 0..3).prop_map(|pairs| pairs.into_iter().collect())
}

fn tool_call() -> impl Strategy<Value = ToolCall> {
    (
        select(vec!["", "a", "b"]),
        select(vec!["look", "put"]),
        args(),
    )
        .prop_map(|(id, name, args)| ToolCall {
            id: CallId::new(id),
            name: name.to_owned(),
            args,
        })
}

fn media() -> impl Strategy<Value = Vec<Media>> {
    let one = (text(), text(), prop::collection::vec(any::<u8>(), 0..5)).prop_map(
        |(mime_type, description, data)| Media {
            mime_type,
            description,
            data: data.into(),
        },
    );
    prop::collection::vec(one, 0..2)
}

fn part() -> impl Strategy<Value = ModelPart> {
    prop_oneof![
        (text(), signature()).prop_map(|(text, signature)| ModelPart::Text { text, signature }),
        (text(), signature()).prop_map(|(text, signature)| ModelPart::Thought { text, signature }),
        (tool_call(), signature())
            .prop_map(|(call, signature)| ModelPart::Call { call, signature }),
    ]
}

fn input() -> impl Strategy<Value = Input> {
    let part = prop_oneof![
        text().prop_map(InputPart::Text),
        text().prop_map(InputPart::SlashCommand),
        media().prop_map(|mut media| media.pop().map_or(InputPart::text(""), InputPart::Media)),
    ];
    prop_oneof![
        prop::collection::vec(part, 0..3).prop_map(Input::user),
        text().prop_map(Input::trigger),
    ]
}

fn content() -> impl Strategy<Value = ResultContent> {
    prop_oneof![
        text().prop_map(ResultContent::Text),
        args().prop_map(ResultContent::Json)
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        tool_call().prop_map(|call| Action::Tool { call }),
        (tool_call(), json()).prop_map(|(call, value)| Action::HostTool {
            call,
            response: Some(HostResponse::Value(value)),
        }),
        text().prop_map(|output| Action::Finish { output }),
        (text(), any::<Option<i32>>(), any::<Option<u8>>()).prop_map(
            |(command_line, exit_code, output)| Action::RunCommand {
                command_line,
                working_dir: "/w".into(),
                exit_code,
                output: output.map(|n| n.to_string()),
            }
        ),
    ]
}

fn result() -> impl Strategy<Value = CallResult> {
    use ToolResultStatus::{Cancelled, Denied, Failed, Succeeded};
    let status = select(vec![Succeeded, Failed, Denied, Cancelled]);
    (
        status,
        content(),
        media(),
        prop::option::of(action()),
        prop::option::of(text()),
    )
        .prop_map(|(status, content, media, action, error)| CallResult {
            status,
            content,
            media,
            action,
            error,
        })
}

fn step_error() -> impl Strategy<Value = StepError> {
    (text(), any::<Option<u16>>()).prop_map(|(message, http_code)| StepError { message, http_code })
}

fn turn_end() -> impl Strategy<Value = TurnEnd> {
    prop_oneof![
        Just(TurnEnd::Completed),
        Just(TurnEnd::Halted),
        Just(TurnEnd::Interrupted),
        text().prop_map(|output| TurnEnd::Finished { output }),
        text().prop_map(|reason| TurnEnd::Denied { reason }),
        select(vec![StopReason::MaxModelCalls, StopReason::QuotaExhausted])
            .prop_map(|reason| TurnEnd::Stopped { reason }),
        step_error().prop_map(|error| TurnEnd::Failed { error }),
    ]
}

fn stage() -> impl Strategy<Value = TurnStage> {
    prop_oneof![
        Just(TurnStage::SessionStart),
        Just(TurnStage::PreTurn),
        Just(TurnStage::Running),
        turn_end().prop_map(|end| TurnStage::Stopping { end }),
        turn_end().prop_map(|end| TurnStage::PostTurn { end }),
    ]
}

fn call_stage() -> impl Strategy<Value = CallStage> {
    prop_oneof![
        Just(CallStage::Hook),
        any::<u32>().prop_map(|from| CallStage::Policy { from }),
        Just(CallStage::Ready),
        Just(CallStage::Running),
        result().prop_map(|result| CallStage::Ran {
            result: Box::new(result)
        }),
        Just(CallStage::Done),
    ]
}

fn payload() -> impl Strategy<Value = RequestPayload> {
    let hook = prop_oneof![
        Just(HookCall::SessionStart),
        Just(HookCall::SessionEnd),
        input().prop_map(|input| HookCall::PreTurn {
            parts: input.parts,
            shown: Some(InputId::new(1)),
        }),
        text().prop_map(|response| HookCall::PostTurn { response }),
        (tool_call(), text()).prop_map(|(call, tool)| HookCall::PreTool { tool, call }),
        (text(), any::<u32>()).prop_map(|(response, continuations)| HookCall::Stop {
            response,
            continuations,
            error: None,
            stop_reason: Some(StopReason::MaxToolCalls),
        }),
    ];
    prop_oneof![
        tool_call().prop_map(|call| RequestPayload::HostCall { call }),
        hook.prop_map(|hook| RequestPayload::Hook { hook }),
        (tool_call(), text()).prop_map(|(call, rule)| RequestPayload::PolicyDecision {
            rule,
            reason: None,
            tool: call.name.clone(),
            call,
        }),
        text().prop_map(|question| RequestPayload::Question {
            questions: vec![Question {
                question,
                options: vec!["a".into(), "b".into()],
                choice: harness_types::Choice::Many,
            }],
        }),
    ]
}

fn outcome() -> impl Strategy<Value = RequestOutcome> {
    let answer = prop_oneof![
        (json(), media()).prop_map(|(value, media)| {
            RequestAnswer::Host(HostAnswer {
                response: HostResponse::Value(value),
                media,
            })
        }),
        args().prop_map(|args| RequestAnswer::Hook(HookVerdict::Modify { args })),
        prop::option::of(text())
            .prop_map(|reason| RequestAnswer::Policy(PolicyOutcome::Deny { reason })),
        text().prop_map(|text| RequestAnswer::Question(Some(vec![
            QuestionAnswer::Skipped,
            QuestionAnswer::Chosen {
                options: vec![1],
                text
            },
        ]))),
        Just(RequestAnswer::Question(None)),
    ];
    prop_oneof![
        Just(RequestOutcome::Cancelled),
        answer.prop_map(RequestOutcome::Answered),
    ]
}

fn answer_end() -> impl Strategy<Value = AnswerEnd> {
    prop_oneof![
        Just(AnswerEnd::Complete {
            finish: FinishReason::Stop
        }),
        text().prop_map(|word| AnswerEnd::Complete {
            finish: FinishReason::Other(word)
        }),
        text().prop_map(|reason| AnswerEnd::Partial { reason }),
        text().prop_map(|reason| AnswerEnd::Failed { reason }),
        text().prop_map(|reason| AnswerEnd::Unusable { reason }),
    ]
}

fn model_error() -> impl Strategy<Value = ModelError> {
    let kind = prop_oneof![
        any::<u16>().prop_map(|code| ModelErrorKind::Status { code }),
        select(vec![401u16, 400, 403, 503]).prop_map(|code| ModelErrorKind::Status { code }),
        Just(ModelErrorKind::Cut),
    ];
    (kind, text(), any::<Option<u32>>(), any::<bool>()).prop_map(|(kind, message, wait, daily)| {
        ModelError {
            kind,
            message,
            retry_after: wait.map(|n| Duration::new(u64::from(n), n % 1_000_000_000)),
            quota: if daily {
                Quota::Exhausted
            } else {
                Quota::NotNamed
            },
        }
    })
}

fn usage() -> impl Strategy<Value = Usage> {
    (any::<u64>(), any::<u32>(), prop::option::of(text())).prop_map(|(big, small, service_tier)| {
        Usage {
            prompt_tokens: big,
            thoughts_tokens: u64::from(small),
            service_tier,
            ..Usage::default()
        }
    })
}

fn calls() -> BoxedStrategy<RecordBody> {
    let class = select(vec![
        ToolClass::ReadOnly,
        ToolClass::Idempotent,
        ToolClass::Mutating,
        ToolClass::External,
    ]);
    let origin = select(vec![
        ToolOrigin::BuiltIn,
        ToolOrigin::Host,
        ToolOrigin::Question,
        ToolOrigin::Finish,
    ]);
    let request = (trajectory(), prop::option::of(step()), 0u64..4, payload()).prop_map(
        |(trajectory, step, id, payload)| Request {
            id: RequestId::new(id),
            trajectory,
            step,
            payload,
        },
    );
    prop_oneof![
        4 => (trajectory(), step(), tool_call(), class, origin, action(), text()).prop_map(
            |(trajectory, step, call, class, origin, action, summary)| RecordBody::CallOpened {
                trajectory, step, call, class, origin, action, summary,
            }
        ),
        2 => (trajectory(), step(), call_stage())
            .prop_map(|(trajectory, step, stage)| RecordBody::CallStageChanged {
                trajectory, step, stage,
            }),
        1 => (trajectory(), step(), args(), action())
            .prop_map(|(trajectory, step, args, action)| RecordBody::CallModified {
                trajectory, step, args, action,
            }),
        1 => (trajectory(), step(), action())
            .prop_map(|(trajectory, step, action)| RecordBody::CallProgressed {
                trajectory, step, action,
            }),
        4 => (trajectory(), step(), result())
            .prop_map(|(trajectory, step, result)| RecordBody::CallFinished {
                trajectory, step, result,
            }),
        2 => trajectory().prop_map(|trajectory| RecordBody::CallsSettled { trajectory }),
        2 => request.prop_map(|request| RecordBody::RequestOpened { request }),
        2 => (0u64..4, outcome()).prop_map(|(request, outcome)| RecordBody::RequestClosed {
            request: RequestId::new(request),
            outcome,
        }),
    ]
    .boxed()
}

fn turns() -> BoxedStrategy<RecordBody> {
    let input_id = || (0u64..3).prop_map(InputId::new);
    let timer = || (0u64..3).prop_map(TimerId::new);
    prop_oneof![
        (input_id(), input()).prop_map(|(input, body)| RecordBody::InputQueued { input, body }),
        input_id().prop_map(|input| RecordBody::InputDropped { input }),
        (trajectory(), 0u64..3).prop_map(|(trajectory, turn)| RecordBody::TurnStarted {
            trajectory,
            turn: TurnId::new(turn),
        }),
        (trajectory(), stage())
            .prop_map(|(trajectory, stage)| RecordBody::TurnStageChanged { trajectory, stage }),
        (trajectory(), input_id(), step()).prop_map(|(trajectory, input, step)| {
            RecordBody::InputTaken {
                trajectory,
                input,
                step,
            }
        }),
        (trajectory(), text())
            .prop_map(|(trajectory, text)| RecordBody::NoticeGiven { trajectory, text }),
        (trajectory(), step(), step_error()).prop_map(|(trajectory, step, error)| {
            RecordBody::ErrorShown {
                trajectory,
                step,
                error,
            }
        }),
        (trajectory(), turn_end())
            .prop_map(|(trajectory, end)| RecordBody::TurnEnded { trajectory, end }),
        timer().prop_map(|timer| RecordBody::SessionEnding { timer }),
        Just(RecordBody::SessionEnded),
        Just(RecordBody::Resumed),
    ]
    .boxed()
}

fn answers() -> BoxedStrategy<RecordBody> {
    let timer = || (0u64..3).prop_map(TimerId::new);
    prop_oneof![
        3 => (trajectory(), call(), any::<u32>()).prop_map(|(trajectory, call, attempt)| {
            RecordBody::ModelCallStarted { trajectory, call, attempt }
        }),
        6 => (trajectory(), call(), prop::option::weighted(0.8, step()), part()).prop_map(
            |(trajectory, call, step, part)| {
                RecordBody::AnswerDelta(AnswerDelta { trajectory, call, step, part })
            }
        ),
        1 => (trajectory(), call(), usage())
            .prop_map(|(trajectory, call, usage)| RecordBody::UsageReported {
                trajectory, call, usage,
            }),
        2 => (trajectory(), call(), answer_end())
            .prop_map(|(trajectory, call, end)| RecordBody::AnswerEnded { trajectory, call, end }),
        1 => (trajectory(), step(), model_error(), timer(), any::<u32>()).prop_map(
            |(trajectory, step, error, timer, wait)| RecordBody::RetryScheduled {
                trajectory,
                step,
                error,
                timer,
                wait: Duration::from_millis(u64::from(wait)),
            }
        ),
        1 => (trajectory(), timer())
            .prop_map(|(trajectory, timer)| RecordBody::RetryDue { trajectory, timer }),
    ]
    .boxed()
}

pub(crate) fn record() -> impl Strategy<Value = Record> {
    let body = prop_oneof![5 => calls(), 5 => turns(), 5 => answers()];
    (any::<i64>(), body).prop_map(|(at, body)| Record {
        at: Timestamp::from_micros(at),
        body,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1024) })]

    #[test]
    fn a_record_survives_its_json_form(record in record()) {
        let text = serde_json::to_string(&record).unwrap();
        let back: Record = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&back, &record);
        // The order of arguments too: a request made from a resumed log is the same to the byte.
        prop_assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }

    #[test]
    fn the_type_of_a_record_is_its_name(record in record()) {
        let json = serde_json::to_value(&record).unwrap();
        prop_assert_eq!(json["type"].as_str(), Some(record.body.type_name()));
    }
}

#[test]
fn a_record_in_json_is_flat() {
    let record = Record {
        at: Timestamp::from_micros(1_700_000_000_000_000),
        body: RecordBody::InputQueued {
            input: InputId::new(3),
            body: Input::user([InputPart::text("hi")]),
        },
    };
    assert_eq!(
        serde_json::to_string(&record).unwrap(),
        r#"{"at":1700000000000000,"type":"input_queued","input":3,"body":{"kind":"user","parts":[{"text":"hi"}]}}"#
    );
}
