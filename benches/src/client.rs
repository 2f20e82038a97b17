//! The SDK's end of the wire, as light as can be: long events are counted and not looked into.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use harness_testkit::WireProcess;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// The events that are looked into are shorter than this, in bytes.
const SHORT: usize = 4096;

/// A conversation that has been initialised.
pub(crate) struct Client {
    socket: WebSocketStream<TcpStream>,
    received_bytes: u64,
}

/// What the driver wants to know of what the harness sent.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// The conversation is fully idle.
    Idle,
    /// A host tool is called.
    ToolCall {
        id: String,
    },
    Pong,
    /// Anything else.
    Other,
}

impl Client {
    /// Opens a conversation: a WebSocket, the first message, its answer.
    pub(crate) async fn open(process: &WireProcess, config: &Value) -> anyhow::Result<Self> {
        let mut request = format!("ws://127.0.0.1:{}/", process.port()).into_client_request()?;
        let key = HeaderValue::from_str(process.key())?;
        request.headers_mut().insert("x-goog-api-key", key);
        let stream = TcpStream::connect(("127.0.0.1", process.port())).await?;
        stream.set_nodelay(true)?;
        let limits = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let (socket, _) = client_async_with_config(request, stream, Some(limits)).await?;
        let mut client = Self {
            socket,
            received_bytes: 0,
        };
        client.send(&json!({ "config": config })).await?;
        let answer = client.message().await.context("initialising")?;
        match answer {
            Message::Text(text) if text.contains("initializeConversationResponse") => Ok(client),
            other => bail!("the answer to the first message is {other}"),
        }
    }

    /// Sends an event.
    pub(crate) async fn send(&mut self, event: &Value) -> anyhow::Result<()> {
        let text = event.to_string();
        Ok(self.socket.send(Message::text(text)).await?)
    }

    /// Sends what a user said.
    pub(crate) async fn say(&mut self, text: &str) -> anyhow::Result<()> {
        let input = json!({"userInput": {"parts": [{"text": text}]}});
        self.send(&input).await
    }

    /// The next event. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Event> {
        match self.message().await? {
            Message::Text(text) => read(&text),
            Message::Pong(_) => Ok(Event::Pong),
            _ => Ok(Event::Other),
        }
    }

    async fn message(&mut self) -> anyhow::Result<Message> {
        let message = self.socket.next().await;
        let message = message.ok_or_else(|| anyhow!("the connection was closed"))??;
        match &message {
            Message::Close(frame) => bail!("the connection was closed: {frame:?}"),
            Message::Text(text) => self.received_bytes += text.len() as u64,
            _ => {}
        }
        Ok(message)
    }

    /// Waits until the conversation is fully idle, and says when that was.
    pub(crate) async fn idle(&mut self) -> anyhow::Result<Instant> {
        while self.next().await? != Event::Idle {}
        Ok(Instant::now())
    }

    /// Sends a ping and returns how long its answer took, and whether the conversation has become
    /// idle meanwhile.
    pub(crate) async fn ping(&mut self) -> anyhow::Result<(Duration, bool)> {
        let start = Instant::now();
        let ping = Message::Ping(Bytes::from_static(b"ping"));
        self.socket.send(ping).await?;
        let mut idle = false;
        loop {
            match self.next().await? {
                Event::Pong => return Ok((start.elapsed(), idle)),
                Event::Idle => idle = true,
                Event::ToolCall { .. } | Event::Other => {}
            }
        }
    }

    /// How many bytes of events have come so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }
}

fn read(text: &str) -> anyhow::Result<Event> {
    let wanted = ["trajectoryStateUpdate", "toolCall"];
    if text.len() > SHORT || !wanted.iter().any(|name| text.contains(name)) {
        return Ok(Event::Other);
    }
    let event: Value = serde_json::from_str(text)?;
    let state = &event["trajectoryStateUpdate"];
    if let Some(error) = state["error"].as_str().filter(|error| !error.is_empty()) {
        bail!("the turn failed: {error}");
    }
    if state["state"] == "STATE_FULLY_IDLE" {
        return Ok(Event::Idle);
    }
    Ok(match event["toolCall"]["id"].as_str() {
        Some(id) => Event::ToolCall { id: id.to_owned() },
        None => Event::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart() {
        let state = |state: &str| format!(r#"{{"trajectoryStateUpdate": {{"state": "{state}"}}}}"#);
        assert_eq!(read(&state("STATE_FULLY_IDLE")).unwrap(), Event::Idle);
        assert_eq!(read(&state("STATE_RUNNING")).unwrap(), Event::Other);
        let call = r#"{"toolCall":{"id":"7","name":"wait"}}"#;
        assert_eq!(read(call).unwrap(), Event::ToolCall { id: "7".into() });
        let step = r#"{"stepUpdate":{"customTool":{"toolCall":{"id":"7"}}}}"#;
        assert_eq!(read(step).unwrap(), Event::Other);
        let failed = r#"{"trajectoryStateUpdate":{"state":"STATE_FULLY_IDLE","error":"no"}}"#;
        assert_eq!(read(failed).unwrap_err().to_string(), "the turn failed: no");
    }
}
