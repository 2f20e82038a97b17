//! Writing held-back text in time, also when nothing is appended any more.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use crate::store::Held;

type Due = (Instant, Arc<Mutex<Held>>);

/// A thread that flushes conversations when they are due. Ends when it is dropped; what is held
/// back then is written by whoever drops the conversation.
#[derive(Debug)]
pub(crate) struct Flusher {
    due: Option<mpsc::Sender<Due>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Flusher {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (due, asked) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("session-flush".to_owned())
            .spawn(move || run(&asked))?;
        Ok(Self {
            due: Some(due),
            thread: Some(thread),
        })
    }

    /// Has a conversation flushed at `when`, if something is due then.
    pub(crate) fn flush_at(&self, when: Instant, held: Arc<Mutex<Held>>) {
        if let Some(due) = &self.due {
            // The thread ends only when this is dropped.
            let _ = due.send((when, held));
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.due = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(asked: &mpsc::Receiver<Due>) {
    let mut waiting: Vec<Due> = Vec::new();
    loop {
        let next = waiting.iter().map(|(when, _)| *when).min();
        let received = match next {
            None => asked
                .recv()
                .map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            Some(when) => asked.recv_timeout(when.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(due) => waiting.push(due),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        waiting.retain(|(when, held)| {
            let is_due = *when <= now;
            if is_due {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                held.flush_if_due(now);
            }
            !is_due
        });
    }
}
