//! What the handshake settled for every connection of the process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use harness_host::Blueprint;
use harness_proto::localharness::ClientInfo;
use harness_types::Secret;
use tokio::sync::watch;

use crate::Bound;

/// What the handshake settled for every connection.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) key: Secret,
    user_agent: String,
    storage: Option<PathBuf>,
    env: BTreeMap<String, Secret>,
    stopping: watch::Receiver<bool>,
}

impl Settled {
    /// Takes what a handshake settled, and how to hear of the end.
    pub(crate) fn new(bound: Bound, stopping: watch::Receiver<bool>) -> Self {
        Self {
            key: bound.key,
            user_agent: user_agent(&bound.client),
            storage: bound.storage,
            env: bound.env,
            stopping,
        }
    }

    /// Adds what came with the handshake rather than with the conversation.
    pub(crate) fn complete(&self, blueprint: &mut Blueprint) {
        blueprint.user_agent.clone_from(&self.user_agent);
        blueprint.storage.clone_from(&self.storage);
        blueprint.commands.env.clone_from(&self.env);
    }

    /// Waits until the server stops.
    pub(crate) async fn stopping(&self) {
        let mut stopping = self.stopping.clone();
        // An error means that the server is gone.
        let _ = stopping.wait_for(|stop| *stop).await;
    }
}

/// What the model's provider is told: the SDK, where there is one, and who we are.
fn user_agent(client: &ClientInfo) -> String {
    let word = |text: &str| -> String {
        text.chars()
            .filter(|c| c.is_ascii_graphic() && !"/();".contains(*c))
            .collect()
    };
    let pair = |name: &str, version: &str| {
        let (name, version) = (word(name), word(version));
        (!name.is_empty() && !version.is_empty()).then(|| format!("{name}/{version}"))
    };
    let sdk = (client.language() == "python")
        .then(|| pair("google-antigravity-sdk", client.version()))
        .flatten();
    let words = [
        sdk,
        pair(client.language(), client.language_version()),
        pair("client-os", client.os()),
        pair("client-os-ver", client.os_version()),
        pair("harness", env!("CARGO_PKG_VERSION")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_names_the_sdk_and_the_harness() {
        let client = ClientInfo {
            language: Some("python".into()),
            version: Some("0.1.22".into()),
            language_version: Some("3.11.7\r\nX-Evil: 1".into()),
            ..Default::default()
        };
        assert_eq!(
            user_agent(&client),
            concat!(
                "google-antigravity-sdk/0.1.22 python/3.11.7X-Evil:1 harness/",
                env!("CARGO_PKG_VERSION")
            )
        );
        assert_eq!(
            user_agent(&ClientInfo::default()),
            concat!("harness/", env!("CARGO_PKG_VERSION"))
        );
    }
}
