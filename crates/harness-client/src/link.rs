//! The tasks of a connection and what they share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use harness_proto::json::from_json_lossy;
use harness_proto::localharness::{OutputEvent, StepUpdate, output_event, step_update};
use tokio::sync::mpsc::OwnedPermit;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::connect::Socket;
use crate::error::{CloseCause, Closed};
use crate::feed::Feed;
use crate::requests::{self, Job, RequestKey};
use crate::stderr::Stderr;
use crate::tracker::{Applied, Tracker};
use crate::{Dialect, Error, Event, Handlers, Limits};

/// How many messages wait to be written; more wait with their senders.
pub(crate) const OUTGOING: usize = 256;

/// A halt, as it is written.
pub(crate) const HALT: &str = r#"{"haltRequest":true}"#;

/// How many answered requests of a turn are remembered, to know repeated ones.
const REMEMBERED: usize = 65_536;

/// Something for the task that writes.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Frame(String),
    Close,
}

/// What the tasks of a connection and its users share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
    /// One permit: the right to have a turn. Closed with the connection.
    pub(crate) gate: Arc<Semaphore>,
    /// Since when a dropped turn has been on its way to its end.
    pub(crate) draining: watch::Sender<Option<Instant>>,
    /// Whether the root agent works.
    pub(crate) running: watch::Sender<bool>,
    pub(crate) closed: watch::Sender<Option<Closed>>,
    pub(crate) session_ended: watch::Sender<bool>,
    pub(crate) handlers: Handlers,
    pub(crate) limits: Limits,
    pub(crate) stderr: Stderr,
    pub(crate) dialect: Dialect,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tracker: Tracker,
    active: Option<Active>,
    /// Requests whose handlers run.
    requests: HashMap<RequestKey, AbortHandle>,
    /// Requests answered in this turn.
    answered: HashSet<RequestKey>,
    /// This program closes the connection.
    closing: bool,
}

#[derive(Debug)]
struct Active {
    /// `None` once the turn was dropped.
    feed: Option<Arc<Feed>>,
    _gate: OwnedSemaphorePermit,
}

impl State {
    /// Makes the turn that was begun in the tracker readable.
    pub(crate) fn activate(&mut self, feed: Arc<Feed>, gate: OwnedSemaphorePermit) {
        self.active = Some(Active {
            feed: Some(feed),
            _gate: gate,
        });
    }

    /// Drops handlers whose answer nobody waits for, so that no late answer is sent: the closed
    /// harness ends the session on some of those.
    pub(crate) fn cancel_requests(&mut self) {
        self.requests.retain(|key, task| {
            if key.ends_with_turn() {
                task.abort();
            }
            !key.ends_with_turn()
        });
    }

    fn cancel_all_requests(&mut self) {
        for (_, task) in self.requests.drain() {
            task.abort();
        }
    }

    fn emit(&self, event: Event) {
        let feed = self.active.as_ref().and_then(|active| active.feed.as_ref());
        if let Some(feed) = feed {
            feed.push(event);
        }
    }
}

