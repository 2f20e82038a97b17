//! Watching a conversation from inside its task.

use harness_types::{Conversation, Note, Touch};

/// Watches a conversation. Called by the loop between steps: implementations hand over what they
/// need and return at once.
pub trait Observer: Send + std::fmt::Debug {
    /// The conversation has changed; the records behind the change have been kept.
    fn changed(&mut self, conversation: &Conversation, touches: &[Touch]);

    /// The conversation has been taken up again; what there is of it was not told as changes.
    /// Called at most once, before [`Agent::spawn`](crate::Agent::spawn) returns.
    fn resumed(&mut self, conversation: &Conversation) {
        let _ = conversation;
    }

    /// The loop ignored something.
    fn noted(&mut self, note: &Note) {
        tracing::warn!("{note}");
    }
}
