//! Streaming text on its way to the file: merged, and held back for a moment.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use harness_types::{Record, RecordBody};

/// How long, and how much of, streaming text may wait in memory.
pub(crate) const PROGRESS_TIME: Duration = Duration::from_millis(250);
pub(crate) const PROGRESS_BYTES: usize = 64 * 1024;

/// What one record costs beside its text.
const RECORD_BYTES: usize = 128;

/// Records that were accepted and not written.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    records: Vec<Record>,
    bytes: usize,
    since: Option<Instant>,
}

impl Progress {
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// When the records have to be written; `None` when there are none.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + PROGRESS_TIME)
    }

    /// Whether these records may join the ones that wait.
    pub(crate) fn has_room(&self, records: &[Record]) -> bool {
        records.iter().all(|record| record.body.is_progress())
            && self.due().is_none_or(|due| Instant::now() < due)
            && self.bytes + records.iter().map(bytes).sum::<usize>() < PROGRESS_BYTES
    }

    /// Takes records; whether they are progress and have room is the caller's to know.
    pub(crate) fn hold(&mut self, records: &[Record]) {
        if !records.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
        for record in records {
            self.bytes += bytes(record);
            let last = self.records.last_mut();
            if !last.is_some_and(|last| absorb(last, record)) {
                self.records.push(record.clone());
            }
        }
    }

    /// Forgets what has been written.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The writing failed: it is tried again with the next append, not at a time.
    pub(crate) fn give_up_time(&mut self) {
        self.since = None;
    }
}

/// The records as they are written: those that only continue their predecessor are part of it.
pub(crate) fn merged(records: &[Record]) -> Vec<Cow<'_, Record>> {
    let mut list: Vec<Cow<'_, Record>> = Vec::with_capacity(records.len());
    for record in records {
        let last = list.last_mut();
        if !last.is_some_and(|last| continues(last, record) && absorb(last.to_mut(), record)) {
            list.push(Cow::Borrowed(record));
        }
    }
    list
}

/// Whether `next` can only be absorbed by `last`; spares others the copy.
fn continues(last: &Record, next: &Record) -> bool {
    match (&last.body, &next.body) {
        (RecordBody::AnswerDelta(last), RecordBody::AnswerDelta(next)) => {
            (&last.trajectory, last.call, last.step) == (&next.trajectory, next.call, next.step)
        }
        (
            RecordBody::CallProgressed {
                trajectory, step, ..
            },
            RecordBody::CallProgressed {
                trajectory: next_trajectory,
                step: next_step,
                ..
            },
        ) => (trajectory, step) == (next_trajectory, next_step),
        _ => false,
    }
}

/// Makes `next` a part of `last` where it only continues its text or replaces its view, and says
/// whether it did.
fn absorb(last: &mut Record, next: &Record) -> bool {
    if !continues(last, next) {
        return false;
    }
    match (&mut last.body, &next.body) {
        (RecordBody::AnswerDelta(last), RecordBody::AnswerDelta(next)) => {
            last.part.merge(&next.part)
        }
        (
            RecordBody::CallProgressed { action, .. },
            RecordBody::CallProgressed { action: newer, .. },
        ) => {
            action.clone_from(newer);
            true
        }
        _ => false,
    }
}

/// About how much memory a record takes. A view that is replaced counts as if it were kept: the
/// bound may only come too early.
fn bytes(record: &Record) -> usize {
    let text = match &record.body {
        RecordBody::AnswerDelta(delta) => match delta.part.text_bytes() {
            0 => json_bytes(&delta.part),
            text => text,
        },
        RecordBody::CallProgressed { action, .. } => json_bytes(action),
        _ => 0,
    };
    RECORD_BYTES + text
}

fn json_bytes(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(PROGRESS_BYTES, |json| json.len())
}
