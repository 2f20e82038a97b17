//! An agent, from the outside.

use std::sync::{Arc, Weak};

use harness_host::{Attachment, History, Session};
use harness_types::{Command, ConversationId, Input, InputPart, Model, TrajectoryId};
use tokio::task::JoinHandle;

use crate::{AgentBuilder, Error, Turn};

/// A conversation with an agent in this process.
///
/// Dropping it ends the conversation without waiting; [`close`](Self::close) waits.
#[derive(Debug)]
pub struct Agent {
    pub(crate) session: Arc<Session>,
    pub(crate) updates: Attachment,
    pub(crate) root: TrajectoryId,
    /// Whether a turn runs whose end has not been read.
    pub(crate) running: bool,
    /// Sends the halt of a turn that was dropped.
    halting: Option<JoinHandle<()>>,
    answerer: JoinHandle<()>,
}

impl Agent {
    /// Begins to make an agent that asks `model`.
    pub fn builder(model: impl Model + 'static) -> AgentBuilder {
        AgentBuilder::new(Arc::new(model))
    }

    pub(crate) fn new(
        session: Arc<Session>,
        updates: Attachment,
        answerer: JoinHandle<()>,
    ) -> Self {
        Self {
            root: TrajectoryId::root(session.id()),
            session,
            updates,
            running: false,
            halting: None,
            answerer,
        }
    }

    /// Says something to the agent and returns the turn it begins.
    ///
    /// When the turn before was dropped, waits until it has been halted.
    ///
    /// # Errors
    ///
    /// [`Error::Conversation`] when the conversation has ended by a fault.
    ///
    /// # Cancel safety
    ///
    /// Nothing is said when the future is dropped before it is ready.
    pub async fn chat(&mut self, text: impl Into<String>) -> Result<Turn<'_>, Error> {
        self.input(Input::user([InputPart::text(text)])).await
    }

    /// As [`chat`](Self::chat), with attachments, or as an automation.
    ///
    /// # Errors
    ///
    /// As [`chat`](Self::chat).
    ///
    /// # Cancel safety
    ///
    /// As [`chat`](Self::chat).
    pub async fn input(&mut self, input: Input) -> Result<Turn<'_>, Error> {
        self.settle().await?;
        self.session.send(Command::Input(input)).await?;
        self.running = true;
        Ok(Turn::new(self))
    }

    /// Waits until a turn that was dropped is over.
    async fn settle(&mut self) -> Result<(), Error> {
        if let Some(halting) = &mut self.halting {
            // Sent before the next input, or else it would halt that one.
            let _ = halting.await;
            self.halting = None;
        }
        if self.running {
            // Once more: the first may not have been sent for lack of a runtime.
            self.session.send(Command::Halt).await?;
        }
        while self.running {
            match self.updates.next().await {
                Some(harness_host::Update::TurnEnded { trajectory, .. }) => {
                    self.running = trajectory != self.root;
                }
                Some(_) => {}
                None => return Err(harness_host::Error::Closed.into()),
            }
        }
        Ok(())
    }

    /// Halts the turn if it runs, without waiting.
    pub(crate) fn abandon(&mut self) {
        if !self.running {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let stopper = self.stopper();
            self.halting = Some(runtime.spawn(async move { stopper.halt().await }));
        }
    }

    /// The conversation's id, to resume it by.
    pub fn id(&self) -> &ConversationId {
        self.session.id()
    }

    /// Every step so far in its latest state, and the tokens spent.
    pub fn history(&self) -> History {
        self.session.history()
    }

    /// The conversation itself, for what this type does not offer.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Something that halts turns, from wherever it is.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::downgrade(&self.session))
    }

    /// Ends the conversation: a running turn is halted, its records are kept and its tools are gone
    /// when this returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the ending to go on by itself.
    pub async fn close(self) {
        let Self {
            session, answerer, ..
        } = self;
        answerer.abort();
        let _ = answerer.await;
        // Whoever halts at this moment has it still, and ends it by letting go.
        if let Some(session) = Arc::into_inner(session) {
            session.close().await;
        }
    }
}

/// Halts the turns of an agent. Cheap to clone; does not keep the agent alive.
#[derive(Debug, Clone)]
pub struct Stopper(Weak<Session>);

impl Stopper {
    /// Halts the running turn; does nothing when none runs or the agent is gone.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready halts nothing.
    pub async fn halt(&self) {
        if let Some(session) = self.0.upgrade() {
            // An agent that is gone has nothing to halt.
            let _ = session.send(Command::Halt).await;
        }
    }
}
