//! The first message, as a blueprint: what the client's configuration means to the loop.
//!
//! Nothing is accepted and ignored in silence: what contradicts itself or cannot be honoured
//! safely is refused by name, and what is not built yet is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use harness_host::{Blueprint, CommandOptions, Continuation, Endpoint, ModelRole, ModelSpec};
use harness_proto::json::Unknown;
use harness_proto::localharness::{
    AgentBehavior as WireBehavior, BudgetConfig, GeminiModelOptions, HarnessConfig,
    HarnessSideTools, LifecycleHook, ModelConfig, ModelType, PolicyConfig,
    PolicyDecision as WireDecision, RetryConfig, SystemInstructions as WireInstructions, Tool,
    Workspace, budget_config, custom_system_instructions, harness_config, model_config,
    policy_config, system_instructions, workspace,
};
use harness_types::{
    AgentBehavior, Budget, BudgetScope, Config, Containment, GenerationOptions, Hook, HostToolSpec,
    PolicyDecision, PolicyRule, PolicySpec, PromptSection, RequestKind, RetrySchedule, Secret,
    SystemInstructions,
};
use serde_json::{Value, json};

/// A configuration that cannot be honoured: the field, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal(String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(message.into()))
}

/// What a configuration asks for.
#[derive(Debug)]
pub(crate) struct Requested {
    pub(crate) blueprint: Blueprint,
    /// What was asked for and does not exist yet, in the client's words.
    pub(crate) not_built: Vec<String>,
}

/// Reads a configuration.
pub(crate) fn blueprint(config: HarnessConfig, unknown: &Unknown) -> Result<Requested, Refusal> {
    let mut not_built = Vec::new();
    check_unbuilt(&config, &mut not_built)?;
    check_safe_enums(unknown)?;
    let tools = config.harness_side_tools.unwrap_or_default();
    let (models, generation) = models(config.models, config.model_config)?;
    let blueprint = Blueprint {
        id: match config.cascade_id.as_deref().unwrap_or_default() {
            "" => None,
            text => Some(
                text.parse()
                    .map_err(|error| Refusal(format!("cascadeId: {error}")))?,
            ),
        },
        continuation: match config.session_continuation_mode.unwrap_or_default() {
            0 => Continuation::Automatic,
            1 => Continuation::Resume,
            2 => Continuation::CreateOrResume,
            3 => Continuation::Create,
            other => return refuse(format!("sessionContinuationMode: {other} is unknown")),
        },
        config: Config {
            workspaces: workspaces(config.workspaces)?,
            app_data_dir: config
                .app_data_dir
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            system: system_instructions(config.system_instructions)?,
            behavior: match config.agent_behavior.map(WireBehavior::try_from) {
                Some(Ok(WireBehavior::Interactive)) => AgentBehavior::Interactive,
                Some(Ok(WireBehavior::Minimal)) => AgentBehavior::Minimal,
                _ => AgentBehavior::Autonomous,
            },
            host_tools: config
                .tools
                .into_iter()
                .map(host_tool)
                .collect::<Result<_, _>>()?,
            tools: built_in_tools(&tools, &mut not_built),
            finish_schema: finish_schema(config.finish_tool_schema_json.as_deref())?,
            policy: policy(config.policy_config, &tools)?,
            hooks: config
                .enabled_hooks
                .iter()
                .filter_map(|hook| self::hook(LifecycleHook::try_from(*hook).ok()?))
                .collect(),
            answers: BTreeSet::from([
                RequestKind::HostCall,
                RequestKind::Hook,
                RequestKind::PolicyDecision,
                RequestKind::Question,
            ]),
            budget: budget(config.budget_config.as_ref())?,
            retry: retry(config.retry_config.as_ref())?,
            output_retries: config
                .retry_config
                .as_ref()
                .and_then(|retry| retry.model_output_retry.as_ref()?.max_retries)
                .unwrap_or_else(|| Config::default().output_retries),
            generation,
            ..Config::default()
        },
        models,
        commands: CommandOptions {
            timeout: tools
                .run_command
                .as_ref()
                .and_then(|command| command.max_timeout_ms)
                .filter(|millis| *millis > 0)
                .map(|millis| Duration::from_millis(millis.into())),
            env: BTreeMap::new(),
        },
        ..Blueprint::default()
    };
    Ok(Requested {
        blueprint,
        not_built,
    })
}

