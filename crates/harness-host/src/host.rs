//! The conversations of a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use harness_agent::Agent;
use harness_types::{Command, ConversationId, Loaded, SessionStore};
use tokio::sync::Notify;

use crate::attachment::History;
use crate::board::{Board, BoardWriter};
use crate::{Assemble, Attachment, Blueprint, Continuation, Error};

/// What a host may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Conversations open at once; one more is refused.
    pub conversations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            conversations: 1024,
        }
    }
}

/// The conversations of a process. Cheap to clone; all clones are one host.
#[derive(Debug, Clone)]
pub struct Host(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    assembler: Arc<dyn Assemble>,
    limits: Limits,
    open: Mutex<Open>,
    /// Told whenever a conversation has closed.
    closed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    /// Told to end when the host shuts down.
    conversations: HashMap<ConversationId, Arc<Notify>>,
    shutting_down: bool,
}

impl Host {
    /// A host that makes conversations with `assembler`.
    pub fn new(assembler: Arc<dyn Assemble>, limits: Limits) -> Self {
        Self(Arc::new(Shared {
            assembler,
            limits,
            open: Mutex::default(),
            closed: Notify::new(),
        }))
    }

    /// Opens a conversation. It runs until its [`Session`] is closed or dropped.
    ///
    /// # Errors
    ///
    /// An [`Error`] for which [`Error::is_config`] holds names what is wrong with the blueprint;
    /// the others speak of the process.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future opens nothing.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn open(&self, mut blueprint: Blueprint) -> Result<Session, Error> {
        let given = blueprint.id.take();
        let id = match &given {
            Some(id) => id.clone(),
            None if blueprint.continuation == Continuation::Resume => {
                return Err(Error::config("the conversation to be resumed is not named"));
            }
            None => {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes)?;
                ConversationId::from_random(bytes)
            }
        };
        let shutdown = self.reserve(&id)?;
        // Gives the id back when anything below fails, and when the loop has ended.
        let place = Place {
            host: self.clone(),
            id: id.clone(),
        };
        let assembly = self.0.assembler.assemble(&mut blueprint)?;
        let loaded = match &given {
            Some(id) => load(Arc::clone(&assembly.store), id.clone()).await?,
            None => None,
        };
        match (blueprint.continuation, &loaded) {
            (Continuation::Create, Some(_)) => return Err(Error::Exists { id }),
            (Continuation::Resume, None) => return Err(Error::NotFound { id }),
            (Continuation::Automatic, None) if given.is_some() => {
                return Err(Error::NotFound { id });
            }
            _ => {}
        }
        let board = Arc::new(Board::default());
        let observer = Box::new(BoardWriter {
            board: Arc::clone(&board),
            _place: Some(place),
        });
        let parts = assembly.into_parts(id.clone(), blueprint.config, observer, loaded);
        let agent = Agent::spawn(parts)?;
        Ok(Session {
            agent,
            board,
            shutdown,
            id,
        })
    }

    fn reserve(&self, id: &ConversationId) -> Result<Arc<Notify>, Error> {
        let mut open = self.lock();
        if open.shutting_down {
            return Err(Error::ShuttingDown);
        }
        if open.conversations.contains_key(id) {
            return Err(Error::AlreadyOpen { id: id.clone() });
        }
        if open.conversations.len() >= self.0.limits.conversations {
            return Err(Error::TooMany {
                limit: self.0.limits.conversations,
            });
        }
        let shutdown = Arc::new(Notify::new());
        open.conversations.insert(id.clone(), Arc::clone(&shutdown));
        Ok(shutdown)
    }

    /// How many conversations are open.
    pub fn conversations(&self) -> usize {
        self.lock().conversations.len()
    }

    /// Opens no more conversations, tells the open ones' owners to close them, and waits until
    /// they have.
    ///
    /// # Cancel safety
    ///
    /// Can be called again; conversations go on closing meanwhile.
    pub async fn shutdown(&self) {
        loop {
            let closed = self.0.closed.notified();
            tokio::pin!(closed);
            closed.as_mut().enable();
            {
                let mut open = self.lock();
                open.shutting_down = true;
                for shutdown in open.conversations.values() {
                    shutdown.notify_one();
                }
                if open.conversations.is_empty() {
                    return;
                }
            }
            closed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a conversation where reading a long one keeps nobody else waiting.
async fn load(store: Arc<dyn SessionStore>, id: ConversationId) -> Result<Option<Loaded>, Error> {
    let runtime = tokio::runtime::Handle::current();
    let read = tokio::task::spawn_blocking(move || runtime.block_on(store.load(&id)));
    match read.await {
        Ok(loaded) => Ok(loaded.map_err(harness_agent::Error::from)?),
        Err(fault) => Err(Error::Fault {
            message: fault.to_string(),
        }),
    }
}

/// An open conversation, owned by the front end that opened it.
#[derive(Debug)]
pub struct Session {
    agent: Agent,
    board: Arc<Board>,
    shutdown: Arc<Notify>,
    id: ConversationId,
}

impl Session {
    /// The conversation's id.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Tells the conversation something.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when it has ended by a fault.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready sends nothing.
    pub async fn send(&self, command: Command) -> Result<(), Error> {
        self.agent.send(command).await.map_err(|_| Error::Closed)
    }

    /// What happened before: every step in its latest state, and the tokens spent.
    pub fn history(&self) -> History {
        History::of(&self.board.lock())
    }

    /// What happened before, and reading from now on, without a gap between the two.
    pub fn attach_with_history(&self) -> (History, Attachment) {
        Attachment::with_history(Arc::clone(&self.board))
    }

    /// Starts reading from now on. Requests that are open are shown first.
    pub fn attach(&self) -> Attachment {
        self.attach_with_history().1
    }

    /// Waits until the host wants the conversation to be closed.
    ///
    /// # Cancel safety
    ///
    /// Can be called again.
    pub async fn shutdown_requested(&self) {
        self.shutdown.notified().await;
    }

    /// Ends the conversation: a running turn is halted, its records are kept and its tools are
    /// gone when this returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the ending to go on by itself.
    pub async fn close(self) {
        self.agent.close().await;
    }
}

/// An entry among the open conversations, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    host: Host,
    id: ConversationId,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.host.lock().conversations.remove(&self.id);
        self.host.0.closed.notify_waiters();
    }
}
