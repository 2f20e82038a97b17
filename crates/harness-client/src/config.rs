use std::path::Path;

use harness_proto::localharness::{self as wire, HarnessConfig, harness_config};
use serde_json::Value;

mod model;
mod policy;
mod tools;

pub use model::Model;
pub use policy::{Containment, Rule};
pub use tools::Builtin;

/// What a conversation is made from, besides [`Handlers`](crate::Handlers).
///
/// Every setting is sent as it is; what is not set is the harness's to choose. For fields without
/// a method here, [`edit`](Self::edit) gives access to the whole wire message, and a finished
/// message converts into a configuration. `Debug` hides credentials.
#[derive(Debug, Clone, PartialEq, Default)]
#[must_use]
pub struct ConversationConfig {
    wire: HarnessConfig,
    /// The first thing that cannot be sent; reported when the conversation is opened.
    problem: Option<String>,
}

impl ConversationConfig {
    /// Returns a configuration with one model and nothing else.
    pub fn new(model: Model) -> Self {
        Self::default().model(model)
    }

    /// Adds a model, for instance one for images.
    pub fn model(mut self, model: Model) -> Self {
        self.wire.models.push(model.into_wire());
        self
    }

    /// Adds a folder the agent works in. Commands start in the first one.
    ///
    /// A relative path is the harness process's to interpret; give an absolute one.
    pub fn workspace(mut self, folder: impl AsRef<Path>) -> Self {
        if let Some(directory) = self.text_of(folder.as_ref()) {
            let folder = wire::FilesystemWorkspace {
                directory: Some(directory),
            };
            self.wire.workspaces.push(wire::Workspace {
                workspace_type: Some(wire::workspace::WorkspaceType::FilesystemWorkspace(folder)),
            });
        }
        self
    }

    /// Sets the folder the harness may keep files in that are not part of the work.
    pub fn app_data_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.wire.app_data_dir = self.text_of(folder.as_ref());
        self
    }

    /// Replaces the whole system prompt by `text`.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        use wire::custom_system_instructions::{Part, part};
        let custom = wire::CustomSystemInstructions {
            part: vec![Part {
                part: Some(part::Part::Text(text.into())),
            }],
        };
        self.system().r#type = Some(wire::system_instructions::Type::Custom(custom));
        self
    }

    /// Says who the agent is, in place of the harness's own words. Undoes
    /// [`system_prompt`](Self::system_prompt).
    pub fn identity(mut self, text: impl Into<String>) -> Self {
        self.appended().custom_identity = Some(text.into());
        self
    }

    /// Appends a titled section to the harness's system prompt. Undoes
    /// [`system_prompt`](Self::system_prompt).
    pub fn prompt_section(mut self, title: impl Into<String>, text: impl Into<String>) -> Self {
        let section = wire::appended_system_instructions::Section {
            title: Some(title.into()),
            content: Some(text.into()),
        };
        self.appended().appended_sections.push(section);
        self
    }

    /// Offers exactly these built-in tools: all others are switched off.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Builtin>) -> Self {
        let wanted: Vec<Builtin> = tools.into_iter().collect();
        let toggles = self.wire.harness_side_tools.get_or_insert_default();
        for tool in Builtin::ALL {
            let enabled = wanted.contains(&tool);
            tools::set_enabled(toggles, tool, enabled);
        }
        self
    }

    /// Sets how much the agent involves the user.
    pub fn behavior(mut self, behavior: Behavior) -> Self {
        self.wire.agent_behavior = Some(match behavior {
            Behavior::Autonomous => wire::AgentBehavior::Autonomous,
            Behavior::Interactive => wire::AgentBehavior::Interactive,
            Behavior::Minimal => wire::AgentBehavior::Minimal,
        } as i32);
        self
    }

    /// Names the conversation, which a harness with a storage directory keeps under this id.
    ///
    /// At least 32 characters.
    pub fn conversation(mut self, id: impl Into<String>, continuation: Continuation) -> Self {
        use harness_config::SessionContinuationMode as Mode;
        self.wire.cascade_id = Some(id.into());
        self.wire.session_continuation_mode = Some(match continuation {
            Continuation::Resume => Mode::Resume,
            Continuation::CreateOrResume => Mode::CreateOrResume,
            Continuation::Create => Mode::CreateOnly,
        } as i32);
        self
    }

    /// Wants a structured result of this JSON schema: declares the tool `finish`.
    pub fn finish_schema(mut self, schema: &Value) -> Self {
        self.wire.finish_tool_schema_json = Some(schema.to_string());
        self
    }

    /// Adds a rule about tool calls. Precedence is by how specific rules are, not by order.
    pub fn rule(mut self, rule: Rule) -> Self {
        let policy = self.wire.policy_config.get_or_insert_default();
        policy.rules.push(rule.into_wire());
        self
    }

    /// Sets whether file tools stay inside the workspaces.
    pub fn containment(mut self, containment: Containment) -> Self {
        let policy = self.wire.policy_config.get_or_insert_default();
        policy.workspace_containment = Some(containment.into_wire() as i32);
        self
    }

    /// Changes the wire message itself.
    pub fn edit(mut self, change: impl FnOnce(&mut HarnessConfig)) -> Self {
        change(&mut self.wire);
        self
    }

    /// Returns the wire message, or what is wrong with a setting.
    pub(crate) fn into_wire(self) -> Result<HarnessConfig, String> {
        match self.problem {
            Some(problem) => Err(problem),
            None => Ok(self.wire),
        }
    }

    fn text_of(&mut self, path: &Path) -> Option<String> {
        let text = path.to_str().map(str::to_owned);
        if text.is_none() && self.problem.is_none() {
            self.problem = Some(format!("the path {} is not UTF-8", path.display()));
        }
        text
    }

    fn system(&mut self) -> &mut wire::SystemInstructions {
        self.wire.system_instructions.get_or_insert_default()
    }

    fn appended(&mut self) -> &mut wire::AppendedSystemInstructions {
        use wire::system_instructions::Type;
        let kind = &mut self.system().r#type;
        if !matches!(kind, Some(Type::Appended(_))) {
            *kind = Some(Type::Appended(wire::AppendedSystemInstructions::default()));
        }
        match kind {
            Some(Type::Appended(appended)) => appended,
            _ => unreachable!("set above"),
        }
    }
}

