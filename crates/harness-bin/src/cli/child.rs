//! This program once more, as a harness process.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use harness_client::wire::{CustomEndpoint, ModelConfig, ModelType, model_config};
use harness_client::{ConversationConfig, Harness, Launch};

use super::SERVER;
use super::scratch::Scratch;
use crate::scripted::SCRIPT;

/// Starts this program as `localharness` and returns how long that took: from the start of the
/// process to the end of its handshake.
pub(crate) async fn start() -> anyhow::Result<(Harness, Duration)> {
    // The name it is called by makes it the other program, and a link gives it that name.
    let folder = Scratch::new("start").context("no folder for temporary files can be used")?;
    let link = folder.path().join(SERVER);
    let program = std::env::current_exe().context("this program cannot be located")?;
    std::os::unix::fs::symlink(program, &link).context("no link can be made")?;
    let began = Instant::now();
    let harness = Launch::new(link).start().await?;
    // The process runs; its name is needed no more.
    Ok((harness, began.elapsed()))
}

/// A configuration whose model follows a script.
pub(crate) fn scripted(script: &str) -> ConversationConfig {
    let model = ModelConfig {
        name: Some(SCRIPT.to_owned()),
        types: vec![ModelType::Text.into()],
        endpoint: Some(model_config::Endpoint::CustomEndpoint(CustomEndpoint {
            backend_type: Some(SCRIPT.to_owned()),
            config_json: Some(script.to_owned()),
        })),
    };
    ConversationConfig::default().edit(|config| config.models.push(model))
}

/// A short time for people: `4.2 ms`.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
