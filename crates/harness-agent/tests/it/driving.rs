//! The driver: models, tools, timers and stores that do what real ones do. The clock is paused, so
//! waits take no time and are measured exactly.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use harness_agent::{Agent, AgentParts, Error, Observer, Registry};
use harness_types::{
    Action, BoxFuture, Command, Config, Conversation, ConversationId, FinishReason, Gate,
    HostAnswer, HostResponse, Input, InputPart, Loaded, MemoryStore, Model, ModelError,
    ModelErrorKind, ModelEvent, ModelPart, ModelRequest, ModelStream, Note, Record, RequestAnswer,
    RequestId, RequestKind, Script, ScriptedModel, ScriptedTurn, SessionStore, StoreError, Tool,
    ToolClass, ToolContext, ToolError, ToolOrigin, ToolOutput, ToolSpec, Touch, TurnEnd,
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::support::{end_line, message_line, status, step_line};

fn id() -> ConversationId {
    ConversationId::from_random([7; 16])
}

/// Hands every change to the test.
#[derive(Debug)]
struct Watch(mpsc::UnboundedSender<(Conversation, Vec<Touch>)>);

impl Observer for Watch {
    fn changed(&mut self, conversation: &Conversation, touches: &[Touch]) {
        let _ = self.0.send((conversation.clone(), touches.to_vec()));
    }

    fn noted(&mut self, _: &Note) {}
}

type Call = dyn Fn(ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;

/// A tool of a test.
struct Does {
    name: &'static str,
    class: ToolClass,
    call: Box<Call>,
}

impl std::fmt::Debug for Does {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Tool for Does {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            policy_name: self.name.to_owned(),
            description: "A tool of a test.".to_owned(),
            parameters: json!({"type": "object"}),
            class: self.class,
            origin: ToolOrigin::BuiltIn,
        }
    }

    fn call<'a>(
        &'a self,
        context: ToolContext,
        _: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        (self.call)(context)
    }
}

fn tool(
    name: &'static str,
    class: ToolClass,
    call: impl Fn(ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>>
    + Send
    + Sync
    + 'static,
) -> Arc<dyn Tool> {
    Arc::new(Does {
        name,
        class,
        call: Box::new(call),
    })
}

/// A conversation under way, with its watcher.
struct Run {
    agent: Agent,
    changes: mpsc::UnboundedReceiver<(Conversation, Vec<Touch>)>,
    last: Conversation,
}

struct Setup {
    config: Config,
    model: Arc<dyn Model>,
    tools: Vec<Arc<dyn Tool>>,
    store: Arc<dyn SessionStore>,
}

impl Setup {
    fn script(turns: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        Self::model(scripted(turns))
    }

    fn model(model: impl Model + 'static) -> Self {
        Self {
            config: Config::default(),
            model: Arc::new(model),
            tools: Vec::new(),
            store: Arc::new(MemoryStore::new()),
        }
    }

    fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.config.tools.insert(tool.spec().name);
        self.tools.push(tool);
        self
    }

    fn store(self, store: Arc<dyn SessionStore>) -> Self {
        Self { store, ..self }
    }

    fn start(self) -> Run {
        self.start_with(None)
    }

    fn start_with(self, loaded: Option<Loaded>) -> Run {
        let (sender, changes) = mpsc::unbounded_channel();
        let agent = Agent::spawn(AgentParts {
            id: id(),
            config: self.config,
            model: self.model,
            tools: Registry::with_tools(self.tools).unwrap(),
            store: self.store,
            observer: Box::new(Watch(sender)),
            loaded,
        });
        Run {
            agent: agent.unwrap(),
            changes,
            last: Conversation::new(id()),
        }
    }
}

fn scripted(turns: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
    ScriptedModel::new(Script::new(turns))
        .with_sleeper(Arc::new(|wait| Box::pin(tokio::time::sleep(wait))))
}

impl Run {
    async fn user(&self, text: &str) {
        self.send(Command::Input(Input::user([InputPart::text(text)])))
            .await;
    }

    async fn send(&self, command: Command) {
        self.agent.send(command).await.unwrap();
    }

