use std::fmt;
use std::sync::{Arc, Weak};

use futures_util::StreamExt as _;
use harness_proto::localharness::{
    InitializeConversationResponse, InputEvent, SandboxStatus, StepUpdate, UsageMetadata,
    input_event,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep_until, timeout};

use crate::connect::Socket;
use crate::error::{CloseCause, Closed};
use crate::feed::Feed;
use crate::link::{self, HALT, Outgoing, Shared};
use crate::{Error, Input, Turn, requests};

/// Which harnesses a session speaks with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// Those of SDK 0.1.5 and later: they confirm the configuration, and say "fully idle" when
    /// subagents have ended too.
    #[default]
    Current,
    /// Those of SDK 0.1.0 to 0.1.4: they confirm nothing, and a turn is over when the root agent
    /// and all subagents are idle.
    UpTo014,
}

/// A conversation with an agent.
///
/// Cheap to clone; all methods take `&self`, so that one part of a program can wait for a turn
/// while another halts it. The connection is read all the time: pings are answered, hooks and
/// host tools run, also while nobody waits for anything.
///
/// The connection is closed without ceremony when the last clone, and the last [`Turn`], is
/// dropped; [`close`](Self::close) does it politely.
#[derive(Clone)]
pub struct Session {
    link: Arc<Link>,
    opened: Arc<InitializeConversationResponse>,
}

impl Session {
    pub(crate) fn new(link: Arc<Link>, opened: InitializeConversationResponse) -> Self {
        Self {
            link,
            opened: Arc::new(opened),
        }
    }

    /// Sends an input and returns the turn it begins.
    ///
    /// There is one turn at a time: waits for the one before to end, and for work that was begun
    /// by [`send`](Self::send). To add something to a running turn, use `send`.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`], [`Error::TooLarge`], and [`Error::Draining`] when a turn that was
    /// dropped does not end within [`Limits::drain`](crate::Limits::drain).
    ///
    /// # Cancel safety
    ///
    /// Nothing is sent when the future is dropped before it is ready.
    pub async fn chat(&self, input: impl Into<Input>) -> Result<Turn, Error> {
        let input = input.into();
        let from_user = input.is_user();
        let frame = self.link.frame(input)?;
        let gate = self.link.take_turn().await?;
        let outgoing = &self.link.shared.outgoing;
        let halt = outgoing.clone().reserve_owned().await;
        let halt = halt.map_err(|_| self.link.closed_error())?;
        let permit = outgoing.reserve().await;
        let permit = permit.map_err(|_| self.link.closed_error())?;

        let feed = Arc::new(Feed::new(self.link.shared.limits.max_queued_events));
        let mut state = self.link.shared.lock();
        if self.link.is_closed() {
            return Err(self.link.closed_error());
        }
        state.tracker.begin(from_user);
        state.activate(Arc::clone(&feed), gate);
        permit.send(Outgoing::Frame(frame));
        drop(state);
        Ok(Turn::new(feed, Arc::clone(&self.link), halt))
    }

    /// Sends an input without waiting for what comes of it: it is added to the running turn, or
    /// begins one that nobody reads.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] and [`Error::TooLarge`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is sent when the future is dropped before it is ready.
    pub async fn send(&self, input: impl Into<Input>) -> Result<(), Error> {
        let input = input.into();
        let from_user = input.is_user();
        let frame = self.link.frame(input)?;
        let permit = self.link.shared.outgoing.reserve().await;
        let permit = permit.map_err(|_| self.link.closed_error())?;
        let mut state = self.link.shared.lock();
        if from_user {
            state.tracker.input_sent();
        }
        permit.send(Outgoing::Frame(frame));
        drop(state);
        Ok(())
    }

    /// Halts whatever runs: the model, tools, questions. Does nothing when nothing runs.
    ///
    /// The turn then ends by itself, mostly with [`Outcome::Halted`](crate::Outcome::Halted).
    /// Handlers of requests that the turn waits for are dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is sent when the future is dropped before it is ready.
    pub async fn halt(&self) -> Result<(), Error> {
        let permit = self.link.shared.outgoing.reserve().await;
        let permit = permit.map_err(|_| self.link.closed_error())?;
        let mut state = self.link.shared.lock();
        state.cancel_requests();
        state.tracker.halt();
        permit.send(Outgoing::Frame(HALT.to_owned()));
        drop(state);
        Ok(())
    }

    /// The conversation's id, once the harness has said it.
    pub fn id(&self) -> Option<String> {
        self.link.shared.lock().tracker.root().map(str::to_owned)
    }

    /// The steps there were when the conversation was resumed.
    pub fn history(&self) -> &[StepUpdate] {
        &self.opened.history
    }

    /// Whether commands can be sandboxed, if the harness said (SDK 0.1.17).
    pub fn sandbox_status(&self) -> Option<&SandboxStatus> {
        self.opened.sandbox_status.as_ref()
    }

