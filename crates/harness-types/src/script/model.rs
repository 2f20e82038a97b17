use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;

use super::{
    Gate, GatePass, Script, ScriptedEnd, ScriptedPart, ScriptedTurn, Sleeper, check_request,
    thread_sleeper,
};
use crate::{
    BoxFuture, CallId, Model, ModelError, ModelErrorKind, ModelEvent, ModelPart, ModelRequest,
    ModelStream, ToolCall,
};

/// A model that answers as its [`Script`] says: no key, no network, the same answer every time.
///
/// The n-th request gets the n-th turn, whoever asks. Every request is checked with
/// [`check_request`] and with the turn's [`Expectation`]; one that fails, and one that comes after
/// the last turn, is answered with an error of the kind [`ModelErrorKind::Script`], which nobody
/// repeats. Clones share the script's position and the recorded requests.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use futures_core::Stream as _;
/// use harness_types::{
///     GenerationOptions, Input, InputPart, Message, Model, ModelEvent, ModelPart, ModelRequest,
///     Script, ScriptedModel, ScriptedTurn,
/// };
///
/// let model = ScriptedModel::new(Script::new([ScriptedTurn::new().text("Hello.")]));
/// let mut answer = model.stream(ModelRequest {
///     conversation: "0123456789abcdef0123456789abcdef".parse().unwrap(),
///     system: "You are an assistant.".into(),
///     tools: [].into(),
///     messages: vec![Message::Input(Input::user([InputPart::text("Hi.")]))],
///     options: GenerationOptions::default(),
/// });
/// let text = ModelPart::Text { text: "Hello.".into(), signature: None };
/// let first = std::future::poll_fn(|context| answer.as_mut().poll_next(context)).await;
/// assert_eq!(first, Some(Ok(ModelEvent::Part(text))));
/// assert_eq!(model.requests().len(), 1);
/// assert_eq!(model.turns_left(), 0);
/// # }
/// ```
///
/// # Limits
///
/// Every request is kept for [`ScriptedModel::requests`], so a script of thousands of turns in one
/// conversation takes memory with the square of its length.
///
/// [`Expectation`]: crate::Expectation
#[derive(Clone)]
pub struct ScriptedModel {
    name: Arc<str>,
    turns: Arc<[ScriptedTurn]>,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
    sleeper: Sleeper,
}

impl ScriptedModel {
    /// A model with this script, named `script`, that waits with threads of its own.
    pub fn new(script: Script) -> Self {
        Self {
            name: "script".into(),
            turns: script.turns.into(),
            requests: Arc::default(),
            sleeper: thread_sleeper(),
        }
    }

    /// The same model under another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// The same model with another way to wait, for example the sleep of a runtime.
    #[must_use]
    pub fn with_sleeper(mut self, sleeper: Sleeper) -> Self {
        self.sleeper = sleeper;
        self
    }

    /// The requests so far, oldest first, those that failed their checks included.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.recorded().clone()
    }

    /// How many turns no request has come for yet.
    pub fn turns_left(&self) -> usize {
        self.turns.len().saturating_sub(self.recorded().len())
    }

    fn recorded(&self) -> MutexGuard<'_, Vec<ModelRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the request and decides the answer.
    fn answer(&self, request: ModelRequest) -> Vec<Beat> {
        let index = {
            let mut requests = self.recorded();
            requests.push(request.clone());
            requests.len() - 1
        };
        let number = index + 1;
        let refuse = |message: String| {
            vec![Beat::Event(Err(ModelError::new(
                ModelErrorKind::Script,
                message,
            )))]
        };
        if let Err(problem) = check_request(&request) {
            return refuse(format!("request {number} is not valid: {problem}"));
        }
        let Some(turn) = self.turns.get(index) else {
            let turns = self.turns.len();
            return refuse(format!(
                "the script has {turns} turns; this is request {number}"
            ));
        };
        if let Err(problem) = turn.expect.check(&request) {
            return refuse(format!("request {number} is not as expected: {problem}"));
        }
        beats(turn, number)
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel")
            .field("name", &self.name)
            .field("turns", &self.turns.len())
            .field("turns_left", &self.turns_left())
            .finish_non_exhaustive()
    }
}

