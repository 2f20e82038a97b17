//! Feeds a machine: the model, the tools, the timers and the store are here, decisions are not.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use harness_types::{
    Action, Command, Conversation, ConversationId, Loaded, Model, ModelCallId, ModelError,
    ModelErrorKind, ModelEvent, ModelStream, Record, SessionStore, StepIndex, TimerId, Timestamp,
    Tool, ToolCall, ToolContext, ToolError, ToolOutput, TrajectoryId,
};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::Observer;
use crate::machine::{Effect, Machine, ModelEnd, Outcome, Stamp, Stimulus};

/// How many pieces of an answer that are there already are taken in one go.
const MODEL_BATCH: usize = 256;

/// How many views of running tools may wait to be looked at; one that comes too early is dropped, as
/// another follows, at the latest with the result.
const PROGRESS_QUEUE: usize = 64;

type Place = (TrajectoryId, StepIndex);
type ToolEnd = (Place, Result<ToolOutput, ToolError>);

/// Runs one conversation until its commands end.
pub(crate) struct Driver {
    machine: Machine,
    state: Conversation,
    model: Arc<dyn Model>,
    store: Arc<dyn SessionStore>,
    observer: Box<dyn Observer>,
    commands: mpsc::Receiver<Command>,
    answers: Vec<Answering>,
    tools: JoinSet<ToolEnd>,
    running: HashMap<Place, AbortHandle>,
    progress: mpsc::Sender<(Place, Action)>,
    shown: mpsc::Receiver<(Place, Action)>,
    timers: FuturesUnordered<BoxFuture<'static, TimerId>>,
    /// Records that a failing store has not taken yet.
    unsaved: Vec<Record>,
}

/// An answer that is coming in.
struct Answering {
    call: ModelCallId,
    stream: ModelStream,
    /// When its silence counts as a failure.
    deadline: Instant,
    /// The reason it gave for stopping; counts may still follow.
    finish: Option<ModelEnd>,
}

impl Driver {
    pub(crate) fn new(
        id: ConversationId,
        machine: Machine,
        model: Arc<dyn Model>,
        store: Arc<dyn SessionStore>,
        mut observer: Box<dyn Observer>,
        loaded: Option<Loaded>,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        let (progress, shown) = mpsc::channel(PROGRESS_QUEUE);
        let mut state = Conversation::new(id);
        let first = match loaded {
            None => machine.open(&mut state, stamp()),
            Some(Loaded {
                records, notice, ..
            }) => {
                state = Conversation::fold(&records);
                let first = machine.resume(&mut state, stamp(), notice);
                observer.resumed(&state);
                first
            }
        };
        Self {
            machine,
            state,
            model,
            store,
            observer,
            commands,
            answers: Vec::new(),
            tools: JoinSet::new(),
            running: HashMap::new(),
            progress,
            shown,
            timers: FuturesUnordered::new(),
            // Kept with what happens first: a conversation nobody uses leaves no trace.
            unsaved: first.records,
        }
    }

    pub(crate) async fn run(mut self) {
        let mut used = false;
        while let Some(stimulus) = self.next().await {
            used = true;
            let mut outcome = Outcome::default();
            self.machine
                .step_into(&mut self.state, stamp(), stimulus, &mut outcome);
            self.take_what_is_there(&mut outcome);
            self.commit(outcome).await;
        }
        let mut outcome = Outcome::default();
        let halt = Stimulus::Command(Command::Halt);
        self.machine
            .step_into(&mut self.state, stamp(), halt, &mut outcome);
        if used {
            self.commit(outcome).await;
        }
        // Dropping a tool's future is what ends it; this waits until it has.
        self.tools.shutdown().await;
    }

    /// The next thing that happens; `None` when nobody can send commands any more.
    async fn next(&mut self) -> Option<Stimulus> {
        let silence = self.machine.config().limits.model_silence;
        tokio::select! {
            biased;
            command = self.commands.recv() => command.map(Stimulus::Command),
            Some(ended) = self.tools.join_next() => Some(tool_ended(&mut self.running, ended)),
            Some(((trajectory, step), action)) = self.shown.recv() => {
                Some(Stimulus::ToolProgress { trajectory, step, action })
            }
            timer = next_timer(&mut self.timers) => Some(Stimulus::TimerFired(timer)),
            stimulus = next_of_answers(&mut self.answers, silence) => Some(stimulus),
        }
    }

