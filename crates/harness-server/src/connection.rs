//! One connection: one conversation, from its first message to its last.

use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use harness_host::{Host, Session};
use harness_proto::json::{Parsed, from_json_slice};
use harness_proto::localharness::{InitializeConversationEvent, InputEvent, input_event};
use harness_types::{Command, HookVerdict, RequestAnswer};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::commands::{self, Asked, Said};
use crate::dialect::Dialect;
use crate::initialise::{self, Requested};
use crate::pump::Pump;
use crate::settled::Settled;
use crate::{events, limits};

type Incoming = Result<Message, tungstenite::Error>;

/// Serves a connection until it, or its conversation, has ended.
pub(crate) async fn serve(socket: WebSocketStream<TcpStream>, host: Host, settled: Arc<Settled>) {
    let (sink, mut stream) = socket.split();
    let asked = Asked::default();
    let dialect = Dialect::newest();
    let first = tokio::select! {
        first = first_message(&mut stream) => first,
        () = settled.stopping() => Err(Some(ending(CloseCode::Away, SHUTTING_DOWN))),
    };
    let opened = match first {
        Ok(bytes) => open(&bytes, &host, &settled).await,
        Err(frame) => Err(frame),
    };
    let session = match opened {
        Ok(session) => session,
        Err(frame) => {
            let deadline = Instant::now() + limits::CLOSE_TIME;
            let Some(frame) = frame else {
                return answer_close(&mut stream, deadline).await;
            };
            let nobody = harness_types::ConversationId::from_random([0; 16]);
            let mut pump = Pump::new(sink, dialect, nobody, asked);
            return close(&mut pump, &mut stream, frame, deadline).await;
        }
    };
    let (history, mut updates) = session.attach_with_history();
    let mut pump = Pump::new(sink, dialect, session.id().clone(), asked.clone());
    let first = events::initialized(session.id(), history);
    let (frame, deadline) = {
        // The first message may hold a long history, and its reader may be slow: it must not keep
        // anything else from happening.
        let sending = async {
            pump.send(first).await?;
            pump.run(&mut updates).await
        };
        tokio::pin!(sending);
        let (frame, is_sending) = tokio::select! {
            sent = &mut sending => match sent {
                Ok(()) => {
                    let why = "the conversation ended by a fault of the harness; see its stderr";
                    (Some(ending(CloseCode::Error, why)), false)
                }
                Err(error) => {
                    tracing::debug!("a client is gone: {error}");
                    (None, false)
                }
            },
            ended = listen(&mut stream, &session, &asked) => (ended, true),
            () = session.shutdown_requested() => {
                (Some(ending(CloseCode::Away, SHUTTING_DOWN)), true)
            }
        };
        // The turn ends with its client. What it did is recorded, what it ran is gone.
        session.close().await;
        let deadline = Instant::now() + limits::CLOSE_TIME;
        if frame.is_some() && is_sending {
            // Going on with the same future: a message that waits for the socket is not lost.
            let _ = tokio::time::timeout_at(deadline, sending).await;
        }
        (frame, deadline)
    };
    match frame {
        Some(frame) => close(&mut pump, &mut stream, frame, deadline).await,
        None => answer_close(&mut stream, deadline).await,
    }
}

const SHUTTING_DOWN: &str = "the harness is shutting down";

/// Sends a close frame and waits, until the deadline, for the client's answer to it.
async fn close<S, R>(pump: &mut Pump<S>, stream: &mut R, frame: CloseFrame, deadline: Instant)
where
    S: futures_util::Sink<Message, Error = tungstenite::Error> + Unpin,
    R: Stream<Item = Incoming> + Unpin,
{
    let closing = async {
        pump.close(frame).await;
        while let Some(Ok(_)) = stream.next().await {}
    };
    let _ = tokio::time::timeout_at(deadline, closing).await;
}

/// Sends the answer to a client's close frame, if there was one: the library does so when it is
/// next read from.
async fn answer_close<R>(stream: &mut R, deadline: Instant)
where
    R: Stream<Item = Incoming> + Unpin,
{
    let _ = tokio::time::timeout_at(deadline, stream.next()).await;
}

/// Waits for the first message; otherwise says how to close, or that there is nothing to close.
async fn first_message<R>(stream: &mut R) -> Result<tungstenite::Bytes, Option<CloseFrame>>
where
    R: Stream<Item = Incoming> + Unpin,
{
    let message = async {
        loop {
            match stream.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.into()),
                Some(Ok(Message::Binary(bytes))) => return Ok(bytes),
                Some(Ok(Message::Close(_))) | None => return Err(None),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broken(&error)),
            }
        }
    };
    match tokio::time::timeout(limits::FIRST_MESSAGE_TIME, message).await {
        Ok(message) => message,
        Err(_) => {
            let seconds = limits::FIRST_MESSAGE_TIME.as_secs();
            Err(Some(refusal(format!(
                "no configuration came within {seconds} s"
            ))))
        }
    }
}