impl From<HarnessConfig> for ConversationConfig {
    fn from(wire: HarnessConfig) -> Self {
        Self {
            wire,
            problem: None,
        }
    }
}

/// How much the agent involves the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Behavior {
    /// It works on its own and asks nothing.
    Autonomous,
    /// It may ask; see [`Handlers::questions`](crate::Handlers::questions).
    Interactive,
    /// As autonomous, with the shortest prompt.
    Minimal,
}

/// What to do about a stored conversation of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Continuation {
    /// It must be there and is continued.
    Resume,
    /// It is continued if it is there.
    CreateOrResume,
    /// It must not be there.
    Create,
}

#[cfg(test)]
mod tests {
    use harness_proto::json::to_json;
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_become_the_wire_message() {
        let model = Model::gemini("m")
            .base_url("http://127.0.0.1:1")
            .api_key("k3y")
            .header("x-team", "a")
            .thinking_level("high");
        let config = ConversationConfig::new(model)
            .model(Model::gemini("painter").for_images())
            .workspace("/work")
            .app_data_dir("/data")
            .system_prompt("replaced below")
            .identity("You are a clerk.")
            .prompt_section("Style", "Be short.")
            .behavior(Behavior::Interactive)
            .conversation("0".repeat(32), Continuation::Create)
            .finish_schema(&json!({"type": "object"}))
            .rule(Rule::allow("view_file"))
            .rule(
                Rule::deny("*")
                    .on_server("mail")
                    .named("no mail")
                    .because("private"),
            )
            .rule(Rule::ask("run_command", "r1"))
            .containment(Containment::Contained)
            .edit(|wire| wire.skills_paths.push("/skills".into()));

        assert!(!format!("{config:?}").contains("k3y"), "{config:?}");
        let sent = to_json(&config.into_wire().unwrap()).unwrap();
        let sent: Value = serde_json::from_str(&sent).unwrap();
        assert_eq!(
            sent,
            json!({
                "cascadeId": "00000000000000000000000000000000",
                "sessionContinuationMode": "CREATE_ONLY",
                "agentBehavior": "AGENT_BEHAVIOR_INTERACTIVE",
                "appDataDir": "/data",
                "finishToolSchemaJson": "{\"type\":\"object\"}",
                "models": [
                    {
                        "name": "m",
                        "types": ["MODEL_TYPE_TEXT"],
                        "geminiApiEndpoint": {
                            "baseUrl": "http://127.0.0.1:1",
                            "apiKey": "k3y",
                            "httpHeaders": {"x-team": "a"},
                            "options": {"thinkingLevel": "high"},
                        },
                    },
                    {"name": "painter", "types": ["MODEL_TYPE_IMAGE"], "geminiApiEndpoint": {}},
                ],
                "policyConfig": {
                    "workspaceContainment": "WORKSPACE_CONTAINMENT_ENABLED",
                    "rules": [
                        {"tool": "view_file", "name": "view_file",
                         "decision": "POLICY_DECISION_ALLOW"},
                        {"tool": "*", "serverName": "mail", "name": "no mail",
                         "decision": "POLICY_DECISION_DENY", "denyReason": "private"},
                        {"tool": "run_command", "name": "run_command",
                         "decision": "POLICY_DECISION_ASK_USER", "isDynamic": true, "ruleId": "r1"},
                    ],
                },
                "skillsPaths": ["/skills"],
                "systemInstructions": {"appended": {
                    "customIdentity": "You are a clerk.",
                    "appendedSections": [{"title": "Style", "content": "Be short."}],
                }},
                "workspaces": [{"filesystemWorkspace": {"directory": "/work"}}],
            })
        );
    }

    #[test]
    fn tools_that_are_not_named_are_off() {
        let config = ConversationConfig::default().tools([Builtin::ViewFile, Builtin::RunCommand]);
        let sent = to_json(&config.into_wire().unwrap().harness_side_tools.unwrap()).unwrap();
        let sent: std::collections::BTreeMap<String, Value> = serde_json::from_str(&sent).unwrap();
        let on: Vec<_> = sent
            .iter()
            .filter(|(_, toggle)| **toggle == json!({"enabled": true}))
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(on, ["runCommand", "viewFile"]);
        assert_eq!(sent.len(), Builtin::ALL.len());
        assert!(sent.values().all(|toggle| toggle["enabled"].is_boolean()));
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_not_text_is_named() {
        use std::os::unix::ffi::OsStrExt as _;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/w\xff"));
        let problem = ConversationConfig::default().workspace(path).into_wire();
        assert_eq!(problem.unwrap_err(), "the path /w\u{fffd} is not UTF-8");
    }
}
