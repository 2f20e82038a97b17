//! Who may run which tool: pure evaluation of a conversation's policy.
//!
//! A [`Policy`] is compiled once from the [`PolicySpec`](harness_types::PolicySpec) a front end
//! sent and is then asked about every call. It answers with a [`Verdict`], which names the rule
//! that decided, so that the refusal a model reads and the line in a log say why. The crate reads
//! no clock, no file and no environment and never waits: a rule that only the client can decide
//! is handed back as [`Verdict::AskClient`], and the client's answer is passed to
//! [`Policy::resume`].
//!
//! ```
//! use harness_policy::{Policy, Verdict};
//! use harness_types::{PolicyDecision, PolicyRule, PolicySpec};
//!
//! let rule = |tool: &str, decision| PolicyRule {
//!     tool: tool.into(),
//!     server: None,
//!     name: format!("rule for {tool}"),
//!     id: String::new(),
//!     decision,
//!     reason: None,
//!     dynamic: false,
//! };
//! let policy = Policy::compile(&PolicySpec {
//!     rules: vec![
//!         rule("*", PolicyDecision::Deny),
//!         rule("view_file", PolicyDecision::Allow),
//!     ],
//!     ..PolicySpec::default()
//! })?;
//!
//! assert!(matches!(policy.evaluate("view_file", None, 0), Verdict::Allow { .. }));
//! let Verdict::Deny { rule: Some(rule), reason } = policy.evaluate("run_command", None, 0) else {
//!     panic!("refused by the wildcard");
//! };
//! assert_eq!(rule.name(), "rule for *");
//! assert_eq!(reason, "the policy \"rule for *\" does not allow this call");
//! # Ok::<(), harness_policy::Error>(())
//! ```
//!
//! # Precedence
//!
//! The order in which rules were sent does not matter, except between rules that agree in
//! everything below:
//!
//! 1. a rule for exactly this tool, then one for every tool of its MCP server, then one for every
//!    tool;
//! 2. among rules equally specific: deny, then ask, then allow;
//! 3. the rule that was sent first;
//! 4. no rule at all: the fallback of the specification.
//!
//! A rule without a server speaks of tools without one; `*` without a server speaks of all.
//!
//! # Limits
//!
//! At most [`MAX_RULES`] rules. An evaluation is linear in their number and allocates only the
//! text of a refusal. Whether a *path* is allowed (containment) is not decided here.

mod error;
mod policy;
mod verdict;

pub use error::Error;
pub use policy::{MAX_RULES, Policy};
pub use verdict::{Rule, Verdict};
