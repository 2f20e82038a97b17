//! [`GeminiModel`]: requests out, events in.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use futures_util::{StreamExt as _, stream};
use harness_types::{Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelStream};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, Request, Response, StatusCode};

use crate::answer::Answer;
use crate::config::GeminiConfig;
use crate::error::Error;
use crate::failure;
use crate::request::{encode, takes_thinking_level};
use crate::response::Frames;
use crate::target::Target;
use crate::transport::{Transport, deepest};

/// How much of the body of an error is read, in bytes.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// A Gemini model behind `streamGenerateContent`.
///
/// Cheap to clone. Making one touches neither the network nor the file system.
///
/// # Cancel safety
///
/// Dropping a stream ends its request: a connection over HTTP/1 is closed, a stream of HTTP/2 is
/// reset. A stream that was read to its end leaves its connection open for the next request.
#[derive(Clone)]
pub struct GeminiModel {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    target: Target,
    transport: Transport,
    level_warned: AtomicBool,
}

impl GeminiModel {
    /// A model on the transport that the process shares.
    ///
    /// # Errors
    ///
    /// [`Error`] names the setting that no request can be built from.
    pub fn new(config: &GeminiConfig) -> Result<Self, Error> {
        Self::with_transport(config, Transport::shared())
    }

    /// A model on a transport of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`GeminiModel::new`].
    pub fn with_transport(config: &GeminiConfig, transport: Transport) -> Result<Self, Error> {
        Ok(Self {
            shared: Arc::new(Shared {
                name: config.model.clone(),
                target: Target::new(config)?,
                transport,
                level_warned: AtomicBool::new(false),
            }),
        })
    }
}

impl fmt::Debug for GeminiModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeminiModel")
            .field("name", &self.shared.name)
            .field("host", &self.shared.target.peer.host)
            .finish_non_exhaustive()
    }
}

impl Model for GeminiModel {
    fn stream(&self, request: ModelRequest) -> ModelStream {
        let start = Step::Ask(Arc::clone(&self.shared), request);
        stream::unfold(start, next).boxed()
    }

    fn name(&self) -> &str {
        &self.shared.name
    }
}

/// Where a stream is.
enum Step {
    Ask(Arc<Shared>, ModelRequest),
    Read(Box<Answer>),
    Done,
}

async fn next(step: Step) -> Option<(Result<ModelEvent, ModelError>, Step)> {
    let mut answer = match step {
        Step::Ask(shared, request) => match shared.ask(&request).await {
            Ok(answer) => Box::new(answer),
            Err(error) => return Some((Err(error), Step::Done)),
        },
        Step::Read(answer) => answer,
        Step::Done => return None,
    };
    let event = answer.next().await?;
    Some((event, Step::Read(answer)))
}

impl Shared {
    async fn ask(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let peer = &self.target.peer;
        let config = |what: &str, cause: &str| {
            let message = format!("{what} for {}: {cause}", peer.host);
            peer.error(ModelErrorKind::Config, &message)
        };
        if request.options.thinking_level.is_some()
            && !takes_thinking_level(&self.name)
            && !self.level_warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(model = self.name, "takes no thinking level; it is not sent");
        }
        let body = encode(request, self.target.service, &self.name)
            .map_err(|error| config("no request can be built", &error.to_string()))?;
        let frames = Frames::new(request);
        let client = self.transport.client(self.target.reach).await;
        let client = client.map_err(|cause| config("TLS cannot be set up", &cause))?;
        tracing::debug!(
            host = peer.host,
            model = self.name,
            bytes = body.len(),
            "asking"
        );

        let mut http = Request::new(Method::POST, self.target.url.clone());
        http.headers_mut().clone_from(&self.target.headers);
        *http.body_mut() = Some(body.into());
        let response = client.execute(http).await.map_err(|error| {
            let message = format!("no answer from {}: {}", peer.host, deepest(&error));
            peer.error(ModelErrorKind::Connect, &message)
        })?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response).await);
        }
        let header = response.headers().get(CONTENT_TYPE);
        let content_type = header
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let body = response
            .bytes_stream()
            .map(|chunk| chunk.map_err(|error| deepest(&error)));
        Ok(Answer::new(
            body.boxed(),
            content_type,
            peer.clone(),
            frames,
        ))
    }

    async fn refused(&self, mut response: Response) -> ModelError {
        let code = response.status().as_u16();
        let header = response.headers().get(RETRY_AFTER).cloned();
        let mut body = Vec::new();
        // A body that breaks off is shown as far as it came.
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = MAX_ERROR_BODY_BYTES.saturating_sub(body.len());
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
        failure::from_response(
            &self.target.peer,
            code,
            header.as_ref().and_then(|value| value.to_str().ok()),
            &body,
            SystemTime::now(),
        )
    }
}