    /// Takes pieces of answers that have arrived already, so that a burst costs one commit.
    fn take_what_is_there(&mut self, outcome: &mut Outcome) {
        let silence = self.machine.config().limits.model_silence;
        for _ in 0..MODEL_BATCH {
            // An effect that waits to be started comes first.
            if !outcome.effects.is_empty() || self.answers.is_empty() {
                return;
            }
            let next = next_of_answers(&mut self.answers, silence).now_or_never();
            let Some(stimulus) = next else { return };
            self.machine
                .step_into(&mut self.state, stamp(), stimulus, outcome);
        }
    }

    /// Keeps the records, shows the change, starts the effects: in this order.
    async fn commit(&mut self, outcome: Outcome) {
        let mut outcome = outcome;
        self.unsaved.append(&mut outcome.records);
        if let Err(error) = self.save().await {
            let message = describe(&error);
            tracing::error!("{message}");
            // What is to be stopped is stopped; nothing is started.
            outcome.effects.retain(is_ending);
            let failed = Stimulus::StoreFailed { message };
            self.machine
                .step_into(&mut self.state, stamp(), failed, &mut outcome);
            self.unsaved.append(&mut outcome.records);
            outcome.effects.retain(is_ending);
        }
        for note in &outcome.notes {
            self.observer.noted(note);
        }
        if !outcome.touches.is_empty() {
            self.observer.changed(&self.state, &outcome.touches);
        }
        for effect in outcome.effects {
            self.start(effect);
        }
    }

    async fn save(&mut self) -> Result<(), harness_types::StoreError> {
        if !self.unsaved.is_empty() {
            self.store.append(self.state.id(), &self.unsaved).await?;
            self.unsaved.clear();
        }
        Ok(())
    }

    fn start(&mut self, effect: Effect) {
        match effect {
            Effect::CallModel { call, request } => self.answers.push(Answering {
                call,
                stream: self.model.stream(request),
                deadline: self.silence_ends(),
                finish: None,
            }),
            Effect::AbortModel { call } => self.answers.retain(|answer| answer.call != call),
            Effect::RunTool {
                trajectory,
                step,
                call,
            } => self.run_tool((trajectory, step), call),
            Effect::AbortTool { trajectory, step } => {
                if let Some(handle) = self.running.remove(&(trajectory, step)) {
                    handle.abort();
                }
            }
            Effect::StartTimer { timer, after } => {
                self.timers.push(
                    async move {
                        tokio::time::sleep(after).await;
                        timer
                    }
                    .boxed(),
                );
            }
        }
    }

    fn silence_ends(&self) -> Instant {
        Instant::now() + self.machine.config().limits.model_silence
    }

    fn run_tool(&mut self, place: Place, call: ToolCall) {
        let tool = self.machine.catalogue().built_in(&call.name).cloned();
        let progress = self.progress.clone();
        let workspaces: Arc<[_]> = self.machine.config().workspaces.clone().into();
        let (trajectory, step) = place.clone();
        let mut context = ToolContext::new(self.state.id().clone(), step, workspaces)
            .with_progress(Arc::new({
                let place = place.clone();
                move |action| {
                    let _ = progress.try_send((place.clone(), action));
                }
            }));
        context.trajectory = trajectory;
        let key = place.clone();
        let handle = self.tools.spawn(async move {
            let result = match tool {
                Some(tool) => call_tool(tool, context, call).await,
                None => Err(ToolError::failed("the tool is gone")),
            };
            (place, result)
        });
        self.running.insert(key, handle);
    }
}

/// A panicking tool is a failed call, not the end of the conversation.
async fn call_tool(
    tool: Arc<dyn Tool>,
    context: ToolContext,
    call: ToolCall,
) -> Result<ToolOutput, ToolError> {
    // Inside the future: a tool may panic before it has made one of its own.
    let run = std::panic::AssertUnwindSafe(async { tool.call(context, call.args).await });
    match run.catch_unwind().await {
        Ok(result) => result,
        Err(_) => Err(ToolError::failed(format!(
            "the tool {} failed by a fault of its own and was stopped",
            call.name
        ))),
    }
}

