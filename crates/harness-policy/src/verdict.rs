//! What a policy says about a call.

use harness_types::PolicyRule;

/// A rule of a compiled policy, as far as messages and logs need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) reason: Option<String>,
}

impl Rule {
    pub(crate) fn new(rule: &PolicyRule) -> Self {
        // Clients send an empty reason for none.
        let reason = rule.reason.clone().filter(|reason| !reason.is_empty());
        let name = if rule.name.is_empty() {
            match rule.server.as_deref() {
                None | Some("") => rule.tool.clone(),
                Some(server) => format!("{server}/{}", rule.tool),
            }
        } else {
            rule.name.clone()
        };
        Self {
            name,
            id: rule.id.clone(),
            reason,
        }
    }

    /// Its name; the tool it speaks of (`server/tool`) when the client gave none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id the client knows it by; empty for static rules.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Why it decides as it does, when the client said so. Never empty.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// What the model is told when this rule refuses a call: the rule's reason, or a sentence
    /// that names the rule.
    pub fn refusal(&self) -> String {
        match &self.reason {
            Some(reason) => reason.clone(),
            None => format!("the policy {:?} does not allow this call", self.name),
        }
    }
}

/// What a policy says about a call, and the rule that said it; `None` where it was the fallback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'p> {
    /// The call may run.
    Allow {
        /// The rule that decided.
        rule: Option<&'p Rule>,
    },
    /// It may not.
    Deny {
        /// The rule that decided.
        rule: Option<&'p Rule>,
        /// What the model is told. Never empty.
        reason: String,
    },
    /// Somebody who may answer for the user has to confirm the call; nobody there means deny.
    Ask {
        /// The rule that decided.
        rule: Option<&'p Rule>,
        /// Why, for whoever is asked.
        reason: Option<&'p str>,
    },
    /// Only the client knows whether the rule applies and what it decides: send it the rule's id
    /// and pass its answer to [`Policy::resume`](crate::Policy::resume).
    AskClient {
        /// The rule.
        rule: &'p Rule,
        /// Why, for whoever is asked.
        reason: Option<&'p str>,
        /// Where evaluation goes on when the client says that the rule does not match.
        next: u32,
    },
}

impl<'p> Verdict<'p> {
    /// The rule behind the verdict; `None` when no rule matched.
    pub fn rule(&self) -> Option<&'p Rule> {
        match self {
            Self::Allow { rule } | Self::Deny { rule, .. } | Self::Ask { rule, .. } => *rule,
            Self::AskClient { rule, .. } => Some(rule),
        }
    }

    /// Whether the call may run without asking anybody.
    pub fn is_allow(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}