/// What is not built yet: an explicit request is refused where doing without it would be another
/// agent than the one asked for, and listed where it is only less.
fn check_unbuilt(config: &HarnessConfig, not_built: &mut Vec<String>) -> Result<(), Refusal> {
    let refused = [
        (
            !config.mcp_servers.is_empty(),
            "mcpServers: MCP servers are not built yet",
        ),
        (
            !config.custom_subagents.is_empty(),
            "customSubagents: subagents are not built yet",
        ),
        (
            !config.skills_paths.is_empty(),
            "skillsPaths: skills are not built yet",
        ),
        (
            config
                .skills_config
                .as_ref()
                .is_some_and(|skills| !skills.skills.is_empty()),
            "skillsConfig: skills are not built yet",
        ),
        (
            config
                .initial_trajectory
                .as_ref()
                .is_some_and(|bytes| !bytes.is_empty()),
            "initialTrajectory: importing a trajectory is not built yet",
        ),
        (
            config
                .policy_config
                .as_ref()
                .and_then(|p| p.auto_config.as_ref()?.enabled)
                == Some(true),
            "policyConfig.autoConfig: automatic review is not built yet",
        ),
        (
            config
                .harness_side_tools
                .as_ref()
                .and_then(|tools| tools.run_command.as_ref()?.enable_sandbox)
                == Some(true),
            "harnessSideTools.runCommand.enableSandbox: command sandboxing is not built yet",
        ),
    ];
    if let Some((_, why)) = refused.into_iter().find(|(asked, _)| *asked) {
        return refuse(why);
    }
    let listed = [
        (
            config.compaction_threshold.unwrap_or_default() > 0
                || config
                    .compaction_config
                    .as_ref()
                    .is_some_and(|c| c.token_threshold() > 0),
            "compaction",
        ),
        (
            config.tool_output_truncation.is_some(),
            "toolOutputTruncation",
        ),
        (
            config
                .rules_config
                .as_ref()
                .is_some_and(|rules| !rules.filenames.is_empty()),
            "rulesConfig",
        ),
        (
            config
                .enabled_hooks
                .contains(&LifecycleHook::OnCompaction.into()),
            "the OnCompaction hook (there is no compaction yet)",
        ),
        (
            config.harness_side_tools.as_ref().is_some_and(|tools| {
                let command = tools.run_command.as_ref();
                command.is_some_and(|c| c.enable_daemon_commands() || c.execution_mode() as i32 > 1)
            }),
            "commands in the background",
        ),
    ];
    not_built.extend(
        listed
            .into_iter()
            .filter(|(asked, _)| *asked)
            .map(|(_, name)| name.to_owned()),
    );
    Ok(())
}

/// An enum value of a later version is taken for unset, except where a weaker protection than the
/// one asked for would follow.
fn check_safe_enums(unknown: &Unknown) -> Result<(), Refusal> {
    for path in [
        "config.policyConfig.rules[].decision",
        "config.policyConfig.workspaceContainment",
        "config.enabledHooks[]",
        "config.budgetConfig.scope",
        "config.sessionContinuationMode",
    ] {
        if unknown.may_have_enum_value(path) {
            let value = unknown
                .enum_values()
                .iter()
                .find(|found| found.path == path);
            let value = value.map_or("a value", |found| found.value.as_str());
            let field = path.trim_start_matches("config.");
            return refuse(format!("{field}: {value} is unknown to this version"));
        }
    }
    Ok(())
}

fn workspaces(workspaces: Vec<Workspace>) -> Result<Vec<PathBuf>, Refusal> {
    workspaces
        .into_iter()
        .enumerate()
        .map(|(n, workspace)| match workspace.workspace_type {
            Some(workspace::WorkspaceType::FilesystemWorkspace(folder)) => {
                let directory = folder.directory.unwrap_or_default();
                if directory.is_empty() {
                    return refuse(format!(
                        "workspaces[{n}].filesystemWorkspace.directory is empty"
                    ));
                }
                Ok(PathBuf::from(directory))
            }
            None => refuse(format!("workspaces[{n}] names no folder")),
        })
        .collect()
}

