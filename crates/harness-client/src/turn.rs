use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::mpsc::OwnedPermit;

use crate::feed::Feed;
use crate::link::Outgoing;
use crate::session::Link;
use crate::{Error, Event, Outcome, TurnEnd};

/// A turn of a conversation: what the agent does about one input.
///
/// It goes on whether it is read or not, and hooks and host tools are served meanwhile. Dropping
/// it before its end halts it; the next turn begins when the harness has confirmed that, and sees
/// nothing of this one.
///
/// A turn is also a [`Stream`] of its events.
#[must_use = "dropping a turn halts it"]
pub struct Turn {
    feed: Arc<Feed>,
    link: Arc<Link>,
    /// The right to say "halt" without waiting, should the turn be dropped.
    halt: Option<OwnedPermit<Outgoing>>,
}

impl Turn {
    pub(crate) fn new(feed: Arc<Feed>, link: Arc<Link>, halt: OwnedPermit<Outgoing>) -> Self {
        Self {
            feed,
            link,
            halt: Some(halt),
        }
    }

    /// Returns the next event, `None` after [`Event::Idle`].
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when the connection ended before the turn did, [`Error::Lagging`] when
    /// too many events were not read. A turn that the *agent* failed is no error here but an
    /// [`Outcome::Failed`]. After an error comes `None`.
    ///
    /// # Cancel safety
    ///
    /// No event is lost when the future is dropped before it is ready.
    pub async fn next_event(&mut self) -> Result<Option<Event>, Error> {
        poll_fn(|context| self.feed.poll(context)).await.transpose()
    }

    /// Waits for the end of the turn and returns it, whatever its outcome. Events not read so far
    /// are passed over; the end holds the whole answer.
    ///
    /// # Errors
    ///
    /// As [`next_event`](Self::next_event), and [`Error::EndRead`] when the end, or the error, has
    /// been read already.
    ///
    /// # Cancel safety
    ///
    /// The future owns the turn: dropping it halts the turn.
    pub async fn end(mut self) -> Result<TurnEnd, Error> {
        while let Some(event) = self.next_event().await? {
            if let Event::Idle(end) = event {
                return Ok(*end);
            }
        }
        Err(Error::EndRead)
    }

    /// Waits for the end of the turn and returns the answer.
    ///
    /// The answer is the text the root agent said to the user: without thoughts, subagents, tool
    /// output and failed steps. A halted turn returns what there was; it may be empty.
    ///
    /// # Errors
    ///
    /// As [`end`](Self::end), and [`Error::Turn`] when the turn failed.
    ///
    /// # Cancel safety
    ///
    /// The future owns the turn: dropping it halts the turn.
    pub async fn text(self) -> Result<String, Error> {
        let end = self.end().await?;
        match end.outcome {
            Outcome::Failed(error) => Err(error.into()),
            _ => Ok(end.text),
        }
    }
}

impl Stream for Turn {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.feed.poll(context)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(halt) = self.halt.take() {
            self.link.shared.abandon(&self.feed, halt);
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("ended", &self.feed.is_ended())
            .finish_non_exhaustive()
    }
}
