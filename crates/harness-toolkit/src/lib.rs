//! The tool runtime and the built-in tools.
//!
//! A [`Tool`](harness_types::Tool) is described, called and answered in the words of
//! `harness-types`. This crate has what all tools share: a [`Registry`] that knows them by name and
//! checks arguments before a call, [`ObjectSchema`] for any other JSON Schema of arguments,
//! [`WorkspacePath`] and [`Containment`] for paths, [`OutputLimit`] for long text. By feature, it
//! also has the tools every coding agent needs, see [`built_ins`].
//!
//! The agent loop builds on the runtime alone. Programs that want a whole agent take `harness-sdk`.
//!
//! # Example
//!
//! A tool, registered and called the way the loop does it:
//!
//! ```
//! use std::sync::Arc;
//!
//! use harness_toolkit::Registry;
//! use harness_types::{
//!     BoxFuture, ConversationId, StepIndex, Tool, ToolClass, ToolContext, ToolError, ToolOrigin,
//!     ToolOutput, ToolSpec,
//! };
//! use serde_json::{Map, Value, json};
//!
//! #[derive(Debug)]
//! struct Add;
//!
//! impl Tool for Add {
//!     fn spec(&self) -> ToolSpec {
//!         ToolSpec {
//!             name: "add".into(),
//!             policy_name: "add".into(),
//!             description: "Adds two integers.".into(),
//!             parameters: json!({
//!                 "type": "object",
//!                 "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
//!                 "required": ["a", "b"],
//!             }),
//!             class: ToolClass::ReadOnly,
//!             origin: ToolOrigin::BuiltIn,
//!         }
//!     }
//!
//!     fn call<'a>(
//!         &'a self,
//!         _: ToolContext,
//!         args: Map<String, Value>,
//!     ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
//!         Box::pin(async move {
//!             let number = |name: &str| args.get(name).and_then(Value::as_i64).unwrap_or_default();
//!             Ok(ToolOutput::text((number("a") + number("b")).to_string()))
//!         })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::with_tools([Arc::new(Add) as Arc<dyn Tool>])?;
//! let object = |value: Value| value.as_object().cloned().unwrap_or_default();
//!
//! // What models get slightly wrong is repaired, what is wrong is told.
//! let args = registry.prepare("add", object(json!({"a": "40", "b": 2.0})))?;
//! let refused = registry.prepare("add", object(json!({"a": "forty"})));
//! assert_eq!(
//!     refused,
//!     Err("`a`: expected integer, got string \"forty\"\n`b`: required, but missing".into())
//! );
//!
//! let tool = registry.get("add").ok_or("no such tool")?;
//! let context = ToolContext::new(ConversationId::from_random([7; 16]), StepIndex::new(0), []);
//! assert_eq!(tool.call(context, args).await?, ToolOutput::text("42"));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | tools (name for the model → name for policies) |
//! |---|---|
//! | `files` | `list_dir` → `list_directory`, `view_file` → `view_file` |
//! | `search` | `find_by_name` → `find_file`, `grep_search` → `search_directory` |
//! | `edit` | `replace_file_content` → `edit_file`, `write_to_file` → `create_file` |
//! | `shell` | `run_command` → `run_command` |
//!
//! None is on by default. Names of tools and arguments are those of the closed harness, because
//! users' policies and hooks match on them; source: its declarations to the model, version 0.1.22.
//!
//! # Limits
//!
//! | what | bound | at it |
//! |---|---|---|
//! | faults told of one call | 8 | the rest is counted |
//! | `list_dir` entries | 2,000 | the rest is counted |
//! | `view_file` lines, bytes | 800, 46,080 | the rest is named, with the arguments that show it |
//! | `view_file` attachments | 20 MB | refused |
//! | `grep_search`, `find_by_name` results | 50 | the rest is counted |
//! | `grep_search` bytes of one line | 512 around the match | marked with `…` |
//! | `grep_search` length of one line in memory | 64 MiB | the file is counted as unreadable |
//! | files that are edited | 64 MiB | refused |
//! | diffs | 1,000 lines, 128 KiB | shortened |
//! | `run_command` output | first 16 KiB, last 48 KiB | the rest is counted |
//!
//! Every tool stops when its future is dropped: a command is killed with all it started, a search
//! ends at the next file, a file that is being written is left as it was.
//!
//! Unix only; tested on Linux.

#[cfg_attr(
    not(any(feature = "files", feature = "shell")),
    expect(dead_code, reason = "the parts only built-in tools use")
)]
mod built_ins;
mod coerce;
#[cfg(feature = "edit")]
mod edit;
#[cfg(feature = "files")]
mod files;
mod limit;
mod paths;
mod registry;
mod schema;
#[cfg(feature = "search")]
mod search;
#[cfg(feature = "shell")]
mod shell;
#[cfg(feature = "files")]
mod work;

pub use built_ins::{BuiltInOptions, RunCommandOptions, built_ins};
#[cfg(feature = "edit")]
pub use edit::{ReplaceFileContent, WriteToFile};
#[cfg(feature = "files")]
pub use files::{ListDir, ViewFile};
pub use limit::OutputLimit;
pub use paths::{Containment, FileAccess, PathError, WorkspacePath, contained};
pub use registry::{Registry, RegistryError, check_name};
pub use schema::{ObjectSchema, SchemaError, declare_annotations, strip_annotations};
#[cfg(feature = "search")]
pub use search::{FindByName, GrepSearch};
#[cfg(feature = "shell")]
pub use shell::RunCommand;