fn system_instructions(given: Option<WireInstructions>) -> Result<SystemInstructions, Refusal> {
    let Some(given) = given else {
        return Ok(SystemInstructions::default());
    };
    if !given.overrides.is_empty() {
        return refuse("systemInstructions.overrides: template overrides are not built yet");
    }
    match given.r#type {
        None => Ok(SystemInstructions::default()),
        Some(system_instructions::Type::Appended(appended)) => Ok(SystemInstructions::Default {
            identity: appended.custom_identity.filter(|text| !text.is_empty()),
            sections: appended
                .appended_sections
                .into_iter()
                .map(|section| PromptSection {
                    title: section.title.unwrap_or_default(),
                    content: section.content.unwrap_or_default(),
                })
                .collect(),
        }),
        Some(system_instructions::Type::Custom(custom)) => {
            let mut text = String::new();
            for (n, part) in custom.part.into_iter().enumerate() {
                match part.part {
                    Some(custom_system_instructions::part::Part::Text(piece)) => {
                        text.push_str(&piece);
                    }
                    _ => {
                        return refuse(format!(
                            "systemInstructions.custom.part[{n}]: only text is built yet"
                        ));
                    }
                }
            }
            Ok(SystemInstructions::Custom(text))
        }
    }
}

fn host_tool(tool: Tool) -> Result<HostToolSpec, Refusal> {
    let name = tool.name.unwrap_or_default();
    let parameters = match tool.parameters_json_schema.as_deref().unwrap_or_default() {
        "" => json!({"type": "object", "properties": {}}),
        text => serde_json::from_str(text).map_err(|error| {
            Refusal(format!(
                "tools: parametersJsonSchema of {name:?} is no JSON: {error}"
            ))
        })?,
    };
    Ok(HostToolSpec {
        description: tool.description.unwrap_or_default(),
        name,
        parameters,
    })
}

/// Our tools by the switches of the wire. What is switched on and not built is listed.
fn built_in_tools(tools: &HarnessSideTools, not_built: &mut Vec<String>) -> BTreeSet<String> {
    macro_rules! on {
        ($field:ident) => {
            tools.$field.as_ref().and_then(|tool| tool.enabled) == Some(true)
        };
    }
    let built = [
        (on!(list_dir), "list_dir"),
        (on!(view_file), "view_file"),
        (on!(write_to_file), "write_to_file"),
        (on!(file_edit), "replace_file_content"),
        (on!(grep_search), "grep_search"),
        (on!(find), "find_by_name"),
        (on!(run_command), "run_command"),
        (on!(user_questions), "ask_question"),
    ];
    let unbuilt = [
        (on!(subagents), "subagents"),
        (on!(generate_image), "generate_image"),
        (on!(search_web), "search_web"),
        (on!(read_url_content), "read_url_content"),
        (on!(tool_search_config), "tool search"),
        (on!(manage_task), "manage_task"),
        (on!(schedule), "schedule"),
        (on!(run_workflow), "run_workflow"),
    ];
    let names = |list: &[(bool, &str)]| -> Vec<String> {
        list.iter()
            .filter(|(on, _)| *on)
            .map(|(_, name)| (*name).to_owned())
            .collect()
    };
    not_built.extend(names(&unbuilt));
    names(&built).into_iter().collect()
}

fn finish_schema(text: Option<&str>) -> Result<Option<Value>, Refusal> {
    match text.unwrap_or_default() {
        "" => Ok(None),
        text => serde_json::from_str(text)
            .map(Some)
            .map_err(|error| Refusal(format!("finishToolSchemaJson is no JSON: {error}"))),
    }
}

