//! What an agent is made of.

use std::path::PathBuf;
use std::sync::Arc;

use harness_host::{Assemble, Assembly, Blueprint, Continuation, Host, Limits};
use harness_toolkit::{BuiltInOptions, FileAccess, Registry, RunCommandOptions, built_ins};
use harness_types::{
    AgentBehavior, Config, Containment, ConversationId, MemoryStore, Model, PolicyDecision,
    PolicyRule, PolicySpec, Question, QuestionAnswer, SessionStore, SystemInstructions, Tool,
    ToolClass, ToolSpec,
};
use serde_json::Value;

use crate::answering::{Answering, answer_requests};
use crate::{Agent, Decision, Error, PendingCall};

const ANY: &str = "*";
const ASK_QUESTION: &str = "ask_question";
const FINISH: &str = "finish";

/// Which built-in tools an agent gets, of those whose features are enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuiltIns {
    /// Those that change nothing.
    Reading,
    /// All.
    All,
}

/// Makes an [`Agent`]. Only the model is needed.
#[derive(Debug)]
#[must_use = "nothing happens before open()"]
pub struct AgentBuilder {
    model: Arc<dyn Model>,
    tools: Vec<Arc<dyn Tool>>,
    built_ins: Option<BuiltIns>,
    run_command: RunCommandOptions,
    rules: Vec<PolicyRule>,
    policy: Option<PolicySpec>,
    containment: Containment,
    answering: Answering,
    store: Arc<dyn SessionStore>,
    id: Option<ConversationId>,
    continuation: Continuation,
    config: Config,
}

