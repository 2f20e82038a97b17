//! A server that plays raw bytes and shows what it was sent.

use std::net::SocketAddr;

use futures_util::StreamExt as _;
use harness_gemini::{GeminiConfig, GeminiModel, Transport};
use harness_types::{
    GenerationOptions, Input, InputPart, Message, Model as _, ModelError, ModelEvent, ModelPart,
    ModelRequest,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const OK: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

pub(crate) type Event = Result<ModelEvent, ModelError>;

pub(crate) struct Server {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

/// A request as it came over the wire.
pub(crate) struct Received {
    /// The request line and the headers, in lower case.
    pub(crate) head: String,
    /// The request line as it was.
    pub(crate) line: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1);
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Server {
    pub(crate) async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub(crate) fn config(&self) -> GeminiConfig {
        GeminiConfig::new("gemini-x").base_url(format!("http://{}", self.address))
    }

    pub(crate) fn model(&self) -> GeminiModel {
        GeminiModel::with_transport(&self.config(), Transport::new()).unwrap()
    }

    pub(crate) async fn accept(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    /// Takes one request on a new connection and leaves the connection open.
    pub(crate) async fn request(&self) -> (TcpStream, Received) {
        let mut socket = self.accept().await;
        let received = receive(&mut socket).await;
        (socket, received)
    }

    /// Answers one request with `bytes` and closes.
    pub(crate) async fn answer(&self, bytes: &[u8]) -> Received {
        let (mut socket, received) = self.request().await;
        socket.write_all(bytes).await.unwrap();
        socket.shutdown().await.unwrap();
        received
    }
}

pub(crate) async fn receive(socket: &mut TcpStream) -> Received {
    let mut bytes = Vec::new();
    let split = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0, "no request");
    };
    let original = String::from_utf8(bytes[..split].to_vec()).unwrap();
    let mut received = Received {
        head: original.to_lowercase(),
        line: original.lines().next().unwrap().to_owned(),
        body: bytes.split_off(split + 4),
    };
    let length: usize = received.header("content-length").unwrap().parse().unwrap();
    while received.body.len() < length {
        let read = socket.read_buf(&mut received.body).await.unwrap();
        assert_ne!(read, 0, "half a request");
    }
    received
}

pub(crate) fn hello() -> ModelRequest {
    ModelRequest {
        conversation: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        system: "Be brief.".into(),
        tools: [].into(),
        messages: vec![Message::Input(Input::user([InputPart::text("hi")]))],
        options: GenerationOptions::default(),
    }
}

/// All events of the answer to `hello`.
pub(crate) async fn ask(model: &GeminiModel) -> Vec<Event> {
    model.stream(hello()).collect().await
}

/// All events of an answer of these bytes.
pub(crate) async fn play(bytes: &[u8]) -> Vec<Event> {
    let server = Server::bind().await;
    let model = server.model();
    let (events, _) = tokio::join!(ask(&model), server.answer(bytes));
    events
}

pub(crate) fn text(text: &str) -> Event {
    Ok(ModelEvent::Part(ModelPart::Text {
        text: text.to_owned(),
        signature: None,
    }))
}

/// A frame that says `text`.
pub(crate) fn frame(text: &str) -> String {
    let text = serde_json::Value::from(text);
    format!(r#"data: {{"candidates":[{{"content":{{"parts":[{{"text":{text}}}]}}}}]}}"#)
}

pub(crate) const STOP: &str = r#"data: {"candidates":[{"finishReason":"STOP"}]}"#;