fn policy(given: Option<PolicyConfig>, tools: &HarnessSideTools) -> Result<PolicySpec, Refusal> {
    let enforced = tools
        .permissions
        .as_ref()
        .and_then(|p| p.enforce_workspace_validation);
    let Some(given) = given else {
        let containment = if enforced == Some(true) {
            Containment::Contained
        } else {
            Containment::Unconfined
        };
        return Ok(PolicySpec {
            containment,
            ..PolicySpec::default()
        });
    };
    use policy_config::WorkspaceContainment;
    let disabled = given.workspace_containment() == WorkspaceContainment::Disabled;
    let containment = if disabled && enforced != Some(true) {
        Containment::Unconfined
    } else {
        Containment::Contained
    };
    let rules = given
        .rules
        .into_iter()
        .enumerate()
        .map(|(n, rule)| {
            let name = rule.name.clone().unwrap_or_default();
            let dynamic = rule.is_dynamic.unwrap_or_default();
            let decision = match rule.decision() {
                WireDecision::Allow => PolicyDecision::Allow,
                WireDecision::Deny => PolicyDecision::Deny,
                WireDecision::AskUser if dynamic => PolicyDecision::Ask,
                WireDecision::AskUser => {
                    return refuse(format!(
                        "policyConfig.rules[{n}] ({name:?}): a rule that asks the user must be \
                         dynamic, or nobody can be asked"
                    ));
                }
                WireDecision::Unspecified => {
                    return refuse(format!(
                        "policyConfig.rules[{n}] ({name:?}) decides nothing"
                    ));
                }
            };
            Ok(PolicyRule {
                tool: rule.tool.unwrap_or_default(),
                server: rule.server_name.filter(|server| !server.is_empty()),
                name,
                id: rule.rule_id.unwrap_or_default(),
                decision,
                reason: rule.deny_reason.filter(|reason| !reason.is_empty()),
                dynamic,
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(policy_spec(rules, containment))
}

/// Where there are rules, a call that none of them matches is refused, as the closed harness does;
/// a policy that is only about folders lets calls through.
fn policy_spec(rules: Vec<PolicyRule>, containment: Containment) -> PolicySpec {
    let fallback = if rules.is_empty() {
        PolicyDecision::Allow
    } else {
        PolicyDecision::Deny
    };
    PolicySpec {
        rules,
        fallback,
        containment,
    }
}

fn hook(hook: LifecycleHook) -> Option<Hook> {
    Some(match hook {
        LifecycleHook::OnSessionStart => Hook::SessionStart,
        LifecycleHook::OnSessionEnd => Hook::SessionEnd,
        LifecycleHook::PreTurn => Hook::PreTurn,
        LifecycleHook::PostTurn => Hook::PostTurn,
        LifecycleHook::PreTool => Hook::PreTool,
        LifecycleHook::PostTool => Hook::PostTool,
        LifecycleHook::OnToolError => Hook::ToolError,
        LifecycleHook::Stop => Hook::Stop,
        // There is no compaction yet that it could be told of.
        LifecycleHook::OnCompaction | LifecycleHook::Unspecified => return None,
    })
}

/// A budget of zero or less is none.
fn budget(given: Option<&BudgetConfig>) -> Result<Budget, Refusal> {
    let Some(given) = given else {
        return Ok(Budget::default());
    };
    let limit = |value: Option<i64>| {
        value
            .and_then(|value| u64::try_from(value).ok())
            .filter(|value| *value > 0)
    };
    let scope = match given.scope() {
        budget_config::BudgetScope::ForwardLooking => BudgetScope::SinceResumed,
        _ => BudgetScope::Lifetime,
    };
    Ok(Budget {
        scope,
        max_model_calls: limit(given.max_model_calls.map(i64::from)),
        max_tool_calls: limit(given.max_tool_calls.map(i64::from)),
        max_input_tokens: limit(given.max_input_tokens),
        max_output_tokens: limit(given.max_output_tokens),
        max_total_tokens: limit(given.max_total_tokens),
    })
}

/// The longest wait of a schedule that a client configured.
const LONGEST_CONFIGURED_WAIT: Duration = Duration::from_secs(600);

fn retry(given: Option<&RetryConfig>) -> Result<RetrySchedule, Refusal> {
    let default = RetrySchedule::default();
    let Some(api) = given.and_then(|given| given.api_retry.as_ref()) else {
        return Ok(default);
    };
    for (value, field) in [
        (api.exponential_multiplier, "exponentialMultiplier"),
        (api.jitter_range, "jitterRange"),
    ] {
        if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
            return refuse(format!(
                "retryConfig.apiRetry.{field} must be a number of at least 0"
            ));
        }
    }
    Ok(RetrySchedule {
        max_retries: api.max_retries.unwrap_or(default.max_retries),
        initial: api
            .initial_sleep_duration_ms
            .map_or(default.initial, |millis| {
                Duration::from_millis(millis.into())
            }),
        multiplier: api.exponential_multiplier.unwrap_or(default.multiplier),
        jitter: api.jitter_range.unwrap_or(default.jitter),
        max_wait: LONGEST_CONFIGURED_WAIT,
        configured: true,
    })
}

/// The models and how the first one for text generates.
fn models(
    models: Vec<ModelConfig>,
    legacy: Option<harness_config::ModelConfig>,
) -> Result<(Vec<ModelSpec>, GenerationOptions), Refusal> {
    let mut generation = None;
    let mut specs = Vec::new();
    if let Some(legacy) = legacy {
        let (spec, options) = legacy_model(legacy)?;
        specs.push(spec);
        generation = Some(options);
    }
    for (n, model) in models.into_iter().enumerate() {
        let roles: Vec<ModelRole> = model
            .types
            .iter()
            .filter_map(|kind| match ModelType::try_from(*kind) {
                Ok(ModelType::Text) => Some(ModelRole::Text),
                Ok(ModelType::Image) => Some(ModelRole::Image),
                _ => None,
            })
            .collect();
        let roles = if roles.is_empty() {
            vec![ModelRole::Text]
        } else {
            roles
        };
        let name = model.name.unwrap_or_default();
        let (endpoint, headers, options) = match model.endpoint {
            Some(model_config::Endpoint::GeminiApiEndpoint(endpoint)) => (
                Endpoint::Gemini {
                    base_url: endpoint.base_url.unwrap_or_default(),
                    api_key: Secret::new(endpoint.api_key.unwrap_or_default()),
                },
                endpoint.http_headers,
                endpoint.options,
            ),
            Some(model_config::Endpoint::VertexEndpoint(endpoint)) => (
                Endpoint::Vertex {
                    base_url: endpoint.base_url.unwrap_or_default(),
                    project: endpoint.project.unwrap_or_default(),
                    location: endpoint.location.unwrap_or_default(),
                    api_key: Secret::new(endpoint.api_key.unwrap_or_default()),
                },
                endpoint.http_headers,
                endpoint.options,
            ),
            Some(model_config::Endpoint::GemmaEndpoint(endpoint)) => (
                Endpoint::ChatCompletions {
                    base_url: endpoint.base_url.unwrap_or_default(),
                },
                BTreeMap::new(),
                None,
            ),
            Some(model_config::Endpoint::CustomEndpoint(endpoint)) => (
                Endpoint::Custom {
                    kind: endpoint.backend_type.unwrap_or_default(),
                    config: Secret::new(endpoint.config_json.unwrap_or_default()),
                },
                BTreeMap::new(),
                None,
            ),
            None => return refuse(format!("models[{n}] ({name:?}) names no endpoint")),
        };
        if roles.contains(&ModelRole::Text) && generation.is_none() {
            generation = Some(self::generation(n, options)?);
        }
        let headers = headers
            .into_iter()
            .map(|(name, value)| (name, Secret::new(value)))
            .collect();
        specs.push(ModelSpec {
            name,
            roles,
            endpoint,
            headers,
        });
    }
    if generation.is_none() {
        return refuse("models: there is no model for text");
    }
    Ok((specs, generation.unwrap_or_default()))
}

fn generation(
    place: usize,
    options: Option<GeminiModelOptions>,
) -> Result<GenerationOptions, Refusal> {
    let options = options.unwrap_or_default();
    let max_output_tokens = match options.max_output_tokens {
        None | Some(0) => None,
        Some(limit) => Some(u32::try_from(limit).map_err(|_| {
            Refusal(format!(
                "models[{place}]: maxOutputTokens must be at least 0, not {limit}"
            ))
        })?),
    };
    Ok(GenerationOptions {
        thinking_level: options.thinking_level.filter(|level| !level.is_empty()),
        service_tier: options.service_tier.filter(|tier| !tier.is_empty()),
        max_output_tokens,
    })
}

/// The single model of SDKs before 0.1.4.
fn legacy_model(
    model: harness_config::ModelConfig,
) -> Result<(ModelSpec, GenerationOptions), Refusal> {
    let mut generation = GenerationOptions::default();
    let (name, endpoint) = match model {
        harness_config::ModelConfig::GeminiConfig(config) => {
            generation.thinking_level = config.thinking_level.filter(|level| !level.is_empty());
            let base_url = config.base_url.unwrap_or_default();
            let api_key = Secret::new(config.api_key.unwrap_or_default());
            let endpoint = if config.use_vertex == Some(true) {
                Endpoint::Vertex {
                    base_url,
                    project: config.project.unwrap_or_default(),
                    location: config.location.unwrap_or_default(),
                    api_key,
                }
            } else {
                Endpoint::Gemini { base_url, api_key }
            };
            (config.model_name.unwrap_or_default(), endpoint)
        }
        harness_config::ModelConfig::GemmaConfig(config) => (
            config.model_name.unwrap_or_default(),
            Endpoint::ChatCompletions {
                base_url: config.base_url.unwrap_or_default(),
            },
        ),
        harness_config::ModelConfig::CustomBackend(config) => (
            String::new(),
            Endpoint::Custom {
                kind: config.backend_type.unwrap_or_default(),
                config: Secret::new(config.config_json.unwrap_or_default()),
            },
        ),
    };
    let roles = vec![ModelRole::Text];
    Ok((
        ModelSpec {
            name,
            roles,
            endpoint,
            headers: BTreeMap::new(),
        },
        generation,
    ))
}

#[cfg(test)]
mod tests;
