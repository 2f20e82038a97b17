//! From a configuration to a session.

use futures_util::{SinkExt as _, StreamExt as _};
use harness_proto::json::to_json;
use harness_proto::localharness::{
    HarnessConfig, InitializeConversationEvent, InitializeConversationResponse, OutputEvent,
    harness_config, model_config, output_event,
};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::connect::{Socket, connect};
use crate::endpoint::Endpoint;
use crate::error::{CloseCause, Closed};
use crate::link::{self, Shared};
use crate::session::{Link, Session};
use crate::stderr::Stderr;
use crate::tracker::Tracker;
use crate::{ConversationConfig, Dialect, Error, Handlers, Limits, Secret};

/// A conversation about to be opened.
#[derive(Debug)]
#[must_use = "nothing happens before open()"]
pub struct SessionBuilder<'e> {
    endpoint: &'e Endpoint,
    config: ConversationConfig,
    handlers: Handlers,
    dialect: Dialect,
    limits: Limits,
}

impl<'e> SessionBuilder<'e> {
    pub(crate) fn new(endpoint: &'e Endpoint, config: ConversationConfig) -> Self {
        Self {
            endpoint,
            config,
            handlers: Handlers::default(),
            dialect: Dialect::default(),
            limits: endpoint.limits.clone(),
        }
    }

    /// Sets what this program does for the conversation. Tools and hooks are declared in the
    /// configuration by this alone.
    pub fn handlers(mut self, handlers: Handlers) -> Self {
        self.handlers = handlers;
        self
    }

    /// Sets which harnesses to speak with.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets the limits, in place of those of the harness.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Connects and opens the conversation.
    ///
    /// Tries five times to connect, 0.1, 0.2, 0.4 and 0.8 s apart.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] before anything is sent, [`Error::Connect`], [`Error::Closed`] when the
    /// harness refuses the configuration (the reason is in its standard error),
    /// [`Error::InitializeTimeout`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn open(self) -> Result<Session, Error> {
        let Self {
            endpoint,
            config,
            handlers,
            dialect,
            limits,
        } = self;
        let mut config = config
            .into_wire()
            .map_err(|problem| Error::Config { problem })?;
        let declared = handlers.declare(&mut config);
        declared.map_err(|problem| Error::Config { problem })?;
        let stderr = endpoint.stderr.clone();
        hide_credentials(&config, &stderr);

        let mut socket = connect(&endpoint.hosts, &endpoint.address, &limits, &stderr).await?;
        let opening = initialize(&mut socket, config, dialect, &limits);
        let opened = match timeout(limits.initialize, opening).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(Opening::Error(error))) => return Err(error),
            Ok(Err(Opening::Closed(cause))) => {
                let stderr = stderr.last_words().await;
                return Err(Error::Closed(Closed { cause, stderr }));
            }
            Err(_) => {
                return Err(Error::InitializeTimeout {
                    within: limits.initialize,
                    stderr: stderr.last_words().await,
                });
            }
        };

        let mut tracker = Tracker::new(dialect);
        let reply = &opened.reply;
        let usage = reply.cumulative_usage.clone();
        tracker.opened(reply.cascade_id.as_deref(), &reply.history, usage);
        let (shared, queue) = Shared::new(tracker, handlers, dialect, limits, stderr);
        for event in opened.early {
            // What it breaks is seen by the task that reads as well, at the latest by silence.
            let _ = shared.receive(event);
        }
        let link = Link::run(shared, queue, socket);
        endpoint.remember(&link);
        Ok(Session::new(link, opened.reply))
    }
}

struct Opened {
    reply: InitializeConversationResponse,
    /// Events that came before the reply.
    early: Vec<OutputEvent>,
}

enum Opening {
    Error(Error),
    Closed(CloseCause),
}

async fn initialize(
    socket: &mut Socket,
    config: HarnessConfig,
    dialect: Dialect,
    limits: &Limits,
) -> Result<Opened, Opening> {
    let message = InitializeConversationEvent {
        config: Some(config),
    };
    let frame = to_json(&message).map_err(|error| Opening::Error(Error::Encode(error)))?;
    if frame.len() > limits.max_message_bytes {
        return Err(Opening::Error(Error::TooLarge {
            length: frame.len(),
            limit: limits.max_message_bytes,
        }));
    }
    let sent = socket.send(Message::text(frame)).await;
    sent.map_err(|error| {
        Opening::Closed(CloseCause::Lost {
            problem: error.to_string(),
        })
    })?;
    let mut opened = Opened {
        reply: InitializeConversationResponse::default(),
        early: Vec::new(),
    };
    if dialect == Dialect::UpTo014 {
        return Ok(opened);
    }
    loop {
        let Some(event) = link::parse(socket.next().await).map_err(Opening::Closed)? else {
            continue;
        };
        match event.event {
            Some(output_event::Event::InitializeConversationResponse(reply)) => {
                opened.reply = reply;
                return Ok(opened);
            }
            _ if opened.early.len() < limits.max_open_requests => opened.early.push(event),
            _ => {
                return Err(Opening::Closed(CloseCause::Protocol {
                    problem: "too many events before the configuration was confirmed".into(),
                }));
            }
        }
    }
}

/// Keeps credentials of the configuration out of what is shown of standard error.
fn hide_credentials(config: &HarnessConfig, stderr: &Stderr) {
    let hide = |text: &str| stderr.hide(&Secret::new(text));
    for model in &config.models {
        let (key, headers) = match &model.endpoint {
            Some(model_config::Endpoint::GeminiApiEndpoint(it)) => (it.api_key(), &it.http_headers),
            Some(model_config::Endpoint::VertexEndpoint(it)) => (it.api_key(), &it.http_headers),
            _ => continue,
        };
        hide(key);
        headers.values().for_each(|value| hide(value));
    }
    if let Some(harness_config::ModelConfig::GeminiConfig(model)) = &config.model_config {
        hide(model.api_key());
    }
}
