//! Where records are kept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::{BoxFuture, ConversationId, Record, RecordBody};

/// Keeps the records of conversations.
///
/// The loop appends before it acts: an effect starts only after the records that announce it have
/// been accepted.
pub trait SessionStore: Send + Sync + std::fmt::Debug {
    /// Appends records to a conversation, all or none, in order. The first append creates it.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the records could not be kept; the conversation's turn then ends, and
    /// nothing that depended on them is done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may or may not have appended the records.
    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Reads a conversation and keeps it for this store, so that nobody else writes it; `None` when
    /// there is no such conversation.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the conversation exists and cannot be read, or somebody else has it.
    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Option<Loaded>, StoreError>>;
}

/// A conversation as it was kept.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Loaded {
    /// Its records, oldest first.
    pub records: Vec<Record>,
    /// What the user has to know: something was damaged, and this is what was done about it.
    pub notice: Option<String>,
}

impl Loaded {
    /// A conversation that was kept whole.
    pub fn whole(records: Vec<Record>) -> Self {
        Self {
            records,
            notice: None,
        }
    }

    /// A conversation of which a part was lost.
    pub fn damaged(records: Vec<Record>, notice: impl Into<String>) -> Self {
        Self {
            records,
            notice: Some(notice.into()),
        }
    }
}

/// Records that could not be kept or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else writes the conversation.
    #[error("{message}")]
    Busy {
        /// Which conversation, and who has it.
        message: String,
    },
    /// What was found is not a conversation this version can read.
    #[error("{message}")]
    Unreadable {
        /// The path, what is wrong with it, and what to do.
        message: String,
    },
    /// The medium failed.
    #[error("session store: {message}")]
    Io {
        /// What was tried, with the path.
        message: String,
        /// What the medium said.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

/// Keeps records in memory, for conversations that nobody wants to keep.
///
/// Adjacent pieces of streamed text are merged, and superseded views of running calls are dropped,
/// so that a log costs about as much as the conversation it folds into.
#[derive(Debug, Default)]
pub struct MemoryStore {
    conversations: Mutex<HashMap<ConversationId, Vec<Record>>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl SessionStore for MemoryStore {
    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut all = self
                .conversations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if !all.contains_key(conversation) {
                all.insert(conversation.clone(), Vec::new());
            }
            if let Some(log) = all.get_mut(conversation) {
                for record in records {
                    push(log, record);
                }
            }
            Ok(())
        })
    }

    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Option<Loaded>, StoreError>> {
        Box::pin(async move {
            let all = self
                .conversations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Ok(all.get(conversation).cloned().map(Loaded::whole))
        })
    }
}

fn push(log: &mut Vec<Record>, record: &Record) {
    let absorbed = match (log.last_mut().map(|last| &mut last.body), &record.body) {
        (Some(RecordBody::AnswerDelta(last)), RecordBody::AnswerDelta(next)) => {
            last.call == next.call && last.step == next.step && last.part.merge(&next.part)
        }
        (
            Some(RecordBody::CallProgressed {
                trajectory,
                step,
                action,
            }),
            RecordBody::CallProgressed {
                trajectory: t,
                step: s,
                action: a,
            },
        ) if trajectory == t && step == s => {
            action.clone_from(a);
            true
        }
        _ => false,
    };
    if !absorbed {
        log.push(record.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerDelta, ModelCallId, ModelPart, StepIndex, Timestamp, TrajectoryId};

    #[tokio::test(flavor = "current_thread")]
    async fn streamed_text_is_merged_and_a_missing_conversation_is_none() {
        let id: ConversationId = "0".repeat(32).parse().unwrap();
        let delta = |text: &str| Record {
            at: Timestamp::from_micros(1),
            body: RecordBody::AnswerDelta(AnswerDelta {
                trajectory: TrajectoryId::root(&id),
                call: ModelCallId::new(0),
                step: Some(StepIndex::new(1)),
                part: ModelPart::Text {
                    text: text.into(),
                    signature: None,
                },
            }),
        };
        let store = MemoryStore::new();
        assert!(store.load(&id).await.unwrap().is_none());
        store.append(&id, &[delta("a"), delta("b")]).await.unwrap();
        store.append(&id, &[delta("c")]).await.unwrap();
        let loaded = Loaded::whole(vec![delta("abc")]);
        assert_eq!(store.load(&id).await.unwrap(), Some(loaded));
    }
}
