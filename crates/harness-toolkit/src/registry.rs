//! The tools of an agent, by name.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use harness_types::{Tool, ToolSpec};
use serde_json::{Map, Value};

use crate::built_ins::{BuiltInOptions, built_ins};
use crate::schema::{ObjectSchema, SchemaError, declare_annotations, strip_annotations};

/// A tool that cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Providers accept only 1 to 64 of `[a-zA-Z0-9_-]`.
    #[error("tool name {name:?} must be 1 to 64 of [a-zA-Z0-9_-]")]
    Name {
        /// The name.
        name: String,
    },
    /// Another tool has the name.
    #[error("there is already a tool named `{name}`")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// Its schema cannot be used.
    #[error("tool `{name}` has an unusable parameter schema")]
    Schema {
        /// The tool.
        name: String,
        /// Why.
        source: SchemaError,
    },
}

/// The tools that run in this process, in the order they were registered.
///
/// The order is that in which the model is told of them. It never changes, so that requests to a
/// provider share their beginning and its cache applies (F057).
#[derive(Debug, Clone, Default)]
pub struct Registry {
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug, Clone)]
struct Entry {
    spec: ToolSpec,
    schema: EntrySchema,
    tool: Arc<dyn Tool>,
}

/// The schema of a tool's arguments.
#[derive(Debug, Clone)]
enum EntrySchema {
    /// Checked when the tool was registered.
    Compiled(Arc<ObjectSchema>),
    /// One of ours, known to be good (a test compiles them all): compiled at the first call, since
    /// that costs more time and memory than all the rest of starting a conversation.
    AtFirstCall {
        source: Arc<Value>,
        compiled: Arc<OnceLock<Result<ObjectSchema, String>>>,
    },
}

impl EntrySchema {
    fn get(&self) -> Result<&ObjectSchema, String> {
        match self {
            Self::Compiled(schema) => Ok(schema),
            Self::AtFirstCall { source, compiled } => {
                let compile = || ObjectSchema::compile(source).map_err(|error| error.to_string());
                compiled.get_or_init(compile).as_ref().map_err(Clone::clone)
            }
        }
    }
}

impl Registry {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry of `tools`, in their order.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register), for the first tool that cannot be registered.
    pub fn with_tools(
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Result<Self, RegistryError> {
        let mut registry = Self::new();
        for tool in tools {
            registry.register(tool)?;
        }
        Ok(registry)
    }

    /// A registry of the built-in tools of the enabled features, see
    /// [`built_ins`](crate::built_ins). Their schemas are compiled when they are first called.
    pub fn with_built_ins(options: BuiltInOptions) -> Self {
        let mut registry = Self::new();
        for tool in built_ins(options) {
            let spec = tool.spec();
            let schema = EntrySchema::AtFirstCall {
                source: Arc::new(spec.parameters.clone()),
                compiled: Arc::default(),
            };
            registry.push(spec, schema, tool);
        }
        registry
    }

    /// Adds a tool at the end. It is asked for its description once, here.
    ///
    /// # Errors
    ///
    /// [`RegistryError`] when the name is malformed or taken, or the schema unusable; the registry
    /// is unchanged then.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let spec = tool.spec();
        let name = spec.name.clone();
        check_name(&name)?;
        if self.by_name.contains_key(&name) {
            return Err(RegistryError::Duplicate { name });
        }
        let schema = match ObjectSchema::compile(&spec.parameters) {
            Ok(schema) => EntrySchema::Compiled(Arc::new(schema)),
            Err(source) => return Err(RegistryError::Schema { name, source }),
        };
        self.push(spec, schema, tool);
        Ok(())
    }

    fn push(&mut self, mut spec: ToolSpec, schema: EntrySchema, tool: Arc<dyn Tool>) {
        declare_annotations(&mut spec.parameters);
        self.by_name.insert(spec.name.clone(), self.entries.len());
        self.entries.push(Entry { spec, schema, tool });
    }

    /// What the model is told, in order. Every schema also declares the optional strings
    /// `toolAction` and `toolSummary`.
    pub fn specs(&self) -> impl ExactSizeIterator<Item = &ToolSpec> {
        self.entries.iter().map(|entry| &entry.spec)
    }

    /// What the model is told of one tool.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.entry(name).map(|entry| &entry.spec)
    }

    /// The tool named `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.entry(name).map(|entry| &entry.tool)
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Checks the arguments of a call as they are. Arguments the tool does not know are no fault.
    ///
    /// # Errors
    ///
    /// A text for the model: the tool does not exist, or what is wrong with the arguments, see
    /// [`ObjectSchema::validate`].
    pub fn validate(&self, name: &str, args: &Map<String, Value>) -> Result<(), String> {
        self.known(name)?.schema.get()?.validate(args)
    }

    /// Makes the arguments of a call ready for the tool: takes out the annotations, repairs plain
    /// slips of type ([`ObjectSchema::coerce`]) and checks the rest.
    ///
    /// # Errors
    ///
    /// As [`validate`](Self::validate).
    pub fn prepare(
        &self,
        name: &str,
        mut args: Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let entry = self.known(name)?;
        strip_annotations(&mut args);
        let schema = entry.schema.get()?;
        schema.coerce(&mut args);
        schema.validate(&args)?;
        Ok(args)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).map(|&index| &self.entries[index])
    }

    fn known(&self, name: &str) -> Result<&Entry, String> {
        self.entry(name).ok_or_else(|| {
            let names: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
            format!(
                "there is no tool named {name:?}; there are: {}",
                names.join(", ")
            )
        })
    }
}

/// Checks that providers accept `name` as the name of a tool: `^[a-zA-Z0-9_-]{1,64}$`.
///
/// # Errors
///
/// [`RegistryError::Name`].
pub fn check_name(name: &str) -> Result<(), RegistryError> {
    let fits = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if fits {
        return Ok(());
    }
    Err(RegistryError::Name {
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_of_the_built_in_tools_compile() {
        let registry = Registry::with_built_ins(BuiltInOptions::default());
        for entry in &registry.entries {
            let name = &entry.spec.name;
            assert_eq!(entry.schema.get().map(|_| ()), Ok(()), "{name}");
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }
}
