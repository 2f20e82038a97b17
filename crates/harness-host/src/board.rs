//! What happened in a conversation, kept for its readers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use harness_agent::Observer;
use harness_types::{
    Conversation, Request, RequestId, Step, StepIndex, Touch, TrajectoryId, TurnEnd, Usage,
};
use tokio::sync::Notify;

/// Shared by the loop, which writes, and the attachments, which read.
#[derive(Debug, Default)]
pub(crate) struct Board {
    content: Mutex<Content>,
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) trajectories: BTreeMap<TrajectoryId, Vec<Kept>>,
    pub(crate) requests: BTreeMap<RequestId, Request>,
    pub(crate) usage: Usage,
    pub(crate) usage_by_trajectory: Vec<(TrajectoryId, Usage)>,
    /// What happened and has not been read by everybody; `entries[0]` has the number `first`.
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) first: u64,
    /// How far each attachment has read, by its number.
    cursors: BTreeMap<u64, u64>,
    next_attachment: u64,
    pub(crate) closed: bool,
}

/// A step and where it is announced.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) step: Step,
    /// The number of the last entry that announces it.
    entry: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Step(TrajectoryId, StepIndex),
    TurnStarted(TrajectoryId),
    TurnEnded(TrajectoryId, TurnEnd),
    Usage,
    RequestOpened(RequestId),
    RequestClosed(RequestId),
    SessionEnded,
}

impl Board {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    pub(crate) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Registers an attachment that reads from here on, and gives it its number.
    pub(crate) fn attach(&mut self) -> u64 {
        let number = self.next_attachment;
        self.next_attachment += 1;
        self.cursors.insert(number, self.end());
        number
    }

    pub(crate) fn detach(&mut self, number: u64) {
        self.cursors.remove(&number);
        self.prune();
    }

    pub(crate) fn cursor(&self, number: u64) -> u64 {
        self.cursors
            .get(&number)
            .copied()
            .unwrap_or_else(|| self.end())
    }

    pub(crate) fn advance(&mut self, number: u64) {
        if let Some(cursor) = self.cursors.get_mut(&number) {
            *cursor += 1;
        }
        self.prune();
    }

    /// Forgets what everybody has read.
    fn prune(&mut self) {
        let read = self
            .cursors
            .values()
            .min()
            .copied()
            .unwrap_or_else(|| self.end());
        while self.first < read && self.entries.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Tells the readers, if there are any, and says under which number.
    fn announce(&mut self, entry: Entry) -> Option<u64> {
        let number = self.end();
        (!self.cursors.is_empty()).then(|| {
            self.entries.push_back(entry);
            number
        })
    }

    /// Whether some reader has read the entry with this number.
    fn is_read(&self, number: u64) -> bool {
        number < self.first || self.cursors.values().any(|cursor| *cursor > number)
    }

    fn take_step(&mut self, trajectory: &TrajectoryId, step: &Step) {
        let steps = self.trajectories.entry(trajectory.clone()).or_default();
        let place = step.index.get() as usize;
        let announced = match steps.get_mut(place) {
            Some(kept) => {
                copy_step(&mut kept.step, step);
                kept.entry
            }
            None => {
                steps.push(Kept {
                    step: step.clone(),
                    entry: None,
                });
                None
            }
        };
        // An announcement nobody has read yet will show the latest state anyway.
        if announced.is_some_and(|entry| !self.is_read(entry)) {
            return;
        }
        let number = self.announce(Entry::Step(trajectory.clone(), step.index));
        let steps = self.trajectories.get_mut(trajectory);
        if let Some(kept) = steps.and_then(|steps| steps.get_mut(place)) {
            kept.entry = number;
        }
    }

    pub(crate) fn step(&self, trajectory: &TrajectoryId, step: StepIndex) -> Option<&Step> {
        let kept = self
            .trajectories
            .get(trajectory)?
            .get(step.get() as usize)?;
        Some(&kept.step)
    }
}

/// Brings a copy up to date. Text only grows, so only what is new of it is copied.
fn copy_step(copy: &mut Step, step: &Step) {
    grow(&mut copy.text, &step.text);
    grow(&mut copy.thinking, &step.thinking);
    copy.state = step.state;
    copy.target = step.target;
    copy.request = step.request;
    if copy.action != step.action {
        copy.action.clone_from(&step.action);
    }
    if copy.error != step.error {
        copy.error.clone_from(&step.error);
    }
}

fn grow(copy: &mut String, text: &str) {
    match text.get(copy.len()..) {
        Some(rest) => copy.push_str(rest),
        None => text.clone_into(copy),
    }
}

/// Writes a board as the loop goes.
#[derive(Debug)]
pub(crate) struct BoardWriter(pub(crate) Arc<Board>);

impl Observer for BoardWriter {
    fn changed(&mut self, conversation: &Conversation, touches: &[Touch]) {
        let mut content = self.0.lock();
        for touch in touches {
            match touch {
                Touch::Step { trajectory, step } => {
                    if let Some(step) = conversation.step(trajectory, *step) {
                        content.take_step(trajectory, step);
                    }
                }
                Touch::TurnStarted { trajectory } => {
                    content.announce(Entry::TurnStarted(trajectory.clone()));
                }
                Touch::TurnEnded { trajectory, end } => {
                    content.announce(Entry::TurnEnded(trajectory.clone(), end.clone()));
                }
                Touch::Usage => {
                    content.usage = conversation.usage();
                    content.usage_by_trajectory = conversation
                        .trajectories()
                        .map(|trajectory| (trajectory.id.clone(), trajectory.usage.clone()))
                        .collect();
                    content.announce(Entry::Usage);
                }
                Touch::RequestOpened(id) => {
                    let Some(request) = conversation.requests().get(id) else {
                        continue;
                    };
                    if let Some(step) = request.step
                        && let Some(step) = conversation.step(&request.trajectory, step)
                    {
                        content.take_step(&request.trajectory, step);
                    }
                    content.requests.insert(*id, request.clone());
                    content.announce(Entry::RequestOpened(*id));
                }
                Touch::RequestClosed(id) => {
                    content.requests.remove(id);
                    content.announce(Entry::RequestClosed(*id));
                }
                Touch::SessionEnded => {
                    content.announce(Entry::SessionEnded);
                }
                _ => {}
            }
        }
        drop(content);
        self.0.changed.notify_waiters();
    }
}

impl Drop for BoardWriter {
    fn drop(&mut self) {
        // The loop is gone, in whatever way: nothing more will happen.
        self.0.lock().closed = true;
        self.0.changed.notify_waiters();
    }
}
