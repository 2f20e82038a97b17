//! A folder, the tools, and a way to call them.

use std::fs;
use std::path::{Path, PathBuf};

use harness_toolkit::{BuiltInOptions, FileAccess, Registry, RunCommandOptions, built_ins};
use harness_types::{
    Action, ConversationId, ResultContent, StepIndex, ToolContext, ToolError, ToolOutput,
};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// The tools and a folder of their own, which is the workspace.
pub(crate) struct Workshop {
    pub(crate) registry: Registry,
    root: PathBuf,
    _folder: TempDir,
}

impl Workshop {
    /// Tools that reach everything.
    pub(crate) fn new() -> Self {
        Self::with(RunCommandOptions::default(), |_| FileAccess::Unconfined)
    }

    /// Tools that stay in `work` below the folder.
    #[cfg_attr(not(feature = "files"), expect(dead_code, reason = "needs file tools"))]
    pub(crate) fn contained() -> Self {
        Self::with(RunCommandOptions::default(), |root| {
            FileAccess::contained([root.join("work")])
        })
    }

    pub(crate) fn with(
        run_command: RunCommandOptions,
        access: impl FnOnce(&Path) -> FileAccess,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a real path");
        fs::create_dir(root.join("work")).expect("a folder");
        let access = access(&root);
        let tools = built_ins(BuiltInOptions {
            access,
            run_command,
        });
        Self {
            registry: Registry::with_tools(tools).expect("proper tools"),
            root,
            _folder: folder,
        }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    pub(crate) fn text(&self, relative: &str) -> String {
        self.path(relative).to_str().expect("UTF-8").to_owned()
    }

    /// Makes a file with its folders.
    #[cfg_attr(not(feature = "files"), expect(dead_code, reason = "needs file tools"))]
    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(&path, content).expect("a file");
        self.text(relative)
    }

    #[cfg_attr(not(feature = "edit"), expect(dead_code, reason = "needs edit tools"))]
    pub(crate) fn read(&self, relative: &str) -> Vec<u8> {
        fs::read(self.path(relative)).expect("a file")
    }

    pub(crate) fn context(&self) -> ToolContext {
        let id = ConversationId::from_random([7; 16]);
        ToolContext::new(id, StepIndex::new(0), [self.path("work")])
    }

    /// Calls a tool as the loop does.
    pub(crate) async fn call(&self, tool: &str, args: Value) -> Result<ToolOutput, ToolError> {
        self.call_in(self.context(), tool, args).await
    }

    pub(crate) async fn call_in(
        &self,
        context: ToolContext,
        tool: &str,
        args: Value,
    ) -> Result<ToolOutput, ToolError> {
        let args = self
            .registry
            .prepare(tool, object(args))
            .map_err(ToolError::invalid)?;
        let tool = self.registry.get(tool).expect("a tool");
        tool.call(context, args).await
    }

    /// The text a successful call gives.
    pub(crate) async fn ok(&self, tool: &str, args: Value) -> String {
        match self.call(tool, args).await.expect("success").content {
            ResultContent::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    /// The message of a failing call.
    pub(crate) async fn error(&self, tool: &str, args: Value) -> String {
        self.call(tool, args)
            .await
            .expect_err("a failure")
            .to_string()
    }

    /// What observers are shown of a successful call.
    #[cfg_attr(not(feature = "files"), expect(dead_code, reason = "needs file tools"))]
    pub(crate) async fn action(&self, tool: &str, args: Value) -> Action {
        let output = self.call(tool, args).await.expect("success");
        output.action.expect("an action")
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}