/// Opens the conversation a first message asks for.
async fn open(bytes: &[u8], host: &Host, settled: &Settled) -> Result<Session, Option<CloseFrame>> {
    let refused = |message: String| Some(refusal(message));
    let parsed: Parsed<InitializeConversationEvent> = from_json_slice(bytes)
        .map_err(|error| refused(format!("the first message cannot be read: {error}")))?;
    let Some(config) = parsed.message.config else {
        return Err(refused("the first message holds no config".to_owned()));
    };
    note_unknown(&parsed.unknown);
    let Requested {
        mut blueprint,
        not_built,
    } = initialise::blueprint(config, &parsed.unknown)
        .map_err(|why| refused(format!("the configuration cannot be used: {why}")))?;
    settled.complete(&mut blueprint);
    if !not_built.is_empty() {
        tracing::warn!(
            "asked for, but not built yet and so not there: {}",
            not_built.join(", ")
        );
    }
    host.open(blueprint).await.map_err(|error| {
        refused(format!(
            "the conversation cannot be opened: {}",
            with_causes(&error)
        ))
    })
}

fn note_unknown(unknown: &harness_proto::json::Unknown) {
    if !unknown.is_empty() {
        let values = unknown
            .enum_values()
            .iter()
            .map(|v| format!("{} = {}", v.path, v.value));
        let names: Vec<String> = unknown.fields().iter().cloned().chain(values).collect();
        tracing::warn!(
            "the client sent what this version does not know: {}",
            names.join(", ")
        );
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Reads messages until the client is gone; says how to close, if there is somebody to close for.
async fn listen<R>(stream: &mut R, session: &Session, asked: &Asked) -> Option<CloseFrame>
where
    R: Stream<Item = Incoming> + Unpin,
{
    loop {
        let command = match stream.next().await {
            Some(Ok(Message::Text(text))) => read(text.as_bytes(), asked),
            Some(Ok(Message::Binary(bytes))) => read(&bytes, asked),
            Some(Ok(Message::Close(_))) | None => return None,
            Some(Ok(_)) => None,
            Some(Err(error)) => return broken(&error),
        };
        if let Some(command) = command
            && session.send(command).await.is_err()
        {
            // The pump says why.
            std::future::pending::<()>().await;
        }
    }
}

fn read(bytes: &[u8], asked: &Asked) -> Option<Command> {
    let parsed: Parsed<InputEvent> = match from_json_slice(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return unusable(format!("a message cannot be read: {error}")),
    };
    note_unknown(&parsed.unknown);
    let unclear = !parsed.unknown.is_empty();
    let hook = matches!(
        parsed.message.event,
        Some(input_event::Event::CallHookResponse(_))
    );
    match commands::command(parsed.message.event, asked) {
        // A decision in a word that is not understood is no permission.
        Said::Command(Command::Answer { request, .. }) if unclear && hook => {
            let message = "its answer holds a value that is unknown to this version".to_owned();
            let answer = RequestAnswer::Hook(HookVerdict::Failed { message });
            Some(Command::Answer { request, answer })
        }
        Said::Command(command) => Some(command),
        Said::Stray(why) => {
            tracing::warn!("{why}");
            None
        }
        Said::Unusable(why) => unusable(why),
    }
}

fn unusable(why: String) -> Option<Command> {
    tracing::warn!("{why}");
    Some(Command::Refuse { message: why })
}

fn broken(error: &tungstenite::Error) -> Option<CloseFrame> {
    match error {
        tungstenite::Error::Capacity(why) => {
            let why = format!(
                "message refused: {why} (at most {} bytes)",
                limits::MESSAGE_BYTES
            );
            Some(log_ending(CloseCode::Size, why))
        }
        tungstenite::Error::Protocol(why) => Some(log_ending(
            CloseCode::Protocol,
            format!("no valid WebSocket frame: {why}"),
        )),
        tungstenite::Error::Utf8(_) => Some(log_ending(
            CloseCode::Invalid,
            "a text message is not UTF-8".to_owned(),
        )),
        error => {
            tracing::debug!("a client is gone: {error}");
            None
        }
    }
}

fn refusal(why: String) -> CloseFrame {
    log_ending(CloseCode::Policy, why)
}

/// The whole reason goes to stderr; the close frame holds what fits.
fn log_ending(code: CloseCode, why: String) -> CloseFrame {
    tracing::error!("{why}");
    ending(code, &why)
}

fn ending(code: CloseCode, why: &str) -> CloseFrame {
    let mut end = why.len().min(limits::CLOSE_REASON_BYTES);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    CloseFrame {
        code,
        reason: why[..end].into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let frame = ending(CloseCode::Policy, &"ü".repeat(100));
        assert_eq!(frame.reason.as_str(), "ü".repeat(61));
    }
}
