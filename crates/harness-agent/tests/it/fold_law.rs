//! The laws that hold whatever happens: random stimuli, every one checked.

use std::collections::{BTreeMap, BTreeSet};

use harness_agent::{Effect, Machine, ModelEnd, Outcome, Stimulus};
use harness_types::{
    Action, AgentBehavior, CallStage, Command, Config, Conversation, ConversationId, FinishReason,
    Hook, HookVerdict, HostAnswer, HostResponse, Input, InputPart, ModelCallId, ModelError,
    ModelErrorKind, ModelPart, PolicyDecision, PolicyOutcome, PolicyRule, QuestionAnswer, Record,
    RecordBody, RequestAnswer, RequestId, RequestKind, RequestPayload, ResultContent, Step,
    StepIndex, TimerId, ToolClass, ToolError, ToolOutput, ToolResultStatus, Touch, TurnEnd, Usage,
    Waiting, check_request,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{args, config, machine, stamp, status, tool_call};

/// Something that happens; numbers choose among what is there when it does.
#[derive(Debug, Clone)]
enum Event {
    User(u8),
    Trigger,
    Text(u8),
    Thought(u8),
    Signed(u8),
    Call {
        tool: u8,
        id: u8,
        args: u8,
    },
    Usage(u8),
    Ends(u8),
    Fails(u8),
    LatePart,
    ToolEnds {
        which: u8,
        how: u8,
    },
    ToolShows(u8),
    Timer(u8),
    Answer {
        which: u8,
        how: u8,
    },
    AnswersNothing(u8),
    Halt,
    EndSession,
    Refuse,
    StoreFails,
    /// The process ends and another one takes the conversation up from its log.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => any::<u8>().prop_map(Event::User),
        1 => Just(Event::Trigger),
        6 => any::<u8>().prop_map(Event::Text),
        2 => any::<u8>().prop_map(Event::Thought),
        2 => any::<u8>().prop_map(Event::Signed),
        18 => (any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(tool, id, args)| Event::Call { tool, id, args }),
        2 => any::<u8>().prop_map(Event::Usage),
        18 => any::<u8>().prop_map(Event::Ends),
        4 => any::<u8>().prop_map(Event::Fails),
        1 => Just(Event::LatePart),
        18 => (any::<u8>(), any::<u8>()).prop_map(|(which, how)| Event::ToolEnds { which, how }),
        3 => any::<u8>().prop_map(Event::ToolShows),
        5 => any::<u8>().prop_map(Event::Timer),
        24 => (any::<u8>(), any::<u8>()).prop_map(|(which, how)| Event::Answer { which, how }),
        1 => any::<u8>().prop_map(Event::AnswersNothing),
        3 => Just(Event::Halt),
        1 => Just(Event::EndSession),
        1 => Just(Event::Refuse),
        1 => Just(Event::StoreFails),
        1 => Just(Event::Restart),
    ]
}

#[derive(Debug, Clone)]
struct Setup {
    hooks: u8,
    answers: u8,
    rules: u8,
    fallback: u8,
    finish: bool,
    asks: bool,
    budget: u8,
    tight: bool,
}

fn setup() -> impl Strategy<Value = Setup> {
    let bits = prop_oneof![2 => Just(0), 1 => Just(0xff), 3 => any::<u8>()];
    let most = prop_oneof![3 => Just(0xff), 1 => any::<u8>()];
    let parts = (
        bits.clone(),
        most,
        bits,
        0u8..6,
        any::<bool>(),
        any::<bool>(),
        0u8..8,
    );
    (parts, prop::bool::weighted(0.3)).prop_map(
        |((hooks, answers, rules, fallback, finish, asks, budget), tight)| Setup {
            hooks,
            answers,
            rules,
            fallback,
            finish,
            asks,
            budget,
            tight,
        },
    )
}

fn chosen<T: Copy>(bits: u8, all: &[T]) -> impl Iterator<Item = T> {
    all.iter()
        .enumerate()
        .filter(move |(n, _)| bits >> n & 1 == 1)
        .map(|(_, one)| *one)
}

