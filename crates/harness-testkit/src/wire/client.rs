use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::{DEADLINE, Error};

/// So many of the last events are shown when a wait fails.
const SHOWN_EVENTS: usize = 40;

/// A client of the wire that knows nothing but JSON.
///
/// It reads only when asked for an event: a client that is not asked is a stalled one. Every wait
/// ends after [`DEADLINE`], or what [`WireClient::with_deadline`] says, with an error that shows
/// the events so far.
pub struct WireClient {
    socket: WebSocketStream<TcpStream>,
    /// Texts that came while something else was waited for.
    ahead: VecDeque<Utf8Bytes>,
    events: Vec<Value>,
    deadline: Duration,
}

impl WireClient {
    /// Opens a WebSocket to a port of this machine, with these headers.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when the server answers with another status than 101, [`Error::Io`] when
    /// there is no connection, [`Error::WebSocket`] when the answer makes no sense.
    pub async fn connect(port: u16, headers: &[(&str, &str)]) -> Result<Self, Error> {
        Self::connect_to(port, "/", headers).await
    }

    /// Opens a WebSocket to a path of a port of this machine, with these headers.
    ///
    /// # Errors
    ///
    /// As [`WireClient::connect`].
    pub async fn connect_to(
        port: u16,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let mut request = format!("ws://127.0.0.1:{port}{path}").into_client_request()?;
        for (name, value) in headers {
            let bad = |error: String| Error::io("making a header")(std::io::Error::other(error));
            let name: HeaderName = name.parse().map_err(|e| bad(format!("{e}")))?;
            let value: HeaderValue = value.parse().map_err(|e| bad(format!("{e}")))?;
            request.headers_mut().append(name, value);
        }
        let connected = TcpStream::connect(("127.0.0.1", port)).await;
        let stream = connected.map_err(Error::io(format!("connecting to port {port}")))?;
        stream
            .set_nodelay(true)
            .map_err(Error::io("setting TCP_NODELAY"))?;
        // A test has to see what a server sends, not refuse it for its size.
        let config = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let opening = client_async_with_config(request, stream, Some(config));
        let (socket, _) = within(DEADLINE, "the WebSocket handshake", opening).await??;
        Ok(Self {
            socket,
            ahead: VecDeque::new(),
            events: Vec::new(),
            deadline: DEADLINE,
        })
    }

    /// The same client with another deadline for each wait.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sends a JSON message.
    ///
    /// # Errors
    ///
    /// [`Error::WebSocket`] when the connection is gone, [`Error::Deadline`] when the server does
    /// not read.
    pub async fn send(&mut self, message: &Value) -> Result<(), Error> {
        self.send_text(message.to_string()).await
    }

    /// Sends any text.
    ///
    /// # Errors
    ///
    /// As [`WireClient::send`].
    pub async fn send_text(&mut self, text: impl Into<String>) -> Result<(), Error> {
        self.send_message(Message::text(text.into())).await
    }

    /// Sends a binary message.
    ///
    /// # Errors
    ///
    /// As [`WireClient::send`].
    pub async fn send_binary(&mut self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        self.send_message(Message::binary(bytes)).await
    }

    async fn send_message(&mut self, message: Message) -> Result<(), Error> {
        let sending = self.socket.send(message);
        within(self.deadline, "sending a message", sending).await??;
        Ok(())
    }

