use std::sync::{Arc, Mutex, PoisonError};

use crate::handshake::Address;
use crate::opening::SessionBuilder;
use crate::session::{Link, WeakLink};
use crate::stderr::Stderr;
use crate::{ConversationConfig, Limits, Secret};

/// Where a harness listens, and the key it wants.
///
/// Usually a [`Harness`](crate::Harness) knows; made by hand for a harness that somebody else
/// started.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) hosts: Vec<String>,
    pub(crate) address: Address,
    pub(crate) stderr: Stderr,
    pub(crate) limits: Limits,
    sessions: Mutex<Vec<WeakLink>>,
}

impl Endpoint {
    /// Returns the endpoint of a harness at `host`, a name or an address.
    pub fn new(host: impl Into<String>, port: u16, key: impl Into<Secret>) -> Self {
        let address = Address {
            port,
            key: key.into(),
        };
        Self::of_process(
            vec![host.into()],
            address,
            Stderr::none(),
            Limits::default(),
        )
    }

    pub(crate) fn of_process(
        hosts: Vec<String>,
        address: Address,
        stderr: Stderr,
        limits: Limits,
    ) -> Self {
        Self {
            hosts,
            address,
            stderr,
            limits,
            sessions: Mutex::default(),
        }
    }

    /// Begins to open a conversation.
    pub fn session(&self, config: ConversationConfig) -> SessionBuilder<'_> {
        SessionBuilder::new(self, config)
    }

    pub(crate) fn remember(&self, link: &Arc<Link>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|link| link.strong_count() > 0);
        sessions.push(Arc::downgrade(link));
    }

    /// Closes all sessions, side by side.
    pub(crate) async fn close_sessions(&self) {
        let sessions = {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *sessions)
        };
        let open = sessions.iter().filter_map(WeakLink::upgrade);
        futures_util::future::join_all(open.map(|link| async move { link.close().await })).await;
    }
}
