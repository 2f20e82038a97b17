use serde::{Deserialize, Serialize};

use super::file::{one_or_many, write_one_or_many};
use crate::{Message, ModelRequest, ResultContent, ToolResult, ToolResultStatus};

/// What a scripted turn expects of its request. Empty fields expect nothing.
///
/// In a file every field but `tool_results` is a string or a list of strings; all of a list have
/// to be found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expectation {
    /// Texts in the last input of the history, as [`Input::display_text`] shows it.
    ///
    /// [`Input::display_text`]: crate::Input::display_text
    #[serde(
        deserialize_with = "one_or_many",
        serialize_with = "write_one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub last_input_contains: Vec<String>,
    /// Texts in the last notice of the history.
    #[serde(
        deserialize_with = "one_or_many",
        serialize_with = "write_one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub notice_contains: Vec<String>,
    /// Texts, each in any result of the last answered calls. JSON results count as their text.
    #[serde(
        deserialize_with = "one_or_many",
        serialize_with = "write_one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tool_result_contains: Vec<String>,
    /// How the last answered calls ended: all of them, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_results: Option<Vec<ToolResultStatus>>,
    /// Texts in the system prompt.
    #[serde(
        deserialize_with = "one_or_many",
        serialize_with = "write_one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub system_contains: Vec<String>,
    /// Tools that are declared, by name.
    #[serde(
        deserialize_with = "one_or_many",
        serialize_with = "write_one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tools_include: Vec<String>,
    /// Tools that are not declared, by name.
    #[serde(
        deserialize_with = "one_or_many",
        serialize_with = "write_one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tools_exclude: Vec<String>,
}

impl Expectation {
    /// Checks a request.
    ///
    /// # Errors
    ///
    /// The first expectation that is not met: its name, what was looked for, where.
    pub fn check(&self, request: &ModelRequest) -> Result<(), String> {
        let input = request
            .messages
            .iter()
            .rev()
            .find_map(|message| match message {
                Message::Input(input) => Some(input.display_text()),
                _ => None,
            });
        contains(
            "last_input_contains",
            &self.last_input_contains,
            input.as_slice(),
        )?;

        let notice = request
            .messages
            .iter()
            .rev()
            .find_map(|message| match message {
                Message::Notice(text) => Some(text.clone()),
                _ => None,
            });
        contains("notice_contains", &self.notice_contains, notice.as_slice())?;

        let results = request
            .messages
            .iter()
            .rev()
            .find_map(|message| match message {
                Message::ToolResults(results) => Some(results.as_slice()),
                _ => None,
            });
        let results = results.unwrap_or_default();
        let texts: Vec<_> = results.iter().map(text_of).collect();
        contains("tool_result_contains", &self.tool_result_contains, &texts)?;
        if let Some(expected) = &self.tool_results {
            let found: Vec<_> = results.iter().map(|result| result.status).collect();
            if *expected != found {
                return Err(format!(
                    "tool_results: expected {expected:?}, found {found:?}"
                ));
            }
        }

        contains(
            "system_contains",
            &self.system_contains,
            &[&*request.system],
        )?;

        let tools: Vec<_> = request
            .tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect();
        self.check_tools(&tools)
    }

    /// Checks the names of the declared tools alone, for whoever knows a request in another form.
    ///
    /// # Errors
    ///
    /// The first expectation that is not met.
    pub fn check_tools(&self, declared: &[&str]) -> Result<(), String> {
        let has = |tool: &String| declared.contains(&tool.as_str());
        if let Some(missing) = self.tools_include.iter().find(|tool| !has(tool)) {
            return Err(format!(
                "tools_include: {missing:?} is not among {declared:?}"
            ));
        }
        if let Some(extra) = self.tools_exclude.iter().find(|tool| has(tool)) {
            return Err(format!("tools_exclude: {extra:?} is declared"));
        }
        Ok(())
    }
}

fn text_of(result: &ToolResult) -> String {
    match &result.content {
        ResultContent::Text(text) => text.clone(),
        ResultContent::Json(map) => serde_json::Value::Object(map.clone()).to_string(),
    }
}

fn contains(
    name: &str,
    expected: &[String],
    texts: &[impl AsRef<str> + std::fmt::Debug],
) -> Result<(), String> {
    match expected
        .iter()
        .find(|wanted| !texts.iter().any(|text| text.as_ref().contains(*wanted)))
    {
        None => Ok(()),
        Some(missing) => {
            // Enough to see what was sent instead, not a whole file.
            let found: String = format!("{texts:?}").chars().take(400).collect();
            Err(format!("{name}: {missing:?} is not in {found}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{conversation_with_result, tool};
    use super::*;

    #[test]
    fn every_expectation_can_be_met_and_missed() {
        let mut request = conversation_with_result("found 3 files");
        request.messages.push(Message::Notice("hurry".into()));
        request.tools = [tool("look"), tool("find")].into();
        let texts = |text: &str| vec![text.to_owned()];
        let met = Expectation {
            last_input_contains: texts("hel"),
            notice_contains: texts("hurry"),
            tool_result_contains: vec!["found".into(), "3 files".into()],
            tool_results: Some(vec![ToolResultStatus::Succeeded]),
            system_contains: texts("assistant"),
            tools_include: texts("find"),
            tools_exclude: texts("edit"),
        };
        assert_eq!(met.check(&request), Ok(()));

        let none = Expectation::default();
        for (missed, problem) in [
            (
                Expectation {
                    last_input_contains: texts("bye"),
                    ..none.clone()
                },
                r#"last_input_contains: "bye" is not in ["hello"]"#,
            ),
            (
                Expectation {
                    notice_contains: texts("slow"),
                    ..none.clone()
                },
                r#"notice_contains: "slow" is not in ["hurry"]"#,
            ),
            (
                Expectation {
                    tool_result_contains: texts("4"),
                    ..none.clone()
                },
                r#"tool_result_contains: "4" is not in ["found 3 files"]"#,
            ),
            (
                Expectation {
                    tool_results: Some(vec![]),
                    ..none.clone()
                },
                "tool_results: expected [], found [Succeeded]",
            ),
            (
                Expectation {
                    system_contains: texts("pirate"),
                    ..none.clone()
                },
                r#"system_contains: "pirate" is not in ["You are an assistant."]"#,
            ),
            (
                Expectation {
                    tools_include: texts("edit"),
                    ..none.clone()
                },
                r#"tools_include: "edit" is not among ["look", "find"]"#,
            ),
            (
                Expectation {
                    tools_exclude: texts("look"),
                    ..none
                },
                r#"tools_exclude: "look" is declared"#,
            ),
        ] {
            assert_eq!(missed.check(&request), Err(problem.into()));
        }
    }
}
