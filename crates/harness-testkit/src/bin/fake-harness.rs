//! A harness of a few lines: the handshake, the key, and one conversation a connection that
//! answers every user input with its text. `--refuse` makes it fail before it listens.

use std::io;

use futures_util::{SinkExt as _, StreamExt as _};
use harness_framing::FrameCodec;
use harness_proto::localharness::{InputConfig, OutputConfig};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

/// Nothing is behind it, so it need not be a secret.
const KEY: &str = "0123456789abcdef0123456789abcdef";
const CASCADE: &str = "00000000000000000000000000000001";

fn main() -> io::Result<()> {
    if std::env::args().any(|arg| arg == "--refuse") {
        return Err(io::Error::other("told to refuse"));
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run())
}

async fn run() -> io::Result<()> {
    let codec = FrameCodec::default();
    // The one message is all that is read before the answer, so blocking harms nobody.
    let input = codec
        .read_frame(io::stdin().lock())
        .map_err(io::Error::other)?;
    let input = InputConfig::decode(input.unwrap_or_default())?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let output = OutputConfig {
        port: Some(listener.local_addr()?.port().into()),
        api_key: Some(KEY.into()),
    };
    codec
        .write_frame(io::stdout().lock(), &output.encode_to_vec())
        .map_err(io::Error::other)?;
    let client = input.client_info.unwrap_or_default();
    log(&format!(
        "client {} {}",
        client.language.unwrap_or_default(),
        client.version.unwrap_or_default()
    ));
    tokio::select! {
        served = serve(listener) => served,
        ended = stdin_end() => ended,
    }
}

fn log(line: &str) {
    use io::Write as _;
    // Nobody can be told when stderr is gone.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Ends when the client closes standard input.
async fn stdin_end() -> io::Result<()> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = sender.send(io::copy(&mut io::stdin().lock(), &mut io::sink()));
    });
    let _ = receiver.await;
    log("stdin closed");
    Ok(())
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            match converse(stream).await {
                Ok(()) => log("connection closed"),
                Err(error) => log(&format!("connection failed: {error}")),
            }
        });
    }
}

// The shape of the callback is the library's.
#[expect(
    clippy::result_large_err,
    reason = "the library's callback returns this type"
)]
fn check_key(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
    let key = request.headers().get("x-goog-api-key");
    if key.is_some_and(|key| key == KEY) {
        return Ok(response);
    }
    let mut refusal = ErrorResponse::new(Some("Unauthorized\n".to_owned()));
    *refusal.status_mut() = tokio_tungstenite::tungstenite::http::StatusCode::UNAUTHORIZED;
    Err(refusal)
}

async fn converse(stream: TcpStream) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, check_key).await?;
    let mut sequence = 0;
    while let Some(message) = socket.next().await {
        let text = match message? {
            Message::Text(text) => text,
            Message::Close(_) => break,
            _ => continue,
        };
        let Ok(message) = serde_json::from_str::<Value>(&text) else {
            log("not JSON");
            continue;
        };
        for mut event in answer(&message) {
            sequence += 1;
            event["seqNum"] = json!(sequence.to_string());
            socket.send(Message::text(event.to_string())).await?;
        }
    }
    Ok(())
}

fn answer(message: &Value) -> Vec<Value> {
    if message.get("config").is_some() {
        return vec![json!({ "initializeConversationResponse": { "cascadeId": CASCADE } })];
    }
    let state = |state: &str| json!({ "trajectoryStateUpdate": { "trajectoryId": CASCADE, "state": state } });
    let parts = message["userInput"]["parts"].as_array();
    let text: String = parts
        .into_iter()
        .flatten()
        .filter_map(|part| part["text"].as_str())
        .collect();
    vec![
        state("STATE_RUNNING"),
        json!({ "stepUpdate": {
            "trajectoryId": CASCADE,
            "stepIndex": 0,
            "state": "STATE_DONE",
            "source": "SOURCE_MODEL",
            "target": "TARGET_USER",
            "text": text,
            "textDelta": text,
        } }),
        state("STATE_FULLY_IDLE"),
    ]
}
