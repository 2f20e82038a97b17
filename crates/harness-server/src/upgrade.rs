//! From a TCP connection to a WebSocket: who may come in is decided before the upgrade.
//!
//! 401 for a missing or wrong key, 403 for anything that a browser sent, 400 for what is no
//! WebSocket request. The key travels in the header `x-goog-api-key` and nowhere else.

use harness_types::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::limits;

/// Most headers a client sends about 10.
const MAX_HEADERS: usize = 64;

/// Answers an HTTP request; a WebSocket when it asked for one and may have it.
pub(crate) async fn upgrade(
    mut stream: TcpStream,
    key: &Secret,
) -> Result<WebSocketStream<TcpStream>, Refused> {
    let mut head = Vec::with_capacity(1024);
    let read = tokio::time::timeout(limits::REQUEST_HEAD_TIME, read_head(&mut stream, &mut head));
    let end = match read.await {
        Ok(Ok(Some(end))) => end,
        Ok(Ok(None)) => return refuse(stream, Refused::TooLong).await,
        Ok(Err(error)) => return Err(Refused::Io(error)),
        Err(_) => return refuse(stream, Refused::TooSlow).await,
    };
    let accept = match check(&head[..end], key) {
        Ok(accept) => accept,
        Err(refused) => return refuse(stream, refused).await,
    };
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream
        .write_all(answer.as_bytes())
        .await
        .map_err(Refused::Io)?;
    let rest = head.split_off(end);
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits::MESSAGE_BYTES))
        .max_frame_size(Some(limits::MESSAGE_BYTES))
        // One message at a time is handed over and flushed, so the buffer holds one message.
        .write_buffer_size(32 * 1024)
        // Allocated for every connection, at once; longer messages make it grow.
        .read_buffer_size(8 * 1024)
        .max_write_buffer_size(usize::MAX);
    Ok(WebSocketStream::from_partially_read(stream, rest, Role::Server, Some(config)).await)
}

/// Reads until the empty line, and says where it ends.
async fn read_head(stream: &mut TcpStream, head: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
    loop {
        let looked = head.len().saturating_sub(3);
        if stream.read_buf(head).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let end = head[looked..]
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        if let Some(place) = end {
            return Ok(Some(looked + place + 4));
        }
        if head.len() > limits::REQUEST_HEAD_BYTES {
            return Ok(None);
        }
    }
}

/// Why a connection did not become a WebSocket.
#[derive(Debug)]
pub(crate) enum Refused {
    Io(std::io::Error),
    TooLong,
    TooSlow,
    NoKey,
    Origin(String),
    ForeignHost(String),
    Method,
    NoWebSocket(&'static str),
    Malformed,
}

impl Refused {
    fn status(&self) -> (&'static str, &'static str) {
        match self {
            Self::TooLong => ("431 Request Header Fields Too Large", ""),
            Self::Io(_) | Self::TooSlow => ("408 Request Timeout", ""),
            Self::NoKey => ("401 Unauthorized", ""),
            Self::Origin(_) | Self::ForeignHost(_) => ("403 Forbidden", ""),
            Self::Method => ("405 Method Not Allowed", "Allow: GET\r\n"),
            Self::NoWebSocket(_) | Self::Malformed => {
                ("400 Bad Request", "Sec-WebSocket-Version: 13\r\n")
            }
        }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the connection broke: {error}"),
            Self::TooLong => {
                write!(
                    f,
                    "the request head is longer than {} bytes",
                    limits::REQUEST_HEAD_BYTES
                )
            }
            Self::TooSlow => {
                write!(
                    f,
                    "no request within {} s",
                    limits::REQUEST_HEAD_TIME.as_secs()
                )
            }
            Self::NoKey => f.write_str("the x-goog-api-key header is missing or wrong"),
            Self::Origin(origin) => {
                write!(f, "requests of web pages are refused (origin {origin})")
            }
            Self::ForeignHost(host) => write!(f, "the Host header names another machine ({host})"),
            Self::Method => f.write_str("only GET is served"),
            Self::NoWebSocket(why) => write!(f, "no WebSocket request: {why}"),
            Self::Malformed => f.write_str("no HTTP request"),
        }
    }
}