impl Setup {
    fn config(&self) -> Config {
        let mut config = config();
        let hooks = [
            Hook::SessionStart,
            Hook::SessionEnd,
            Hook::PreTurn,
            Hook::PostTurn,
            Hook::PreTool,
            Hook::PostTool,
            Hook::ToolError,
            Hook::Stop,
        ];
        config.hooks = chosen(self.hooks, &hooks).collect();
        let kinds = [
            RequestKind::HostCall,
            RequestKind::Hook,
            RequestKind::PolicyDecision,
            RequestKind::Question,
            RequestKind::Confirmation,
        ];
        config.answers = chosen(self.answers, &kinds).collect();
        let rule = |tool: &str, decision, dynamic: bool| PolicyRule {
            tool: tool.to_owned(),
            server: None,
            name: format!("{decision:?} {tool}"),
            id: if dynamic {
                format!("{decision:?}-{tool}")
            } else {
                String::new()
            },
            decision,
            reason: None,
            dynamic,
        };
        let rules = [
            ("policy_put", PolicyDecision::Ask, true),
            ("policy_put", PolicyDecision::Allow, true),
            ("policy_look", PolicyDecision::Ask, false),
            ("host_a", PolicyDecision::Deny, false),
            ("*", PolicyDecision::Ask, true),
            ("*", PolicyDecision::Allow, true),
            ("policy_set", PolicyDecision::Ask, false),
            ("finish", PolicyDecision::Ask, true),
        ];
        config.policy.rules = chosen(self.rules, &rules)
            .map(|(tool, decision, dynamic)| rule(tool, decision, dynamic))
            .collect();
        config.policy.fallback = match self.fallback {
            0 => PolicyDecision::Deny,
            1 => PolicyDecision::Ask,
            _ => PolicyDecision::Allow,
        };
        config.tools.insert("ask_question".to_owned());
        if self.finish {
            config.finish_schema = Some(json!({
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
            }));
        }
        if self.asks {
            config.behavior = AgentBehavior::Interactive;
        }
        match self.budget {
            1 => config.budget.max_model_calls = Some(6),
            2 => config.budget.max_tool_calls = Some(5),
            3 => config.budget.max_total_tokens = Some(300),
            4 => config.budget.max_output_tokens = Some(100),
            5 => config.budget.max_input_tokens = Some(100),
            _ => {}
        }
        if self.tight {
            config.limits.calls_per_answer = 2;
            config.limits.identical_calls = 3;
            config.limits.invalid_answers = 2;
            config.limits.stop_continuations = 1;
            config.limits.queued_inputs = 1;
            config.output_retries = 1;
            config.retry.max_retries = 1;
        }
        config
    }
}

/// A call between its opening and its end.
struct OpenCall {
    step: StepIndex,
    writes: bool,
    reads_only: bool,
    ended: bool,
    runs: bool,
}

/// A conversation under observation.
struct Watched {
    machine: Machine,
    state: Conversation,
    records: Vec<Record>,
    /// Built from the records alone.
    shadow: Conversation,
    /// The steps as they were after the last stimulus.
    shown: Vec<Step>,
    /// What an observer has of the texts, put together from what was new.
    deltas: BTreeMap<StepIndex, (String, String)>,
    calls: Vec<OpenCall>,
    answer_ended: bool,
    started: BTreeSet<StepIndex>,
    timers: Vec<TimerId>,
    open_requests: BTreeSet<RequestId>,
    turns: (u64, u64),
}

impl Watched {
    fn new(config: Config) -> Self {
        let machine = machine(config);
        let id = ConversationId::from_random([7; 16]);
        let mut state = Conversation::new(id.clone());
        let records = machine.open(&mut state, stamp()).records;
        Self {
            machine,
            state,
            records,
            shadow: Conversation::new(id),
            shown: Vec::new(),
            deltas: BTreeMap::new(),
            calls: Vec::new(),
            answer_ended: true,
            started: BTreeSet::new(),
            timers: Vec::new(),
            open_requests: BTreeSet::new(),
            turns: (0, 0),
        }
    }

