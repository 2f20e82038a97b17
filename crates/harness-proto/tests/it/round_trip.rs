//! Random messages through both wire forms.

use std::collections::BTreeMap;

use harness_proto::json::{Encoding, EnumForm, from_json, from_json_slice, to_json, to_json_into};
use harness_proto::localharness::*;
use harness_proto::prost::Message as _;
use harness_proto::{SdkVersion, WireMessage, bytes::Bytes, gates, genai};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => ".{0,12}",
        1 => Just(String::new()),
        1 => Just("\"\\\u{0}\u{2028}\u{1f600}\n".to_owned()),
    ]
}

fn data() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<f64>().prop_filter("NaN is not equal to itself", |it| !it.is_nan()),
        1 => Just(f64::INFINITY),
        1 => Just(-0.0),
    ]
}

fn strings() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..4)
}

fn value() -> impl Strategy<Value = genai::Value> {
    use genai::value::Kind;
    let leaf = prop_oneof![
        Just(None),
        Just(Some(Kind::NullValue(0))),
        double().prop_map(|it| Some(Kind::NumberValue(it))),
        text().prop_map(|it| Some(Kind::StringValue(it))),
        any::<bool>().prop_map(|it| Some(Kind::BoolValue(it))),
        image().prop_map(|image| {
            Some(Kind::ContentValue(genai::Content {
                r#type: Some(genai::content::Type::Image(image)),
            }))
        }),
    ]
    .prop_map(|kind| genai::Value { kind });
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5)
                .prop_map(|values| Kind::ListValue(genai::ListValue { values })),
            structure(inner.clone()).prop_map(Kind::StructValue),
            inner.prop_map(|it| Kind::FunctionValue(Box::new(genai::Function {
                parameters: Some(Box::new(it)),
                ..Default::default()
            }))),
        ]
        .prop_map(|kind| genai::Value { kind: Some(kind) })
    })
}

fn structure(value: impl Strategy<Value = genai::Value>) -> impl Strategy<Value = genai::Struct> {
    vec((of(text()), of(value)), 0..5).prop_map(|fields| genai::Struct {
        fields: fields
            .into_iter()
            .map(|(name, value)| genai::Field { name, value })
            .collect(),
    })
}

fn image() -> impl Strategy<Value = genai::ImageContent> {
    (of(data()), of(any::<i32>()), of(0..5i32)).prop_map(|(data, mime_type, resolution)| {
        genai::ImageContent {
            mime_type,
            resolution,
            data_or_uri: data.map(genai::image_content::DataOrUri::Data),
            ..Default::default()
        }
    })
}

fn tool_call() -> impl Strategy<Value = ToolCall> {
    (of(text()), of(text()), of(structure(value()))).prop_map(|(id, arguments_json, arguments)| {
        ToolCall {
            id,
            arguments_json,
            arguments,
            ..Default::default()
        }
    })
}

