//! A turn, while it happens.

use std::collections::{BTreeMap, VecDeque};

use harness_host::{StepChange, Update};
use harness_types::{Source, Step, StepError, StepIndex, StepState, Target, TurnEnd, Usage};

use crate::{Agent, Error};

/// Something that happened in a turn.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The answer grew by this text.
    Text(String),
    /// The model's thoughts grew by this text.
    Thinking(String),
    /// A call of a tool is new or has changed; the step is complete.
    Tool(Box<Step>),
    /// Something went wrong; the turn may go on.
    Error(StepError),
    /// The tokens of the whole conversation so far.
    Usage(Box<Usage>),
    /// The turn is over. Always the last event.
    Ended(Box<TurnEnd>),
}

/// A turn of an agent: what it does about one input.
///
/// It goes on whether it is read or not, and approvals are asked for meanwhile. Dropping it before
/// its end halts it.
#[derive(Debug)]
#[must_use = "dropping a turn halts it"]
pub struct Turn<'a> {
    agent: &'a mut Agent,
    waiting: VecDeque<Event>,
    texts: BTreeMap<StepIndex, String>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(agent: &'a mut Agent) -> Self {
        Self {
            agent,
            waiting: VecDeque::new(),
            texts: BTreeMap::new(),
        }
    }

    /// Returns the next event, `None` after [`Event::Ended`].
    ///
    /// Text is merged while nobody reads: an event holds all there is.
    ///
    /// # Errors
    ///
    /// [`Error::Conversation`] when the conversation ended by a fault. A turn that failed is no
    /// error here but an [`Event::Ended`].
    ///
    /// # Cancel safety
    ///
    /// No event is lost when the future is dropped before it is ready.
    pub async fn next_event(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(Some(event));
            }
            if !self.agent.running {
                return Ok(None);
            }
            let Some(update) = self.agent.updates.next().await else {
                self.agent.running = false;
                return Err(harness_host::Error::Closed.into());
            };
            self.take(update);
        }
    }

    fn take(&mut self, update: Update) {
        match update {
            Update::Step(change) if change.trajectory == self.agent.root => {
                self.take_step(&change);
            }
            Update::Usage { total, .. } => self.waiting.push_back(Event::Usage(Box::new(total))),
            Update::TurnEnded { trajectory, end } if trajectory == self.agent.root => {
                self.agent.running = false;
                self.waiting.push_back(Event::Ended(Box::new(end)));
            }
            _ => {}
        }
    }

    fn take_step(&mut self, change: &StepChange) {
        let step = &change.step;
        if step.call.is_some() {
            self.waiting.push_back(Event::Tool(Box::new(step.clone())));
            return;
        }
        if step.source == Source::Model && step.target == Target::User {
            match step.state {
                StepState::Error => self.texts.remove(&step.index),
                _ => self.texts.insert(step.index, step.text.clone()),
            };
            let thinking = change.thinking_delta();
            if !thinking.is_empty() {
                self.waiting.push_back(Event::Thinking(thinking.to_owned()));
            }
            let text = change.text_delta();
            if !text.is_empty() {
                self.waiting.push_back(Event::Text(text.to_owned()));
            }
        }
        if let Some(error) = &step.error {
            self.waiting.push_back(Event::Error(error.clone()));
        }
    }

    /// What the agent has said in the events read so far: its texts, without those of failed
    /// steps, with an empty line between two.
    pub fn text_so_far(&self) -> String {
        let texts: Vec<&str> = self
            .texts
            .values()
            .map(|text| text.trim_end_matches('\n'))
            .filter(|text| !text.is_empty())
            .collect();
        texts.join("\n\n")
    }

    /// Waits for the end of the turn and returns how it ended, with the answer.
    ///
    /// # Errors
    ///
    /// As [`next_event`](Self::next_event).
    ///
    /// # Cancel safety
    ///
    /// The future owns the turn: dropping it halts the turn.
    pub async fn end(mut self) -> Result<(TurnEnd, String), Error> {
        while let Some(event) = self.next_event().await? {
            if let Event::Ended(end) = event {
                return Ok((*end, self.text_so_far()));
            }
        }
        // Its end was read before, by the caller.
        Err(harness_host::Error::Closed.into())
    }

    /// Waits for the end of the turn and returns the answer; of a structured answer, its JSON
    /// text.
    ///
    /// # Errors
    ///
    /// As [`end`](Self::end), and [`Error::Turn`] when it was halted, refused or stopped, or
    /// failed.
    ///
    /// # Cancel safety
    ///
    /// The future owns the turn: dropping it halts the turn.
    pub async fn text(self) -> Result<String, Error> {
        match self.end().await? {
            (TurnEnd::Completed, text) => Ok(text),
            (TurnEnd::Finished { output }, _) => Ok(output),
            (end, text) => Err(Error::Turn {
                end: Box::new(end),
                text,
            }),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.agent.abandon();
    }
}