    /// Writes bytes on the connection, past the WebSocket: for frames no client should send.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the connection is gone.
    pub async fn send_raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let stream = self.socket.get_mut();
        stream
            .write_all(bytes)
            .await
            .map_err(Error::io("writing raw bytes"))
    }

    /// The next event.
    ///
    /// # Cancel safety
    ///
    /// No event is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when there is none, [`Error::Deadline`] when none comes in time,
    /// [`Error::WebSocket`] when what comes is neither JSON text nor a control frame.
    pub async fn next_event(&mut self) -> Result<Value, Error> {
        self.read("an event").await
    }

    async fn read(&mut self, what: &str) -> Result<Value, Error> {
        let (socket, ahead) = (&mut self.socket, &mut self.ahead);
        let reading = async {
            if let Some(text) = ahead.pop_front() {
                return Ok(Ok(text));
            }
            loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => return Ok(Ok(text)),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Close(Some(frame)))) => {
                        return Ok(Err(format!("code {}, {:?}", frame.code, &*frame.reason)));
                    }
                    Some(Ok(Message::Close(None))) => {
                        return Ok(Err("an empty close frame".to_owned()));
                    }
                    Some(Ok(other)) => {
                        let problem = format!("not a text message: {other:?}");
                        let data = std::io::Error::new(std::io::ErrorKind::InvalidData, problem);
                        return Err(Error::io("reading an event")(data));
                    }
                    Some(Err(error)) if is_abort(&error) => {
                        return Ok(Err("no close frame".to_owned()));
                    }
                    Some(Err(error)) => return Err(Error::from(error)),
                    None => return Ok(Err("no close frame".to_owned())),
                }
            }
        };
        let read = tokio::time::timeout(self.deadline, reading).await;
        let text = match read {
            Err(_) => {
                return Err(Error::Deadline {
                    what: what.to_owned(),
                    after: self.deadline,
                    so_far: self.so_far(),
                });
            }
            Ok(Err(error)) => return Err(error),
            Ok(Ok(Err(close))) => {
                return Err(Error::Closed {
                    what: what.to_owned(),
                    close,
                    so_far: self.so_far(),
                });
            }
            Ok(Ok(Ok(text))) => text,
        };
        let event: Value = serde_json::from_str(&text)
            .map_err(|error| Error::io(format!("reading {text:?} as JSON"))(error.into()))?;
        self.events.push(event.clone());
        Ok(event)
    }

    /// Reads events up to the first that `wanted` accepts, and returns all of them.
    ///
    /// # Errors
    ///
    /// As [`WireClient::next_event`]; the deadline is for each event.
    pub async fn until(
        &mut self,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>, Error> {
        let mut events = Vec::new();
        loop {
            let event = self.read(what).await?;
            let found = wanted(&event);
            events.push(event);
            if found {
                return Ok(events);
            }
        }
    }

    /// Reads events up to the one that says that the conversation is fully idle.
    ///
    /// # Errors
    ///
    /// As [`WireClient::until`].
    pub async fn until_idle(&mut self) -> Result<Vec<Value>, Error> {
        self.until("STATE_FULLY_IDLE", is_idle).await
    }

    /// Reads events until the connection is closed, and returns them with how it was closed: code
    /// and reason of the close frame, or `no close frame`.
    ///
    /// # Errors
    ///
    /// As [`WireClient::next_event`], but for the close.
    pub async fn until_closed(&mut self) -> Result<(Vec<Value>, String), Error> {
        let mut events = Vec::new();
        loop {
            match self.read("the end of the connection").await {
                Ok(event) => events.push(event),
                Err(Error::Closed { close, .. }) => return Ok((events, close)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Every event read so far.
    pub fn events(&self) -> &[Value] {
        &self.events
    }

    /// Sends a ping and waits for its answer; returns how long that took. Events that come
    /// first are kept for [`WireClient::next_event`].
    ///
    /// # Errors
    ///
    /// As [`WireClient::next_event`].
    pub async fn ping(&mut self) -> Result<Duration, Error> {
        let start = std::time::Instant::now();
        self.send_message(Message::Ping(Bytes::from_static(b"ping")))
            .await?;
        let (socket, ahead) = (&mut self.socket, &mut self.ahead);
        let pong = async {
            loop {
                match socket.next().await {
                    Some(Ok(Message::Pong(_))) => return Ok(()),
                    Some(Ok(Message::Text(text))) => ahead.push_back(text),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(Error::from(error)),
                    None => {
                        return Err(Error::Closed {
                            what: "a pong".into(),
                            close: "no close frame".into(),
                            so_far: String::new(),
                        });
                    }
                }
            }
        };
        within(self.deadline, "a pong", pong).await??;
        Ok(start.elapsed())
    }

    /// Closes the WebSocket properly and waits for the server to agree.
    ///
    /// # Errors
    ///
    /// [`Error::WebSocket`] when the connection is gone, [`Error::Deadline`] when the server does
    /// not answer.
    pub async fn close(mut self) -> Result<(), Error> {
        let closing = async {
            self.socket.close(None).await?;
            while let Some(Ok(_)) = self.socket.next().await {}
            Ok(())
        };
        within(self.deadline, "the close", closing).await?
    }

    /// Ends the TCP connection with a reset, as a client that crashed may.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system refuses.
    pub fn abort(self) -> Result<(), Error> {
        let reset = self.socket.get_ref().set_zero_linger();
        reset.map_err(Error::io("asking for a reset"))
    }

    fn so_far(&self) -> String {
        let skipped = self.events.len().saturating_sub(SHOWN_EVENTS);
        let mut text = format!("{} events so far", self.events.len());
        for event in &self.events[skipped..] {
            // Enough of a long one to recognise it.
            let shown: String = event.to_string().chars().take(300).collect();
            text.push_str("\n  ");
            text.push_str(&shown);
        }
        text
    }
}

impl fmt::Debug for WireClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireClient")
            .field("events", &self.events.len())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Whether an event says that the conversation is fully idle.
pub fn is_idle(event: &Value) -> bool {
    event["trajectoryStateUpdate"]["state"] == "STATE_FULLY_IDLE"
}

fn is_abort(error: &tokio_tungstenite::tungstenite::Error) -> bool {
    use std::io::ErrorKind;
    use tokio_tungstenite::tungstenite::Error as Ws;
    use tokio_tungstenite::tungstenite::error::ProtocolError;
    match error {
        Ws::ConnectionClosed
        | Ws::AlreadyClosed
        | Ws::Protocol(ProtocolError::ResetWithoutClosingHandshake) => true,
        Ws::Io(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::UnexpectedEof
        ),
        _ => false,
    }
}

async fn within<T>(
    deadline: Duration,
    what: &str,
    future: impl Future<Output = T>,
) -> Result<T, Error> {
    tokio::time::timeout(deadline, future)
        .await
        .map_err(|_| Error::Deadline {
            what: what.to_owned(),
            after: deadline,
            so_far: "nothing came".into(),
        })
}