impl Shared {
    pub(crate) fn new(
        tracker: Tracker,
        handlers: Handlers,
        dialect: Dialect,
        limits: Limits,
        stderr: Stderr,
    ) -> (Arc<Self>, mpsc::Receiver<Outgoing>) {
        let (outgoing, queue) = mpsc::channel(OUTGOING);
        let shared = Self {
            state: Mutex::new(State {
                tracker,
                active: None,
                requests: HashMap::new(),
                answered: HashSet::new(),
                closing: false,
            }),
            outgoing,
            gate: Arc::new(Semaphore::new(1)),
            draining: watch::Sender::new(None),
            running: watch::Sender::new(false),
            closed: watch::Sender::new(None),
            session_ended: watch::Sender::new(false),
            handlers,
            limits,
            stderr,
            dialect,
        };
        (Arc::new(shared), queue)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn was dropped: halts it, and lets nobody read the rest of it.
    pub(crate) fn abandon(&self, feed: &Arc<Feed>, halt: OwnedPermit<Outgoing>) {
        let mut state = self.lock();
        let Some(active) = &mut state.active else {
            return;
        };
        if !active.feed.as_ref().is_some_and(|it| Arc::ptr_eq(it, feed)) {
            return;
        }
        active.feed = None;
        state.cancel_requests();
        state.tracker.halt();
        self.draining.send_replace(Some(Instant::now()));
        halt.send(Outgoing::Frame(HALT.to_owned()));
    }

    /// From now on the end of the connection is this program's doing. Handlers are dropped.
    pub(crate) fn begin_closing(&self) {
        let mut state = self.lock();
        state.closing = true;
        state.cancel_all_requests();
    }

    /// Handles one event of the harness. The error ends the connection.
    pub(crate) fn receive(self: &Arc<Self>, event: OutputEvent) -> Result<(), CloseCause> {
        use output_event::Event as Wire;
        match event.event {
            Some(Wire::StepUpdate(step)) => {
                for job in self.waiting(&step) {
                    self.start(job)?;
                }
                let applied = self.lock().tracker.step(step);
                self.deliver(applied);
            }
            Some(Wire::TrajectoryStateUpdate(update)) => {
                let applied = self.lock().tracker.state(update);
                self.deliver(applied);
            }
            Some(Wire::UsageUpdate(update)) => {
                let applied = self.lock().tracker.usage_update(update);
                self.deliver(applied);
            }
            Some(Wire::ToolCall(call)) => {
                let job = requests::tool_call(&self.handlers, call.clone(), self.dialect);
                if self.start(job)? {
                    self.lock().emit(Event::ToolCall(Box::new(call)));
                }
            }
            Some(Wire::CallHookRequest(request)) => {
                self.start(requests::hook(&self.handlers, request))?;
            }
            Some(Wire::PolicyDecisionRequest(request)) => {
                self.start(requests::policy(&self.handlers, request))?;
            }
            Some(Wire::SessionEndResponse(_)) => {
                self.session_ended.send_replace(true);
            }
            Some(Wire::InitializeConversationResponse(_)) => {
                tracing::debug!("the conversation was confirmed twice");
            }
            // A later version's event.
            None => tracing::debug!("an event of unknown kind was passed over"),
        }
        Ok(())
    }

    /// What a step waits for. A step is asked about once for each time it waits.
    fn waiting(&self, step: &StepUpdate) -> Vec<Job> {
        if step.state() != step_update::State::WaitingForUser {
            let id = crate::StepId::of(step);
            let mut state = self.lock();
            state.answered.remove(&RequestKey::Question(id.clone()));
            state.answered.remove(&RequestKey::Confirmation(id));
            return Vec::new();
        }
        let questions = requests::questions(&self.handlers, step);
        let confirmation = requests::confirmation(&self.handlers, step);
        questions.into_iter().chain(confirmation).collect()
    }

    /// Runs a handler in a task of its own. `false` when the request is known already.
    fn start(self: &Arc<Self>, job: Job) -> Result<bool, CloseCause> {
        // Held until the task is entered: it may be done before this function is.
        let mut state = self.lock();
        if state.requests.contains_key(&job.key) || state.answered.contains(&job.key) {
            return Ok(false);
        }
        if state.requests.len() >= self.limits.max_open_requests {
            let limit = self.limits.max_open_requests;
            return Err(CloseCause::Protocol {
                problem: format!("more than {limit} requests are open at once"),
            });
        }
        let key = job.key.clone();
        let task = tokio::spawn(Arc::clone(self).answer(job));
        state.requests.insert(key, task.abort_handle());
        Ok(true)
    }

    async fn answer(self: Arc<Self>, job: Job) {
        let key = job.key.clone();
        let frame = job.answer(self.limits.max_message_bytes).await;
        let Ok(permit) = self.outgoing.reserve().await else {
            return;
        };
        // Under the lock, so that no answer follows a halt.
        let mut state = self.lock();
        if state.requests.remove(&key).is_none() {
            return;
        }
        if state.answered.len() >= REMEMBERED {
            state.answered.clear();
        }
        state.answered.insert(key);
        match frame {
            Some(frame) => permit.send(Outgoing::Frame(frame)),
            None => tracing::error!("an answer was too long even for a refusal"),
        }
    }

    fn deliver(&self, applied: Applied) {
        let mut state = self.lock();
        for event in applied.events {
            state.emit(event);
        }
        if applied.idle {
            state.cancel_requests();
            state.answered.clear();
        }
        if let Some(end) = applied.end {
            state.emit(Event::Idle(Box::new(end)));
            // Gives the permit back.
            state.active = None;
            self.draining.send_replace(None);
        }
        if applied.halt {
            let outgoing = self.outgoing.clone();
            // The task that reads never waits for the one that writes.
            tokio::spawn(async move {
                let _ = outgoing.send(Outgoing::Frame(HALT.to_owned())).await;
            });
        }
        let running = state.tracker.is_running();
        self.running
            .send_if_modified(|was| std::mem::replace(was, running) != running);
    }

    /// The connection is over. Only the first call counts.
    fn finish(&self, closed: Closed) {
        let mut state = self.lock();
        if self.closed.borrow().is_some() {
            return;
        }
        state.cancel_all_requests();
        let feed = state.active.take().and_then(|active| active.feed);
        self.closed.send_replace(Some(closed.clone()));
        self.running.send_replace(false);
        self.gate.close();
        drop(state);
        if let Some(feed) = feed {
            feed.fail(Error::Closed(closed));
        }
    }
}

/// Writes until the connection is over or a message cannot be written.
pub(crate) async fn write(
    mut sink: SplitSink<Socket, Message>,
    mut queue: mpsc::Receiver<Outgoing>,
    mut closed: watch::Receiver<Option<Closed>>,
    failed: oneshot::Sender<String>,
) {
    let writing = async {
        while let Some(outgoing) = queue.recv().await {
            let written = match outgoing {
                Outgoing::Frame(frame) => sink.send(Message::text(frame)).await,
                Outgoing::Close => {
                    let _ = sink.close().await;
                    // The harness answers, which the task that reads sees. Nothing may follow.
                    break;
                }
            };
            if let Err(error) = written {
                return Some(error.to_string());
            }
        }
        None
    };
    tokio::select! {
        Some(problem) = writing => {
            let _ = failed.send(problem);
        }
        // The socket is closed when both halves of it are dropped.
        _ = closed.wait_for(Option::is_some) => {}
    }
}

/// Reads until the connection ends.
pub(crate) async fn read(
    shared: Arc<Shared>,
    mut stream: SplitStream<Socket>,
    mut write_failed: oneshot::Receiver<String>,
) {
    let finish = FinishOnDrop(Arc::clone(&shared));
    let cause = loop {
        let message = tokio::select! {
            message = stream.next() => message,
            Ok(problem) = &mut write_failed => break CloseCause::Lost { problem },
        };
        match parse(message) {
            Ok(None) => {}
            Ok(Some(event)) => {
                if let Err(cause) = shared.receive(event) {
                    break cause;
                }
            }
            Err(cause) => {
                if matches!(cause, CloseCause::Peer { .. }) {
                    say_good_bye(&mut stream, &shared.limits).await;
                }
                break cause;
            }
        }
    };
    if !shared.lock().closing {
        let stderr = shared.stderr.last_words().await;
        shared.finish(Closed { cause, stderr });
    }
    drop(finish);
}

/// The WebSocket layer answers a good-bye while it is read from.
async fn say_good_bye(stream: &mut SplitStream<Socket>, limits: &Limits) {
    let reading = async { while let Some(Ok(_)) = stream.next().await {} };
    let _ = timeout(limits.close, reading).await;
}

/// One message of the connection; `None` for those that carry no event.
pub(crate) fn parse(
    message: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
) -> Result<Option<OutputEvent>, CloseCause> {
    let lost = |problem: String| CloseCause::Lost { problem };
    let broken = |problem: String| CloseCause::Protocol { problem };
    let event = match message {
        None => return Err(lost(String::new())),
        Some(Err(error)) => return Err(lost(error.to_string())),
        Some(Ok(Message::Text(text))) => from_json_lossy(text.as_str()),
        Some(Ok(Message::Binary(bytes))) => match std::str::from_utf8(&bytes) {
            Ok(text) => from_json_lossy(text),
            Err(_) => return Err(broken("a message is not UTF-8".into())),
        },
        Some(Ok(Message::Close(frame))) => {
            return Err(match frame {
                Some(frame) => CloseCause::Peer {
                    code: frame.code.into(),
                    reason: frame.reason.as_str().to_owned(),
                },
                None => CloseCause::Peer {
                    code: 1005,
                    reason: String::new(),
                },
            });
        }
        // Answered by the WebSocket layer.
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return Ok(None),
    };
    event.map(Some).map_err(|error| broken(error.to_string()))
}

/// However the task that reads ends, the connection is then known to be closed.
struct FinishOnDrop(Arc<Shared>);

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.0.finish(Closed {
            cause: CloseCause::Local,
            stderr: self.0.stderr.tail(),
        });
    }
}
