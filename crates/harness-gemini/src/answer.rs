//! The bytes of an answer as a stream of [`ModelEvent`]s.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt as _;
use harness_types::{ModelError, ModelErrorKind, ModelEvent};

use crate::response::Frames;
use crate::sse::SseDecoder;
use crate::target::Peer;

/// Once a reason for the end has come, how long the connection may stay open and silent before
/// the answer counts as ended. Servers end the stream at once; this is for those that do not.
const END_GRACE: Duration = Duration::from_secs(5);

/// The body of an answer. An error is what broke it, in words.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// Reads one answer.
pub(crate) struct Answer {
    body: Body,
    /// For the error message when the answer turns out to be something else.
    content_type: Option<String>,
    peer: Peer,
    decoder: SseDecoder,
    frames: Frames,
    /// What broke the answer; told after the events that came before it.
    error: Option<ModelError>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// More bytes may come.
    Open,
    /// None will; events may be left.
    Closed,
    /// Nothing is left.
    Done,
}

impl Answer {
    pub(crate) fn new(
        body: Body,
        content_type: Option<String>,
        peer: Peer,
        frames: Frames,
    ) -> Self {
        Self {
            body,
            content_type,
            peer,
            decoder: SseDecoder::default(),
            frames,
            error: None,
            state: State::Open,
        }
    }