    fn happen(&mut self, event: Event) {
        let before = self.state.root().turn.is_some();
        let stimulus = match event {
            Event::Restart => return self.restart(),
            event => self.stimulus(event),
        };
        let halts = stimulus == Stimulus::Command(Command::Halt);
        let refuses = matches!(stimulus, Stimulus::Command(Command::Refuse { .. }));
        let outcome = self.machine.step(&mut self.state, stamp(), stimulus);
        self.check(outcome, refuses && !before);
        if halts {
            assert!(self.state.root().turn.is_none(), "a turn runs after a halt");
            self.check_only_session_end_is_open();
        }
    }

    /// The next thing, in terms of what there is now.
    fn stimulus(&self, event: Event) -> Stimulus {
        let trajectory = self.state.root().id.clone();
        let waiting = self.state.root().turn.as_ref().map(|turn| &turn.waiting);
        let call = match waiting {
            Some(Waiting::Answer(call)) => call.id,
            _ => ModelCallId::new(self.state.next_call().get().saturating_sub(1)),
        };
        let part = |part| Stimulus::ModelPart { call, part };
        match event {
            Event::User(n) => Stimulus::Command(Command::Input(Input::user([InputPart::text(
                format!("say {n}"),
            )]))),
            Event::Trigger => Stimulus::Command(Command::Input(Input::trigger("tick"))),
            Event::Text(n) => {
                let text = ["", "a", "é", "long text ", "\n"][usize::from(n) % 5].to_owned();
                part(ModelPart::Text {
                    text,
                    signature: None,
                })
            }
            Event::Thought(n) => part(ModelPart::Thought {
                text: format!("t{n}"),
                signature: None,
            }),
            Event::Signed(n) => {
                let (text, signature) = (
                    ["", "s"][usize::from(n) % 2].to_owned(),
                    Some("c2ln".into()),
                );
                part(match n / 2 % 2 {
                    0 => ModelPart::Text { text, signature },
                    _ => ModelPart::Thought { text, signature },
                })
            }
            Event::Call { tool, id, args } => {
                let names = [
                    "look",
                    "peek",
                    "put",
                    "set",
                    "send",
                    "host_a",
                    "host_b",
                    "finish",
                    "ask_question",
                    "no_such_tool",
                    "look",
                    "put",
                    "finish",
                ];
                let ids = ["", "a", "b", "a-1", "call-0", "c"];
                let args = match args % 8 {
                    // What `finish` needs, often enough to get there.
                    _ if matches!(tool % 13, 7 | 12) && args % 4 > 0 => json!({"n": args}),
                    0 => json!({"path": "/x", "n": "3"}),
                    1 => json!({"path": 5}),
                    2 => json!({"n": args}),
                    3 => json!({"toolSummary": "what for", "toolAction": "x"}),
                    4 => json!({"questions": [{"question": "q?", "options": ["a", "b"]}]}),
                    5 => json!({"questions": []}),
                    6 => json!({"n": 1}),
                    _ => json!({}),
                };
                let id = ids[usize::from(id) % ids.len()];
                let name = names[usize::from(tool) % names.len()];
                part(ModelPart::Call {
                    call: tool_call(id, name, args),
                    signature: (tool > 200).then(|| "c2ln".to_owned()),
                })
            }
            Event::Usage(n) => Stimulus::ModelUsage {
                call,
                usage: Usage {
                    prompt_tokens: u64::from(n),
                    candidates_tokens: u64::from(n / 2),
                    total_tokens: u64::from(n) + u64::from(n / 2),
                    ..Usage::default()
                },
            },
            Event::Ends(n) => {
                let reason = match n % 12 {
                    0 => FinishReason::MaxTokens,
                    1 => FinishReason::Blocked("SAFETY".into()),
                    2 => FinishReason::MalformedCall("MALFORMED_FUNCTION_CALL".into()),
                    3 => FinishReason::Other("OTHER".into()),
                    _ => FinishReason::Stop,
                };
                let end = ModelEnd::Finished {
                    reason,
                    message: (n > 128).then(|| "why".into()),
                };
                Stimulus::ModelEnded { call, end }
            }
            Event::Fails(n) => {
                let error = match n % 8 {
                    0 => status(401, None),
                    1 => status(429, Some(5)),
                    2 => status(429, None),
                    3 => status(503, Some(u64::from(n))),
                    4 => ModelError::new(ModelErrorKind::Cut, "cut"),
                    5 => ModelError::new(ModelErrorKind::Silent, "silent"),
                    6 => ModelError::new(ModelErrorKind::Malformed, "malformed"),
                    _ => ModelError::new(ModelErrorKind::Connect, "connect"),
                };
                Stimulus::ModelEnded {
                    call,
                    end: ModelEnd::Failed(error),
                }
            }
            Event::LatePart => Stimulus::ModelPart {
                call: ModelCallId::new(call.get().saturating_sub(1)),
                part: ModelPart::Text {
                    text: "late".into(),
                    signature: None,
                },
            },
            Event::ToolEnds { which, how } => {
                let step = self.some_step(which);
                let result = match how % 4 {
                    0 => Err(ToolError::failed("no")),
                    1 => Err(ToolError::invalid("bad")),
                    2 => Ok(ToolOutput {
                        content: ResultContent::Json(args(json!({"ok": how}))),
                        media: Vec::new(),
                        action: Some(shown_action(how)),
                    }),
                    _ => Ok(ToolOutput::text("done")),
                };
                Stimulus::ToolEnded {
                    trajectory,
                    step,
                    result,
                }
            }
            Event::ToolShows(which) => Stimulus::ToolProgress {
                trajectory,
                step: self.some_step(which),
                action: shown_action(which),
            },
            Event::Timer(which) => {
                let timer = match self.timers.len() {
                    0 => TimerId::new(99),
                    some => self.timers[usize::from(which) % some],
                };
                Stimulus::TimerFired(timer)
            }
            Event::Answer { which, how } => {
                let open: Vec<_> = self.state.requests().values().collect();
                let Some(request) = open.get(usize::from(which) % open.len().max(1)) else {
                    return Stimulus::TimerFired(TimerId::new(98));
                };
                let answer = answer(&request.payload, how);
                Stimulus::Command(Command::Answer {
                    request: request.id,
                    answer,
                })
            }
            Event::AnswersNothing(n) => Stimulus::Command(Command::Answer {
                request: RequestId::new(u64::from(n)),
                answer: RequestAnswer::Policy(PolicyOutcome::Allow),
            }),
            Event::Halt | Event::Restart => Stimulus::Command(Command::Halt),
            Event::EndSession => Stimulus::Command(Command::EndSession),
            Event::Refuse => Stimulus::Command(Command::Refuse {
                message: "no".into(),
            }),
            Event::StoreFails => Stimulus::StoreFailed {
                message: "full".into(),
            },
        }
    }