    /// Waits until a change brings what `is` looks for.
    async fn until(&mut self, is: impl Fn(&Conversation, &[Touch]) -> bool) {
        loop {
            // The clock is paused: this passes at once when nothing happens any more.
            let change = tokio::time::timeout(Duration::from_secs(1_000_000), self.changes.recv());
            let change = change.await.expect("nothing happens any more");
            let (conversation, touches) = change.expect("the loop goes on");
            let found = is(&conversation, &touches);
            self.last = conversation;
            if found {
                return;
            }
        }
    }

    /// Waits for the end of the turn.
    async fn end(&mut self) -> String {
        let end = Mutex::new(String::new());
        self.until(|_, touches| {
            let ended = touches.iter().find_map(|touch| match touch {
                Touch::TurnEnded { end, .. } => Some(end_line(end)),
                _ => None,
            });
            let found = ended.is_some();
            *end.lock().unwrap() = ended.unwrap_or_default();
            found
        })
        .await;
        end.into_inner().unwrap()
    }

    async fn turn(&mut self, text: &str) -> String {
        self.user(text).await;
        self.end().await
    }

    fn steps(&self) -> Vec<String> {
        self.last.root().steps.iter().map(step_line).collect()
    }

    fn history(&self) -> Vec<String> {
        self.last.root().history.iter().map(message_line).collect()
    }
}

async fn log_of(store: &dyn SessionStore) -> Vec<Record> {
    store
        .load(&id())
        .await
        .unwrap()
        .expect("the conversation was kept")
        .records
}

fn done(text: &str) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
    let text = text.to_owned();
    Box::pin(async move { Ok(ToolOutput::text(text)) })
}

fn one_call(name: &str) -> ScriptedTurn {
    ScriptedTurn::new().call(name, json!({}))
}

