//! From a port and a key to a WebSocket.

use std::time::Duration;

use harness_proto::localharness::InputConfig;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Error as WsError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::error::ConnectError;
use crate::handshake::Address;
use crate::{Error, Limits, stderr::Stderr};

/// How often the hosts are tried.
const ATTEMPTS: u32 = 5;

/// The pause after the first attempt; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The header the key travels in.
const KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// The hosts to try. SDKs up to 0.1.6 know `localhost` only, later ones fall back to 127.0.0.1.
pub(crate) fn hosts(input: &InputConfig) -> Vec<String> {
    match input.bind_address() {
        // "Everywhere" and the default include loopback.
        "" | "0.0.0.0" | "::" | "[::]" | "localhost" => {
            vec!["localhost".into(), "127.0.0.1".into()]
        }
        address => vec![address.trim_matches(['[', ']']).to_owned()],
    }
}

/// Connects, five times if it must be: a harness may announce its port before it listens.
pub(crate) async fn connect(
    hosts: &[String],
    address: &Address,
    limits: &Limits,
    stderr: &Stderr,
) -> Result<Socket, Error> {
    let mut attempts = 0;
    let mut pause = FIRST_PAUSE;
    let problem = loop {
        attempts += 1;
        let problem = match attempt(hosts, address, limits).await {
            Ok(socket) => return Ok(socket),
            Err(problem) => problem,
        };
        if attempts == ATTEMPTS || !problem.is_retryable() {
            break problem;
        }
        sleep(pause).await;
        pause *= 2;
    };
    Err(Error::Connect {
        port: address.port,
        attempts,
        source: problem,
        stderr: stderr.last_words().await,
    })
}

/// Tries each host once.
async fn attempt(
    hosts: &[String],
    address: &Address,
    limits: &Limits,
) -> Result<Socket, ConnectError> {
    let mut problem = ConnectError::Io(std::io::ErrorKind::AddrNotAvailable.into());
    for host in hosts {
        let connected = timeout(limits.connect, open(host, address, limits)).await;
        match connected.unwrap_or(Err(ConnectError::Timeout(limits.connect))) {
            Ok(socket) => return Ok(socket),
            // Somebody else may listen on the other loopback address, so the next is tried, but
            // an answer says more than none.
            Err(_) if matches!(problem, ConnectError::Status { .. }) => {}
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

async fn open(host: &str, address: &Address, limits: &Limits) -> Result<Socket, ConnectError> {
    let stream = TcpStream::connect((host, address.port))
        .await
        .map_err(ConnectError::Io)?;
    // Messages are small and wait for answers.
    stream.set_nodelay(true).map_err(ConnectError::Io)?;

    let name = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let mut request = format!("ws://{name}:{}/", address.port)
        .into_client_request()
        .map_err(protocol)?;
    let mut key = HeaderValue::from_str(address.key.expose()).map_err(protocol)?;
    key.set_sensitive(true);
    request.headers_mut().insert(KEY_HEADER, key);

    let size = limits.max_message_bytes;
    let config = WebSocketConfig::default()
        .max_message_size(Some(size))
        .max_frame_size(Some(size))
        // Each message is flushed before the next is taken, so one has to fit.
        .max_write_buffer_size(size.saturating_add(1024 * 1024));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(WsError::Http(response)) => Err(ConnectError::Status {
            status: response.status().as_u16(),
        }),
        Err(WsError::Io(error)) => Err(ConnectError::Io(error)),
        Err(other) => Err(protocol(other)),
    }
}

fn protocol(error: impl std::error::Error + Send + Sync + 'static) -> ConnectError {
    ConnectError::Protocol(Box::new(error))
}
