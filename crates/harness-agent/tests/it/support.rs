//! A machine with its state, and short words for what goes in and what comes out.
//!
//! What comes out is compared as text: one line an effect, a step, a message of the history. The
//! lines hold everything a client or a model can see.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use harness_agent::{Catalogue, Effect, Machine, ModelEnd, Outcome, Registry, Stamp, Stimulus};
use harness_types::{
    Action, BoxFuture, CallId, CallStage, Command, Config, Conversation, ConversationId,
    FinishReason, Hook, HookVerdict, HostAnswer, HostResponse, HostToolSpec, Input, InputKind,
    InputPart, Message, ModelCallId, ModelError, ModelErrorKind, ModelPart, ModelRequest,
    PolicyOutcome, Record, RecordBody, Request, RequestAnswer, RequestId, RequestKind,
    RequestPayload, ResultContent, Step, StepIndex, TimerId, Timestamp, Tool, ToolCall, ToolClass,
    ToolContext, ToolError, ToolOrigin, ToolOutput, ToolSpec, Touch, TrajectoryId, TurnEnd, Usage,
    Waiting, check_request,
};
use serde_json::{Map, Value, json};

/// A built-in tool that is only ever described: machine tests say themselves how it ends.
#[derive(Debug)]
pub(crate) struct Described {
    name: &'static str,
    class: ToolClass,
}

impl Tool for Described {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            policy_name: format!("policy_{}", self.name),
            description: "A tool of a test.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
            }),
            class: self.class,
            origin: ToolOrigin::BuiltIn,
        }
    }

    fn paths(&self, args: &Map<String, Value>) -> Vec<std::path::PathBuf> {
        args.get("path")
            .and_then(Value::as_str)
            .map(Into::into)
            .into_iter()
            .collect()
    }

    fn call<'a>(
        &'a self,
        _: ToolContext,
        _: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(std::future::pending())
    }
}

/// The tools of machine tests: `look` and `peek` read, `put` writes, `set` writes idempotently,
/// `send` has effects elsewhere.
pub(crate) fn registry() -> Registry {
    let tool = |name, class| Arc::new(Described { name, class }) as Arc<dyn Tool>;
    Registry::with_tools([
        tool("look", ToolClass::ReadOnly),
        tool("peek", ToolClass::ReadOnly),
        tool("put", ToolClass::Mutating),
        tool("set", ToolClass::Idempotent),
        tool("send", ToolClass::External),
    ])
    .unwrap()
}

/// All built-in tools of [`registry`], a question tool and two host tools; everything can be
/// answered, no hook is wanted, everything is allowed.
pub(crate) fn config() -> Config {
    let host = |name: &str| HostToolSpec {
        name: name.to_owned(),
        description: "A tool of the client.".to_owned(),
        parameters: json!({"type": "object", "properties": {"q": {"type": "string"}}}),
    };
    Config {
        tools: ["look", "peek", "put", "set", "send"]
            .map(str::to_owned)
            .into(),
        host_tools: vec![host("host_a"), host("host_b")],
        answers: [
            RequestKind::HostCall,
            RequestKind::Hook,
            RequestKind::PolicyDecision,
            RequestKind::Question,
            RequestKind::Confirmation,
        ]
        .into(),
        ..Config::default()
    }
}

pub(crate) fn with_hooks(hooks: impl IntoIterator<Item = Hook>) -> Config {
    Config {
        hooks: hooks.into_iter().collect(),
        ..config()
    }
}

pub(crate) fn machine(config: Config) -> Machine {
    let catalogue = Catalogue::new(&config, registry()).unwrap();
    Machine::new(config, catalogue).unwrap()
}

/// A machine with a state, its whole log and what it asked its driver for.
pub(crate) struct Rig {
    pub(crate) machine: Machine,
    pub(crate) state: Conversation,
    pub(crate) records: Vec<Record>,
    /// The notes of the last step.
    pub(crate) notes: Vec<String>,
    /// What observers had to look at in the last step.
    pub(crate) touches: Vec<Touch>,
    /// Every request to the model, in order.
    pub(crate) requests: Vec<ModelRequest>,
}