    /// Mostly a step whose call runs; at times any other.
    fn some_step(&self, which: u8) -> StepIndex {
        let running: Vec<_> = self
            .state
            .root()
            .turn
            .iter()
            .flat_map(|turn| &turn.calls)
            .filter(|call| call.stage == CallStage::Running)
            .map(|call| call.step)
            .collect();
        match running.len() {
            some if some > 0 && which < 230 => running[usize::from(which) % some],
            _ => StepIndex::new(u32::from(which) % 40),
        }
    }

    fn check(&mut self, outcome: Outcome, refused_idle: bool) {
        let Outcome {
            records,
            effects,
            touches,
            ..
        } = outcome;
        let mut denied = BTreeSet::new();
        for record in &records {
            self.shadow.apply(record);
            self.follow(&record.body, refused_idle, &mut denied);
        }
        self.records.extend(records);
        assert_eq!(
            self.shadow, self.state,
            "the state is not the fold of the log"
        );
        for effect in &effects {
            match effect {
                Effect::CallModel { request, .. } => {
                    let verdict = check_request(request);
                    assert_eq!(verdict, Ok(()), "{:#?}", request.messages);
                }
                Effect::RunTool { step, .. } => {
                    assert!(self.started.insert(*step), "step {step} was started twice");
                    assert!(!denied.contains(step), "step {step} was denied and started");
                }
                Effect::StartTimer { timer, .. } => self.timers.push(*timer),
                _ => {}
            }
        }
        self.check_steps(&touches);
        let budget = &self.machine.config().budget;
        if let Some(limit) = budget.max_model_calls {
            assert!(
                self.state.model_calls() <= limit,
                "more model calls than allowed"
            );
        }
        if let Some(limit) = budget.max_tool_calls {
            assert!(
                self.state.tool_calls() <= limit,
                "more tool calls than allowed"
            );
        }
        if self.state.root().turn.is_none() {
            self.check_only_session_end_is_open();
        }
    }

