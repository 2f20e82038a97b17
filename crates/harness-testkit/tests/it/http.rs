//! A client for the fake model: it reads one answer at a time and sees the HTTP chunks.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

pub(crate) struct Http(BufReader<TcpStream>);

#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<String>,
    /// The HTTP chunks, or the whole body as one.
    pub(crate) chunks: Vec<String>,
    /// Whether the body came to its end.
    pub(crate) whole: bool,
}

impl Answer {
    /// The JSON of every event, each of which has to be one chunk.
    pub(crate) fn events(&self) -> Vec<Value> {
        let event = |chunk: &String| {
            let data = chunk.strip_prefix("data: ").unwrap();
            serde_json::from_str(data.strip_suffix("\r\n\r\n").unwrap()).unwrap()
        };
        self.chunks.iter().map(event).collect()
    }

    /// The texts of all events, joined.
    pub(crate) fn text(&self) -> String {
        self.events()
            .iter()
            .filter_map(|e| e["candidates"][0]["content"]["parts"][0]["text"].as_str())
            .collect()
    }
}

pub(crate) fn hello() -> Value {
    json!({
        "systemInstruction": { "parts": [{ "text": "You are an assistant." }] },
        "contents": [{ "role": "user", "parts": [{ "text": "hello" }] }],
    })
}

impl Http {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).await.unwrap()))
    }

    pub(crate) async fn send(&mut self, base: &str, body: &Value) {
        let body = body.to_string();
        let request = format!(
            "POST {base}/v1beta/models/fake:streamGenerateContent?alt=sse HTTP/1.1\r\n\
             Host: x\r\nX-Goog-Api-Key: k\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.write(request.as_bytes()).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, base: &str, body: &Value) -> Answer {
        self.send(base, body).await;
        self.answer().await.unwrap()
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.0.read_line(&mut line).await.unwrap_or(0);
        (count > 0).then(|| line.trim_end_matches("\r\n").to_owned())
    }

    /// `None` when the server hangs up before the answer.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let mut answer = self.head().await?;
        let has = |header: &str| answer.headers.iter().any(|known| known == header);
        if !has("Transfer-Encoding: chunked") {
            let len = answer
                .headers
                .iter()
                .find_map(|h| h.strip_prefix("Content-Length: "));
            let mut body = vec![0; len.unwrap().parse().unwrap()];
            self.0.read_exact(&mut body).await.unwrap();
            answer.chunks.push(String::from_utf8(body).unwrap());
            answer.whole = true;
            return Some(answer);
        }
        while let Some(chunk) = self.chunk().await {
            if chunk.is_empty() {
                answer.whole = true;
                break;
            }
            answer.chunks.push(chunk);
        }
        Some(answer)
    }

    pub(crate) async fn head(&mut self) -> Option<Answer> {
        let first = self.line().await?;
        let mut headers = Vec::new();
        loop {
            match self.line().await?.as_str() {
                "" => break,
                header => headers.push(header.to_owned()),
            }
        }
        Some(Answer {
            status: first.split(' ').nth(1).unwrap().parse().unwrap(),
            headers,
            chunks: Vec::new(),
            whole: false,
        })
    }

    /// The next HTTP chunk, empty at the end of the body; `None` when the body breaks off.
    pub(crate) async fn chunk(&mut self) -> Option<String> {
        let size = usize::from_str_radix(&self.line().await?, 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.0.read_exact(&mut chunk).await.ok()?;
        chunk.truncate(size);
        Some(String::from_utf8(chunk).unwrap())
    }
}
