use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use harness_proto::localharness::{HarnessConfig, LifecycleHook, Tool};
use serde_json::Value;

mod types;

pub use types::{
    Answer, Compaction, Confirmation, ConfirmationVerdict, HostCall, Media, PolicyQuestion,
    PolicyVerdict, PostTool, PostTurn, PreToolVerdict, PreTurn, PreTurnVerdict, Question,
    Selection, Stop, StopVerdict, ToolFailure, ToolReply, ToolUse,
};

/// What a handler fails with. Its text is what the model or the user is told.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

type Answering<R> = Pin<Box<dyn Future<Output = Result<R, HandlerError>> + Send>>;

pub(crate) type Handler<A, R> = Arc<dyn Fn(A) -> Answering<R> + Send + Sync>;

/// A host tool: declared to the model, run in this program.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct HostTool {
    name: String,
    description: String,
    parameters: Value,
    response: Option<Value>,
}

impl HostTool {
    /// Returns a tool with a JSON schema of its arguments, which are an object.
    ///
    /// The harness may or may not check arguments against the schema; a handler must not rely on
    /// it.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            response: None,
        }
    }

    /// Adds a JSON schema of the result.
    pub fn response_schema(mut self, schema: Value) -> Self {
        self.response = Some(schema);
        self
    }
}

#[derive(Clone)]
pub(crate) struct RegisteredTool {
    pub(crate) spec: HostTool,
    pub(crate) run: Handler<HostCall, ToolReply>,
}

/// What this program does for a conversation: host tools, hooks, decisions, answers to questions.
///
/// Handlers run as tasks of their own: side by side, however long they take, without holding up
/// the connection. A handler that fails or panics is answered for:
///
/// | handler | when it fails, panics, or is missing |
/// |---|---|
/// | host tool | the model reads the error |
/// | [`pre_turn`](Self::pre_turn), [`pre_tool`](Self::pre_tool) | the turn or call is denied |
/// | [`policy`](Self::policy), [`confirm`](Self::confirm) | the call is denied |
/// | [`questions`](Self::questions) | the questions are cancelled |
/// | other hooks | the harness is told and goes on |
///
/// When a turn is halted or ends, handlers of host tools, policies, questions and confirmations
/// that still run are dropped at their next await point: nobody waits for them any more.
///
/// ```
/// use harness_client::{Handlers, HostTool, PreToolVerdict};
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
/// let handlers = Handlers::new()
///     .tool(HostTool::new("get_weather", "Tells the weather.", schema), |call| async move {
///         let city = call.argument("city").as_str().ok_or("no city was named")?;
///         Ok(format!("Sunny in {city}.").into())
///     })
///     .pre_tool(|call| async move {
///         Ok(match call.tool.as_str() {
///             "run_command" => PreToolVerdict::Deny("no commands today".into()),
///             _ => PreToolVerdict::Allow,
///         })
///     });
/// # drop(handlers);
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Handlers {
    pub(crate) tools: Vec<RegisteredTool>,
    pub(crate) session_start: Option<Handler<(), ()>>,
    pub(crate) session_end: Option<Handler<(), ()>>,
    pub(crate) pre_turn: Option<Handler<PreTurn, PreTurnVerdict>>,
    pub(crate) post_turn: Option<Handler<PostTurn, ()>>,
    pub(crate) pre_tool: Option<Handler<ToolUse, PreToolVerdict>>,
    pub(crate) post_tool: Option<Handler<PostTool, ()>>,
    pub(crate) tool_error: Option<Handler<ToolFailure, Option<String>>>,
    pub(crate) compaction: Option<Handler<Compaction, ()>>,
    pub(crate) stop: Option<Handler<Stop, StopVerdict>>,
    pub(crate) policy: Option<Handler<PolicyQuestion, PolicyVerdict>>,
    pub(crate) questions: Option<Handler<Vec<Question>, Vec<Answer>>>,
    pub(crate) confirm: Option<Handler<Confirmation, ConfirmationVerdict>>,
}

