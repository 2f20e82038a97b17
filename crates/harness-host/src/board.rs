//! What happened in a conversation, kept for its readers.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use harness_agent::Observer;
use harness_types::{
    Conversation, Request, RequestId, Step, StepIndex, Touch, TrajectoryId, TurnEnd, Usage,
};
use tokio::sync::Notify;

use crate::host::Place;

/// Shared by the loop, which writes, and the attachments, which read.
#[derive(Debug, Default)]
pub(crate) struct Board {
    content: Mutex<Content>,
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) trajectories: BTreeMap<TrajectoryId, Vec<Step>>,
    pub(crate) requests: BTreeMap<RequestId, Request>,
    pub(crate) usage: Usage,
    pub(crate) usage_by_trajectory: Vec<(TrajectoryId, Usage)>,
    /// What each attachment has not read yet, by its number.
    readers: BTreeMap<u64, Unread>,
    next_attachment: u64,
    pub(crate) closed: bool,
}

/// What happened and has not been read by one attachment.
///
/// A step is announced once, however often it changes: whoever reads it then gets its latest state.
/// So what a stalled reader costs grows with the conversation, not with its updates, and does not
/// depend on how fast others read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    entries: VecDeque<Entry>,
    steps: HashSet<(TrajectoryId, StepIndex)>,
}

impl Unread {
    fn announce(&mut self, entry: &Entry) {
        let known = match entry {
            Entry::Step(trajectory, step) => !self.steps.insert((trajectory.clone(), *step)),
            _ => false,
        };
        if !known {
            self.entries.push_back(entry.clone());
        }
    }

    fn take(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        if let Entry::Step(trajectory, step) = &entry {
            self.steps.remove(&(trajectory.clone(), *step));
        }
        Some(entry)
    }
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
    /// Registers an attachment that reads from here on, and gives it its number. Requests that are
    /// open are offered to it: somebody has to answer them.
    pub(crate) fn attach(&mut self) -> u64 {
        let number = self.next_attachment;
        self.next_attachment += 1;
        let mut unread = Unread::default();
        for request in self.requests.values() {
            if let Some(step) = request.step {
                unread.announce(&Entry::Step(request.trajectory.clone(), step));
            }
            unread.announce(&Entry::RequestOpened(request.id));
        }
        self.readers.insert(number, unread);
        number
    }

    pub(crate) fn detach(&mut self, number: u64) {
        self.readers.remove(&number);
    }

    /// What an attachment has not read yet, oldest first.
    pub(crate) fn unread(&self, number: u64) -> impl Iterator<Item = &Entry> {
        self.readers
            .get(&number)
            .into_iter()
            .flat_map(|unread| &unread.entries)
    }

    /// Takes the oldest thing an attachment has not read yet.
    pub(crate) fn take(&mut self, number: u64) -> Option<Entry> {
        self.readers.get_mut(&number)?.take()
    }

    fn announce(&mut self, entry: Entry) {
        for unread in self.readers.values_mut() {
            unread.announce(&entry);
        }
    }

    fn take_step(&mut self, trajectory: &TrajectoryId, step: &Step) {
        let steps = self.trajectories.entry(trajectory.clone()).or_default();
        match steps.get_mut(step.index.get() as usize) {
            Some(copy) => copy_step(copy, step),
            None => steps.push(step.clone()),
        }
        self.announce(Entry::Step(trajectory.clone(), step.index));
    }

    /// Takes a step whose request was closed; readers are told when they can see the difference.
    fn take_answered(&mut self, trajectory: &TrajectoryId, step: &Step) {
        let steps = self.trajectories.get_mut(trajectory);
        let copy = steps.and_then(|steps| steps.get_mut(step.index.get() as usize));
        let Some(copy) = copy else { return };
        let was = copy.state;
        copy_step(copy, step);
        if was != step.state {
            self.announce(Entry::Step(trajectory.clone(), step.index));
        }
    }

    fn take_usage(&mut self, conversation: &Conversation) {
        self.usage = conversation.usage();
        self.usage_by_trajectory = conversation
            .trajectories()
            .map(|trajectory| (trajectory.id.clone(), trajectory.usage.clone()))
            .collect();
    }

    pub(crate) fn step(&self, trajectory: &TrajectoryId, step: StepIndex) -> Option<&Step> {
        self.trajectories.get(trajectory)?.get(step.get() as usize)
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
pub(crate) struct BoardWriter {
    pub(crate) board: Arc<Board>,
    /// The conversation's place in its host: given back when the loop is gone, not before.
    pub(crate) _place: Option<Place>,
}

impl Observer for BoardWriter {
    fn resumed(&mut self, conversation: &Conversation) {
        let mut content = self.board.lock();
        for trajectory in conversation.trajectories() {
            for step in &trajectory.steps {
                content.take_step(&trajectory.id, step);
            }
        }
        content.take_usage(conversation);
    }

    fn changed(&mut self, conversation: &Conversation, touches: &[Touch]) {
        let mut content = self.board.lock();
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
                    content.take_usage(conversation);
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
                    let closed = content.requests.remove(id);
                    if let Some(request) = closed
                        && let Some(step) = request.step
                        && let Some(step) = conversation.step(&request.trajectory, step)
                    {
                        content.take_answered(&request.trajectory, step);
                    }
                    content.announce(Entry::RequestClosed(*id));
                }
                Touch::SessionEnded => {
                    content.announce(Entry::SessionEnded);
                }
                _ => {}
            }
        }
        drop(content);
        self.board.changed.notify_waiters();
    }
}

impl Drop for BoardWriter {
    fn drop(&mut self) {
        // The loop is gone, in whatever way: nothing more will happen.
        self.board.lock().closed = true;
        self.board.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