impl Rig {
    pub(crate) fn new(config: Config) -> Self {
        let machine = machine(config);
        let mut state = Conversation::new(ConversationId::from_random([7; 16]));
        let records = machine.open(&mut state, stamp()).records;
        Self {
            machine,
            state,
            records,
            notes: Vec::new(),
            touches: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// A rig whose model has been asked with `hi`.
    pub(crate) fn asked(config: Config) -> Self {
        let mut rig = Self::new(config);
        assert_eq!(rig.user("hi"), ["ask 0"]);
        rig
    }

    /// Takes a stimulus and gives its effects, one line each. The law of the fold and the validity
    /// of every request are checked on the way.
    pub(crate) fn step(&mut self, stimulus: Stimulus) -> Vec<String> {
        let Outcome {
            records,
            effects,
            touches,
            notes,
            ..
        } = self.machine.step(&mut self.state, stamp(), stimulus);
        self.records.extend(records);
        assert_eq!(
            Conversation::fold(&self.records),
            self.state,
            "state and fold differ"
        );
        self.notes = notes.iter().map(ToString::to_string).collect();
        self.touches = touches;
        let mut lines = Vec::new();
        for effect in effects {
            lines.push(effect_line(&effect));
            if let Effect::CallModel { request, .. } = effect {
                assert_eq!(check_request(&request), Ok(()), "{:#?}", request.messages);
                self.requests.push(request);
            }
        }
        lines
    }

    pub(crate) fn command(&mut self, command: Command) -> Vec<String> {
        self.step(Stimulus::Command(command))
    }

    pub(crate) fn user(&mut self, text: &str) -> Vec<String> {
        self.command(Command::Input(Input::user([InputPart::text(text)])))
    }

    pub(crate) fn trigger(&mut self, text: &str) -> Vec<String> {
        self.command(Command::Input(Input::trigger(text)))
    }

    pub(crate) fn halt(&mut self) -> Vec<String> {
        self.command(Command::Halt)
    }

    pub(crate) fn answer(&mut self, request: u64, answer: RequestAnswer) -> Vec<String> {
        let request = RequestId::new(request);
        self.command(Command::Answer { request, answer })
    }

    pub(crate) fn hook(&mut self, request: u64, verdict: HookVerdict) -> Vec<String> {
        self.answer(request, RequestAnswer::Hook(verdict))
    }

    pub(crate) fn policy(&mut self, request: u64, outcome: PolicyOutcome) -> Vec<String> {
        self.answer(request, RequestAnswer::Policy(outcome))
    }

    /// A host tool answers with text.
    pub(crate) fn host(&mut self, request: u64, text: &str) -> Vec<String> {
        let response = HostResponse::Text(text.to_owned());
        self.answer(
            request,
            RequestAnswer::Host(HostAnswer {
                response,
                media: Vec::new(),
            }),
        )
    }

    /// The request of the answer that is coming in.
    pub(crate) fn call_id(&self) -> ModelCallId {
        match self.state.root().turn.as_ref().map(|turn| &turn.waiting) {
            Some(Waiting::Answer(call)) => call.id,
            waiting => panic!("no answer is coming in: {waiting:?}"),
        }
    }

    pub(crate) fn part(&mut self, part: ModelPart) -> Vec<String> {
        let call = self.call_id();
        self.step(Stimulus::ModelPart { call, part })
    }

    pub(crate) fn text(&mut self, text: &str) -> Vec<String> {
        self.part(ModelPart::Text {
            text: text.to_owned(),
            signature: None,
        })
    }

    pub(crate) fn call(&mut self, id: &str, name: &str, args: Value) -> Vec<String> {
        self.part(ModelPart::Call {
            call: tool_call(id, name, args),
            signature: None,
        })
    }

    pub(crate) fn usage(&mut self, usage: Usage) -> Vec<String> {
        let call = self.call_id();
        self.step(Stimulus::ModelUsage { call, usage })
    }

    pub(crate) fn finish(&mut self, reason: FinishReason) -> Vec<String> {
        let call = self.call_id();
        let end = ModelEnd::Finished {
            reason,
            message: None,
        };
        self.step(Stimulus::ModelEnded { call, end })
    }

    pub(crate) fn stop(&mut self) -> Vec<String> {
        self.finish(FinishReason::Stop)
    }

    pub(crate) fn fail(&mut self, error: ModelError) -> Vec<String> {
        let call = self.call_id();
        self.step(Stimulus::ModelEnded {
            call,
            end: ModelEnd::Failed(error),
        })
    }

    pub(crate) fn cut(&mut self) -> Vec<String> {
        self.fail(ModelError::new(ModelErrorKind::Cut, "broke off"))
    }

    pub(crate) fn tool(&mut self, step: u32, text: &str) -> Vec<String> {
        self.tool_ends(step, Ok(ToolOutput::text(text)))
    }

    pub(crate) fn tool_fails(&mut self, step: u32, why: &str) -> Vec<String> {
        self.tool_ends(step, Err(ToolError::failed(why)))
    }

    fn tool_ends(&mut self, step: u32, result: Result<ToolOutput, ToolError>) -> Vec<String> {
        let trajectory = self.trajectory();
        self.step(Stimulus::ToolEnded {
            trajectory,
            step: StepIndex::new(step),
            result,
        })
    }

    pub(crate) fn shows(&mut self, step: u32, action: Action) -> Vec<String> {
        let trajectory = self.trajectory();
        self.step(Stimulus::ToolProgress {
            trajectory,
            step: StepIndex::new(step),
            action,
        })
    }

    pub(crate) fn timer(&mut self, timer: u64) -> Vec<String> {
        self.step(Stimulus::TimerFired(TimerId::new(timer)))
    }

    pub(crate) fn trajectory(&self) -> TrajectoryId {
        self.state.root().id.clone()
    }

    /// What the model would be asked with now.
    pub(crate) fn history(&self) -> Vec<String> {
        self.state.root().history.iter().map(message_line).collect()
    }

    /// The last messages of the history.
    pub(crate) fn last_messages(&self, count: usize) -> Vec<String> {
        let history = self.history();
        history[history.len().saturating_sub(count)..].to_vec()
    }

    /// What observers are shown.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.state.root().steps.iter().map(step_line).collect()
    }

    pub(crate) fn step_at(&self, step: u32) -> String {
        step_line(&self.state.root().steps[step as usize])
    }

    /// How the turns ended so far.
    pub(crate) fn ends(&self) -> Vec<String> {
        let ends = self.records.iter().filter_map(|record| match &record.body {
            RecordBody::TurnEnded { end, .. } => Some(end_line(end)),
            _ => None,
        });
        ends.collect()
    }

    /// The open requests.
    pub(crate) fn open(&self) -> Vec<String> {
        self.state.requests().values().map(request_line).collect()
    }

    /// How far the calls of the running answer are, by step.
    pub(crate) fn stages(&self) -> Vec<String> {
        let calls = self
            .state
            .root()
            .turn
            .as_ref()
            .map(|turn| turn.calls.as_slice());
        calls
            .unwrap_or_default()
            .iter()
            .map(|call| {
                let stage = match &call.stage {
                    CallStage::Ran { .. } => "Ran".to_owned(),
                    stage => format!("{stage:?}"),
                };
                format!("{} {stage}", call.step)
            })
            .collect()
    }

    /// The types of the last records.
    pub(crate) fn last_records(&self, count: usize) -> Vec<&'static str> {
        let start = self.records.len().saturating_sub(count);
        self.records[start..]
            .iter()
            .map(|record| record.body.type_name())
            .collect()
    }
}