/// One method per hook: each takes an async closure and declares the hook to the harness.
macro_rules! register {
    ($($(#[$doc:meta])* $name:ident: $field:ident($argument:ty) -> $result:ty;)*) => {
        $(
            $(#[$doc])*
            pub fn $name<F, Fut>(mut self, handler: F) -> Self
            where
                F: Fn($argument) -> Fut + Send + Sync + 'static,
                Fut: Future<Output = Result<$result, HandlerError>> + Send + 'static,
            {
                self.$field = Some(boxed(handler));
                self
            }
        )*
    };
}

impl Handlers {
    /// Returns handlers for nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a host tool. Calls of one answer run side by side.
    pub fn tool<F, Fut>(mut self, tool: HostTool, run: F) -> Self
    where
        F: Fn(HostCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolReply, HandlerError>> + Send + 'static,
    {
        self.tools.push(RegisteredTool {
            spec: tool,
            run: boxed(run),
        });
        self
    }

    /// Declares a host tool that blocks its thread; it runs on tokio's threads for that.
    ///
    /// A blocking call cannot be dropped: it runs to its end even when nobody waits for it.
    pub fn blocking_tool<F>(self, tool: HostTool, run: F) -> Self
    where
        F: Fn(HostCall) -> Result<ToolReply, HandlerError> + Send + Sync + 'static,
    {
        let run = Arc::new(run);
        self.tool(tool, move |call| {
            let run = Arc::clone(&run);
            async move {
                match tokio::task::spawn_blocking(move || run(call)).await {
                    Ok(result) => result,
                    Err(error) if error.is_panic() => Err(PANICKED.into()),
                    Err(_) => Err("the program is ending".into()),
                }
            }
        })
    }

    register! {
        /// Runs before the first turn.
        on_session_start: session_start(()) -> ();
        /// Runs when the session is closed, before the connection is.
        on_session_end: session_end(()) -> ();
        /// Runs before each turn and decides whether it may begin.
        pre_turn: pre_turn(PreTurn) -> PreTurnVerdict;
        /// Runs after each turn.
        post_turn: post_turn(PostTurn) -> ();
        /// Runs before each tool call, in addition to the rules, and decides whether and with
        /// which arguments it runs.
        pre_tool: pre_tool(ToolUse) -> PreToolVerdict;
        /// Runs after each tool call that succeeded.
        post_tool: post_tool(PostTool) -> ();
        /// Runs after each tool call that failed; may give the model another text.
        on_tool_error: tool_error(ToolFailure) -> Option<String>;
        /// Runs after history was summarised.
        on_compaction: compaction(Compaction) -> ();
        /// Runs before the agent stops and may make it go on. Nothing but this handler bounds how
        /// often; see [`Stop::continuations`].
        on_stop: stop(Stop) -> StopVerdict;
        /// Decides calls that a rule leaves to this program; see [`Rule::ask`](crate::Rule::ask).
        policy: policy(PolicyQuestion) -> PolicyVerdict;
        /// Puts questions of the agent to the user and returns one answer each, in order; missing
        /// ones count as skipped.
        questions: questions(Vec<Question>) -> Vec<Answer>;
        /// Decides whether a call may run, for harnesses that ask so (up to SDK 0.1.5).
        confirm: confirm(Confirmation) -> ConfirmationVerdict;
    }

    /// Declares tools and hooks in a configuration; what it declares already stays.
    pub(crate) fn declare(&self, config: &mut HarnessConfig) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for RegisteredTool { spec, .. } in &self.tools {
            if spec.name.is_empty() {
                return Err("a host tool has no name".into());
            }
            config.tools.push(Tool {
                name: Some(spec.name.clone()),
                description: Some(spec.description.clone()),
                parameters_json_schema: Some(spec.parameters.to_string()),
                response_json_schema: spec.response.as_ref().map(Value::to_string),
                ..Tool::default()
            });
        }
        for tool in &config.tools {
            if !names.insert(tool.name()) {
                return Err(format!("two host tools are named {:?}", tool.name()));
            }
        }
        for hook in self.hooks().map(i32::from) {
            if !config.enabled_hooks.contains(&hook) {
                config.enabled_hooks.push(hook);
            }
        }
        Ok(())
    }

    fn hooks(&self) -> impl Iterator<Item = LifecycleHook> {
        use LifecycleHook as Hook;
        let wanted = [
            (self.session_start.is_some(), Hook::OnSessionStart),
            (self.session_end.is_some(), Hook::OnSessionEnd),
            (self.pre_turn.is_some(), Hook::PreTurn),
            (self.post_turn.is_some(), Hook::PostTurn),
            (self.pre_tool.is_some(), Hook::PreTool),
            (self.post_tool.is_some(), Hook::PostTool),
            (self.tool_error.is_some(), Hook::OnToolError),
            (self.compaction.is_some(), Hook::OnCompaction),
            (self.stop.is_some(), Hook::Stop),
        ];
        wanted
            .into_iter()
            .filter_map(|(wanted, hook)| wanted.then_some(hook))
    }

    pub(crate) fn find_tool(&self, name: &str) -> Option<Handler<HostCall, ToolReply>> {
        let tool = self.tools.iter().find(|tool| tool.spec.name == name)?;
        Some(Arc::clone(&tool.run))
    }
}

/// What is said in place of a handler that panicked. The panic's own text stays in this program.
pub(crate) const PANICKED: &str = "the handler panicked";

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<_> = self.tools.iter().map(|tool| &tool.spec.name).collect();
        f.debug_struct("Handlers")
            .field("tools", &tools)
            .field("hooks", &self.hooks().collect::<Vec<_>>())
            .field("policy", &self.policy.is_some())
            .field("questions", &self.questions.is_some())
            .field("confirm", &self.confirm.is_some())
            .finish()
    }
}

impl HostTool {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn boxed<A, R, F, Fut>(handler: F) -> Handler<A, R>
where
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
{
    Arc::new(move |argument| Box::pin(handler(argument)))
}
