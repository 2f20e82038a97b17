//! A model that costs next to nothing: answers are rendered before the clock starts and written as
//! they are.
//!
//! The fake model of the tests checks every request and keeps it, which would be part of what is
//! measured here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// How long the model waits before the end of an answer whose end is timed, so that everything
/// before it is done with.
const SETTLE: Duration = Duration::from_millis(5);

/// The longest request head, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// A model server on a loopback port. It runs on the runtime it was started on and ends with the
/// value.
pub(crate) struct Model {
    url: String,
    shared: Arc<Mutex<State>>,
    task: AbortHandle,
}

#[derive(Default)]
struct State {
    script: VecDeque<Answer>,
    /// What is answered when the script has come to its end.
    otherwise: Option<Answer>,
    exchanges: Vec<Exchange>,
}

/// A request and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    /// When all of the request had arrived.
    pub(crate) asked_at: Instant,
    /// When the last bytes of the answer were handed to the system.
    pub(crate) ended_at: Option<Instant>,
    /// The body of the request.
    pub(crate) body: Bytes,
}

impl Model {
    /// Starts a model that has nothing to say yet.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::<Mutex<State>>::default();
        let task = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { url, shared, task })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Answers the next requests with these, in this order, and forgets the exchanges so far.
    pub(crate) fn script<'a>(&self, answers: impl IntoIterator<Item = &'a Answer>) {
        let mut state = lock(&self.shared);
        state.script = answers.into_iter().cloned().collect();
        state.exchanges.clear();
    }

    /// Answers every request that has no other answer with this.
    pub(crate) fn always(&self, answer: &Answer) {
        lock(&self.shared).otherwise = Some(answer.clone());
    }

    /// The exchanges since the script was given, which were to be so many.
    pub(crate) fn exchanges<const N: usize>(&self) -> anyhow::Result<[Exchange; N]> {
        let exchanges = std::mem::take(&mut lock(&self.shared).exchanges);
        exchanges
            .try_into()
            .map_err(|all: Vec<_>| anyhow::anyhow!("the model was asked {} times", all.len()))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer in Gemini form, ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// What is written at once, but for the end.
    writes: Arc<[Bytes]>,
    /// The end of the stream.
    end: Bytes,
    pause: Duration,
}

impl Answer {
    /// A short text; the end comes when the text has settled.
    pub(crate) fn text(text: &str) -> Self {
        Self {
            pause: SETTLE,
            ..Self::pieces([text])
        }
    }

    /// A text in these pieces, each one event, written as fast as they are taken.
    pub(crate) fn pieces<T: AsRef<str>>(pieces: impl IntoIterator<Item = T>) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        let pieces = pieces.into_iter().map(|text| {
            let parts = json!([{"text": text.as_ref()}]);
            event(&json!({"candidates": [content(&parts)]}))
        });
        let mut end = BytesMut::from(&event(&ending(&json!([{"text": ""}])))[..]);
        end.extend_from_slice(b"0\r\n\r\n");
        Self {
            writes: std::iter::once(Bytes::from_static(head.as_bytes()))
                .chain(pieces)
                .collect(),
            end: end.freeze(),
            pause: Duration::ZERO,
        }
    }

    /// These calls, in one event that is also the end.
    pub(crate) fn calls(calls: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let parts: Value = calls
            .into_iter()
            .map(|(name, args)| json!({"functionCall": {"name": name, "args": args}}))
            .collect();
        let mut end = BytesMut::from(&event(&ending(&parts))[..]);
        end.extend_from_slice(b"0\r\n\r\n");
        Self {
            end: end.freeze(),
            ..Self::pieces::<&str>([])
        }
    }
}

fn content(parts: &Value) -> Value {
    json!({"content": {"role": "model", "parts": parts}, "index": 0})
}

fn ending(parts: &Value) -> Value {
    let mut candidate = content(parts);
    candidate["finishReason"] = json!("STOP");
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": 1000,
            "candidatesTokenCount": 10,
            "totalTokenCount": 1010,
        },
    })
}

/// A server-sent event as one HTTP chunk.
fn event(event: &Value) -> Bytes {
    let event = format!("data: {event}\r\n\r\n");
    Bytes::from(format!("{:x}\r\n{event}\r\n", event.len()))
}

async fn accept(listener: TcpListener, shared: Arc<Mutex<State>>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A harness that goes away is noticed by whoever waits for it.
            let _ = serve(stream, &shared).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, shared: &Mutex<State>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut inbox = BytesMut::with_capacity(MAX_HEAD);
    while let Some(body) = read_request(&mut stream, &mut inbox).await? {
        let asked_at = Instant::now();
        let (index, answer) = {
            let mut state = lock(shared);
            state.exchanges.push(Exchange {
                asked_at,
                ended_at: None,
                body,
            });
            let answer = state.script.pop_front();
            let answer = answer.or_else(|| state.otherwise.clone());
            (state.exchanges.len() - 1, answer)
        };
        let Some(answer) = answer else {
            let refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 17\r\n\r\nnot in the script";
            stream.write_all(refusal.as_bytes()).await?;
            continue;
        };
        for bytes in answer.writes.iter() {
            stream.write_all(bytes).await?;
        }
        if !answer.pause.is_zero() {
            tokio::time::sleep(answer.pause).await;
        }
        let ended_at = Instant::now();
        stream.write_all(&answer.end).await?;
        if let Some(exchange) = lock(shared).exchanges.get_mut(index) {
            exchange.ended_at = Some(ended_at);
        }
    }
    Ok(())
}

/// Reads a request and returns its body; nothing when there is none.
async fn read_request(
    stream: &mut TcpStream,
    inbox: &mut BytesMut,
) -> anyhow::Result<Option<Bytes>> {
    let head = loop {
        if let Some(end) = inbox.windows(4).position(|four| four == b"\r\n\r\n") {
            break inbox.split_to(end + 4);
        }
        if inbox.len() > MAX_HEAD {
            bail!("the head of a request has no end");
        }
        if stream.read_buf(inbox).await? == 0 {
            return Ok(None);
        }
    };
    let length = content_length(&head)?;
    inbox.reserve(length.saturating_sub(inbox.len()));
    while inbox.len() < length {
        if stream.read_buf(inbox).await? == 0 {
            bail!("a request was cut");
        }
    }
    Ok(Some(inbox.split_to(length).freeze()))
}

fn content_length(head: &[u8]) -> anyhow::Result<usize> {
    let head = std::str::from_utf8(head)?;
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .context("a request without Content-Length")
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_get_the_answers_of_the_script_in_order() {
        let model = Model::start().await.unwrap();
        let call = Answer::calls([("view_file", json!({"AbsolutePath": "/f"}))]);
        let text = Answer::pieces(["one ", "two"]);
        model.script([&call, &text]);
        let address = model.url().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut seen = Vec::new();
        for end in ["functionCall", "two", "not in the script"] {
            let request = "POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody";
            stream.write_all(request.as_bytes()).await.unwrap();
            seen.clear();
            while !seen.ends_with(b"0\r\n\r\n") && !seen.ends_with(b"not in the script") {
                assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
            }
            let text = String::from_utf8(seen.clone()).unwrap();
            assert!(text.contains(end), "{text}");
        }
        let exchanges = model.exchanges::<3>().unwrap();
        let bodies = exchanges.each_ref().map(|exchange| &*exchange.body);
        assert_eq!(bodies, [b"body"; 3]);
        assert!(exchanges[0].asked_at <= exchanges[0].ended_at.unwrap());
        assert!(model.exchanges::<1>().is_err());
    }
}
