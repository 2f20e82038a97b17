//! Tools made from closures.

use std::fmt;
use std::sync::Arc;

use harness_types::{
    BoxFuture, Tool, ToolClass, ToolContext, ToolError, ToolOrigin, ToolOutput, ToolSpec,
};
use serde_json::{Map, Value};

type Run = dyn Fn(ToolContext, Map<String, Value>) -> BoxFuture<'static, Result<String, ToolError>>
    + Send
    + Sync;

/// A tool made by [`tool`].
#[derive(Clone)]
#[must_use]
pub struct FunctionTool {
    spec: ToolSpec,
    run: Arc<Run>,
}

/// Makes a tool of an async closure that answers with text.
///
/// `parameters` is the JSON Schema of the arguments, an object; the closure gets only arguments
/// that satisfy it. A call counts as one that may change something, see
/// [`FunctionTool::read_only`]. For attachments, views of its own or progress, implement
/// [`Tool`].
pub fn tool<F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    parameters: Value,
    run: F,
) -> FunctionTool
where
    F: Fn(ToolContext, Map<String, Value>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    let name = name.into();
    FunctionTool {
        spec: ToolSpec {
            policy_name: name.clone(),
            name,
            description: description.into(),
            parameters,
            class: ToolClass::Mutating,
            origin: ToolOrigin::BuiltIn,
        },
        run: Arc::new(move |context, args| Box::pin(run(context, args))),
    }
}

impl FunctionTool {
    /// Says that calls change nothing: they run side by side and need no approval.
    pub fn read_only(mut self) -> Self {
        self.spec.class = ToolClass::ReadOnly;
        self
    }
}

impl Tool for FunctionTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call<'a>(
        &'a self,
        context: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        let answer = (self.run)(context, args);
        Box::pin(async move { answer.await.map(ToolOutput::text) })
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}