    /// Follows the log, as a reader of it would.
    fn follow(&mut self, body: &RecordBody, refused_idle: bool, denied: &mut BTreeSet<StepIndex>) {
        match body {
            RecordBody::ModelCallStarted { .. } => {
                assert!(
                    self.calls.iter().all(|call| call.ended),
                    "a call was left unanswered"
                );
                self.calls.clear();
                self.answer_ended = false;
            }
            RecordBody::AnswerEnded { .. } => self.answer_ended = true,
            RecordBody::CallOpened { step, class, .. } => self.calls.push(OpenCall {
                step: *step,
                writes: matches!(class, ToolClass::Mutating | ToolClass::Idempotent),
                reads_only: *class == ToolClass::ReadOnly,
                ended: false,
                runs: false,
            }),
            RecordBody::CallStageChanged {
                step,
                stage: CallStage::Running,
                ..
            } => {
                let place = self.calls.iter().position(|call| call.step == *step);
                let place = place.expect("an unknown call was started");
                let (earlier, rest) = self.calls.split_at_mut(place);
                let call = &mut rest[0];
                assert!(
                    !call.ended && !call.runs,
                    "call {step} was started at the wrong time"
                );
                assert!(
                    call.reads_only || self.answer_ended,
                    "{step} started before its turn"
                );
                let blocks = |earlier: &OpenCall| !earlier.ended && (call.writes || earlier.writes);
                assert!(
                    !earlier.iter().any(blocks),
                    "{step} started beside a writer"
                );
                call.runs = true;
            }
            RecordBody::CallFinished { step, result, .. } => {
                let call = self.calls.iter_mut().find(|call| call.step == *step);
                let call = call.expect("an unknown call has ended");
                assert!(!call.ended, "call {step} has ended twice");
                call.ended = true;
                if result.status == ToolResultStatus::Denied {
                    assert!(!call.runs, "call {step} ran and was denied");
                    denied.insert(*step);
                }
            }
            RecordBody::CallsSettled { .. } => {
                assert!(
                    self.calls.iter().all(|call| call.ended),
                    "settled with open calls"
                );
            }
            RecordBody::TurnStarted { .. } => self.turns.0 += 1,
            RecordBody::TurnEnded { .. } => {
                assert!(
                    self.calls.iter().all(|call| call.ended),
                    "the turn left a call open"
                );
                self.calls.clear();
                self.turns.1 += u64::from(!refused_idle);
                assert_eq!(self.turns.0, self.turns.1, "a turn has not exactly one end");
            }
            RecordBody::RequestOpened { request } => {
                assert!(self.open_requests.insert(request.id), "opened twice");
            }
            RecordBody::RequestClosed { request, .. } => {
                assert!(
                    self.open_requests.remove(request),
                    "closed without being open"
                );
            }
            _ => {}
        }
    }

    /// Steps are numbered without gaps, final ones stay as they are, texts only grow, and whatever
    /// has changed is among the touches.
    fn check_steps(&mut self, touches: &[Touch]) {
        let steps = &self.state.root().steps;
        assert!(steps.len() >= self.shown.len(), "a step is gone");
        let touched: BTreeSet<StepIndex> = touches
            .iter()
            .filter_map(|touch| match touch {
                Touch::Step { step, .. } => Some(*step),
                _ => None,
            })
            .collect();
        let asks = touches
            .iter()
            .any(|touch| matches!(touch, Touch::RequestOpened(_) | Touch::RequestClosed(_)));
        for (n, step) in steps.iter().enumerate() {
            assert_eq!(
                step.index.get() as usize,
                n,
                "steps are not numbered in order"
            );
            let Some(before) = self.shown.get(n) else {
                assert!(
                    touched.contains(&step.index),
                    "new step {n} was not touched"
                );
                self.deltas
                    .insert(step.index, (step.text.clone(), step.thinking.clone()));
                continue;
            };
            if before == step {
                continue;
            }
            assert!(
                !before.state.is_final(),
                "final step {n} has changed: {before:?} -> {step:?}"
            );
            assert!(
                touched.contains(&step.index) || asks,
                "step {n} changed unseen"
            );
            let text = step
                .text
                .strip_prefix(&before.text)
                .expect("a text only grows");
            let thinking = step
                .thinking
                .strip_prefix(&before.thinking)
                .expect("only grows");
            let deltas = self.deltas.get_mut(&step.index).unwrap();
            deltas.0.push_str(text);
            deltas.1.push_str(thinking);
        }
        self.shown.clone_from(steps);
    }