fn tool_ended(
    running: &mut HashMap<Place, AbortHandle>,
    ended: Result<ToolEnd, tokio::task::JoinError>,
) -> Stimulus {
    match ended {
        Ok((place, result)) => {
            running.remove(&place);
            let (trajectory, step) = place;
            Stimulus::ToolEnded {
                trajectory,
                step,
                result,
            }
        }
        // Aborted: the machine has closed the call already. The timer id is one nobody waits for.
        Err(_) => Stimulus::TimerFired(TimerId::new(u64::MAX)),
    }
}

async fn next_timer(timers: &mut FuturesUnordered<BoxFuture<'static, TimerId>>) -> TimerId {
    match timers.next().await {
        Some(timer) => timer,
        None => pending().await,
    }
}

/// The next thing any incoming answer has to say, or its silence after too long.
///
/// Cancel safe: an event is taken from its stream only when this is ready.
async fn next_of_answers(answers: &mut Vec<Answering>, silence: Duration) -> Stimulus {
    loop {
        let Some(deadline) = answers.iter().map(|answer| answer.deadline).min() else {
            return pending().await;
        };
        let event = std::future::poll_fn(|context| {
            let mut places = answers.iter_mut().enumerate();
            let ready =
                places.find_map(
                    |(place, answer)| match answer.stream.poll_next_unpin(context) {
                        Poll::Ready(event) => Some((place, event)),
                        Poll::Pending => None,
                    },
                );
            ready.map_or(Poll::Pending, Poll::Ready)
        });
        match tokio::time::timeout_at(deadline, event).await {
            Ok((place, event)) => {
                answers[place].deadline = Instant::now() + silence;
                if let Some(stimulus) = take_event(answers, place, event) {
                    return stimulus;
                }
            }
            Err(_) => {
                let silent = answers
                    .iter()
                    .position(|answer| answer.deadline == deadline);
                let answer = answers.swap_remove(silent.unwrap_or(0));
                // An answer that was complete before it fell silent stays complete.
                let end = answer.finish.unwrap_or_else(|| {
                    let message = format!("the model said nothing for {} s", silence.as_secs());
                    ModelEnd::Failed(ModelError::new(ModelErrorKind::Silent, message))
                });
                return Stimulus::ModelEnded {
                    call: answer.call,
                    end,
                };
            }
        }
    }
}

fn take_event(
    answers: &mut Vec<Answering>,
    place: usize,
    event: Option<Result<ModelEvent, ModelError>>,
) -> Option<Stimulus> {
    let answer = &mut answers[place];
    let call = answer.call;
    let end = match event {
        Some(Ok(ModelEvent::Part(part))) => return Some(Stimulus::ModelPart { call, part }),
        Some(Ok(ModelEvent::Usage(usage))) => return Some(Stimulus::ModelUsage { call, usage }),
        Some(Ok(ModelEvent::Finish { reason, message })) => {
            // Token counts may follow; the answer ends with its stream.
            answer.finish = Some(ModelEnd::Finished { reason, message });
            return None;
        }
        Some(Ok(_)) => return None,
        // Whatever breaks after the reason for stopping takes nothing from the answer.
        Some(Err(error)) => answer.finish.take().unwrap_or(ModelEnd::Failed(error)),
        None => answer.finish.take().unwrap_or_else(|| {
            let message = "the model's answer broke off before it was complete";
            ModelEnd::Failed(ModelError::new(ModelErrorKind::Cut, message))
        }),
    };
    answers.swap_remove(place);
    Some(Stimulus::ModelEnded { call, end })
}

/// Whether an effect only stops something.
fn is_ending(effect: &Effect) -> bool {
    matches!(effect, Effect::AbortModel { .. } | Effect::AbortTool { .. })
}

/// An error with its causes, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn stamp() -> Stamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let at = Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
    Stamp {
        at,
        chance: chance(),
    }
}

/// A number in 0..1, for jitter: not a secret, so a failing source of randomness is no reason to
/// fail.
fn chance() -> f64 {
    f64::from(getrandom::u32().unwrap_or(u32::MAX / 2)) / f64::from(u32::MAX)
}
