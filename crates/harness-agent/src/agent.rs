//! A running conversation, from the outside.

use std::sync::Arc;

use harness_toolkit::Registry;
use harness_types::{
    Command, Config, ConversationId, Loaded, Model, Record, RecordBody, SessionStore, StoreError,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::driver::Driver;
use crate::{Catalogue, Error, Machine, Observer};

/// How many commands may wait for the loop before [`Agent::send`] waits too.
const COMMAND_QUEUE: usize = 256;

/// What an agent is made of.
#[derive(Debug)]
pub struct AgentParts {
    /// The conversation's id.
    pub id: ConversationId,
    /// How it is set up.
    pub config: Config,
    /// The model it asks.
    pub model: Arc<dyn Model>,
    /// The built-in tools it may use; [`Config::tools`] names those that are declared.
    pub tools: Registry,
    /// Where its records are kept.
    pub store: Arc<dyn SessionStore>,
    /// Who watches.
    pub observer: Box<dyn Observer>,
    /// What the store has of the conversation; `None` for a new one.
    pub loaded: Option<Loaded>,
}

/// A running conversation.
///
/// Dropping it ends the conversation as [`Agent::close`] does, without waiting.
#[derive(Debug)]
pub struct Agent {
    commands: mpsc::Sender<Command>,
    task: JoinHandle<()>,
}

impl Agent {
    /// Checks the parts and starts the conversation on the current runtime.
    ///
    /// # Errors
    ///
    /// An [`Error`] for which [`Error::is_config`] holds names what is wrong with the parts.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(parts: AgentParts) -> Result<Self, Error> {
        check_workspaces(&parts.config)?;
        if let Some(loaded) = &parts.loaded {
            check_log(&parts.id, &loaded.records)?;
        }
        let catalogue = Catalogue::new(&parts.config, parts.tools)?;
        let machine = Machine::new(parts.config, catalogue)?;
        let (commands, receiver) = mpsc::channel(COMMAND_QUEUE);
        let driver = Driver::new(
            parts.id,
            machine,
            parts.model,
            parts.store,
            parts.observer,
            parts.loaded,
            receiver,
        );
        let task = tokio::spawn(driver.run());
        Ok(Self { commands, task })
    }

    /// Tells the conversation something. Waits only while 256 earlier commands have not been
    /// looked at.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when the conversation has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready sends nothing.
    pub async fn send(&self, command: Command) -> Result<(), Error> {
        self.commands.send(command).await.map_err(|_| Error::Closed)
    }

    /// Ends the conversation: a running turn is halted, its records are kept, its tools are gone
    /// when this returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the ending to go on by itself.
    pub async fn close(self) {
        let Self { commands, task } = self;
        drop(commands);
        if let Err(error) = task.await
            && error.is_panic()
        {
            tracing::error!("a conversation ended by a fault of the harness itself: {error}");
        }
    }

    /// Waits until the conversation has ended by itself, which it does only by a fault.
    ///
    /// # Cancel safety
    ///
    /// Can be called again.
    pub async fn ended(&self) {
        self.commands.closed().await;
    }
}

/// A log begins with the record that opens its conversation.
fn check_log(id: &ConversationId, records: &[Record]) -> Result<(), Error> {
    match records.first().map(|record| &record.body) {
        Some(RecordBody::Opened { conversation }) if conversation == id => Ok(()),
        _ => Err(Error::Store(StoreError::Unreadable {
            message: format!(
                "the store's records of conversation {id} do not begin with its opening"
            ),
        })),
    }
}

fn check_workspaces(config: &Config) -> Result<(), Error> {
    for path in &config.workspaces {
        if !path.is_absolute() {
            return Err(Error::RelativeWorkspace { path: path.clone() });
        }
        if !path.is_dir() {
            return Err(Error::MissingWorkspace { path: path.clone() });
        }
    }
    Ok(())
}