impl AgentBuilder {
    pub(crate) fn new(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            tools: Vec::new(),
            built_ins: None,
            run_command: RunCommandOptions::default(),
            rules: Vec::new(),
            policy: None,
            containment: Containment::Contained,
            answering: Answering::default(),
            store: Arc::new(MemoryStore::new()),
            id: None,
            continuation: Continuation::Automatic,
            config: Config::default(),
        }
    }

    /// Adds a tool, for instance one made with [`tool`](crate::tool).
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds built-in tools of the enabled features.
    pub fn built_ins(mut self, which: BuiltIns) -> Self {
        self.built_ins = Some(which);
        self
    }

    /// Sets how the built-in tool `run_command` runs commands.
    ///
    /// They inherit this program's environment. Name variables that hold credentials in
    /// [`RunCommandOptions::env_deny`].
    pub fn run_command(mut self, options: RunCommandOptions) -> Self {
        self.run_command = options;
        self
    }

    /// Adds a folder the agent works in, by its absolute path. Commands start in the first one.
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.workspaces.push(folder.into());
        self
    }

    /// Lets the built-in file tools reach everything the program can reach. To let them reach some
    /// more folders, [`configure`](Self::configure) `reachable`.
    pub fn unconfined(mut self) -> Self {
        self.containment = Containment::Unconfined;
        self
    }

    /// Replaces the system prompt.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.config.system = SystemInstructions::Custom(text.into());
        self
    }

    /// Lets a tool run without asking; `*` is every tool.
    pub fn allow(self, tool: impl Into<String>) -> Self {
        self.rule(tool.into(), PolicyDecision::Allow)
    }

    /// Refuses a tool; `*` is every tool without a rule of its own.
    pub fn deny(self, tool: impl Into<String>) -> Self {
        self.rule(tool.into(), PolicyDecision::Deny)
    }

    /// Puts a tool to whoever [`approve`](Self::approve)s, also one that changes nothing.
    pub fn ask(self, tool: impl Into<String>) -> Self {
        self.rule(tool.into(), PolicyDecision::Ask)
    }

    fn rule(mut self, tool: String, decision: PolicyDecision) -> Self {
        self.rules.push(rule(&tool, decision));
        self
    }

    /// Decides by this policy alone, in place of the defaults and all other rules.
    pub fn policy(mut self, policy: PolicySpec) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Decides about calls that no rule decides, and those whose rule asks. Without it they are
    /// refused.
    ///
    /// May take as long as it wants to; calls are asked about side by side. When the turn is
    /// halted meanwhile, its future is dropped. A panic is a refusal.
    pub fn approve<F, Fut>(mut self, approve: F) -> Self
    where
        F: Fn(PendingCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Decision> + Send + 'static,
    {
        self.answering.approve = Some(Arc::new(move |call| Box::pin(approve(call))));
        self
    }

    /// Answers the agent's questions, and so lets it ask some. `None` dismisses them.
    pub fn questions<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(Vec<Question>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<Vec<QuestionAnswer>>> + Send + 'static,
    {
        self.answering.questions = Some(Arc::new(move |questions| Box::pin(answer(questions))));
        self
    }

    /// Wants a structured answer of this JSON Schema.
    pub fn finish_schema(mut self, schema: Value) -> Self {
        self.config.finish_schema = Some(schema);
        self
    }

    /// Keeps the conversation here, in place of memory.
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = store;
        self
    }

    /// Takes up a conversation that the store has.
    pub fn resume(mut self, id: ConversationId) -> Self {
        self.id = Some(id);
        self.continuation = Continuation::Resume;
        self
    }

    /// Takes up a conversation, or begins it when the store does not have it.
    pub fn resume_or_create(mut self, id: ConversationId) -> Self {
        self.id = Some(id);
        self.continuation = Continuation::CreateOrResume;
        self
    }

    /// Changes anything else: budget, retries, hooks, limits. Called at once; what other methods
    /// set at [`open`](Self::open) (tools, policy, who answers) is set over it.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Opens the conversation.
    ///
    /// # Errors
    ///
    /// An [`Error`] for which [`Error::is_config`] holds says what is wrong with the parts; others
    /// speak of the store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future opens nothing.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn open(mut self) -> Result<Agent, Error> {
        let registry = self.registry()?;
        let mut config = std::mem::take(&mut self.config);
        let specs: Vec<&ToolSpec> = registry.specs().collect();
        config.policy = self.decide(&specs, config.finish_schema.is_some())?;
        config.tools = registry.specs().map(|spec| spec.name.clone()).collect();
        config.answers = self.answering.kinds();
        if self.answering.questions.is_some() {
            config.behavior = AgentBehavior::Interactive;
            config.tools.insert(ASK_QUESTION.to_owned());
        }
        let blueprint = Blueprint {
            id: self.id,
            continuation: self.continuation,
            config,
            ..Blueprint::default()
        };
        let parts = Parts {
            model: self.model,
            tools: registry,
            store: self.store,
        };
        let host = Host::new(Arc::new(parts), Limits::default());
        let session = Arc::new(host.open(blueprint).await?);
        let updates = session.attach();
        let answerer = tokio::spawn(answer_requests(
            Arc::downgrade(&session),
            session.attach(),
            self.answering,
        ));
        Ok(Agent::new(session, updates, answerer))
    }

    fn registry(&mut self) -> Result<Registry, Error> {
        let mut registry = Registry::new();
        if let Some(which) = self.built_ins {
            let access = match self.containment {
                Containment::Unconfined => FileAccess::Unconfined,
                _ => FileAccess::contained(self.config.contained_roots()),
            };
            let options = BuiltInOptions {
                access,
                run_command: std::mem::take(&mut self.run_command),
            };
            for tool in built_ins(options) {
                if which == BuiltIns::All || tool.spec().class == ToolClass::ReadOnly {
                    registry.register(tool)?;
                }
            }
        }
        for tool in self.tools.drain(..) {
            registry.register(tool)?;
        }
        Ok(registry)
    }

    /// The policy, out of what was said and the defaults.
    fn decide(&mut self, specs: &[&ToolSpec], finishes: bool) -> Result<PolicySpec, Error> {
        if let Some(policy) = self.policy.take() {
            return Ok(policy);
        }
        let reads = |spec: &&&ToolSpec| spec.class == ToolClass::ReadOnly;
        if self.rules.is_empty()
            && self.answering.approve.is_none()
            && let Some(spec) = specs.iter().find(|spec| !reads(spec))
        {
            return Err(Error::Undecided {
                tool: spec.policy_name.clone(),
            });
        }
        // A misspelt name would look like protection.
        for rule in &mut self.rules {
            let spec = specs
                .iter()
                .find(|spec| spec.policy_name == rule.tool || spec.name == rule.tool);
            match spec {
                Some(spec) => rule.tool.clone_from(&spec.policy_name),
                None if [ANY, ASK_QUESTION, FINISH].contains(&rule.tool.as_str()) => {}
                None => {
                    return Err(Error::UnknownTool {
                        tool: rule.tool.clone(),
                    });
                }
            }
        }
        let ruled = |rules: &[PolicyRule], tool: &str| rules.iter().any(|rule| rule.tool == tool);
        let mut defaults = Vec::new();
        if !ruled(&self.rules, ANY) {
            let reading = specs.iter().filter(reads);
            defaults.extend(reading.map(|spec| spec.policy_name.as_str()));
            defaults.push(ASK_QUESTION);
        }
        if finishes {
            // The structured answer is no act.
            defaults.push(FINISH);
        }
        defaults.retain(|tool| !ruled(&self.rules, tool));
        let defaults = defaults
            .into_iter()
            .map(|tool| rule(tool, PolicyDecision::Allow));
        let mut rules = std::mem::take(&mut self.rules);
        rules.extend(defaults);
        Ok(PolicySpec {
            rules,
            fallback: PolicyDecision::Ask,
            containment: self.containment,
        })
    }
}

/// A rule about a tool, named after it.
fn rule(tool: &str, decision: PolicyDecision) -> PolicyRule {
    PolicyRule {
        tool: tool.to_owned(),
        server: None,
        name: tool.to_owned(),
        id: String::new(),
        decision,
        reason: None,
        dynamic: false,
    }
}

/// Hands its parts to the one conversation it is asked for.
#[derive(Debug)]
struct Parts {
    model: Arc<dyn Model>,
    tools: Registry,
    store: Arc<dyn SessionStore>,
}

impl Assemble for Parts {
    fn assemble(&self, _: &mut Blueprint) -> Result<Assembly, harness_host::Error> {
        Ok(Assembly {
            model: Arc::clone(&self.model),
            tools: self.tools.clone(),
            store: Arc::clone(&self.store),
        })
    }
}
