use harness_proto::localharness::{
    PolicyDecision, PolicyRule, policy_config::WorkspaceContainment,
};

/// A rule about tool calls, enforced by the harness.
///
/// Tools are named as in [`Builtin::policy_name`](crate::Builtin::policy_name), host tools and
/// MCP tools by their own name, `*` is every tool. A rule for a tool wins over one for a server,
/// that over one for every tool; among equals deny wins over ask, ask over allow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Rule {
    wire: PolicyRule,
}

impl Rule {
    /// Lets calls of `tool` run.
    pub fn allow(tool: impl Into<String>) -> Self {
        Self::new(tool.into(), PolicyDecision::Allow)
    }

    /// Refuses calls of `tool`.
    pub fn deny(tool: impl Into<String>) -> Self {
        Self::new(tool.into(), PolicyDecision::Deny)
    }

    /// Asks [`Handlers::policy`](crate::Handlers::policy) about each call of `tool`; `id`, unique
    /// in the conversation, is what the handler knows the rule by.
    pub fn ask(tool: impl Into<String>, id: impl Into<String>) -> Self {
        Self::new(tool.into(), PolicyDecision::AskUser).decided_by_handler(id)
    }

    fn new(tool: String, decision: PolicyDecision) -> Self {
        Self {
            wire: PolicyRule {
                name: Some(tool.clone()),
                tool: Some(tool),
                decision: Some(decision.into()),
                ..PolicyRule::default()
            },
        }
    }

    /// Has [`Handlers::policy`](crate::Handlers::policy) decide whether the rule applies; its
    /// answer is final.
    pub fn decided_by_handler(mut self, id: impl Into<String>) -> Self {
        self.wire.is_dynamic = Some(true);
        self.wire.rule_id = Some(id.into());
        self
    }

    /// Makes it a rule about tools of this MCP server.
    pub fn on_server(mut self, server: impl Into<String>) -> Self {
        self.wire.server_name = Some(server.into());
        self
    }

    /// Names the rule, for messages. Without this it has the name of the tool.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.wire.name = Some(name.into());
        self
    }

    /// Says why, for the model or for whoever is asked.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.wire.deny_reason = Some(reason.into());
        self
    }

    pub(crate) fn into_wire(self) -> PolicyRule {
        self.wire
    }
}

/// Whether file tools stay inside the workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Containment {
    /// They do.
    Contained,
    /// They reach what the harness process can reach.
    Unconfined,
}

impl Containment {
    pub(crate) fn into_wire(self) -> WorkspaceContainment {
        match self {
            Self::Contained => WorkspaceContainment::Enabled,
            Self::Unconfined => WorkspaceContainment::Disabled,
        }
    }
}