fn says(text: &str) -> ScriptedTurn {
    ScriptedTurn::new().text(text)
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_tools_goes_from_the_input_to_the_answer() {
    let both = ScriptedTurn::new()
        .call("first", json!({}))
        .call("second", json!({}));
    let store = Arc::new(MemoryStore::new());
    // The first ends only after the second has: they run together.
    let gate = Gate::new();
    let (waits, opens) = (gate.clone(), gate);
    let mut run = Setup::script([both, says("done")])
        .tool(tool("first", ToolClass::ReadOnly, move |_| {
            let pass = waits.pass();
            Box::pin(async move {
                pass.await;
                Ok(ToolOutput::text("1"))
            })
        }))
        .tool(tool("second", ToolClass::ReadOnly, move |_| {
            opens.open();
            done("2")
        }))
        .store(store.clone())
        .start();
    assert_eq!(run.turn("hi").await, "Completed");
    assert_eq!(
        run.history(),
        [
            r#"user "hi""#,
            "model call_1_1 first{} + call_1_2 second{}",
            r#"results call_1_1 first Succeeded "1" + call_1_2 second Succeeded "2""#,
            r#"model "done""#,
        ]
    );
    let log = log_of(&*store).await;
    assert_eq!(
        Conversation::fold(&log),
        run.last,
        "what is kept is what was shown"
    );
    run.agent.close().await;
    assert_eq!(
        log_of(&*store).await,
        log,
        "closing an idle conversation adds nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_conversation_nobody_used_leaves_no_trace() {
    let store = Arc::new(MemoryStore::new());
    let run = Setup::script([]).store(store.clone()).start();
    run.agent.close().await;
    assert_eq!(store.load(&id()).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_is_a_failed_call() {
    async fn panics() -> Result<ToolOutput, ToolError> {
        panic!("index out of bounds")
    }
    // Before it has made its future, and inside it.
    let early = tool("broken", ToolClass::Mutating, |_| {
        panic!("index out of bounds")
    });
    let late = tool("broken", ToolClass::Mutating, |_| Box::pin(panics()));
    for broken in [early, late] {
        let mut run = Setup::script([one_call("broken"), says("sorry")])
            .tool(broken)
            .start();
        assert_eq!(run.turn("hi").await, "Completed");
        assert_eq!(
            run.history()[2],
            r#"results call_1_1 broken Failed "the tool broken failed by a fault of its own and was stopped""#
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_model_is_asked_again_after_the_limit_of_silence() {
    let mut silent = says("far too late").delay(Duration::from_secs(100_000));
    silent.usage = None;
    let mut run = Setup::script([silent, says("here")]).start();
    let start = Instant::now();
    assert_eq!(run.turn("hi").await, "Completed");
    let waited = start.elapsed();
    let limit = Duration::from_secs(300);
    assert!(
        (limit..limit + Duration::from_secs(2)).contains(&waited),
        "{waited:?}"
    );
    assert!(run.steps()[1].contains("the model said nothing for 300 s; asking again"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_model_is_not_silent() {
    let slow = ScriptedTurn::new()
        .text_chunks(["a", "b", "c", "d"])
        .chunk_delay(Duration::from_secs(299));
    let mut run = Setup::script([slow]).start();
    assert_eq!(run.turn("hi").await, "Completed");
    assert_eq!(run.steps()[1], r#"1 Done Model>User "abcd""#);
}

/// A model that says these events, and then nothing more, without ending.
#[derive(Debug)]
struct Hangs(Vec<ModelEvent>);

impl Model for Hangs {
    fn stream(&self, _: ModelRequest) -> ModelStream {
        let said: Vec<_> = self.0.iter().cloned().map(Ok).collect();
        Box::pin(stream::iter(said).chain(stream::pending()))
    }

    fn name(&self) -> &str {
        "hangs"
    }
}

#[tokio::test(start_paused = true)]
async fn f066_an_answer_that_was_complete_stays_complete_when_its_connection_hangs() {
    let text = ModelPart::Text {
        text: "whole".into(),
        signature: None,
    };
    let finish = ModelEvent::Finish {
        reason: FinishReason::Stop,
        message: None,
    };
    let mut run = Setup::model(Hangs(vec![ModelEvent::Part(text), finish])).start();
    assert_eq!(run.turn("hi").await, "Completed");
    assert_eq!(run.last.model_calls(), 1, "it is not asked again");
}

/// A model that gives these events, each time.
#[derive(Debug)]
struct Gives(Vec<Result<ModelEvent, ModelError>>);

impl Model for Gives {
    fn stream(&self, _: ModelRequest) -> ModelStream {
        Box::pin(stream::iter(self.0.clone()))
    }

    fn name(&self) -> &str {
        "gives"
    }
}

#[tokio::test(start_paused = true)]
async fn f066_counts_after_the_reason_are_taken_and_a_late_break_takes_nothing_away() {
    let usage = harness_types::Usage {
        total_tokens: 9,
        ..Default::default()
    };
    let text = ModelPart::Text {
        text: "whole".into(),
        signature: None,
    };
    let said = vec![
        Ok(ModelEvent::Part(text)),
        Ok(ModelEvent::Finish {
            reason: FinishReason::Stop,
            message: None,
        }),
        Ok(ModelEvent::Usage(usage.clone())),
        Err(ModelError::new(ModelErrorKind::Cut, "reset by peer")),
    ];
    let mut run = Setup::model(Gives(said)).start();
    assert_eq!(run.turn("hi").await, "Completed");
    assert_eq!((run.last.usage(), run.last.model_calls()), (usage, 1));
}

#[tokio::test(start_paused = true)]
async fn f067_an_answer_that_just_ends_was_cut() {
    let mut run = Setup::script([says("half").cut(), says("whole")]).start();
    assert_eq!(run.turn("hi").await, "Completed");
    assert_eq!(run.history()[1], r#"model "whole""#);
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_repeated_after_their_waits() {
    let fails = |wait| ScriptedTurn::new().error(status(503, wait));
    let mut run = Setup::script([fails(Some(9)), fails(Some(20)), says("up again")]).start();
    let start = Instant::now();
    assert_eq!(run.turn("hi").await, "Completed");
    let waited = start.elapsed();
    let named = Duration::from_secs(29);
    assert!(
        (named..named + Duration::from_secs(1)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn f068_a_halt_interrupts_the_wait_at_once() {
    let fails = ScriptedTurn::new().error(status(503, Some(60)));
    let mut run = Setup::script([fails, says("next")]).start();
    let start = Instant::now();
    run.user("hi").await;
    run.until(|conversation, _| conversation.root().steps.len() == 2)
        .await;
    run.send(Command::Halt).await;
    assert_eq!(run.end().await, "Halted");
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(run.turn("and now").await, "Completed");
}

/// Tells when it is dropped.
struct Witness(Arc<AtomicBool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A tool that never ends by itself, the gate it stands at and the witness of its end.
fn endless() -> (Arc<dyn Tool>, Gate, Arc<AtomicBool>) {
    let (gate, gone) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let (at, witness) = (gate.clone(), gone.clone());
    let tool = tool("endless", ToolClass::Mutating, move |_| {
        let (pass, witness) = (at.pass(), Witness(witness.clone()));
        Box::pin(async move {
            let _witness = witness;
            pass.await;
            Ok(ToolOutput::text("never"))
        })
    });
    (tool, gate, gone)
}

#[tokio::test(start_paused = true)]
async fn a_halt_drops_the_running_tool() {
    let (tool, gate, gone) = endless();
    let mut run = Setup::script([one_call("endless"), says("next")])
        .tool(tool)
        .start();
    run.user("hi").await;
    gate.reached(1).await;
    run.send(Command::Halt).await;
    assert_eq!(run.end().await, "Halted");
    assert_eq!(run.turn("next").await, "Completed");
    assert!(gone.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn closing_halts_the_turn_keeps_its_records_and_waits_for_its_tools() {
    let (tool, gate, gone) = endless();
    let store = Arc::new(MemoryStore::new());
    let run = Setup::script([one_call("endless")])
        .tool(tool)
        .store(store.clone())
        .start();
    run.user("hi").await;
    gate.reached(1).await;
    run.agent.close().await;
    assert!(
        gone.load(Ordering::SeqCst),
        "the tool is gone when close returns"
    );
    let kept = Conversation::fold(&log_of(&*store).await);
    assert!(kept.root().turn.is_none());
    let history: Vec<_> = kept.root().history.iter().map(message_line).collect();
    assert_eq!(
        history[2],
        r#"results call_1_1 endless Cancelled "the call was stopped; what it did so far stays: halted""#
    );
}

#[tokio::test(start_paused = true)]
async fn dropping_the_agent_closes_it_too() {
    let (tool, gate, _gone) = endless();
    let mut run = Setup::script([one_call("endless")]).tool(tool).start();
    run.user("hi").await;
    gate.reached(1).await;
    drop(run.agent);
    let mut ends = Vec::new();
    while let Some((_, touches)) = run.changes.recv().await {
        ends.extend(touches.into_iter().filter_map(|touch| match touch {
            Touch::TurnEnded { end, .. } => Some(end),
            _ => None,
        }));
    }
    assert_eq!(
        ends,
        [TurnEnd::Halted],
        "and the observer goes with the loop"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_close_is_still_taken() {
    let store = Arc::new(MemoryStore::new());
    let gate = Gate::new();
    let run = Setup::script([says("x").gated(&gate)])
        .store(store.clone())
        .start();
    run.user("one").await;
    run.user("two").await;
    run.agent.close().await;
    let kept = Conversation::fold(&log_of(&*store).await);
    let taken = kept.root().history.len() + kept.queued().len();
    assert_eq!(taken, 2);
}

/// A store whose every append stands at a gate, and fails while told to.
#[derive(Debug)]
struct Odd {
    kept: MemoryStore,
    gate: Gate,
    fails: AtomicBool,
    appends: AtomicUsize,
}

impl Odd {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            kept: MemoryStore::new(),
            gate: Gate::new(),
            fails: AtomicBool::new(false),
            appends: AtomicUsize::new(0),
        })
    }
}

impl SessionStore for Odd {
    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.gate.pass().await;
            self.appends.fetch_add(1, Ordering::SeqCst);
            if self.fails.load(Ordering::SeqCst) {
                let source = Some("no space left on device".into());
                return Err(StoreError::Io {
                    message: "append to /s/x.db".into(),
                    source,
                });
            }
            self.kept.append(conversation, records).await
        })
    }

    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Option<Loaded>, StoreError>> {
        self.kept.load(conversation)
    }
}

#[tokio::test(start_paused = true)]
async fn f009_nothing_is_done_or_shown_before_its_records_are_kept() {
    let store = Odd::new();
    let model = scripted([one_call("write"), says("done")]);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let mut run = Setup::model(model.clone())
        .tool(tool("write", ToolClass::Mutating, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            done("ok")
        }))
        .store(store.clone())
        .start();
    run.user("hi").await;
    store.gate.reached(1).await;
    // The loop stands in the store; everything else has had its chance to run.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(model.requests().len(), 0, "the model is not asked yet");
    assert!(run.changes.try_recv().is_err(), "nothing is shown yet");
    store.gate.let_one_pass();
    store.gate.reached(2).await;
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!((model.requests().len(), ran.load(Ordering::SeqCst)), (1, 0));
    store.gate.open();
    assert_eq!(run.end().await, "Completed");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_ends_the_turn_and_a_healed_one_misses_nothing() {
    let store = Odd::new();
    store.gate.open();
    let model = scripted([says("hello")]);
    let mut run = Setup::model(model.clone()).store(store.clone()).start();
    store.fails.store(true, Ordering::SeqCst);
    assert_eq!(
        run.turn("hi").await,
        r#"Failed "the session could not be saved, so the turn was stopped: session store: append to /s/x.db: no space left on device""#
    );
    assert_eq!(
        model.requests().len(),
        0,
        "nothing is done that is not kept"
    );
    store.fails.store(false, Ordering::SeqCst);
    assert_eq!(run.turn("again").await, "Completed");
    assert_eq!(Conversation::fold(&log_of(&*store).await), run.last);
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_while_a_tool_runs_stops_the_tool() {
    let (tool, gate, gone) = endless();
    let store = Odd::new();
    store.gate.open();
    let mut run = Setup::script([one_call("endless")])
        .tool(tool)
        .store(store.clone())
        .start();
    run.user("hi").await;
    gate.reached(1).await;
    store.fails.store(true, Ordering::SeqCst);
    run.user("meanwhile").await;
    assert!(run.end().await.starts_with("Failed"));
    run.agent.close().await;
    assert!(gone.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn f025_a_client_may_take_as_long_as_it_likes() {
    let mut setup = Setup::script([one_call("ask_host"), says("thanks")]);
    setup.config.answers = [RequestKind::HostCall].into();
    setup.config.host_tools.push(harness_types::HostToolSpec {
        name: "ask_host".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    });
    let mut run = setup.start();
    run.user("hi").await;
    run.until(|conversation, _| !conversation.requests().is_empty())
        .await;
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    let response = HostResponse::Text("here".into());
    let answer = RequestAnswer::Host(HostAnswer {
        response,
        media: Vec::new(),
    });
    run.send(Command::Answer {
        request: RequestId::new(0),
        answer,
    })
    .await;
    assert_eq!(run.end().await, "Completed");
    assert!(start.elapsed() >= Duration::from_secs(24 * 3600));
}

#[tokio::test(start_paused = true)]
async fn progress_of_a_tool_is_shown_before_it_ends() {
    let gate = Gate::new();
    let at = gate.clone();
    let shown = || Action::FindFile {
        path: "/w".into(),
        query: "half".into(),
        output: None,
    };
    let mut run = Setup::script([one_call("finds"), says("done")])
        .tool(tool("finds", ToolClass::ReadOnly, move |context| {
            let pass = at.pass();
            (context.progress)(Action::FindFile {
                path: "/w".into(),
                query: "half".into(),
                output: None,
            });
            Box::pin(async move {
                pass.await;
                Ok(ToolOutput::text("found"))
            })
        }))
        .start();
    run.user("hi").await;
    run.until(|conversation, _| {
        conversation
            .root()
            .steps
            .iter()
            .any(|step| step.action == Some(shown()))
    })
    .await;
    gate.open();
    assert_eq!(run.end().await, "Completed");
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_text_costs_few_appends() {
    let store = Odd::new();
    store.gate.open();
    let chunks: Vec<String> = (0..2000).map(|n| format!("{n} ")).collect();
    let whole = chunks.concat();
    let mut run = Setup::script([ScriptedTurn::new().text_chunks(chunks)])
        .store(store.clone())
        .start();
    assert_eq!(run.turn("hi").await, "Completed");
    assert_eq!(run.last.root().steps[1].text, whole);
    let appends = store.appends.load(Ordering::SeqCst);
    assert!(appends < 20, "{appends} appends for one burst");
}

/// A model that is at fault itself.
#[derive(Debug)]
struct Panics;

impl Model for Panics {
    fn stream(&self, _: ModelRequest) -> ModelStream {
        panic!("a fault of the model")
    }

    fn name(&self) -> &str {
        "panics"
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_harness_itself_ends_the_conversation_and_says_so() {
    let run = Setup::model(Panics).start();
    run.user("hi").await;
    run.agent.ended().await;
    let sent = run.agent.send(Command::Halt).await;
    assert!(matches!(sent, Err(Error::Closed)), "{sent:?}");
    run.agent.close().await;
}

#[tokio::test(start_paused = true)]
async fn f009_another_process_goes_on_where_the_last_record_ends() {
    let store: Arc<dyn SessionStore> = Arc::new(MemoryStore::new());
    let (tool, gate, _gone) = endless();
    let run = Setup::script([one_call("endless")])
        .tool(tool)
        .store(store.clone())
        .start();
    run.user("hi").await;
    gate.reached(1).await;
    // As kill -9 leaves it: nothing is told, nothing is closed.
    let loaded = store.load(&id()).await.unwrap();
    let model = scripted([says("I see.")]);
    let mut next = Setup::model(model.clone()).store(Arc::new(MemoryStore::new()));
    next.config.tools.insert("endless".into());
    let mut next = next.start_with(loaded);
    assert_eq!(next.turn("what happened?").await, "Completed");
    let asked: Vec<_> = model.requests()[0]
        .messages
        .iter()
        .map(message_line)
        .collect();
    assert_eq!(asked[..2], [r#"user "hi""#, "model call_1_1 endless{}"]);
    assert!(
        asked[2].starts_with("results call_1_1 endless Cancelled"),
        "{asked:?}"
    );
    assert_eq!(
        asked.last().map(String::as_str),
        Some(r#"user "what happened?""#)
    );
}

#[test]
fn parts_that_cannot_be_run_are_refused_by_name() {
    use harness_agent::Catalogue;
    let host = |name: &str, parameters: Value| harness_types::HostToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters,
    };
    let object = || json!({"type": "object"});
    let refused = |tools: Vec<harness_types::HostToolSpec>| {
        let config = Config {
            host_tools: tools,
            ..Config::default()
        };
        let error = Catalogue::new(&config, crate::support::registry()).unwrap_err();
        assert!(error.is_config());
        error.to_string()
    };
    assert_eq!(
        refused(vec![host("a", object()), host("a", object())]),
        r#"tool name "a" is declared twice"#
    );
    for name in ["put", "finish", "ask_question"] {
        assert_eq!(
            refused(vec![host(name, object())]),
            format!("host tool {name:?} has the name of a built-in tool")
        );
    }
    for name in ["", "a b", "ä", &"x".repeat(65)] {
        assert_eq!(
            refused(vec![host(name, object())]),
            format!("tool name {name:?} must be 1 to 64 of [a-zA-Z0-9_-]")
        );
    }
    let schema = refused(vec![host("a", json!({"type": "array"}))]);
    assert!(
        schema.starts_with(r#"parameters of tool "a" are not a valid JSON Schema: "#),
        "{schema}"
    );
}
