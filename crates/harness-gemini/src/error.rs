//! What can be wrong with a configuration.

/// A configuration that no request can be built from.
///
/// No message holds a credential: addresses and header values are never repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The base address cannot be used.
    #[error("base_url {reason}")]
    BaseUrl {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The model's name cannot be part of an address.
    #[error("model name {reason}")]
    ModelName {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The project or the location of a Vertex endpoint cannot be part of an address.
    #[error("{field} must be 1 to 64 of [a-zA-Z0-9:._-]")]
    Place {
        /// `project` or `location`.
        field: &'static str,
    },
    /// A header cannot be sent.
    #[error("header {name:?} {reason}")]
    Header {
        /// The header's name, as it was given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Error {
    /// The setting that is wrong, by the name of its setter on
    /// [`GeminiConfig`](crate::GeminiConfig).
    pub fn setting(&self) -> &'static str {
        match self {
            Self::BaseUrl { .. } => "base_url",
            Self::ModelName { .. } => "model",
            Self::Place { .. } => "endpoint",
            Self::Header { .. } => "header",
        }
    }
}
