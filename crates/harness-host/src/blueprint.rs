//! What a conversation is to be made of, and who makes it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use harness_agent::{AgentParts, Registry};
use harness_types::{Config, ConversationId, Loaded, Model, Secret, SessionStore};

use crate::Error;

/// A conversation as a front end wants it.
#[derive(Debug, Default)]
pub struct Blueprint {
    /// The id it is to have; `None` makes a new one.
    pub id: Option<ConversationId>,
    /// What to do about a conversation that exists, or does not.
    pub continuation: Continuation,
    /// How the loop is set up.
    pub config: Config,
    /// The models, by what they are for.
    pub models: Vec<ModelSpec>,
    /// How commands are run.
    pub commands: CommandOptions,
    /// Where the conversation is kept; `None` keeps it in memory.
    pub storage: Option<PathBuf>,
    /// What the model's provider is told about the client.
    pub user_agent: String,
}

/// What to do about a conversation that exists already, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Continuation {
    /// With an id: resume. Without: make a new one.
    #[default]
    Automatic,
    /// It must exist.
    Resume,
    /// It is made when it does not exist.
    CreateOrResume,
    /// It must not exist.
    Create,
}

/// A model to use.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// Its name, as the provider knows it.
    pub name: String,
    /// What it is for.
    pub roles: Vec<ModelRole>,
    /// Where it answers.
    pub endpoint: Endpoint,
    /// Further HTTP headers, by name.
    pub headers: BTreeMap<String, Secret>,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelRole {
    /// Conversation.
    Text,
    /// Making images.
    Image,
}

/// Where a model answers. An empty base URL or key stands for the program's own default.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Endpoint {
    /// The Gemini API.
    Gemini {
        /// The base URL.
        base_url: String,
        /// The key.
        api_key: Secret,
    },
    /// Vertex AI.
    Vertex {
        /// The base URL.
        base_url: String,
        /// The Google Cloud project.
        project: String,
        /// The Google Cloud location.
        location: String,
        /// The key, for express mode.
        api_key: Secret,
    },
    /// A server that speaks OpenAI's chat completions.
    ChatCompletions {
        /// The base URL.
        base_url: String,
    },
    /// Another kind, by name.
    Custom {
        /// The kind.
        kind: String,
        /// Its configuration, as JSON text. It may hold credentials.
        config: Secret,
    },
}

/// How commands are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOptions {
    /// How long one may run; `None` is without limit.
    pub timeout: Option<Duration>,
    /// Variables for their environment, by name. Clients send credentials among them.
    pub env: BTreeMap<String, Secret>,
}

/// What the program makes of a blueprint.
#[derive(Debug)]
pub struct Assembly {
    /// The model of the conversation.
    pub model: Arc<dyn Model>,
    /// The built-in tools.
    pub tools: Registry,
    /// Where the conversation is kept.
    pub store: Arc<dyn SessionStore>,
}

impl Assembly {
    pub(crate) fn into_parts(
        self,
        id: ConversationId,
        config: Config,
        observer: Box<dyn harness_agent::Observer>,
        loaded: Option<Loaded>,
    ) -> AgentParts {
        let Self {
            model,
            tools,
            store,
        } = self;
        AgentParts {
            id,
            config,
            model,
            tools,
            store,
            observer,
            loaded,
        }
    }
}

/// Makes the parts of a conversation.
pub trait Assemble: Send + Sync + std::fmt::Debug {
    /// Makes the parts. May change the blueprint where only the program knows what is right: a
    /// default model, tools that it does not have.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] names the field that cannot be honoured.
    fn assemble(&self, blueprint: &mut Blueprint) -> Result<Assembly, Error>;
}
