//! The tools of a conversation: what the model is told of, and where each call goes.

use std::collections::HashMap;
use std::sync::Arc;

use harness_toolkit::{ObjectSchema, Registry};
use harness_types::{
    Action, Choice, Config, Question, Tool, ToolCall, ToolClass, ToolOrigin, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::Error;

/// The tools one conversation can call, checked and in the order the model is told of them:
/// built-in ones by registration, then `ask_question`, `finish`, then host tools as configured.
#[derive(Debug)]
pub struct Catalogue {
    specs: Arc<[ToolSpec]>,
    places: HashMap<String, usize>,
    registry: Registry,
    finish: Option<ObjectSchema>,
}

/// The name of the tool that asks the user.
const ASK_QUESTION: &str = "ask_question";
/// The name of the tool that gives the structured answer.
const FINISH: &str = "finish";

impl Catalogue {
    /// Puts the tools of a configuration together.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateTool`], [`Error::ReservedTool`], [`Error::ToolName`],
    /// [`Error::ToolSchema`] and [`Error::FinishSchema`] name the tool at fault.
    pub fn new(config: &Config, registry: Registry) -> Result<Self, Error> {
        let mut specs: Vec<ToolSpec> = registry
            .specs()
            .filter(|spec| config.tools.contains(&spec.name))
            .cloned()
            .collect();
        if config.tools.contains(ASK_QUESTION) {
            specs.push(ask_question());
        }
        let finish = config
            .finish_schema
            .as_ref()
            .map(|schema| {
                ObjectSchema::compile(schema).map_err(|error| Error::FinishSchema {
                    message: error.to_string(),
                })
            })
            .transpose()?;
        if let Some(schema) = &config.finish_schema {
            specs.push(finish_spec(schema));
        }
        for tool in &config.host_tools {
            if harness_toolkit::check_name(&tool.name).is_err() {
                return Err(Error::ToolName {
                    name: tool.name.clone(),
                });
            }
            if specs
                .iter()
                .any(|s| s.name == tool.name && s.origin == ToolOrigin::Host)
            {
                return Err(Error::DuplicateTool {
                    name: tool.name.clone(),
                });
            }
            let reserved = tool.name == ASK_QUESTION
                || tool.name == FINISH
                || registry.get(&tool.name).is_some();
            if reserved {
                return Err(Error::ReservedTool {
                    name: tool.name.clone(),
                });
            }
            ObjectSchema::check(&tool.parameters).map_err(|error| Error::ToolSchema {
                name: tool.name.clone(),
                message: error.to_string(),
            })?;
            specs.push(ToolSpec {
                name: tool.name.clone(),
                policy_name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: tool.parameters.clone(),
                class: ToolClass::External,
                origin: ToolOrigin::Host,
            });
        }
        let places = specs
            .iter()
            .enumerate()
            .map(|(n, spec)| (spec.name.clone(), n))
            .collect();
        Ok(Self {
            specs: specs.into(),
            places,
            registry,
            finish,
        })
    }

    /// The tools in the order the model is told of them.
    pub fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    /// A tool by the name the model calls it.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.specs.get(*self.places.get(name)?)
    }

    /// The implementation of a built-in tool.
    pub(crate) fn built_in(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.registry.get(name)
    }

    /// Brings the arguments of a call into the form the tool takes, and says what is wrong with
    /// them. Host tools get what the model sent: their client checks it.
    pub(crate) fn check(
        &self,
        spec: &ToolSpec,
        args: &mut Map<String, Value>,
    ) -> Result<(), String> {
        harness_toolkit::strip_annotations(args);
        match spec.origin {
            ToolOrigin::BuiltIn => {
                *args = self.registry.prepare(&spec.name, args.clone())?;
                Ok(())
            }
            ToolOrigin::Finish => match &self.finish {
                Some(schema) => schema.validate(args),
                None => Ok(()),
            },
            ToolOrigin::Question => questions(args).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// What observers are shown when a call opens.
    pub(crate) fn opening(&self, spec: &ToolSpec, call: &ToolCall) -> Action {
        match spec.origin {
            ToolOrigin::BuiltIn => match self.built_in(&spec.name) {
                Some(tool) => tool.opening(call),
                None => Action::Tool { call: call.clone() },
            },
            ToolOrigin::Finish => Action::Finish {
                output: finish_output(call),
            },
            ToolOrigin::Question => Action::AskQuestion {
                questions: questions(&call.args).unwrap_or_default(),
                answers: Vec::new(),
            },
            _ => Action::HostTool {
                call: call.clone(),
                response: None,
            },
        }
    }
}

/// The arguments of a `finish` call as the JSON text clients are given.
pub(crate) fn finish_output(call: &ToolCall) -> String {
    // A map with text keys always serialises.
    serde_json::to_string(&call.args).unwrap_or_default()
}

fn ask_question() -> ToolSpec {
    ToolSpec {
        name: ASK_QUESTION.to_owned(),
        policy_name: ASK_QUESTION.to_owned(),
        description: "Asks the user one or more multiple-choice questions and waits for the \
            answers. Use it when a decision is the user's to make and the work cannot go on \
            without it; not for things you can find out yourself."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "minItems": 1,
                    "description": "The questions, in the order they are to be asked.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "question": {"type": "string", "description": "The question, in one sentence."},
                            "options": {
                                "type": "array",
                                "minItems": 2,
                                "items": {"type": "string"},
                                "description": "At least two choices. The user may also write an own answer."
                            },
                            "is_multi_select": {
                                "type": "boolean",
                                "description": "Whether several options may be chosen."
                            }
                        },
                        "required": ["question", "options"]
                    }
                }
            },
            "required": ["questions"]
        }),
        class: ToolClass::External,
        origin: ToolOrigin::Question,
    }
}

fn finish_spec(schema: &Value) -> ToolSpec {
    ToolSpec {
        name: FINISH.to_owned(),
        policy_name: FINISH.to_owned(),
        description: "Gives the final answer in the required structure and ends the turn. Call it \
            exactly once, when the work is done."
            .to_owned(),
        parameters: schema.clone(),
        class: ToolClass::Mutating,
        origin: ToolOrigin::Finish,
    }
}

/// Reads the questions of an `ask_question` call.
pub(crate) fn questions(args: &Map<String, Value>) -> Result<Vec<Question>, String> {
    let list = args
        .get("questions")
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty())
        .ok_or("questions: expected a non-empty array of questions")?;
    list.iter()
        .enumerate()
        .map(|(n, item)| {
            let question = item
                .get("question")
                .and_then(Value::as_str)
                .ok_or_else(|| format!("questions[{n}].question: expected a string"))?;
            let options: Vec<String> = item
                .get("options")
                .and_then(Value::as_array)
                .map(|options| {
                    options
                        .iter()
                        .filter_map(|o| o.as_str().map(str::to_owned))
                        .collect()
                })
                .unwrap_or_default();
            if options.len() < 2 {
                return Err(format!(
                    "questions[{n}].options: expected at least two strings, found {}",
                    options.len()
                ));
            }
            let many = item
                .get("is_multi_select")
                .and_then(Value::as_bool)
                .unwrap_or(false);
            Ok(Question {
                question: question.to_owned(),
                options,
                choice: if many { Choice::Many } else { Choice::One },
            })
        })
        .collect()
}