    /// Tokens used so far, over the whole conversation, if the harness said.
    pub fn usage(&self) -> Option<UsageMetadata> {
        self.link.shared.lock().tracker.usage().cloned()
    }

    /// Waits for the end of the connection and says how it came about.
    pub async fn closed(&self) -> Closed {
        self.link.closed().await
    }

    /// Ends the session: runs the session-end hook, if there is one, then closes the connection.
    ///
    /// A running turn ends with [`Error::Closed`]. Takes at most
    /// [`Limits::session_end`](crate::Limits::session_end) for the hook and
    /// [`Limits::close`](crate::Limits::close) for the good-bye. Does nothing when the connection
    /// is closed.
    ///
    /// # Cancel safety
    ///
    /// May be called again to go on.
    pub async fn close(&self) {
        self.link.close().await;
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id())
            .field("closed", &self.link.is_closed())
            .finish_non_exhaustive()
    }
}

/// A connection and its tasks, which end with it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    reader: AbortHandle,
    writer: AbortHandle,
}

impl Link {
    /// Starts the tasks of a connection.
    pub(crate) fn run(
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Outgoing>,
        socket: Socket,
    ) -> Arc<Self> {
        let (sink, stream) = socket.split();
        let (failed, write_failed) = oneshot::channel();
        let closed = shared.closed.subscribe();
        let writer = tokio::spawn(link::write(sink, queue, closed, failed));
        let reader = tokio::spawn(link::read(Arc::clone(&shared), stream, write_failed));
        Arc::new(Self {
            shared,
            reader: reader.abort_handle(),
            writer: writer.abort_handle(),
        })
    }

    fn frame(&self, input: Input) -> Result<String, Error> {
        let max_bytes = self.shared.limits.max_message_bytes;
        requests::input_frame(input, self.shared.dialect, max_bytes)
    }

    /// Waits until no turn runs and returns the right to begin one.
    async fn take_turn(&self) -> Result<OwnedSemaphorePermit, Error> {
        let gate = tokio::select! {
            biased;
            gate = Arc::clone(&self.shared.gate).acquire_owned() => gate,
            () = self.drained_too_long() => {
                return Err(Error::Draining { within: self.shared.limits.drain });
            }
        };
        let gate = gate.map_err(|_| self.closed_error())?;
        let mut running = self.shared.running.subscribe();
        // Set to false when the connection ends; the sender lives as long as this link.
        let _ = running.wait_for(|running| !running).await;
        Ok(gate)
    }

    /// Ready when a dropped turn has not ended in time.
    async fn drained_too_long(&self) {
        let mut draining = self.shared.draining.subscribe();
        loop {
            let since = *draining.borrow_and_update();
            let changed = match since {
                None => draining.changed().await,
                Some(since) => {
                    tokio::select! {
                        changed = draining.changed() => changed,
                        () = sleep_until(since + self.shared.limits.drain) => return,
                    }
                }
            };
            if changed.is_err() {
                return std::future::pending().await;
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.borrow().is_some()
    }

    /// How the connection ended. While its end is being worked out, this program's doing.
    pub(crate) fn closed_error(&self) -> Error {
        let closed = self.shared.closed.borrow().clone();
        Error::Closed(closed.unwrap_or_else(|| Closed {
            cause: CloseCause::Local,
            stderr: self.shared.stderr.tail(),
        }))
    }

    async fn closed(&self) -> Closed {
        let mut closed = self.shared.closed.subscribe();
        match closed.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(closed)) => closed.clone(),
            // The sender lives as long as this link.
            _ => std::future::pending().await,
        }
    }

    pub(crate) async fn close(&self) {
        if self.is_closed() {
            return;
        }
        if self.shared.handlers.session_end.is_some() {
            self.end_session().await;
        }
        self.shared.begin_closing();
        let good_bye = async {
            if self.shared.outgoing.send(Outgoing::Close).await.is_ok() {
                self.closed().await;
            }
        };
        let _ = timeout(self.shared.limits.close, good_bye).await;
        self.reader.abort();
        self.writer.abort();
        self.closed().await;
    }

    async fn end_session(&self) {
        let request = InputEvent {
            event: Some(input_event::Event::SessionEndRequest(true)),
        };
        let Ok(frame) = requests::frame(&request, self.shared.limits.max_message_bytes) else {
            return;
        };
        let mut ended = self.shared.session_ended.subscribe();
        let ended = async {
            if self
                .shared
                .outgoing
                .send(Outgoing::Frame(frame))
                .await
                .is_ok()
            {
                tokio::select! {
                    _ = ended.wait_for(|ended| *ended) => {}
                    _ = self.closed() => {}
                }
            }
        };
        let limit = self.shared.limits.session_end;
        if timeout(limit, ended).await.is_err() {
            tracing::warn!(?limit, "the harness did not end the session in time");
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
    }
}

/// Sessions of a harness, to be closed before it is.
pub(crate) type WeakLink = Weak<Link>;
