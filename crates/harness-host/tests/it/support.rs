//! A host whose conversations are made of what the test gives.

use std::sync::{Arc, Mutex};

use harness_agent::Registry;
use harness_host::{Assemble, Assembly, Attachment, Blueprint, Error, Host, Limits, Update};
use harness_types::{
    Command, ConversationId, Input, InputPart, MemoryStore, Model, Script, ScriptedModel,
    ScriptedTurn, SessionStore,
};

/// Gives each conversation the next model, and all the same store.
#[derive(Debug)]
struct Parts {
    models: Mutex<Vec<Arc<dyn Model>>>,
    store: Arc<dyn SessionStore>,
}

impl Assemble for Parts {
    fn assemble(&self, _: &mut Blueprint) -> Result<Assembly, Error> {
        let mut models = self.models.lock().unwrap();
        if models.is_empty() {
            return Err(Error::config("models: there is none"));
        }
        Ok(Assembly {
            model: models.remove(0),
            tools: Registry::default(),
            store: self.store.clone(),
        })
    }
}

pub(crate) fn host_of(models: Vec<Arc<dyn Model>>, limits: Limits) -> Host {
    let store = Arc::new(MemoryStore::new());
    Host::new(
        Arc::new(Parts {
            models: Mutex::new(models),
            store,
        }),
        limits,
    )
}

/// A host for one conversation that follows this script.
pub(crate) fn host(turns: impl IntoIterator<Item = ScriptedTurn>) -> Host {
    host_of(vec![model(turns)], Limits::default())
}

pub(crate) fn model(turns: impl IntoIterator<Item = ScriptedTurn>) -> Arc<dyn Model> {
    Arc::new(ScriptedModel::new(Script::new(turns)))
}

pub(crate) fn id(byte: u8) -> ConversationId {
    ConversationId::from_random([byte; 16])
}

pub(crate) fn say(text: &str) -> Command {
    Command::Input(Input::user([InputPart::text(text)]))
}

/// Reads until the end of a turn, that included.
pub(crate) async fn read_turn(attachment: &mut Attachment) -> Vec<Update> {
    let mut all = Vec::new();
    loop {
        let update = attachment.next().await.unwrap();
        let ends = matches!(update, Update::TurnEnded { .. });
        all.push(update);
        if ends {
            return all;
        }
    }
}

/// One line an update: what is new of a step, or what else there is.
pub(crate) fn lines(updates: &[Update]) -> Vec<String> {
    updates.iter().map(line).collect()
}

pub(crate) fn line(update: &Update) -> String {
    match update {
        Update::Step(change) => {
            let step = &change.step;
            format!(
                "step {} {:?} +{:?}",
                step.index,
                step.state,
                change.text_delta()
            )
        }
        Update::TurnStarted { .. } => "turn started".into(),
        Update::TurnEnded { end, .. } => format!("turn ended {end:?}"),
        Update::Usage { total, .. } => format!("usage {}", total.total_tokens),
        Update::Request(request) => format!("request {}", request.id),
        Update::RequestClosed(request) => format!("closed {request}"),
        Update::SessionEnded => "session ended".into(),
        other => format!("{other:?}"),
    }
}
