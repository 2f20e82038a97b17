//! The way out: updates of a conversation, as messages, at the client's pace.
//!
//! A message is built only when the socket can take it, from the latest state of what it shows. A
//! growing step is shown again and again with its whole text, so it is held to a budget of bytes
//! a second; everything else goes out at once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::SinkExt as _;
use harness_host::{Attachment, Update};
use harness_proto::localharness::output_event::Event;
use harness_types::{ConversationId, StepState};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::commands::Asked;
use crate::dialect::Dialect;
use crate::{events, limits};

/// Writes the messages of one connection, numbered from 1.
pub(crate) struct Pump<S> {
    sink: S,
    dialect: Dialect,
    conversation: ConversationId,
    asked: Asked,
    seq_num: i64,
    last_micros: i64,
    /// Until when progress of running steps waits.
    hold: Instant,
}

impl<S> Pump<S>
where
    S: futures_util::Sink<Message, Error = tungstenite::Error> + Unpin,
{
    pub(crate) fn new(
        sink: S,
        dialect: Dialect,
        conversation: ConversationId,
        asked: Asked,
    ) -> Self {
        Self {
            sink,
            dialect,
            conversation,
            asked,
            seq_num: 0,
            last_micros: 0,
            hold: Instant::now(),
        }
    }

    /// Sends what happens until the conversation has ended or the socket breaks.
    pub(crate) async fn run(&mut self, updates: &mut Attachment) -> Result<(), tungstenite::Error> {
        loop {
            updates.wait().await;
            if updates.only_progress() {
                tokio::select! {
                    () = tokio::time::sleep_until(self.hold) => {}
                    () = updates.wait_beyond_progress() => {}
                }
            }
            // One at a time: what is announced while this one is written is held to the budget
            // like any other.
            match updates.take() {
                Some(update) => self.update(&update).await?,
                None if updates.is_closed() => return Ok(()),
                None => {}
            }
        }
    }

    async fn update(&mut self, update: &Update) -> Result<(), tungstenite::Error> {
        match update {
            // Known before it is sent, so that no answer can come too early. A question is shown
            // by its step.
            Update::Request(request) => self.asked.note_call(request),
            Update::Step(change) => self.asked.note_question(change),
            Update::RequestClosed(id) => self.asked.forget(*id),
            _ => {}
        }
        let Some(event) = events::event(&self.conversation, update) else {
            return Ok(());
        };
        let bytes = self.send(event).await?;
        if matches!(update, Update::Step(change) if change.step.state == StepState::Active) {
            let budget = Duration::from_micros(
                bytes.saturating_mul(1_000_000) / limits::UPDATE_BYTES_PER_SECOND,
            );
            self.hold = Instant::now() + budget.max(limits::UPDATE_INTERVAL);
        }
        Ok(())
    }

    /// Sends one event and says how many bytes it took.
    pub(crate) async fn send(&mut self, event: Event) -> Result<u64, tungstenite::Error> {
        self.seq_num += 1;
        // The clock may go back; the client's times do not.
        self.last_micros = now_micros().max(self.last_micros);
        let event = events::envelope(event, self.seq_num, self.last_micros);
        let json = match self.dialect.encoding.to_json(&event) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!("a message could not be written and was left out: {error}");
                return Ok(0);
            }
        };
        let bytes = json.len() as u64;
        self.sink.send(Message::text(json)).await?;
        Ok(bytes)
    }

    /// Ends the connection with a reason.
    pub(crate) async fn close(&mut self, frame: tungstenite::protocol::CloseFrame) {
        let _ = self.sink.send(Message::Close(Some(frame))).await;
        let _ = self.sink.close().await;
    }
}

fn now_micros() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
