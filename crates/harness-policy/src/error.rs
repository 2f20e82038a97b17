//! What is wrong with a policy.

/// Why a specification is no policy. Rules are named as the client named them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rule names no tool.
    #[error("policy rule {rule:?} names no tool; use \"*\" for every tool")]
    NoTool {
        /// The rule's name.
        rule: String,
    },
    /// A dynamic rule has no id, so the client could not be asked about it.
    #[error("policy rule {rule:?} is dynamic and has no id")]
    NoId {
        /// The rule's name.
        rule: String,
    },
    /// Two dynamic rules have the same id, so the client could not tell them apart.
    #[error("policy rules {first:?} and {second:?} are dynamic and have the same id {id:?}")]
    DuplicateId {
        /// The id.
        id: String,
        /// The name of the rule sent first.
        first: String,
        /// The name of the other one.
        second: String,
    },
    /// More rules than [`MAX_RULES`](crate::MAX_RULES).
    #[error("{count} policy rules are more than the {limit} allowed")]
    TooManyRules {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
}
