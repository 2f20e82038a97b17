//! The tools this crate brings along.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use harness_types::{Tool, ToolClass, ToolError, ToolOrigin, ToolSpec};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::FileAccess;

/// How the built-in tools are set up.
#[derive(Debug, Clone, Default)]
pub struct BuiltInOptions {
    /// Which files they may reach. Does not limit what a command run by `run_command` reaches.
    pub access: FileAccess,
    /// How commands run.
    pub run_command: RunCommandOptions,
}

/// How `run_command` runs commands.
///
/// `Debug` shows the names of variables only: values may be secrets.
#[derive(Clone, Default)]
pub struct RunCommandOptions {
    /// How long a command may run before it is ended with everything it started; `None` for as
    /// long as it takes.
    pub timeout: Option<Duration>,
    /// Variables every command gets; they win over everything else.
    pub env: BTreeMap<OsString, OsString>,
    /// Names of variables that commands do not inherit, such as those that hold credentials.
    pub env_deny: Vec<OsString>,
}

impl fmt::Debug for RunCommandOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunCommandOptions")
            .field("timeout", &self.timeout)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("env_deny", &self.env_deny)
            .finish()
    }
}

/// The built-in tools of the enabled features, ordered by name.
pub fn built_ins(options: BuiltInOptions) -> Vec<Arc<dyn Tool>> {
    let BuiltInOptions {
        access,
        run_command,
    } = options;
    let tools: Vec<Arc<dyn Tool>> = vec![
        #[cfg(feature = "search")]
        Arc::new(crate::search::FindByName::new(access.clone())),
        #[cfg(feature = "search")]
        Arc::new(crate::search::GrepSearch::new(access.clone())),
        #[cfg(feature = "files")]
        Arc::new(crate::files::ListDir::new(access.clone())),
        #[cfg(feature = "edit")]
        Arc::new(crate::edit::ReplaceFileContent::new(access.clone())),
        #[cfg(feature = "shell")]
        Arc::new(crate::shell::RunCommand::new(
            access.clone(),
            run_command.clone(),
        )),
        #[cfg(feature = "files")]
        Arc::new(crate::files::ViewFile::new(access.clone())),
        #[cfg(feature = "edit")]
        Arc::new(crate::edit::WriteToFile::new(access.clone())),
    ];
    drop((access, run_command)); // Not every combination of features uses both.
    tools
}

/// The description of a built-in tool.
pub(crate) fn spec(
    (name, policy_name): (&str, &str),
    class: ToolClass,
    description: &str,
    required: &[&str],
    properties: Value,
) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        policy_name: policy_name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
        }),
        class,
        origin: ToolOrigin::BuiltIn,
    }
}

/// Reads the arguments of a call; those the tool does not know are ignored.
pub(crate) fn read_args<T: DeserializeOwned>(args: Map<String, Value>) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(args))
        .map_err(|error| ToolError::invalid(format!("unusable arguments: {error}")))
}

/// A string argument; empty when it is missing or something else.
pub(crate) fn text_arg<'a>(args: &'a Map<String, Value>, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The path a string argument names; the text itself when it names none.
pub(crate) fn shown_path(args: &Map<String, Value>, name: &str) -> String {
    let text = text_arg(args, name);
    crate::WorkspacePath::parse(text).map_or_else(|_| text.to_owned(), |path| path.to_string())
}

/// The path a string argument names, for containment; none when the tool will refuse it anyway.
pub(crate) fn path_arg(args: &Map<String, Value>, name: &str) -> Vec<std::path::PathBuf> {
    let path = crate::WorkspacePath::parse(text_arg(args, name)).ok();
    path.into_iter()
        .map(crate::WorkspacePath::into_path_buf)
        .collect()
}

/// As [`WorkspacePath::parse`](crate::WorkspacePath::parse), naming the argument.
pub(crate) fn parse_path(name: &str, text: &str) -> Result<crate::WorkspacePath, ToolError> {
    crate::WorkspacePath::parse(text)
        .map_err(|error| ToolError::invalid(format!("{name}: {error}")))
}
