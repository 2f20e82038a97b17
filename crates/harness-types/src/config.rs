//! How a conversation is set up, in the loop's own words. Front ends translate into this.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{RequestKind, RetrySchedule};

/// Everything the loop has to know about a conversation besides its model, its tools and its
/// store.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Folders the agent works in, absolute; the first one is where commands start.
    pub workspaces: Vec<PathBuf>,
    /// A folder the client lends for files that are not part of the work.
    pub app_data_dir: Option<PathBuf>,
    /// Further folders that file tools may reach when they are contained, absolute.
    pub reachable: Vec<PathBuf>,
    /// What the model is told about itself.
    pub system: SystemInstructions,
    /// Whether the agent may ask the user.
    pub behavior: AgentBehavior,
    /// Tools that run in the client.
    pub host_tools: Vec<HostToolSpec>,
    /// Names of the built-in tools that are declared to the model.
    pub tools: BTreeSet<String>,
    /// JSON Schema of the structured final answer; declares the tool `finish`.
    pub finish_schema: Option<Value>,
    /// Who decides about calls.
    pub policy: PolicySpec,
    /// The hooks the front end wants to be asked.
    pub hooks: HookSet,
    /// The kinds of request somebody can answer; any other is answered at once, with a refusal.
    pub answers: BTreeSet<RequestKind>,
    /// What the conversation may spend.
    pub budget: Budget,
    /// How model requests are repeated after a failure of the transport or the provider.
    pub retry: RetrySchedule,
    /// How often in a row an unusable answer is asked for again.
    pub output_retries: u32,
    /// How the model generates.
    pub generation: GenerationOptions,
    /// The bounds of the loop.
    pub limits: Limits,
}

impl Config {
    /// The folders that file tools may reach when they are contained: the workspaces, the client's
    /// data folder and what is [`reachable`](Self::reachable) besides.
    pub fn contained_roots(&self) -> Vec<PathBuf> {
        let further = self.app_data_dir.iter().chain(&self.reachable);
        self.workspaces.iter().chain(further).cloned().collect()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workspaces: Vec::new(),
            app_data_dir: None,
            reachable: Vec::new(),
            system: SystemInstructions::default(),
            behavior: AgentBehavior::Autonomous,
            host_tools: Vec::new(),
            tools: BTreeSet::new(),
            finish_schema: None,
            policy: PolicySpec::default(),
            hooks: HookSet::default(),
            answers: BTreeSet::new(),
            budget: Budget::default(),
            retry: RetrySchedule::default(),
            output_retries: 4,
            generation: GenerationOptions::default(),
            limits: Limits::default(),
        }
    }
}

/// A tool that runs in the client.
#[derive(Debug, Clone, PartialEq)]
pub struct HostToolSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// What the model is told about itself, besides what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SystemInstructions {
    /// Our prompt, with additions.
    Default {
        /// Replaces who the assistant is.
        identity: Option<String>,
        /// Appended sections.
        sections: Vec<PromptSection>,
    },
    /// This text and nothing else.
    Custom(String),
}

impl Default for SystemInstructions {
    fn default() -> Self {
        Self::Default {
            identity: None,
            sections: Vec::new(),
        }
    }
}

/// An appended section of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSection {
    /// Its title; empty for none.
    pub title: String,
    /// Its text.
    pub content: String,
}

/// How much the agent turns to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AgentBehavior {
    /// It works on its own: questions are answered with "nobody is there".
    Autonomous,
    /// It may ask.
    Interactive,
    /// As [`AgentBehavior::Autonomous`], with the shortest prompt.
    Minimal,
}

/// A hook by its moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hook {
    /// Before the first turn.
    SessionStart,
    /// Before the session ends.
    SessionEnd,
    /// Before a turn.
    PreTurn,
    /// After a turn.
    PostTurn,
    /// Before a call runs.
    PreTool,
    /// After a call succeeded.
    PostTool,
    /// After a call failed.
    ToolError,
    /// Before a turn ends.
    Stop,
}

/// Which hooks are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookSet(BTreeSet<Hook>);

impl HookSet {
    /// Whether `hook` is wanted.
    pub fn contains(&self, hook: Hook) -> bool {
        self.0.contains(&hook)
    }
}

impl FromIterator<Hook> for HookSet {
    fn from_iter<I: IntoIterator<Item = Hook>>(hooks: I) -> Self {
        Self(hooks.into_iter().collect())
    }
}

/// The rules that decide about calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySpec {
    /// The rules, in any order: precedence is by how specific they are and what they decide.
    pub rules: Vec<PolicyRule>,
    /// What happens when no rule matches.
    pub fallback: PolicyDecision,
    /// Whether file tools stay inside the workspaces.
    pub containment: Containment,
}

impl Default for PolicySpec {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            fallback: PolicyDecision::Allow,
            containment: Containment::Unconfined,
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRule {
    /// The tool by its policy name, or `*` for any.
    pub tool: String,
    /// The MCP server the tool belongs to; `None` for tools without one.
    pub server: Option<String>,
    /// The rule's name, for messages.
    pub name: String,
    /// The id the client knows a dynamic rule by; empty for static ones.
    pub id: String,
    /// What it decides.
    pub decision: PolicyDecision,
    /// Why, for the model and the user.
    pub reason: Option<String>,
    /// Whether the client has to be asked each time whether the rule applies.
    pub dynamic: bool,
}

/// What a rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PolicyDecision {
    /// The call runs.
    Allow,
    /// It does not.
    Deny,
    /// Somebody is asked.
    Ask,
}

/// Whether file tools stay inside [`Config::contained_roots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Containment {
    /// They do.
    Contained,
    /// They reach what the process can reach.
    Unconfined,
}

/// What a conversation may spend; `None` is no limit. Counts include every trajectory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budget {
    /// Requests to the model.
    pub max_model_calls: Option<u64>,
    /// Tool calls.
    pub max_tool_calls: Option<u64>,
    /// Prompt tokens.
    pub max_input_tokens: Option<u64>,
    /// Answer tokens, thoughts included.
    pub max_output_tokens: Option<u64>,
    /// Tokens in all.
    pub max_total_tokens: Option<u64>,
    /// From when on spending counts.
    pub scope: BudgetScope,
}

/// From when on spending counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BudgetScope {
    /// From the beginning of the conversation.
    #[default]
    Lifetime,
    /// From when the conversation was last taken up.
    SinceResumed,
}

/// How a model generates. Names are the provider's; a provider ignores what it does not have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationOptions {
    /// How much the model thinks, as the provider names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    /// The service tier, as the provider names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// The most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

/// The bounds of the loop. `docs/limits.md` tells what happens at each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long a model may say nothing before the request counts as failed.
    pub model_silence: Duration,
    /// How many calls one answer may hold; the rest are answered with an error.
    pub calls_per_answer: u32,
    /// How often in a row the same call may give the same result before the turn is stopped;
    /// halfway there the model is told. 0 switches the guard off.
    pub identical_calls: u32,
    /// How often a stop hook may continue a turn.
    pub stop_continuations: u32,
    /// At how many answers in a row that hold nothing but calls that could not run the turn is
    /// stopped. 0 switches the guard off.
    pub invalid_answers: u32,
    /// How many inputs may wait while a turn runs; one more is refused.
    pub queued_inputs: u32,
    /// How long an unanswered session-end hook is waited for.
    pub session_end: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            model_silence: Duration::from_secs(300),
            calls_per_answer: 128,
            identical_calls: 12,
            stop_continuations: 25,
            invalid_answers: 5,
            queued_inputs: 1024,
            session_end: Duration::from_secs(10),
        }
    }
}
