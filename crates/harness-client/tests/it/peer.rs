//! The harness's end of the wire, in the hands of a test.

use std::future::Future;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use harness_client::{ConversationConfig, Endpoint, Handlers, Limits, Session};
use harness_proto::json::from_json;
use harness_proto::localharness::InputEvent;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Message, http::StatusCode};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

pub(crate) const KEY: &str = "0123456789abcdef";
pub(crate) const ROOT: &str = "00000000000000000000000000000001";

/// No test takes longer; what hangs fails instead.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, future)
        .await
        .expect("within the time limit of tests")
}

pub(crate) struct Listener {
    tcp: TcpListener,
}

impl Listener {
    pub(crate) async fn bind() -> Self {
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.tcp.local_addr().unwrap().port()
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::new("127.0.0.1", self.port(), KEY)
    }

    /// Accepts one connection; `None` when its key was wrong.
    pub(crate) async fn accept(&self) -> Option<Peer> {
        let (stream, _) = self.tcp.accept().await.unwrap();
        #[expect(clippy::result_large_err, reason = "the type is tungstenite's")]
        let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            if request
                .headers()
                .get("x-goog-api-key")
                .is_some_and(|it| it == KEY)
            {
                return Ok(response);
            }
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = StatusCode::UNAUTHORIZED;
            Err(refusal)
        };
        let socket = accept_hdr_async(stream, check).await.ok()?;
        Some(Peer { socket })
    }
}

pub(crate) struct Peer {
    socket: WebSocketStream<TcpStream>,
}

impl Peer {
    /// A session and its peer, after the configuration was confirmed.
    pub(crate) async fn open(handlers: Handlers) -> (Session, Self) {
        Self::open_with(handlers, Limits::default()).await
    }

    pub(crate) async fn open_with(handlers: Handlers, limits: Limits) -> (Session, Self) {
        let listener = Listener::bind().await;
        let endpoint = listener.endpoint();
        let opening = endpoint.session(ConversationConfig::default());
        let opening = opening.handlers(handlers).limits(limits).open();
        let accepting = async {
            let mut peer = listener.accept().await.unwrap();
            peer.confirm().await;
            peer
        };
        let (session, peer) = soon(async { tokio::join!(opening, accepting) }).await;
        (session.unwrap(), peer)
    }

    /// Takes the configuration and confirms it.
    pub(crate) async fn confirm(&mut self) -> Value {
        let config = self.receive_raw().await;
        self.send(json!({"initializeConversationResponse": {"cascadeId": ROOT}}))
            .await;
        config
    }

    /// The next message, which must be an input event that the wire knows.
    pub(crate) async fn receive(&mut self) -> Value {
        let message = self.receive_raw().await;
        let parsed = from_json::<InputEvent>(&message.to_string()).unwrap();
        assert!(parsed.unknown.is_empty(), "{message}");
        message
    }

    pub(crate) async fn receive_raw(&mut self) -> Value {
        match self.next().await {
            Message::Text(text) => serde_json::from_str(text.as_str()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The next frame of any kind.
    pub(crate) async fn next(&mut self) -> Message {
        soon(self.socket.next()).await.unwrap().unwrap()
    }

    pub(crate) async fn send(&mut self, event: Value) {
        self.send_message(Message::text(event.to_string())).await;
    }

    pub(crate) async fn send_message(&mut self, message: Message) {
        soon(self.socket.send(message)).await.unwrap();
    }

    /// Waits until the client has handled everything sent so far.
    pub(crate) async fn sync(&mut self) {
        self.send_message(Message::Ping("sync".into())).await;
        assert_eq!(self.next().await, Message::Pong("sync".into()));
    }

    pub(crate) async fn running(&mut self) {
        self.state(json!({"state": "STATE_RUNNING"})).await;
    }

    pub(crate) async fn idle(&mut self) {
        self.state(json!({"state": "STATE_FULLY_IDLE"})).await;
    }

    pub(crate) async fn state(&mut self, mut update: Value) {
        update["trajectoryId"] = ROOT.into();
        self.send(json!({ "trajectoryStateUpdate": update })).await;
    }

    pub(crate) async fn step(&mut self, index: u32, mut update: Value) {
        update["trajectoryId"] = ROOT.into();
        update["cascadeId"] = ROOT.into();
        update["stepIndex"] = index.into();
        self.send(json!({ "stepUpdate": update })).await;
    }

    /// Shows the user's input, as a harness does first.
    pub(crate) async fn echo(&mut self, index: u32) {
        let update = json!({
            "state": "STATE_DONE", "source": "SOURCE_USER", "target": "TARGET_MODEL",
        });
        self.step(index, update).await;
    }

    pub(crate) async fn answer(&mut self, index: u32, state: &str, text: &str, delta: &str) {
        let update = json!({
            "state": state, "source": "SOURCE_MODEL", "target": "TARGET_USER",
            "text": text, "textDelta": delta,
        });
        self.step(index, update).await;
    }

    /// A whole turn with one step of text.
    pub(crate) async fn turn(&mut self, index: u32, text: &str) {
        self.running().await;
        self.echo(index).await;
        self.answer(index + 1, "STATE_DONE", text, text).await;
        self.idle().await;
    }

    /// Closes the connection and waits for the client to agree.
    pub(crate) async fn close(mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame {
            code: code.into(),
            reason: reason.into(),
        };
        self.send_message(Message::Close(Some(frame))).await;
        while let Some(Ok(_)) = soon(self.socket.next()).await {}
    }

    /// Whether the client ends the connection with a good-bye.
    pub(crate) async fn said_good_bye(mut self) -> bool {
        let mut closed = false;
        while let Some(Ok(message)) = soon(self.socket.next()).await {
            closed |= message.is_close();
        }
        closed
    }
}

pub(crate) fn said(text: &str) -> Value {
    json!({"userInput": {"parts": [{"text": text}]}})
}
