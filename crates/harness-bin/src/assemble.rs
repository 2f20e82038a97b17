//! What a blueprint is made of in these programs: the models we have a provider for, the built-in
//! tools, and memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use harness_gemini::{Credential, Endpoint as GeminiEndpoint, GeminiConfig, GeminiModel};
use harness_host::{Assemble, Assembly, Blueprint, Endpoint, Error, ModelRole, ModelSpec};
use harness_session::SqliteStore;
use harness_toolkit::{BuiltInOptions, FileAccess, Registry, RunCommandOptions};
use harness_types::{Containment, MemoryStore, Model, Secret, SessionStore};

use crate::environment::{CREDENTIALS, Environment};
use crate::scripted::{self, SCRIPT};

/// Makes conversations with the providers and tools of this program.
#[derive(Debug)]
pub struct Assembler {
    environment: Environment,
    /// Answers in place of the models a blueprint names.
    model: Option<Arc<dyn Model>>,
    /// Folders every contained conversation may reach.
    reachable: Vec<PathBuf>,
}

impl Assembler {
    /// Models as the blueprint names them; keys and addresses it leaves out come from the
    /// environment.
    pub fn new(environment: Environment) -> Self {
        Self {
            environment,
            model: None,
            reachable: Vec::new(),
        }
    }

    /// The same, but contained conversations may also reach `folder`.
    #[must_use]
    pub fn with_reachable(mut self, folder: impl Into<PathBuf>) -> Self {
        self.reachable.push(folder.into());
        self
    }

    /// The same, but every conversation uses `model`.
    #[must_use]
    pub fn with_model(self, model: Arc<dyn Model>) -> Self {
        Self {
            model: Some(model),
            ..self
        }
    }

    fn model(&self, blueprint: &Blueprint) -> Result<Arc<dyn Model>, Error> {
        if let Some(model) = &self.model {
            return Ok(Arc::clone(model));
        }
        let spec = blueprint
            .models
            .iter()
            .find(|model| model.roles.contains(&ModelRole::Text))
            .ok_or_else(|| Error::config("models: there is no model for text"))?;
        gemini(spec, blueprint, &self.environment)
    }
}

/// A variable the client sent for this conversation, or else one of the process.
fn variable<'a>(
    name: &str,
    sent: &'a BTreeMap<String, Secret>,
    environment: &'a Environment,
) -> Option<&'a str> {
    sent.get(name)
        .map(Secret::expose)
        .filter(|v| !v.is_empty())
        .or_else(|| environment.get(name))
}

fn gemini(
    spec: &ModelSpec,
    blueprint: &Blueprint,
    environment: &Environment,
) -> Result<Arc<dyn Model>, Error> {
    let sent = &blueprint.commands.env;
    let mut config = GeminiConfig::new(&spec.name).user_agent(&blueprint.user_agent);
    let key = |given: &Secret| match given.is_empty() {
        false => Some(given.clone()),
        true => variable("GEMINI_API_KEY", sent, environment).map(Secret::new),
    };
    let base = match &spec.endpoint {
        Endpoint::Gemini { base_url, api_key } => {
            if let Some(key) = key(api_key) {
                config = config.credential(Credential::ApiKey(key));
            }
            base_url
        }
        Endpoint::Vertex {
            base_url,
            project,
            location,
            api_key,
        } => {
            config = match (project.as_str(), location.as_str()) {
                ("", _) | (_, "") => config.endpoint(GeminiEndpoint::VertexExpress),
                (project, location) => config.endpoint(GeminiEndpoint::Vertex {
                    project: project.to_owned(),
                    location: location.to_owned(),
                }),
            };
            if let Some(key) = key(api_key) {
                config = config.credential(Credential::ApiKey(key));
            }
            base_url
        }
        Endpoint::ChatCompletions { .. } => {
            return Err(Error::config(format!(
                "models: {:?} has a chat completions endpoint (gemmaEndpoint), which is not built \
                 yet",
                spec.name
            )));
        }
        Endpoint::Custom { kind, config } if kind == SCRIPT => {
            let model = scripted::model(config.expose(), &blueprint.config.workspaces).map_err(
                |error| {
                    Error::config(format!(
                        "models: {:?}: {}",
                        spec.name,
                        scripted::describe(&error)
                    ))
                },
            )?;
            return Ok(Arc::new(model));
        }
        Endpoint::Custom { kind, .. } => {
            return Err(Error::config(format!(
                "models: {:?} has a custom endpoint of kind {kind:?}, which this program does not \
                 know",
                spec.name
            )));
        }
        _ => return Err(Error::config("models: the endpoint is of an unknown kind")),
    };
    if !base.is_empty() {
        config = config.base_url(base);
    } else if let Some(base) = variable("GOOGLE_GEMINI_BASE_URL", sent, environment) {
        config = config.base_url(base);
    }
    for (name, value) in &spec.headers {
        config = config.header(name, value.clone());
    }
    let model = GeminiModel::new(&config)
        .map_err(|error| Error::config(format!("models: {:?}: {error}", spec.name)))?;
    Ok(Arc::new(model))
}

impl Assemble for Assembler {
    fn assemble(&self, blueprint: &mut Blueprint) -> Result<Assembly, Error> {
        let model = self.model(blueprint)?;
        blueprint
            .config
            .reachable
            .extend_from_slice(&self.reachable);
        let config = &blueprint.config;
        let access = match config.policy.containment {
            Containment::Contained => FileAccess::contained(config.contained_roots()),
            _ => FileAccess::Unconfined,
        };
        // A credential the client sends as a variable is for us, not for commands.
        let env = blueprint
            .commands
            .env
            .iter()
            .filter(|(name, _)| !CREDENTIALS.contains(&name.as_str()))
            .map(|(name, value)| (name.into(), value.expose().into()))
            .collect();
        let tools = Registry::with_built_ins(BuiltInOptions {
            access,
            run_command: RunCommandOptions {
                timeout: blueprint.commands.timeout,
                env,
                env_deny: CREDENTIALS.iter().map(Into::into).collect(),
            },
        });
        let store: Arc<dyn SessionStore> = match &blueprint.storage {
            Some(folder) => Arc::new(SqliteStore::new(folder)),
            None => Arc::new(MemoryStore::new()),
        };
        Ok(Assembly {
            model,
            tools,
            store,
        })
    }
}