    /// The next event; `None` after the last one and after an error.
    pub(crate) async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.frames.next_event() {
                return Some(Ok(event));
            }
            match self.state {
                State::Open => {
                    if let Err(error) = self.read().await {
                        self.error = Some(error);
                        self.state = State::Closed;
                    }
                }
                State::Closed => {
                    self.state = State::Done;
                    return match self.error.take() {
                        Some(error) => Some(Err(error)),
                        None => self.frames.finish().map(Ok),
                    };
                }
                State::Done => return None,
            }
        }
    }

    /// Reads one event of the stream, or the end.
    async fn read(&mut self) -> Result<(), ModelError> {
        if let Some(data) = self.decoder.next_event() {
            return self.frames.read(&self.peer, &data);
        }
        let chunk = if self.frames.is_finished() {
            match tokio::time::timeout(END_GRACE, self.body.next()).await {
                Ok(chunk) => chunk,
                Err(_) => {
                    tracing::debug!(host = self.peer.host, "answer ended, stream left open");
                    None
                }
            }
        } else {
            self.body.next().await
        };
        match chunk {
            Some(Ok(chunk)) => self.taken_in(&chunk),
            Some(Err(cause)) => self.broken(&cause),
            None => self.ended(),
        }
    }

    fn taken_in(&mut self, chunk: &[u8]) -> Result<(), ModelError> {
        let Err(error) = self.decoder.push(chunk) else {
            return Ok(());
        };
        // The events before the one that is too long are whole.
        while let Some(data) = self.decoder.next_event() {
            self.frames.read(&self.peer, &data)?;
        }
        let message = format!("the answer of {} is unusable: {error}", self.peer.host);
        Err(self.peer.error(ModelErrorKind::Malformed, &message))
    }

    /// The connection broke. Nothing is missing from an answer that had ended.
    fn broken(&mut self, cause: &str) -> Result<(), ModelError> {
        let rest = self.decoder.finish();
        if !self.frames.is_finished()
            && let Some(data) = rest
        {
            // The last frame may be whole although its end mark is not there.
            let _ = self.frames.read(&self.peer, &data);
        }
        self.state = State::Closed;
        if self.frames.is_finished() {
            tracing::debug!(
                host = self.peer.host,
                cause,
                "connection broke after the answer"
            );
            return Ok(());
        }
        let message = format!("the answer of {} broke off: {cause}", self.peer.host);
        Err(self.peer.error(ModelErrorKind::Cut, &message))
    }

    /// The stream ended in order. What is left over may be a frame without its end mark, or half
    /// a frame; the latter is a cut answer, which is told by the finish that does not come.
    fn ended(&mut self) -> Result<(), ModelError> {
        self.state = State::Closed;
        if let Some(data) = self.decoder.finish()
            && let Err(error) = self.frames.read(&self.peer, &data)
        {
            if error.kind != ModelErrorKind::Malformed {
                return Err(error);
            }
            tracing::debug!(host = self.peer.host, "the last frame of the answer is cut");
        }
        match self.decoder.stray_line() {
            Some(line) if !self.frames.any => {
                let kind = self.content_type.as_deref().unwrap_or("no content type");
                let message = format!(
                    "{} sent no event stream but {kind}: {}",
                    self.peer.host,
                    String::from_utf8_lossy(line)
                );
                Err(self.peer.error(ModelErrorKind::Malformed, &message))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use futures_util::stream;
    use harness_types::{ConversationId, FinishReason, GenerationOptions, ModelPart, ModelRequest};

    use super::*;

    fn answer(body: impl Stream<Item = Result<Bytes, String>> + Send + 'static) -> Answer {
        let request = ModelRequest {
            conversation: ConversationId::from_str(&"0".repeat(32)).unwrap(),
            system: "".into(),
            tools: [].into(),
            messages: Vec::new(),
            options: GenerationOptions::default(),
        };
        Answer::new(
            Box::pin(body),
            None,
            Peer::new("h", Vec::new()),
            Frames::new(&request),
        )
    }

    async fn all(mut answer: Answer) -> Vec<Result<ModelEvent, ModelError>> {
        let mut events = Vec::new();
        while let Some(event) = answer.next().await {
            events.push(event);
        }
        events
    }

    fn text(text: &str) -> Result<ModelEvent, ModelError> {
        Ok(ModelEvent::Part(ModelPart::Text {
            text: text.to_owned(),
            signature: None,
        }))
    }

    fn stop() -> Result<ModelEvent, ModelError> {
        Ok(ModelEvent::Finish {
            reason: FinishReason::Stop,
            message: None,
        })
    }

    const FRAME: &str = r#"data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#;
    const LAST: &str = r#"data: {"candidates":[{"finishReason":"STOP"}]}"#;

    fn chunk(text: impl Into<String>) -> Result<Bytes, String> {
        Ok(Bytes::from(text.into()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_ended_answer_on_an_open_connection_ends_after_the_grace() {
        let started = tokio::time::Instant::now();
        let body = stream::iter([chunk(format!("{FRAME}\n\n{LAST}\n\n"))]).chain(stream::pending());
        assert_eq!(all(answer(body)).await, [text("a"), stop()]);
        assert_eq!(started.elapsed(), END_GRACE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_answer_without_a_finish_is_waited_for() {
        let body = stream::iter([chunk(format!("{FRAME}\n\n"))]).chain(stream::pending());
        let mut answer = answer(body);
        assert_eq!(answer.next().await, Some(text("a")));
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, answer.next()).await.is_err());
    }

    #[tokio::test]
    async fn a_connection_that_breaks_after_the_finish_costs_nothing() {
        let reset = || Err("reset".to_owned());
        for end in ["\n\n", ""] {
            let body = stream::iter([chunk(format!("{FRAME}\n\n{LAST}{end}")), reset()]);
            assert_eq!(all(answer(body)).await, [text("a"), stop()], "{end:?}");
        }
        let body = stream::iter([chunk(format!("{FRAME}\n\n")), reset()]);
        let cut = ModelError::new(ModelErrorKind::Cut, "the answer of h broke off: reset");
        assert_eq!(all(answer(body)).await, [text("a"), Err(cut)]);
    }

    #[tokio::test]
    async fn f067_half_a_frame_at_the_end_is_a_cut_answer() {
        let body = stream::iter([chunk(format!("{FRAME}\n\n{}", &LAST[..30]))]);
        assert_eq!(all(answer(body)).await, [text("a")]);
        let body = stream::iter([chunk(format!("{FRAME}\n\n{LAST}"))]);
        assert_eq!(all(answer(body)).await, [text("a"), stop()]);
    }
}
