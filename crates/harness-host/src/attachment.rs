//! Reading what happens in a conversation.

use std::collections::HashMap;
use std::sync::Arc;

use harness_types::{Request, RequestId, Step, StepIndex, StepState, TrajectoryId, TurnEnd, Usage};

use crate::board::{Board, Content, Entry};

/// A reader's place in a conversation. Dropping it detaches.
#[derive(Debug)]
pub struct Attachment {
    board: Arc<Board>,
    number: u64,
    /// How much of the text and the thoughts of unfinished steps has been read, in bytes.
    read: HashMap<(TrajectoryId, StepIndex), (usize, usize)>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// A step is new or has changed.
    Step(StepChange),
    /// A turn began.
    TurnStarted {
        /// Where.
        trajectory: TrajectoryId,
    },
    /// A turn ended.
    TurnEnded {
        /// Where.
        trajectory: TrajectoryId,
        /// How.
        end: TurnEnd,
    },
    /// The totals have changed.
    Usage {
        /// Over all trajectories.
        total: Usage,
        /// By trajectory.
        trajectories: Vec<(TrajectoryId, Usage)>,
    },
    /// Somebody is asked something. Only requests that are still open are shown.
    Request(Request),
    /// A request needs no answer any more.
    RequestClosed(RequestId),
    /// The session's end has been dealt with.
    SessionEnded,
}

/// A step in its latest state, and what of it this reader has not seen yet.
#[derive(Debug, Clone, PartialEq)]
pub struct StepChange {
    /// Where.
    pub trajectory: TrajectoryId,
    /// The step.
    pub step: Step,
    text_read: usize,
    thinking_read: usize,
}

impl StepChange {
    /// The text that is new to this reader. All deltas of a step joined are its text.
    pub fn text_delta(&self) -> &str {
        self.step.text.get(self.text_read..).unwrap_or("")
    }

    /// The thoughts that are new to this reader.
    pub fn thinking_delta(&self) -> &str {
        self.step.thinking.get(self.thinking_read..).unwrap_or("")
    }
}

/// What happened in a conversation before somebody began to read it.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// Its steps, by trajectory and then in order.
    pub steps: Vec<(TrajectoryId, Step)>,
    /// Tokens over all trajectories.
    pub usage: Usage,
    /// Tokens by trajectory.
    pub trajectories: Vec<(TrajectoryId, Usage)>,
}

impl History {
    pub(crate) fn of(content: &Content) -> Self {
        let steps = content.trajectories.iter().flat_map(|(trajectory, steps)| {
            steps.iter().map(|step| (trajectory.clone(), step.clone()))
        });
        Self {
            steps: steps.collect(),
            usage: content.usage.clone(),
            trajectories: content.usage_by_trajectory.clone(),
        }
    }
}

impl StepChange {
    /// A step as somebody sees it who has seen it whole before: with no new text.
    pub fn seen(trajectory: TrajectoryId, step: Step) -> Self {
        let (text_read, thinking_read) = (step.text.len(), step.thinking.len());
        Self {
            trajectory,
            step,
            text_read,
            thinking_read,
        }
    }
}

impl Attachment {
    /// Attaches, and takes what happened before in the same moment: nothing falls between the two.
    pub(crate) fn with_history(board: Arc<Board>) -> (History, Self) {
        let mut content = board.lock();
        let history = History::of(&content);
        // What the history shows of unfinished steps has been read.
        let unfinished = history
            .steps
            .iter()
            .filter(|(_, step)| !step.state.is_final());
        let read = unfinished
            .map(|(trajectory, step)| {
                let key = (trajectory.clone(), step.index);
                (key, (step.text.len(), step.thinking.len()))
            })
            .collect();
        let number = content.attach();
        drop(content);
        (
            history,
            Self {
                board,
                number,
                read,
            },
        )
    }

    /// The next thing that happened; `None` when the conversation has ended and all has been read.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Update> {
        loop {
            self.wait().await;
            if let Some(update) = self.take() {
                return Some(update);
            }
            let content = self.board.lock();
            if content.closed && content.unread(self.number).next().is_none() {
                return None;
            }
        }
    }

    /// Waits until [`Attachment::take`] may have something, or the conversation has ended.
    ///
    /// # Cancel safety
    ///
    /// Can be called again.
    pub async fn wait(&self) {
        self.wait_for(|content, number| content.unread(number).next().is_some())
            .await;
    }

    /// Waits until something other than progress of running steps can be read, or the conversation
    /// has ended.
    ///
    /// # Cancel safety
    ///
    /// Can be called again.
    pub async fn wait_beyond_progress(&self) {
        self.wait_for(|content, number| !content.only_progress(number))
            .await;
    }

    async fn wait_for(&self, ready: impl Fn(&Content, u64) -> bool) {
        loop {
            let changed = self.board.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that nothing between the two is missed.
            changed.as_mut().enable();
            {
                let content = self.board.lock();
                if content.closed || ready(&content, self.number) {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Whether all that can be read now is progress of running steps, which may as well be read
    /// later.
    pub fn only_progress(&self) -> bool {
        self.board.lock().only_progress(self.number)
    }

    /// Whether the conversation has ended.
    pub fn is_closed(&self) -> bool {
        self.board.lock().closed
    }

    /// Reads the next thing that happened, if there is one, without waiting.
    pub fn take(&mut self) -> Option<Update> {
        let board = Arc::clone(&self.board);
        let mut content = board.lock();
        while let Some(entry) = content.take(self.number) {
            let update = self.read_entry(&content, entry);
            if update.is_some() {
                return update;
            }
        }
        None
    }

    fn read_entry(&mut self, content: &Content, entry: Entry) -> Option<Update> {
        Some(match entry {
            Entry::Step(trajectory, index) => {
                let step = content.step(&trajectory, index)?.clone();
                let key = (trajectory.clone(), index);
                let (text_read, thinking_read) = self.read.remove(&key).unwrap_or_default();
                if !step.state.is_final() {
                    self.read
                        .insert(key, (step.text.len(), step.thinking.len()));
                }
                Update::Step(StepChange {
                    trajectory,
                    step,
                    text_read,
                    thinking_read,
                })
            }
            Entry::TurnStarted(trajectory) => Update::TurnStarted { trajectory },
            Entry::TurnEnded(trajectory, end) => Update::TurnEnded { trajectory, end },
            Entry::Usage => Update::Usage {
                total: content.usage.clone(),
                trajectories: content.usage_by_trajectory.clone(),
            },
            Entry::RequestOpened(id) => Update::Request(content.requests.get(&id)?.clone()),
            Entry::RequestClosed(id) => Update::RequestClosed(id),
            Entry::SessionEnded => Update::SessionEnded,
        })
    }
}

impl Content {
    /// Whether everything an attachment has not read yet only shows running steps.
    fn only_progress(&self, number: u64) -> bool {
        !self.closed
            && self.unread(number).all(|entry| match entry {
                Entry::Step(trajectory, index) => self
                    .step(trajectory, *index)
                    .is_some_and(|step| step.state == StepState::Active),
                _ => false,
            })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.board.lock().detach(self.number);
    }
}
