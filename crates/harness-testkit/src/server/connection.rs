//! As much HTTP/1.1 as a client of a model needs: requests with a length or in chunks, answers
//! with a length or in chunks, connections that stay open.

use std::future::Future;
use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The longest request head, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// The longest request body, in bytes.
const MAX_BODY: usize = 256 * 1024 * 1024;
/// So much is written at once when there is no reason to wait.
const WRITE_SIZE: usize = 64 * 1024;

pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl HttpRequest {
    fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    pub(crate) fn keeps_alive(&self) -> bool {
        !self
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

pub(crate) fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

pub(crate) struct Connection {
    reader: OwnedReadHalf,
    inbox: BytesMut,
    writer: OwnedWriteHalf,
    outbox: BytesMut,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        Ok(Self {
            reader,
            inbox: BytesMut::new(),
            writer,
            outbox: BytesMut::new(),
        })
    }

    /// Reads the next request; `None` when the client has closed the connection between two.
    pub(crate) async fn request(&mut self) -> io::Result<Option<HttpRequest>> {
        let head_len = loop {
            if let Some(at) = find(&self.inbox, b"\r\n\r\n") {
                break at;
            }
            if self.inbox.len() > MAX_HEAD {
                return Err(bad("the request head is too long"));
            }
            if self.reader.read_buf(&mut self.inbox).await? == 0 {
                if self.inbox.is_empty() {
                    return Ok(None);
                }
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let head = self.inbox.split_to(head_len);
        self.inbox.advance(4);
        let mut request = parse_head(&head)?;
        let chunked = request
            .header("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        request.body = if chunked {
            self.chunked_body().await?
        } else {
            let len = match request.header("content-length") {
                Some(text) => text
                    .parse()
                    .map_err(|_| bad("the content-length is no number"))?,
                None => 0,
            };
            self.take(len).await?.freeze()
        };
        Ok(Some(request))
    }

    async fn chunked_body(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let line_len = loop {
                if let Some(at) = find(&self.inbox, b"\r\n") {
                    break at;
                }
                self.fill().await?;
            };
            let line = self.inbox.split_to(line_len);
            self.inbox.advance(2);
            let size = std::str::from_utf8(&line).unwrap_or_default();
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| bad("a bad chunk size"))?;
            if size > MAX_BODY - body.len() {
                return Err(bad("the request body is too long"));
            }
            let chunk = self.take(size).await?;
            self.take(2).await?;
            if size == 0 {
                return Ok(body.freeze());
            }
            body.extend_from_slice(&chunk);
        }
    }

    async fn take(&mut self, len: usize) -> io::Result<BytesMut> {
        if len > MAX_BODY {
            return Err(bad("the request body is too long"));
        }
        while self.inbox.len() < len {
            self.fill().await?;
        }
        Ok(self.inbox.split_to(len))
    }

    async fn fill(&mut self) -> io::Result<()> {
        match self.reader.read_buf(&mut self.inbox).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Queues bytes as they are.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.outbox.extend_from_slice(bytes);
    }

    /// Queues one HTTP chunk, and writes when much is queued.
    pub(crate) async fn put_chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        // A chunk of no bytes would end the body.
        if !bytes.is_empty() {
            self.put(format!("{:x}\r\n", bytes.len()).as_bytes());
            self.put(bytes);
            self.put(b"\r\n");
        }
        if self.outbox.len() >= WRITE_SIZE {
            self.flush().await?;
        }
        Ok(())
    }

    /// Writes what is queued.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.writer.write_all_buf(&mut self.outbox).await
    }

    /// Writes what is queued, then waits; an error when the client goes away meanwhile.
    pub(crate) async fn wait(&mut self, until: impl Future<Output = ()>) -> io::Result<()> {
        self.flush().await?;
        let gone = async {
            // What a client sends ahead is kept for the next request.
            while self.inbox.len() <= MAX_HEAD {
                if !matches!(self.reader.read_buf(&mut self.inbox).await, Ok(1..)) {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = until => Ok(()),
            () = gone => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

fn parse_head(head: &[u8]) -> io::Result<HttpRequest> {
    let head = std::str::from_utf8(head).map_err(|_| bad("the request head is not UTF-8"))?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1")) = (words.next(), words.next(), words.next())
    else {
        return Err(bad("the request line is not one of HTTP/1.1"));
    };
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| bad("a header without `:`"))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(HttpRequest {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        body: Bytes::new(),
    })
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes
        .windows(pattern.len())
        .position(|window| window == pattern)
}

fn bad(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