fn tool_response() -> impl Strategy<Value = ToolResponse> {
    (of(text()), of(structure(value())), vec(of(data()), 0..3)).prop_map(
        |(response_json, response, media)| ToolResponse {
            response_json,
            response,
            supplemental_media: media
                .into_iter()
                .map(|data| Media {
                    data,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        },
    )
}

fn step() -> impl Strategy<Value = StepUpdate> {
    (
        (of(text()), of(any::<u32>()), of(any::<i32>()), of(0..4i32)),
        (of(text()), of(text()), of(text())),
        of((of(text()), of(any::<i32>()))),
        of(of(any::<u64>())),
        of(tool_call()),
    )
        .prop_map(|(head, texts, command, entry, call)| StepUpdate {
            trajectory_id: head.0.clone(),
            parent_trajectory_id: head.0,
            step_index: head.1,
            state: head.2,
            source: head.3,
            text: texts.0,
            text_delta: texts.1,
            error_message: texts.2,
            run_command: command.map(|(command_line, exit_code)| ActionRunCommand {
                command_line,
                exit_code,
                ..Default::default()
            }),
            list_directory: entry.map(|size| ActionListDirectory {
                results: vec![action_list_directory::Result {
                    info: size.map(action_list_directory::result::Info::FileSize),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            custom_tool: call.map(|call| ActionCustomTool {
                tool_call: Some(call),
                ..Default::default()
            }),
            ..Default::default()
        })
}

fn usage() -> impl Strategy<Value = UsageMetadata> {
    (
        of(any::<u64>()),
        vec((of(any::<i32>()), of(any::<u64>())), 0..3),
    )
        .prop_map(|(total_token_count, details)| UsageMetadata {
            total_token_count,
            prompt_tokens_details: details
                .into_iter()
                .map(|(modality, token_count)| ModalityTokenCount {
                    modality,
                    token_count,
                })
                .collect(),
            ..Default::default()
        })
}

fn output_event() -> impl Strategy<Value = OutputEvent> {
    use harness_proto::localharness::output_event::Event;
    let event = prop_oneof![
        4 => step().prop_map(Event::StepUpdate),
        2 => tool_call().prop_map(Event::ToolCall),
        1 => any::<bool>().prop_map(Event::SessionEndResponse),
        1 => (of(text()), of(any::<i32>()), of(any::<i32>())).prop_map(|(error, state, depth)| {
            Event::TrajectoryStateUpdate(TrajectoryStateUpdate {
                error,
                state,
                depth,
                ..Default::default()
            })
        }),
        1 => vec(step(), 0..3).prop_map(|history| {
            Event::InitializeConversationResponse(InitializeConversationResponse {
                history,
                ..Default::default()
            })
        }),
        1 => of(usage()).prop_map(|total| Event::UsageUpdate(UsageUpdate {
            total,
            ..Default::default()
        })),
    ];
    (of(any::<i64>()), of(event), of(usage())).prop_map(|(seq_num, event, usage_metadata)| {
        OutputEvent {
            seq_num,
            event,
            usage_metadata,
            ..Default::default()
        }
    })
}

fn input_event() -> impl Strategy<Value = InputEvent> {
    use harness_proto::localharness::input_event::Event;
    use harness_proto::localharness::user_input::{Media, Part, SlashCommand, part};
    let part = of(prop_oneof![
        text().prop_map(part::Part::Text),
        of(data()).prop_map(|data| part::Part::Media(Media {
            data,
            ..Default::default()
        })),
        of(text()).prop_map(|name| part::Part::SlashCommand(SlashCommand { name })),
    ])
    .prop_map(|part| Part { part });
    let event = prop_oneof![
        2 => vec(part, 0..4).prop_map(|parts| Event::UserInput(UserInput { parts })),
        2 => tool_response().prop_map(Event::ToolResponse),
        1 => text().prop_map(Event::AutomatedTrigger),
        1 => any::<bool>().prop_map(Event::HaltRequest),
        1 => vec(any::<i32>(), 0..5).prop_map(|selected_choice_indices| {
            use harness_proto::localharness::user_question_answer::Answer;
            use harness_proto::localharness::user_questions_response::{QuestionsResponse, Result};
            Event::QuestionResponse(UserQuestionsResponse {
                result: Some(Result::Response(QuestionsResponse {
                    answers: vec![UserQuestionAnswer {
                        answer: Some(Answer::MultipleChoiceAnswer(MultipleChoiceAnswer {
                            selected_choice_indices,
                            ..Default::default()
                        })),
                    }],
                })),
                ..Default::default()
            })
        }),
        1 => of(structure(value())).prop_map(|modified_args| {
            Event::CallHookResponse(CallHookResponse {
                result: Some(call_hook_response::Result::PreToolResult(PreToolResult {
                    modified_args,
                    ..Default::default()
                })),
                ..Default::default()
            })
        }),
    ];
    of(event).prop_map(|event| InputEvent { event })
}

fn config() -> impl Strategy<Value = InitializeConversationEvent> {
    (
        (vec(any::<i32>(), 0..4), vec(text(), 0..3), of(data())),
        vec((vec(0..3i32, 0..3), strings(), of(text())), 0..3),
        (of(double()), of(double()), of(any::<i64>())),
        strings(),
        btree_map(text(), of(data()), 0..3),
    )
        .prop_map(|(head, models, numbers, env, files)| {
            use genai::skills::{Skill, SkillFile, skill, skill_file};
            let config = HarnessConfig {
                enabled_hooks: head.0,
                skills_paths: head.1,
                initial_trajectory: head.2,
                models: models
                    .into_iter()
                    .map(|(types, http_headers, api_key)| ModelConfig {
                        types,
                        endpoint: Some(model_config::Endpoint::GeminiApiEndpoint(
                            GeminiApiEndpoint {
                                http_headers,
                                api_key,
                                ..Default::default()
                            },
                        )),
                        ..Default::default()
                    })
                    .collect(),
                retry_config: Some(RetryConfig {
                    api_retry: Some(ModelApiRetryConfig {
                        exponential_multiplier: numbers.0,
                        jitter_range: numbers.1,
                        ..Default::default()
                    }),
                    ..Default::default()
                }),
                budget_config: Some(BudgetConfig {
                    max_total_tokens: numbers.2,
                    ..Default::default()
                }),
                mcp_servers: vec![McpServerConfig {
                    transport: Some(mcp_server_config::Transport::Stdio(McpStdioTransport {
                        env: env.clone(),
                        ..Default::default()
                    })),
                    ..Default::default()
                }],
                skills_config: Some(SkillsConfig {
                    skills: vec![SkillSource {
                        source: Some(skill_source::Source::Skill(Skill {
                            metadata: env,
                            resources: Some(skill::Resources::InlineResources(
                                skill::InlineResources {
                                    resources: files
                                        .into_iter()
                                        .map(|(path, data)| {
                                            let content = data.map(skill_file::Content::Data);
                                            let file = SkillFile {
                                                content,
                                                ..Default::default()
                                            };
                                            (path, file)
                                        })
                                        .collect(),
                                },
                            )),
                            ..Default::default()
                        })),
                    }],
                    ..Default::default()
                }),
                ..Default::default()
            };
            InitializeConversationEvent {
                config: Some(config),
            }
        })
}

fn check<T: WireMessage + PartialEq>(message: &T) -> Result<(), TestCaseError> {
    let binary = message.encode_to_vec();
    prop_assert_eq!(&T::decode(binary.as_slice()).unwrap(), message);

    let json = to_json(message).unwrap();
    let parsed = from_json::<T>(&json).unwrap();
    prop_assert_eq!(&parsed.message, message);
    prop_assert_eq!(parsed.unknown.fields(), &[] as &[String]);

    let mut buffer = Vec::new();
    to_json_into(message, &mut buffer).unwrap();
    prop_assert_eq!(buffer.as_slice(), json.as_bytes());

    let pretty = serde_json::to_string_pretty(message).unwrap();
    prop_assert_eq!(
        &from_json_slice::<T>(pretty.as_bytes()).unwrap().message,
        message
    );

    // Numbers for enums are another spelling of the same message.
    let numbers = Encoding::new(SdkVersion::NEWEST).with_enums(EnumForm::Numbers);
    let names = Encoding::new(SdkVersion::NEWEST);
    let by_number = from_json::<T>(&numbers.to_json(message).unwrap())
        .unwrap()
        .message;
    let by_name = from_json::<T>(&names.to_json(message).unwrap())
        .unwrap()
        .message;
    prop_assert_eq!(by_number, by_name);
    Ok(())
}

/// Fails if a field is in a text that the version has not.
fn assert_gated(
    json: &serde_json::Value,
    schema: &'static harness_proto::schema::MessageSchema,
    version: SdkVersion,
) -> Result<(), TestCaseError> {
    let Some(object) = json.as_object() else {
        return Ok(());
    };
    for (key, value) in object {
        let field = schema.field_by_key(key).unwrap();
        prop_assert!(
            gates::allows(schema.name(), field.name(), version),
            "{}.{} for {version}",
            schema.name(),
            field.name()
        );
        let Some(inner) = field.message_schema() else {
            continue;
        };
        match value {
            serde_json::Value::Array(items) => {
                for item in items {
                    assert_gated(item, inner, version)?;
                }
            }
            one => assert_gated(one, inner, version)?,
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn output_events_come_back(event in output_event()) {
        check(&event)?;
    }

    #[test]
    fn input_events_come_back(event in input_event()) {
        check(&event)?;
    }

    #[test]
    fn configurations_come_back(config in config()) {
        check(&config)?;
    }

    #[test]
    fn values_come_back(value in value()) {
        check(&value)?;
    }

    #[test]
    fn no_version_is_sent_what_it_does_not_know(event in output_event(), patch in 0u16..=22) {
        let version = SdkVersion::new(0, 1, patch);
        let encoding = Encoding::new(version).with_enums(EnumForm::Numbers);
        let json = encoding.to_json(&event).unwrap();
        assert_gated(&serde_json::from_str(&json).unwrap(), OutputEvent::SCHEMA, version)?;
        // Nothing else is lost: what is left reads as a part of the message.
        let again = from_json::<OutputEvent>(&json).unwrap();
        prop_assert_eq!(encoding.to_json(&again.message).unwrap(), json);
    }

    #[test]
    fn any_text_is_read_or_refused(text in r#"[\[\]{}",:a-zA-Z0-9_.\- ]{0,60}"#) {
        let _ = from_json::<OutputEvent>(&text);
        let _ = from_json::<InputEvent>(&text);
    }

    #[test]
    fn damaged_texts_are_read_or_refused(
        config in config(), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let mut json = to_json(&config).unwrap().into_bytes();
        let at = at.index(json.len());
        json[at] = with;
        if let Err(error) = from_json_slice::<InitializeConversationEvent>(&json) {
            prop_assert!(error.as_json().is_some());
        }
    }

    #[test]
    fn damaged_binaries_are_read_or_refused(
        event in output_event(), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let mut binary = event.encode_to_vec();
        if !binary.is_empty() {
            let at = at.index(binary.len());
            binary[at] = with;
        }
        if let Ok(event) = OutputEvent::decode(binary.as_slice()) {
            to_json(&event).unwrap();
        }
    }
}

#[test]
fn values_nest_to_the_limit_of_the_reader_and_not_beyond() {
    let nest = |levels: usize| {
        let mut value = genai::Value {
            kind: Some(genai::value::Kind::NullValue(0)),
        };
        for _ in 0..levels {
            value = genai::Value {
                kind: Some(genai::value::Kind::ListValue(genai::ListValue {
                    values: vec![value],
                })),
            };
        }
        to_json(&value).unwrap()
    };
    // Three arrays or objects a level, and one for the innermost value.
    assert!(from_json::<genai::Value>(&nest(42)).is_ok());
    let error = from_json::<genai::Value>(&nest(43)).unwrap_err();
    assert_eq!(
        error.as_json().unwrap().kind,
        harness_proto::JsonErrorKind::TooDeep
    );
}

#[test]
fn debug_output_holds_no_credentials() {
    let json = r#"{"config":{"models":[{"geminiApiEndpoint":{"apiKey":"s3cret",
        "httpHeaders":{"authorization":"s3cret"},"baseUrl":"https://example.com"}},
        {"vertexEndpoint":{"apiKey":"s3cret"}},{"customEndpoint":{"configJson":"s3cret"}}],
        "geminiConfig":{"apiKey":"s3cret"},
        "mcpServers":[{"stdio":{"command":"tool","args":["s3cret"],"env":{"TOKEN":"s3cret"}}},
        {"http":{"headers":{"x":"s3cret"}}}]}}"#;
    let message = from_json::<InitializeConversationEvent>(json)
        .unwrap()
        .message;
    let debug = format!("{message:?}");
    assert!(!debug.contains("s3cret"), "{debug}");
    assert!(
        debug.contains("[redacted]") && debug.contains("https://example.com"),
        "{debug}"
    );
    let output = OutputConfig {
        port: Some(1),
        api_key: Some("s3cret".into()),
    };
    assert_eq!(
        format!("{output:?}"),
        "OutputConfig { port: Some(1), api_key: [redacted] }"
    );
}

#[test]
fn older_forms_of_user_input_are_one_message() {
    for json in [
        r#"{"userInput":"Hi"}"#,
        r#"{"user_input":"Hi"}"#,
        r#"{"complexUserInput":{"parts":[{"text":"Hi"}]}}"#,
        r#"{"complex_user_input":{"parts":[{"text":"Hi"}]}}"#,
        r#"{"userInput":{"parts":[{"text":"Hi"}]}}"#,
    ] {
        let event = from_json::<InputEvent>(json).unwrap();
        assert!(event.unknown.is_empty(), "{json}");
        assert_eq!(
            event.message.event,
            Some(input_event::Event::UserInput("Hi".into())),
            "{json}"
        );
    }
}
