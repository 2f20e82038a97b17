//! Plays a turn on a connection.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use harness_types::{
    CallId, Gate, ModelError, ModelErrorKind, ModelPart, ScriptedEnd, ScriptedPart, ScriptedTurn,
    ToolCall,
};

use super::Outcome;
use super::connection::Connection;
use super::gemini::{end_chunk, error_json, part_chunk, status_of};
use super::turn::{Reply, ServerTurn, StreamEnd, sse};

/// What comes after the answer.
#[derive(PartialEq)]
pub(crate) enum Next {
    KeepOpen,
    Close,
}

/// Answers a request. An error means that the client is gone.
pub(crate) async fn play(
    connection: &mut Connection,
    turn: ServerTurn,
) -> io::Result<(Outcome, Next)> {
    if let Some(gate) = &turn.gate {
        connection.wait(gate.pass()).await?;
    }
    match turn.reply {
        Reply::Scripted(turn) => play_script(connection, &turn).await,
        Reply::Http {
            status,
            headers,
            body,
        } => {
            put_answer(connection, status, &headers, &body);
            connection.flush().await?;
            Ok((Outcome::Answered, Next::KeepOpen))
        }
        Reply::Stream { pieces, end } => {
            connection.put(STREAM_HEAD);
            for piece in pieces {
                connection.put_chunk(&piece).await?;
            }
            match end {
                StreamEnd::Whole => finish_stream(connection).await,
                StreamEnd::Cut => cut(connection).await,
            }
        }
        Reply::Raw(bytes) => {
            connection.put(&bytes);
            cut(connection).await
        }
        Reply::Silence => silence(connection).await,
    }
}

const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Content-Type: text/event-stream\r\n\
    Transfer-Encoding: chunked\r\n\r\n";

pub(crate) fn put_answer(
    connection: &mut Connection,
    status: u16,
    headers: &[(String, String)],
    body: &Bytes,
) {
    let mut head = format!(
        "HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n",
        body.len()
    );
    let typed = headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !typed {
        head.push_str("Content-Type: application/json; charset=UTF-8\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    connection.put(head.as_bytes());
    connection.put(body);
}

async fn finish_stream(connection: &mut Connection) -> io::Result<(Outcome, Next)> {
    connection.put(b"0\r\n\r\n");
    connection.flush().await?;
    Ok((Outcome::Answered, Next::KeepOpen))
}

async fn cut(connection: &mut Connection) -> io::Result<(Outcome, Next)> {
    connection.flush().await?;
    Ok((Outcome::Cut, Next::Close))
}

async fn silence(connection: &mut Connection) -> io::Result<(Outcome, Next)> {
    connection.wait(std::future::pending()).await?;
    Ok((Outcome::Cut, Next::Close))
}

async fn play_script(
    connection: &mut Connection,
    turn: &ScriptedTurn,
) -> io::Result<(Outcome, Next)> {
    sleep(connection, turn.delay).await?;
    let mut player = Player {
        connection,
        turn,
        said: false,
    };
    for part in &turn.parts {
        player.part(part).await?;
    }
    let said = player.said;
    match &turn.end {
        ScriptedEnd::Finish { reason, message } => {
            let finish = Some((reason, message.as_deref()));
            player
                .event(&end_chunk(finish, turn.usage.as_ref()))
                .await?;
            finish_stream(connection).await
        }
        ScriptedEnd::Error(error) => {
            if said && turn.usage.is_some() {
                player.event(&end_chunk(None, turn.usage.as_ref())).await?;
            }
            play_error(connection, error, said).await
        }
        _ => {
            player.head();
            cut(connection).await
        }
    }
}

async fn play_error(
    connection: &mut Connection,
    error: &ModelError,
    in_stream: bool,
) -> io::Result<(Outcome, Next)> {
    match error.kind {
        ModelErrorKind::Silent => silence(connection).await,
        ModelErrorKind::Connect => cut(connection).await,
        ModelErrorKind::Cut => {
            if !in_stream {
                connection.put(STREAM_HEAD);
            }
            cut(connection).await
        }
        ModelErrorKind::Malformed => {
            if !in_stream {
                connection.put(STREAM_HEAD);
            }
            connection
                .put_chunk(b"data: {\"candidates\": [\r\n\r\n")
                .await?;
            finish_stream(connection).await
        }
        _ if in_stream => {
            connection.put_chunk(&sse(&error_json(error))).await?;
            finish_stream(connection).await
        }
        _ => {
            let body = Bytes::from(error_json(error).to_string());
            put_answer(connection, status_of(error), &[], &body);
            connection.flush().await?;
            Ok((Outcome::Answered, Next::KeepOpen))
        }
    }
}

async fn sleep(connection: &mut Connection, duration: Duration) -> io::Result<()> {
    if duration.is_zero() {
        return Ok(());
    }
    connection.wait(tokio::time::sleep(duration)).await
}

struct Player<'a> {
    connection: &'a mut Connection,
    turn: &'a ScriptedTurn,
    said: bool,
}

impl Player<'_> {
    fn head(&mut self) {
        if !std::mem::replace(&mut self.said, true) {
            self.connection.put(STREAM_HEAD);
        }
    }

    async fn event(&mut self, event: &serde_json::Value) -> io::Result<()> {
        self.head();
        self.connection.put_chunk(&sse(event)).await
    }

    async fn gate(&mut self, gate: &Gate) -> io::Result<()> {
        self.connection.wait(gate.pass()).await
    }

    async fn say(&mut self, part: ModelPart) -> io::Result<()> {
        if self.said {
            sleep(self.connection, self.turn.chunk_delay).await?;
        }
        if let Some(gate) = &self.turn.chunk_gate {
            self.gate(gate).await?;
        }
        self.event(&part_chunk(&part)).await
    }

    async fn part(&mut self, part: &ScriptedPart) -> io::Result<()> {
        match part {
            ScriptedPart::Thinking { chunks, signature } => {
                self.chunks(chunks, signature.as_ref(), |text, signature| {
                    ModelPart::Thought { text, signature }
                })
                .await
            }
            ScriptedPart::Text { chunks, signature } => {
                self.chunks(chunks, signature.as_ref(), |text, signature| {
                    ModelPart::Text { text, signature }
                })
                .await
            }
            ScriptedPart::Call {
                id,
                name,
                args,
                signature,
            } => {
                self.say(ModelPart::Call {
                    call: ToolCall {
                        // An empty id is left out, as models without ids do.
                        id: CallId::new(id.as_deref().unwrap_or_default()),
                        name: name.clone(),
                        args: args.clone(),
                    },
                    signature: signature.clone(),
                })
                .await
            }
            ScriptedPart::Wait(duration) => sleep(self.connection, *duration).await,
            ScriptedPart::Gate(gate) => self.gate(gate).await,
            _ => Ok(()),
        }
    }

    async fn chunks(
        &mut self,
        chunks: &[String],
        signature: Option<&String>,
        part: fn(String, Option<String>) -> ModelPart,
    ) -> io::Result<()> {
        let Some((last, before)) = chunks.split_last() else {
            if signature.is_some() {
                self.say(part(String::new(), signature.cloned())).await?;
            }
            return Ok(());
        };
        for chunk in before {
            self.say(part(chunk.clone(), None)).await?;
        }
        self.say(part(last.clone(), signature.cloned())).await
    }
}