impl Model for ScriptedModel {
    fn stream(&self, request: ModelRequest) -> ModelStream {
        Box::pin(Answer {
            sleeper: Arc::clone(&self.sleeper),
            start: Some((self.clone(), request)),
            beats: Vec::new().into_iter(),
            wait: None,
        })
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// One thing that happens in an answer.
enum Beat {
    Event(Result<ModelEvent, ModelError>),
    Sleep(Duration),
    Gate(Gate),
}

struct Beats<'a> {
    turn: &'a ScriptedTurn,
    beats: Vec<Beat>,
    said: bool,
}

impl Beats<'_> {
    fn sleep(&mut self, duration: Duration) {
        if !duration.is_zero() {
            self.beats.push(Beat::Sleep(duration));
        }
    }

    fn say(&mut self, part: ModelPart) {
        if std::mem::replace(&mut self.said, true) {
            self.sleep(self.turn.chunk_delay);
        }
        if let Some(gate) = &self.turn.chunk_gate {
            self.beats.push(Beat::Gate(gate.clone()));
        }
        self.beats.push(Beat::Event(Ok(ModelEvent::Part(part))));
    }

    fn say_chunks(
        &mut self,
        chunks: &[String],
        signature: Option<&String>,
        part: fn(String, Option<String>) -> ModelPart,
    ) {
        let Some((last, before)) = chunks.split_last() else {
            // A signature may come with no text at all.
            if signature.is_some() {
                self.say(part(String::new(), signature.cloned()));
            }
            return;
        };
        for chunk in before {
            self.say(part(chunk.clone(), None));
        }
        self.say(part(last.clone(), signature.cloned()));
    }
}

fn beats(turn: &ScriptedTurn, number: usize) -> Vec<Beat> {
    let mut out = Beats {
        turn,
        beats: Vec::new(),
        said: false,
    };
    out.sleep(turn.delay);
    let mut calls = 0;
    for part in &turn.parts {
        match part {
            ScriptedPart::Thinking { chunks, signature } => {
                out.say_chunks(chunks, signature.as_ref(), |text, signature| {
                    ModelPart::Thought { text, signature }
                });
            }
            ScriptedPart::Text { chunks, signature } => {
                out.say_chunks(chunks, signature.as_ref(), |text, signature| {
                    ModelPart::Text { text, signature }
                });
            }
            ScriptedPart::Call {
                id,
                name,
                args,
                signature,
            } => {
                calls += 1;
                let id = match id {
                    Some(id) => CallId::new(id.as_str()),
                    None => CallId::new(format!("call_{number}_{calls}")),
                };
                out.say(ModelPart::Call {
                    call: ToolCall {
                        id,
                        name: name.clone(),
                        args: args.clone(),
                    },
                    signature: signature.clone(),
                });
            }
            ScriptedPart::Wait(duration) => out.sleep(*duration),
            ScriptedPart::Gate(gate) => out.beats.push(Beat::Gate(gate.clone())),
        }
    }
    let usage = turn.usage.clone().map(|usage| Ok(ModelEvent::Usage(usage)));
    let end = match &turn.end {
        ScriptedEnd::Finish { reason, message } => Some(Ok(ModelEvent::Finish {
            reason: reason.clone(),
            message: message.clone(),
        })),
        ScriptedEnd::Error(error) => Some(Err(error.clone())),
        ScriptedEnd::Cut => None,
    };
    out.beats
        .extend(usage.into_iter().chain(end).map(Beat::Event));
    out.beats
}

struct Answer {
    sleeper: Sleeper,
    /// Taken at the first poll: a request that is never polled was never made.
    start: Option<(ScriptedModel, ModelRequest)>,
    beats: std::vec::IntoIter<Beat>,
    wait: Option<Wait>,
}

