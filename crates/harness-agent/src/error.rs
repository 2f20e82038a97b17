//! What can be wrong with the parts of an agent.

use std::path::PathBuf;

/// A configuration that cannot be run, or an agent that is gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two tools have one name.
    #[error("tool name {name:?} is declared twice")]
    DuplicateTool {
        /// The name.
        name: String,
    },
    /// A host tool has the name of a built-in tool.
    #[error("host tool {name:?} has the name of a built-in tool")]
    ReservedTool {
        /// The name.
        name: String,
    },
    /// A tool name that a model could not call.
    #[error("tool name {name:?} must be 1 to 64 of [a-zA-Z0-9_-]")]
    ToolName {
        /// The name.
        name: String,
    },
    /// A tool whose arguments are not described by a usable JSON Schema.
    #[error("parameters of tool {name:?} are not a valid JSON Schema: {message}")]
    ToolSchema {
        /// The tool.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A finish schema that is not a usable JSON Schema.
    #[error("finish schema is not a valid JSON Schema: {message}")]
    FinishSchema {
        /// What is wrong.
        message: String,
    },
    /// A workspace given as a relative path.
    #[error("workspace {path:?} is relative; give an absolute path")]
    RelativeWorkspace {
        /// The path.
        path: PathBuf,
    },
    /// A workspace that is not an existing directory.
    #[error("workspace {path:?} is not an existing directory")]
    MissingWorkspace {
        /// The path.
        path: PathBuf,
    },
    /// Rules that contradict each other or cannot be evaluated.
    #[error("policy: {message}")]
    Policy {
        /// What is wrong.
        message: String,
    },
    /// The store could not be read.
    #[error("the conversation could not be read")]
    Store(#[from] harness_types::StoreError),
    /// The agent has ended; nothing can be sent to it.
    #[error("the conversation is closed")]
    Closed,
}

impl Error {
    /// Whether the caller's configuration is at fault, rather than the world.
    pub fn is_config(&self) -> bool {
        !matches!(self, Self::Store(_) | Self::Closed)
    }
}