/// Chance takes nothing off a wait.
pub(crate) fn stamp() -> Stamp {
    Stamp {
        at: Timestamp::from_micros(1),
        chance: 0.0,
    }
}

pub(crate) fn tool_call(id: &str, name: &str, args: Value) -> ToolCall {
    let Value::Object(args) = args else {
        panic!("arguments are an object")
    };
    ToolCall {
        id: CallId::new(id),
        name: name.to_owned(),
        args,
    }
}

pub(crate) fn args(args: Value) -> Map<String, Value> {
    tool_call("", "", args).args
}

pub(crate) fn status(code: u16, retry_after: Option<u64>) -> ModelError {
    ModelError {
        retry_after: retry_after.map(Duration::from_secs),
        ..ModelError::new(ModelErrorKind::Status { code }, format!("status {code}"))
    }
}

pub(crate) fn effect_line(effect: &Effect) -> String {
    match effect {
        Effect::CallModel { call, .. } => format!("ask {call}"),
        Effect::AbortModel { call } => format!("abort model {call}"),
        Effect::RunTool { step, call, .. } => {
            format!(
                "run {step} {} {}",
                call.name,
                Value::Object(call.args.clone())
            )
        }
        Effect::AbortTool { step, .. } => format!("abort tool {step}"),
        Effect::StartTimer { timer, after } => format!("timer {timer} {after:?}"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn message_line(message: &Message) -> String {
    match message {
        Message::Input(Input {
            kind: InputKind::User,
            parts,
        }) => format!("user {}", said(parts)),
        Message::Input(Input { parts, .. }) => format!("trigger {}", said(parts)),
        Message::Notice(text) => format!("notice {text:?}"),
        Message::Model(parts) => {
            let parts: Vec<_> = parts.iter().map(part_line).collect();
            format!("model {}", parts.join(" + "))
        }
        Message::ToolResults(results) => {
            let results: Vec<_> = results
                .iter()
                .map(|result| {
                    let said = match &result.content {
                        ResultContent::Text(text) => format!("{text:?}"),
                        ResultContent::Json(json) => Value::Object(json.clone()).to_string(),
                        other => format!("{other:?}"),
                    };
                    format!("{} {} {:?} {said}", result.call, result.name, result.status)
                })
                .collect();
            format!("results {}", results.join(" + "))
        }
        other => format!("{other:?}"),
    }
}

fn said(parts: &[InputPart]) -> String {
    let parts: Vec<_> = parts
        .iter()
        .map(|part| match part {
            InputPart::Text(text) => format!("{text:?}"),
            other => format!("{other:?}"),
        })
        .collect();
    parts.join(" + ")
}

fn part_line(part: &ModelPart) -> String {
    let signed = |line: String, signature: &Option<String>| match signature {
        Some(signature) => format!("{line} ~{signature}"),
        None => line,
    };
    match part {
        ModelPart::Text { text, signature } => signed(format!("{text:?}"), signature),
        ModelPart::Thought { text, signature } => signed(format!("thought {text:?}"), signature),
        ModelPart::Call { call, signature } => {
            let args = Value::Object(call.args.clone());
            signed(format!("{} {}{args}", call.id, call.name), signature)
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn step_line(step: &Step) -> String {
    let mut line = format!(
        "{} {:?} {:?}>{:?}",
        step.index, step.state, step.source, step.target
    );
    if !step.text.is_empty() {
        let _ = write!(line, " {:?}", step.text);
    }
    if !step.thinking.is_empty() {
        let _ = write!(line, " thinks {:?}", step.thinking);
    }
    if let Some(call) = &step.call {
        let _ = write!(line, " call {call}");
    }
    match &step.action {
        None => {}
        Some(Action::Tool { call }) => {
            let _ = write!(
                line,
                " does {}{}",
                call.name,
                Value::Object(call.args.clone())
            );
        }
        Some(Action::HostTool { call, response }) => {
            let _ = write!(line, " host {} {response:?}", call.name);
        }
        Some(action) => {
            let _ = write!(line, " {action:?}");
        }
    }
    if let Some(error) = &step.error {
        let _ = write!(line, " error {:?}", error.message);
        if let Some(code) = error.http_code {
            let _ = write!(line, " ({code})");
        }
    }
    if let Some(request) = step.request {
        let _ = write!(line, " asks {request}");
    }
    line
}

pub(crate) fn end_line(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Failed { error } => match error.http_code {
            Some(code) => format!("Failed {:?} ({code})", error.message),
            None => format!("Failed {:?}", error.message),
        },
        TurnEnd::Denied { reason } => format!("Denied {reason:?}"),
        TurnEnd::Stopped { reason } => format!("Stopped {reason:?}"),
        TurnEnd::Finished { output } => format!("Finished {output}"),
        other => format!("{other:?}"),
    }
}

fn request_line(request: &Request) -> String {
    let what = match &request.payload {
        RequestPayload::HostCall { call } => format!("host {}", call.name),
        RequestPayload::Hook { hook } => format!("hook {hook:?}"),
        RequestPayload::PolicyDecision { rule, tool, .. } => format!("policy {rule} {tool}"),
        RequestPayload::Confirmation { tool, rule, .. } => format!("confirm {tool} {rule}"),
        RequestPayload::Question { questions } => format!("questions {}", questions.len()),
        other => format!("{other:?}"),
    };
    match request.step {
        Some(step) => format!("{} at {step}: {what}", request.id),
        None => format!("{}: {what}", request.id),
    }
}