    fn check_only_session_end_is_open(&self) {
        let open = self.state.requests().values().find(|request| {
            let ends = harness_types::HookCall::SessionEnd;
            request.payload != RequestPayload::Hook { hook: ends }
        });
        assert_eq!(open, None, "a request is open that nobody waits for");
    }

    /// Takes the log through its JSON form and goes on with what it folds into.
    fn restart(&mut self) {
        self.records = through_json(&self.records);
        let folded = Conversation::fold(&self.records);
        assert_eq!(
            folded, self.state,
            "the log folds into something else than it came from"
        );
        self.state = folded;
        self.timers.clear();
        let outcome = self.machine.resume(&mut self.state, stamp(), None);
        assert_eq!(
            outcome.effects,
            [],
            "something is done by taking up a conversation"
        );
        self.check(outcome, false);
        assert!(
            self.state.root().turn.is_none(),
            "a turn runs that nobody drives"
        );
        assert!(
            self.state.requests().is_empty(),
            "somebody is asked by a process that is gone"
        );
    }

    /// Ends everything, whatever state it is in, and shows that the conversation is still usable.
    fn wind_up(mut self) {
        self.happen(Event::Halt);
        let before = self.state.model_calls();
        self.happen(Event::User(1));
        for _ in 0..8 {
            // Hooks may stand before the question to the model; all of them go on.
            let Some(id) = self.state.requests().keys().next().copied() else {
                break;
            };
            let answer = RequestAnswer::Hook(HookVerdict::Continue);
            let stimulus = Stimulus::Command(Command::Answer {
                request: id,
                answer,
            });
            let outcome = self.machine.step(&mut self.state, stamp(), stimulus);
            self.check(outcome, false);
        }
        let asked = self.state.model_calls() > before;
        let stopped = matches!(self.last_end(), Some(TurnEnd::Stopped { .. }));
        assert!(
            asked || stopped,
            "the conversation does not go on after a halt"
        );
        self.happen(Event::Halt);
        for (step, (text, thinking)) in &self.deltas {
            let step = &self.state.root().steps[step.get() as usize];
            assert_eq!((&step.text, &step.thinking), (text, thinking));
        }
        assert_eq!(Conversation::fold(&through_json(&self.records)), self.state);
        assert_eq!(Conversation::fold(&merged(&self.records)), self.state);
    }

    fn last_end(&self) -> Option<&TurnEnd> {
        self.records
            .iter()
            .rev()
            .find_map(|record| match &record.body {
                RecordBody::TurnEnded { end, .. } => Some(end),
                _ => None,
            })
    }
}

fn shown_action(n: u8) -> Action {
    Action::RunCommand {
        command_line: "true".into(),
        working_dir: "/".into(),
        exit_code: Some(i32::from(n)),
        output: None,
    }
}

