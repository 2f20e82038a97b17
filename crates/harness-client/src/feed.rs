//! The events of a turn, between the task that reads the connection and whoever reads the turn.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{Error, Event, StepId};

/// Events wait here for their reader. What the reader has not seen is kept in its latest state,
/// so that a slow reader costs memory for the content of the turn, not for its frames.
#[derive(Debug)]
pub(crate) struct Feed {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Event>,
    /// Set when nothing more comes; taken by the reader.
    error: Option<Error>,
    ended: bool,
    waker: Option<Waker>,
}

impl Feed {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            inner: Mutex::default(),
        }
    }

    pub(crate) fn push(&self, event: Event) {
        let mut inner = self.lock();
        if inner.ended {
            return;
        }
        let is_end = matches!(event, Event::Idle(_));
        if let Some(event) = merge(&mut inner.queue, event) {
            if inner.queue.len() >= self.limit && !is_end {
                inner.queue.clear();
                inner.error = Some(Error::Lagging { limit: self.limit });
                inner.ended = true;
            } else {
                inner.queue.push_back(event);
            }
        }
        inner.ended |= is_end;
        wake(inner);
    }

    /// Ends the turn; what was pushed before is read first.
    pub(crate) fn fail(&self, error: Error) {
        let mut inner = self.lock();
        if !inner.ended {
            inner.error = Some(error);
            inner.ended = true;
        }
        wake(inner);
    }

    /// Whether nothing more comes. There may still be events to read.
    pub(crate) fn is_ended(&self) -> bool {
        self.lock().ended
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Option<Result<Event, Error>>> {
        let mut inner = self.lock();
        if let Some(event) = inner.queue.pop_front() {
            return Poll::Ready(Some(Ok(event)));
        }
        if inner.ended {
            return Poll::Ready(inner.error.take().map(Err));
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes after the lock is given up: a waker runs code of others.
fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Puts an event into the last one when they are about the same; returns it otherwise.
fn merge(queue: &mut VecDeque<Event>, event: Event) -> Option<Event> {
    match (queue.back_mut(), event) {
        (
            Some(Event::TextDelta { step, text }),
            Event::TextDelta {
                step: next,
                text: more,
            },
        )
        | (
            Some(Event::ThinkingDelta { step, text }),
            Event::ThinkingDelta {
                step: next,
                text: more,
            },
        ) if *step == next => text.push_str(&more),
        (Some(Event::Step(old)), Event::Step(new)) if StepId::of(old) == StepId::of(&new) => {
            *old = new;
        }
        (Some(Event::Usage(old)), Event::Usage(new)) => *old = new,
        (_, event) => return Some(event),
    }
    None
}

#[cfg(test)]
mod tests {
    use harness_proto::localharness::{StepUpdate, UsageUpdate};

    use super::*;

    fn text(index: u32, text: &str) -> Event {
        Event::TextDelta {
            step: StepId {
                trajectory_id: "t".into(),
                index,
            },
            text: text.into(),
        }
    }

    fn step(index: u32, state: i32) -> Event {
        Event::Step(Box::new(StepUpdate {
            trajectory_id: Some("t".into()),
            step_index: Some(index),
            state: Some(state),
            ..StepUpdate::default()
        }))
    }

    fn drain(feed: &Feed) -> Vec<Result<Event, String>> {
        let context = Context::from_waker(Waker::noop());
        let mut events = Vec::new();
        while let Poll::Ready(Some(event)) = feed.poll(&context) {
            events.push(event.map_err(|error| error.to_string()));
        }
        events
    }

    #[test]
    fn what_was_not_read_is_kept_in_its_latest_state() {
        let feed = Feed::new(10);
        let usage = || Event::Usage(Box::<UsageUpdate>::default());
        for event in [
            step(1, 1),
            text(1, "a"),
            text(1, "b"),
            text(2, "c"),
            step(3, 1),
            step(3, 2),
            step(4, 1),
            usage(),
            usage(),
            text(1, "d"),
        ] {
            feed.push(event);
        }
        let expected = [
            step(1, 1),
            text(1, "ab"),
            text(2, "c"),
            step(3, 2),
            step(4, 1),
            usage(),
            text(1, "d"),
        ];
        assert_eq!(drain(&feed), expected.map(Ok));
    }

    #[test]
    fn a_reader_that_does_not_read_is_told() {
        let feed = Feed::new(2);
        for index in 0..4 {
            feed.push(step(index, 1));
        }
        assert!(feed.is_ended());
        let error = "more than 2 events of the turn were not read".to_owned();
        assert_eq!(drain(&feed), [Err(error)]);
    }

    #[test]
    fn events_before_an_error_are_read_first() {
        let feed = Feed::new(2);
        feed.push(text(0, "a"));
        feed.fail(Error::Lagging { limit: 7 });
        feed.push(text(0, "b"));
        let error = "more than 7 events of the turn were not read".to_owned();
        assert_eq!(drain(&feed), [Ok(text(0, "a")), Err(error)]);
    }
}