enum Wait {
    Sleep(BoxFuture<'static, ()>),
    Gate(GatePass),
}

impl Stream for Answer {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some((model, request)) = self.start.take() {
            self.beats = model.answer(request).into_iter();
        }
        loop {
            match &mut self.wait {
                Some(Wait::Sleep(sleep)) => ready!(sleep.as_mut().poll(context)),
                Some(Wait::Gate(pass)) => ready!(Pin::new(pass).poll(context)),
                None => {}
            }
            self.wait = None;
            match self.beats.next() {
                Some(Beat::Event(event)) => return Poll::Ready(Some(event)),
                Some(Beat::Sleep(duration)) => {
                    self.wait = Some(Wait::Sleep((self.sleeper)(duration)));
                }
                Some(Beat::Gate(gate)) => self.wait = Some(Wait::Gate(gate.pass())),
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use serde_json::{Map, json};

    use super::super::test_data::{conversation_with_result, hello};
    use super::*;
    use crate::{Expectation, FinishReason, Message, Usage};

    type Event = Result<ModelEvent, ModelError>;

    fn text(text: &str) -> Event {
        Ok(ModelEvent::Part(ModelPart::Text {
            text: text.into(),
            signature: None,
        }))
    }

    fn stop() -> Event {
        Ok(ModelEvent::Finish {
            reason: FinishReason::Stop,
            message: None,
        })
    }

    fn refused(message: &str) -> Vec<Event> {
        vec![Err(ModelError::new(ModelErrorKind::Script, message))]
    }

    /// The next event, `Pending` while there is none.
    fn now(answer: &mut ModelStream) -> Poll<Option<Event>> {
        answer
            .as_mut()
            .poll_next(&mut Context::from_waker(Waker::noop()))
    }

    async fn next(answer: &mut ModelStream) -> Option<Event> {
        std::future::poll_fn(|context| answer.as_mut().poll_next(context)).await
    }

    /// All events of an answer that never waits.
    fn ask(model: &ScriptedModel, request: ModelRequest) -> Vec<Event> {
        let mut answer = model.stream(request);
        let mut events = Vec::new();
        loop {
            match now(&mut answer) {
                Poll::Ready(Some(event)) => events.push(event),
                Poll::Ready(None) => return events,
                Poll::Pending => panic!("the answer waits after {events:?}"),
            }
        }
    }

    #[test]
    fn parts_come_in_order_with_ids_signatures_usage_and_end() {
        let usage = Usage {
            total_tokens: 7,
            ..Usage::default()
        };
        let turn = ScriptedTurn::new()
            .part(ScriptedPart::Thinking {
                chunks: vec!["a".into(), "b".into()],
                signature: Some("s1".into()),
            })
            .call("look", json!({"at": 1}))
            .text("c")
            .part(ScriptedPart::Text {
                chunks: vec![],
                signature: Some("s2".into()),
            })
            .call("look", json!({}))
            .signed("s3")
            .call_with_id("mine", "look", json!({}))
            .usage(usage.clone());
        let thought = |text: &str, signature: Option<&str>| {
            Ok(ModelEvent::Part(ModelPart::Thought {
                text: text.into(),
                signature: signature.map(Into::into),
            }))
        };
        let call = |id: &str, args: serde_json::Value, signature: Option<&str>| {
            Ok(ModelEvent::Part(ModelPart::Call {
                call: ToolCall {
                    id: CallId::new(id),
                    name: "look".into(),
                    args: args.as_object().cloned().unwrap_or_else(Map::new),
                },
                signature: signature.map(Into::into),
            }))
        };
        let model = ScriptedModel::new(Script::new([ScriptedTurn::new(), turn]));
        assert_eq!(ask(&model, hello()), [stop()]);
        assert_eq!(
            ask(&model, hello()),
            [
                thought("a", None),
                thought("b", Some("s1")),
                call("call_2_1", json!({"at": 1}), None),
                text("c"),
                Ok(ModelEvent::Part(ModelPart::Text {
                    text: String::new(),
                    signature: Some("s2".into()),
                })),
                call("call_2_2", json!({}), Some("s3")),
                call("mine", json!({}), None),
                Ok(ModelEvent::Usage(usage)),
                stop(),
            ]
        );
    }

    #[test]
    fn an_answer_can_fail_or_be_cut_after_its_parts() {
        let error = ModelError::new(ModelErrorKind::Status { code: 503 }, "busy");
        let model = ScriptedModel::new(Script::new([
            ScriptedTurn::new().error(error.clone()),
            ScriptedTurn::new().text("half").error(error.clone()),
            ScriptedTurn::new().text("half").cut(),
            ScriptedTurn::new().finish(FinishReason::MaxTokens),
        ]));
        assert_eq!(ask(&model, hello()), [Err(error.clone())]);
        assert_eq!(ask(&model, hello()), [text("half"), Err(error)]);
        assert_eq!(ask(&model, hello()), [text("half")]);
        let end = ModelEvent::Finish {
            reason: FinishReason::MaxTokens,
            message: None,
        };
        assert_eq!(ask(&model, hello()), [Ok(end)]);
    }

    #[test]
    fn a_request_too_many_an_invalid_one_and_an_unexpected_one_are_refused() {
        let expecting = ScriptedTurn::new().expecting(Expectation {
            tool_result_contains: vec!["4 files".into()],
            ..Expectation::default()
        });
        let model = ScriptedModel::new(Script::new([ScriptedTurn::new(), expecting]));
        let mut orphan = hello();
        orphan.messages.push(Message::ToolResults(vec![]));
        assert_eq!(
            ask(&model, orphan.clone()),
            refused("request 1 is not valid: message 1: results that answer no call")
        );
        let unexpected = conversation_with_result("3 files");
        assert_eq!(
            ask(&model, unexpected.clone()),
            refused(
                "request 2 is not as expected: tool_result_contains: \"4 files\" is not in \
                 [\"3 files\"]"
            )
        );
        assert_eq!(
            ask(&model, hello()),
            refused("the script has 2 turns; this is request 3")
        );
        assert_eq!(model.requests(), [orphan, unexpected, hello()]);
        assert_eq!(model.turns_left(), 0);
    }

    #[test]
    fn an_answer_that_is_never_polled_uses_no_turn() {
        let model = ScriptedModel::new(Script::new([ScriptedTurn::new().text("a")]));
        drop(model.stream(hello()));
        assert_eq!(model.turns_left(), 1);
        assert_eq!(ask(&model, hello()), [text("a"), stop()]);
    }

    #[test]
    fn four_thousand_chunks_are_there_without_waiting() {
        let chunks: Vec<_> = (0..4_000).map(|n| n.to_string()).collect();
        let model = ScriptedModel::new(Script::new([ScriptedTurn::new().text_chunks(&chunks)]));
        let events = ask(&model, hello());
        let expected: Vec<_> = chunks.iter().map(|c| text(c)).chain([stop()]).collect();
        assert_eq!(events, expected);
    }

    #[test]
    fn waits_go_through_the_sleeper_in_order() {
        let slept = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&slept);
        let ms = Duration::from_millis;
        let turn = ScriptedTurn::new()
            .delay(ms(1))
            .chunk_delay(ms(2))
            .text_chunks(["a", "b"])
            .part(ScriptedPart::Wait(ms(3)))
            .text("c");
        let model = ScriptedModel::new(Script::new([turn])).with_sleeper(Arc::new(move |wait| {
            log.lock().unwrap().push(wait);
            Box::pin(std::future::ready(()))
        }));
        let events = ask(&model, hello());
        assert_eq!(events, [text("a"), text("b"), text("c"), stop()]);
        assert_eq!(*slept.lock().unwrap(), [1, 2, 3, 2].map(ms));
    }

    #[tokio::test]
    async fn the_default_sleeper_wakes_the_answer() {
        let turn = ScriptedTurn::new()
            .delay(Duration::from_millis(2))
            .text("a");
        let model = ScriptedModel::new(Script::new([turn]));
        let mut answer = model.stream(hello());
        assert_eq!(now(&mut answer), Poll::Pending);
        assert_eq!(next(&mut answer).await, Some(text("a")));
        assert_eq!(next(&mut answer).await, Some(stop()));
    }

    #[tokio::test]
    async fn gates_step_through_an_answer() {
        let (chunks, end) = (Gate::new(), Gate::new());
        let turn = ScriptedTurn::new()
            .gated(&chunks)
            .text_chunks(["a", "b"])
            .gate(&end);
        let model = ScriptedModel::new(Script::new([turn]));
        let mut answer = model.stream(hello());
        assert_eq!(now(&mut answer), Poll::Pending);
        chunks.reached(1).await;
        chunks.let_one_pass();
        assert_eq!(next(&mut answer).await, Some(text("a")));
        assert_eq!(now(&mut answer), Poll::Pending);
        chunks.open();
        assert_eq!(next(&mut answer).await, Some(text("b")));
        assert_eq!(now(&mut answer), Poll::Pending);
        assert_eq!(end.arrivals(), 1);
        end.open();
        assert_eq!(next(&mut answer).await, Some(stop()));
        assert_eq!(next(&mut answer).await, None);
        assert_eq!(next(&mut answer).await, None);
    }
}
