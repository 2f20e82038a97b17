//! Compiling a policy and asking it.

use std::collections::HashMap;

use harness_types::{PolicyDecision, PolicyOutcome, PolicyRule, PolicySpec};

use crate::{Error, Rule, Verdict};

/// The most rules a policy may have.
pub const MAX_RULES: usize = 65_536;

/// The tool of a rule that speaks of every tool.
const ANY: &str = "*";

/// What the model is told when the fallback refuses a call.
const NO_RULE_ALLOWS: &str = "no policy allows this call";

/// Rules in order of precedence, ready to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Sorted by [`rank`]; positions in it are what `from` and `next` count.
    entries: Vec<Entry>,
    fallback: Decision,
}

impl Policy {
    /// Compiles a specification.
    ///
    /// A static rule that asks is legal here; a front end whose protocol forbids it refuses it
    /// before. `Some("")` as a server means none, as on the wire.
    ///
    /// # Errors
    ///
    /// [`Error::NoTool`], [`Error::NoId`], [`Error::DuplicateId`] and [`Error::TooManyRules`];
    /// the first that applies, in the order the rules were sent.
    pub fn compile(spec: &PolicySpec) -> Result<Self, Error> {
        if spec.rules.len() > MAX_RULES {
            return Err(Error::TooManyRules {
                count: spec.rules.len(),
                limit: MAX_RULES,
            });
        }
        let mut ids = HashMap::new();
        let mut entries = Vec::with_capacity(spec.rules.len());
        for rule in &spec.rules {
            let entry = Entry::new(rule)?;
            if rule.dynamic {
                if let Some(&first) = ids.get(&rule.id) {
                    return Err(Error::DuplicateId {
                        id: rule.id.clone(),
                        first: Rule::new(first).name,
                        second: entry.rule.name,
                    });
                }
                ids.insert(&rule.id, rule);
            }
            entries.push(entry);
        }
        // Stable: rules of the same rank stay in the order they were sent.
        entries.sort_by_key(Entry::rank);
        Ok(Self {
            entries,
            fallback: Decision::of(spec.fallback),
        })
    }

    /// Decides about a call of `tool`, which belongs to the MCP server `server` if it has one.
    ///
    /// `tool` is the name policies know the tool by (`view_file`, not a model's alias). `from` is
    /// 0 for a new call and the `next` of a [`Verdict::AskClient`] when its rule did not match.
    pub fn evaluate(&self, tool: &str, server: Option<&str>, from: u32) -> Verdict<'_> {
        let server = server.filter(|server| !server.is_empty());
        let matching = (0u32..)
            .zip(&self.entries)
            .skip(usize::try_from(from).unwrap_or(usize::MAX))
            .find(|(_, entry)| entry.target.matches(tool, server));
        let Some((position, entry)) = matching else {
            return self.fall_back();
        };
        let rule = &entry.rule;
        if entry.dynamic {
            return Verdict::AskClient {
                rule,
                reason: rule.reason(),
                next: position + 1,
            };
        }
        match entry.decision {
            Decision::Allow => Verdict::Allow { rule: Some(rule) },
            Decision::Deny => Verdict::Deny {
                rule: Some(rule),
                reason: rule.refusal(),
            },
            Decision::Ask => Verdict::Ask {
                rule: Some(rule),
                reason: rule.reason(),
            },
        }
    }

    /// Goes on after the client has answered a [`Verdict::AskClient`] whose `next` is given.
    ///
    /// The client's word is final whatever the rule would have decided: allow is allow, also on a
    /// rule that denies; deny is deny. "No match" asks the next rule. A `next` that no verdict of
    /// this policy carried names no rule, and its answer then counts as the fallback's.
    pub fn resume(
        &self,
        tool: &str,
        server: Option<&str>,
        next: u32,
        outcome: PolicyOutcome,
    ) -> Verdict<'_> {
        let asked = usize::try_from(next)
            .ok()
            .and_then(|next| self.entries.get(next.checked_sub(1)?))
            .map(|entry| &entry.rule);
        match outcome {
            PolicyOutcome::NoMatch => self.evaluate(tool, server, next),
            PolicyOutcome::Allow => Verdict::Allow { rule: asked },
            PolicyOutcome::Deny { reason } => Verdict::Deny {
                rule: asked,
                reason: reason
                    .filter(|reason| !reason.is_empty())
                    .or_else(|| asked.map(Rule::refusal))
                    .unwrap_or_else(|| NO_RULE_ALLOWS.to_owned()),
            },
            // An answer this version cannot know never lets a call through.
            _ => Verdict::Deny {
                rule: asked,
                reason: asked.map_or_else(|| NO_RULE_ALLOWS.to_owned(), Rule::refusal),
            },
        }
    }

    /// The rules in order of precedence.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.entries.iter().map(|entry| &entry.rule)
    }

    /// Whether there is no rule, so that the fallback decides everything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn fall_back(&self) -> Verdict<'_> {
        match self.fallback {
            Decision::Allow => Verdict::Allow { rule: None },
            Decision::Deny => Verdict::Deny {
                rule: None,
                reason: NO_RULE_ALLOWS.to_owned(),
            },
            Decision::Ask => Verdict::Ask {
                rule: None,
                reason: None,
            },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    target: Target,
    decision: Decision,
    dynamic: bool,
    rule: Rule,
}

impl Entry {
    fn new(rule: &PolicyRule) -> Result<Self, Error> {
        let info = Rule::new(rule);
        if rule.tool.is_empty() {
            return Err(Error::NoTool { rule: info.name });
        }
        if rule.dynamic && rule.id.is_empty() {
            return Err(Error::NoId { rule: info.name });
        }
        let server = rule.server.clone().filter(|server| !server.is_empty());
        let target = match (rule.tool.as_str(), server) {
            (ANY, None) => Target::Any,
            (ANY, Some(server)) => Target::Server(server),
            (tool, server) => Target::Tool(tool.to_owned(), server),
        };
        Ok(Self {
            target,
            decision: Decision::of(rule.decision),
            dynamic: rule.dynamic,
            rule: info,
        })
    }

    /// Less is asked first. A dynamic rule ranks by the decision it stands for.
    fn rank(&self) -> (u8, Decision) {
        let specificity = match self.target {
            Target::Tool(..) => 0,
            Target::Server(_) => 1,
            Target::Any => 2,
        };
        (specificity, self.decision)
    }
}

/// What a rule speaks of, the most specific first.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// One tool, of a server or of none.
    Tool(String, Option<String>),
    /// Every tool of a server.
    Server(String),
    /// Every tool.
    Any,
}

impl Target {
    fn matches(&self, tool: &str, server: Option<&str>) -> bool {
        match self {
            Self::Tool(name, of) => name == tool && of.as_deref() == server,
            Self::Server(of) => server == Some(of.as_str()),
            Self::Any => true,
        }
    }
}

/// A decision in order of precedence: the careful ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Decision {
    Deny,
    Ask,
    Allow,
}

impl Decision {
    fn of(decision: PolicyDecision) -> Self {
        match decision {
            PolicyDecision::Allow => Self::Allow,
            PolicyDecision::Ask => Self::Ask,
            PolicyDecision::Deny => Self::Deny,
            // A decision this version cannot know never lets a call through.
            _ => Self::Deny,
        }
    }
}