fn answer(payload: &RequestPayload, how: u8) -> RequestAnswer {
    let wrong = how >= 232;
    match payload {
        RequestPayload::Hook { .. } if !wrong => RequestAnswer::Hook(match how % 8 {
            0 => HookVerdict::Deny {
                reason: "hook says no".into(),
            },
            1 => HookVerdict::Modify {
                args: args(json!({"path": "/changed", "n": 9})),
            },
            2 => HookVerdict::Modify {
                args: args(json!({"path": {}})),
            },
            3 => HookVerdict::KeepGoing {
                reason: "more".into(),
            },
            4 => HookVerdict::ReplaceError {
                message: "in other words".into(),
            },
            5 => HookVerdict::Failed {
                message: "hook broke".into(),
            },
            _ => HookVerdict::Continue,
        }),
        RequestPayload::PolicyDecision { .. } | RequestPayload::Confirmation { .. } if !wrong => {
            RequestAnswer::Policy(match how % 5 {
                0 => PolicyOutcome::Deny { reason: None },
                1 => PolicyOutcome::Deny {
                    reason: Some("no".into()),
                },
                2 | 3 => PolicyOutcome::NoMatch,
                _ => PolicyOutcome::Allow,
            })
        }
        RequestPayload::Question { .. } if !wrong => RequestAnswer::Question(match how % 4 {
            0 => None,
            1 => Some(vec![]),
            2 => Some(vec![QuestionAnswer::Skipped]),
            _ => Some(vec![QuestionAnswer::Chosen {
                options: vec![0, 7],
                text: "own".into(),
            }]),
        }),
        _ => {
            let response = match how % 3 {
                0 => HostResponse::Error("threw".into()),
                1 => HostResponse::Value(json!([1, {"deep": null}])),
                _ => HostResponse::Text("ok".into()),
            };
            RequestAnswer::Host(HostAnswer {
                response,
                media: Vec::new(),
            })
        }
    }
}

fn through_json(records: &[Record]) -> Vec<Record> {
    records
        .iter()
        .map(|record| {
            let text = serde_json::to_string(record).unwrap();
            let back: Record = serde_json::from_str(&text).unwrap();
            assert_eq!(&back, record, "{text}");
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["type"], record.body.type_name());
            back
        })
        .collect()
}

/// The log as a store may keep it: adjacent pieces of text are one.
fn merged(records: &[Record]) -> Vec<Record> {
    let mut log: Vec<Record> = Vec::new();
    for record in records {
        if let (Some(RecordBody::AnswerDelta(last)), RecordBody::AnswerDelta(next)) =
            (log.last_mut().map(|last| &mut last.body), &record.body)
            && (last.call, last.step) == (next.call, next.step)
            && last.part.merge(&next.part)
        {
            continue;
        }
        log.push(record.clone());
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// State = fold(log); every request to the model is valid; every call is answered exactly
    /// once; writers run alone; final steps stay final; a halt leaves nothing open; and a process
    /// that ends at any moment leaves a log from which another goes on.
    #[test]
    fn f001_f023_f045_the_laws_hold_whatever_happens(
        setup in setup(),
        events in prop::collection::vec(event(), 40..90),
    ) {
        let mut watched = Watched::new(setup.config());
        let opened = watched.records.clone();
        opened.iter().for_each(|record| drop(watched.shadow.apply(record)));
        watched.happen(Event::User(0));
        for event in events {
            watched.happen(event);
        }
        watched.wind_up();
    }
}

/// The random walk is worth something only if it gets around.
#[test]
fn the_random_walk_reaches_most_kinds_of_record() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    let mut ends = BTreeSet::new();
    for _ in 0..200 {
        let setup = setup().new_tree(&mut runner).unwrap().current();
        let events = prop::collection::vec(event(), 80)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let mut watched = Watched::new(setup.config());
        let opened = watched.records.clone();
        opened
            .iter()
            .for_each(|record| drop(watched.shadow.apply(record)));
        for event in events {
            watched.happen(event);
        }
        for record in &watched.records {
            seen.insert(record.body.type_name());
            if let RecordBody::TurnEnded { end, .. } = &record.body {
                ends.insert(
                    format!("{end:?}")
                        .split([' ', '{'])
                        .next()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }
    let kinds = [
        "answer_delta",
        "answer_ended",
        "call_finished",
        "call_modified",
        "call_opened",
        "call_progressed",
        "call_stage_changed",
        "calls_settled",
        "error_shown",
        "input_dropped",
        "input_queued",
        "input_taken",
        "model_call_started",
        "notice_given",
        "opened",
        "request_closed",
        "request_opened",
        "resumed",
        "retry_due",
        "retry_scheduled",
        "session_ended",
        "session_ending",
        "turn_ended",
        "turn_stage_changed",
        "turn_started",
        "usage_reported",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), kinds);
    let all = [
        "Completed",
        "Denied",
        "Failed",
        "Finished",
        "Halted",
        "Interrupted",
        "Stopped",
    ];
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), all);
}