async fn refuse<T>(mut stream: TcpStream, refused: Refused) -> Result<T, Refused> {
    let (status, headers) = refused.status();
    let body = format!("{refused}\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    Err(refused)
}

/// Checks a request head and computes the accept key of the answer.
fn check(head: &[u8], key: &Secret) -> Result<String, Refused> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) | Err(_) => return Err(Refused::Malformed),
    }
    let header = |name: &str| {
        request
            .headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case(name))
            .map(|h| h.value)
    };
    let text = |name: &str| header(name).map(String::from_utf8_lossy);
    let given = header("x-goog-api-key").unwrap_or_default();
    if !same(given, key.expose().as_bytes()) {
        return Err(Refused::NoKey);
    }
    // A browser cannot leave this header out; no other client sends it.
    if let Some(origin) = text("origin") {
        return Err(Refused::Origin(origin.into_owned()));
    }
    if request.method != Some("GET") {
        return Err(Refused::Method);
    }
    let lists = |name: &str, word: &str| {
        text(name).is_some_and(|value| {
            value
                .split(',')
                .any(|item| item.trim().eq_ignore_ascii_case(word))
        })
    };
    if !lists("connection", "upgrade") || !lists("upgrade", "websocket") {
        return Err(Refused::NoWebSocket(
            "it does not ask for an upgrade to websocket",
        ));
    }
    if text("sec-websocket-version").as_deref() != Some("13") {
        return Err(Refused::NoWebSocket("only version 13 is served"));
    }
    let challenge = header("sec-websocket-key")
        .filter(|value| value.len() == 24)
        .ok_or(Refused::NoWebSocket("it has no usable Sec-WebSocket-Key"))?;
    if let Some(host) = text("host").filter(|host| !is_plausible_host(host)) {
        return Err(Refused::ForeignHost(host.into_owned()));
    }
    Ok(derive_accept_key(challenge))
}

/// A name that is no address and not `localhost` may have been made to point here by somebody
/// else's DNS.
fn is_plausible_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

/// Compares in a time that depends on the length only.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len()
        && given
            .iter()
            .zip(wanted)
            .fold(0, |different, (a, b)| different | (a ^ b))
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(lines: &[&str]) -> Result<String, String> {
        let head = format!("{}\r\n\r\n", lines.join("\r\n"));
        check(head.as_bytes(), &Secret::new("0123456789abcdef"))
            .map_err(|r| r.status().0.to_owned())
    }

    const GOOD: [&str; 7] = [
        "GET /any/path HTTP/1.1",
        "Host: localhost:1234",
        "Upgrade: websocket",
        "Connection: keep-alive, Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "X-Goog-Api-Key: 0123456789abcdef",
    ];

    fn with(place: usize, line: &str) -> Result<String, String> {
        let mut lines = GOOD;
        lines[place] = line;
        ask(&lines)
    }

    #[test]
    fn a_good_request_is_accepted_on_any_path() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(ask(&GOOD), Ok("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned()));
    }

    #[test]
    fn f062_only_the_key_in_its_header_opens_the_door() {
        let unauthorized = Err("401 Unauthorized".to_owned());
        for line in [
            "X-Other: 1",
            "X-Goog-Api-Key: 0123456789abcdeX",
            "X-Goog-Api-Key: 0123456789abcde",
            "X-Goog-Api-Key:",
            "Authorization: Bearer 0123456789abcdef",
        ] {
            assert_eq!(with(6, line), unauthorized, "{line}");
        }
        assert_eq!(ask(&[&GOOD[..6], &["X: 1"]].concat()), unauthorized);
        // A page that knows the key is refused all the same.
        let page: Vec<&str> = GOOD
            .iter()
            .copied()
            .chain(["Origin: https://evil.example"])
            .collect();
        assert_eq!(ask(&page), Err("403 Forbidden".to_owned()));
        assert_eq!(
            with(1, "Host: evil.example"),
            Err("403 Forbidden".to_owned())
        );
        assert!(with(1, "Host: [::1]:80").is_ok());
        assert!(with(1, "Host: 127.0.0.1:80").is_ok());
    }

    #[test]
    fn what_is_no_websocket_request_is_named() {
        assert_eq!(
            with(0, "POST / HTTP/1.1"),
            Err("405 Method Not Allowed".to_owned())
        );
        for (place, line) in [
            (2, "Upgrade: h2c"),
            (3, "Connection: close"),
            (4, "Sec-WebSocket-Version: 12"),
            (5, "Sec-WebSocket-Key: short"),
        ] {
            assert_eq!(
                with(place, line),
                Err("400 Bad Request".to_owned()),
                "{line}"
            );
        }
        assert_eq!(ask(&["nonsense"]), Err("400 Bad Request".to_owned()));
    }
}
