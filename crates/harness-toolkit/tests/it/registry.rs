use std::sync::Arc;

use harness_toolkit::{Registry, RegistryError, SchemaError, check_name};
use harness_types::{
    BoxFuture, Tool, ToolClass, ToolContext, ToolError, ToolOrigin, ToolOutput, ToolSpec,
};
use serde_json::{Map, Value, json};

#[derive(Debug)]
struct Named(&'static str, Value);

impl Tool for Named {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.to_owned(),
            policy_name: self.0.to_owned(),
            description: String::new(),
            parameters: self.1.clone(),
            class: ToolClass::ReadOnly,
            origin: ToolOrigin::BuiltIn,
        }
    }

    fn call<'a>(
        &'a self,
        _: ToolContext,
        _: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::text(self.0)) })
    }
}

fn tool(name: &'static str) -> Arc<dyn Tool> {
    Arc::new(Named(
        name,
        json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    ))
}

fn args(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

#[test]
fn tools_keep_their_order_and_their_names() {
    let registry = Registry::with_tools([tool("b"), tool("a"), tool("c")]).expect("a registry");
    let names: Vec<&str> = registry.specs().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["b", "a", "c"]);
    assert_eq!(registry.len(), 3);
    assert_eq!(registry.get("a").expect("a tool").spec().name, "a");
    assert!(registry.get("d").is_none());
}

#[test]
fn a_name_is_given_once() {
    let mut registry = Registry::with_tools([tool("a")]).expect("a registry");
    assert_eq!(
        registry.register(tool("a")),
        Err(RegistryError::Duplicate {
            name: "a".to_owned()
        })
    );
    assert_eq!(registry.len(), 1);
}

#[test]
fn names_are_those_providers_accept() {
    let longest = "x".repeat(64);
    for good in ["a", "A-b_9", longest.as_str()] {
        assert_eq!(check_name(good), Ok(()), "{good}");
    }
    let too_long = "x".repeat(65);
    for bad in ["", "a b", "a.b", "ä", too_long.as_str()] {
        assert_eq!(
            check_name(bad),
            Err(RegistryError::Name {
                name: bad.to_owned()
            })
        );
    }
    let mut registry = Registry::new();
    assert!(registry.register(tool("a b")).is_err());
    assert!(registry.is_empty());
}

#[test]
fn a_bad_schema_names_its_tool() {
    let bad = Arc::new(Named("bad", json!({"type": "string"})));
    assert_eq!(
        Registry::new().register(bad),
        Err(RegistryError::Schema {
            name: "bad".to_owned(),
            source: SchemaError::NotAnObject {
                found: "\"string\"".to_owned()
            },
        })
    );
}

#[test]
fn arguments_are_stripped_repaired_and_checked() {
    let registry = Registry::with_tools([tool("a"), tool("b")]).expect("a registry");
    let given = args(json!({"n": "3", "toolAction": "x", "toolSummary": "y", "extra": 1}));
    assert_eq!(
        registry.prepare("a", given.clone()),
        Ok(args(json!({"n": 3, "extra": 1})))
    );
    assert_eq!(
        registry.validate("a", &given),
        Err("`n`: expected integer, got string \"3\"".to_owned())
    );
    assert_eq!(
        registry.validate("a", &args(json!({"n": 3, "extra": {}}))),
        Ok(())
    );
    assert_eq!(
        registry.prepare("z", Map::new()),
        Err("there is no tool named \"z\"; there are: a, b".to_owned())
    );
}

#[test]
fn specs_declare_the_annotations() {
    let registry = Registry::with_tools([tool("a")]).expect("a registry");
    let parameters = &registry.spec("a").expect("a spec").parameters;
    let names: Vec<&String> = parameters["properties"]
        .as_object()
        .expect("properties")
        .keys()
        .collect();
    assert_eq!(names, ["n", "toolAction", "toolSummary"]);
    assert_eq!(parameters.get("required"), None);
}

#[cfg(all(feature = "search", feature = "edit", feature = "shell"))]
#[test]
fn the_built_ins_have_the_names_and_arguments_users_rely_on() {
    use harness_toolkit::{BuiltInOptions, built_ins};

    let registry = Registry::with_tools(built_ins(BuiltInOptions::default())).expect("a registry");
    let table: Vec<(String, String, Vec<String>, Vec<String>)> = registry
        .specs()
        .map(|spec| {
            let mut properties: Vec<String> = spec.parameters["properties"]
                .as_object()
                .expect("properties")
                .keys()
                .filter(|name| !name.starts_with("tool"))
                .cloned()
                .collect();
            properties.sort();
            let required = spec.parameters["required"].as_array().expect("required");
            let required = required
                .iter()
                .map(|it| it.as_str().expect("a name").to_owned());
            (
                spec.name.clone(),
                spec.policy_name.clone(),
                properties,
                required.collect(),
            )
        })
        .collect();
    let row = |name: &str, policy_name: &str, properties: &str, required: &str| {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        (
            name.to_owned(),
            policy_name.to_owned(),
            words(properties),
            words(required),
        )
    };
    assert_eq!(
        table,
        [
            row(
                "find_by_name",
                "find_file",
                "Excludes Extensions FullPath MaxDepth Pattern SearchDirectory Type",
                "SearchDirectory Pattern"
            ),
            row(
                "grep_search",
                "search_directory",
                "CaseInsensitive Includes IsRegex MatchPerLine Query SearchPath",
                "Query SearchPath"
            ),
            row(
                "list_dir",
                "list_directory",
                "DirectoryPath",
                "DirectoryPath"
            ),
            row(
                "replace_file_content",
                "edit_file",
                "AllowMultiple Description EndLine Instruction ReplacementContent StartLine \
                 TargetContent TargetFile",
                "TargetFile TargetContent ReplacementContent"
            ),
            row(
                "run_command",
                "run_command",
                "CommandLine Cwd WaitMsBeforeAsync",
                "CommandLine"
            ),
            row(
                "view_file",
                "view_file",
                "AbsolutePath ContentOffset EndLine StartLine",
                "AbsolutePath"
            ),
            row(
                "write_to_file",
                "create_file",
                "Append CodeContent Description Overwrite TargetFile",
                "TargetFile CodeContent"
            ),
        ]
    );
}
