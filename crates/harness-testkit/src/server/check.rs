//! What every request in Gemini form has to satisfy: the same as
//! [`harness_types::check_request`], seen from the provider's side.

use std::collections::{BTreeSet, VecDeque};

use harness_types::Expectation;
use serde_json::Value;

/// Checks the body of a `streamGenerateContent` request.
///
/// * `systemInstruction` holds text; declared functions have usable names, each once.
/// * `contents` is not empty, no content is without parts, the first is the user's, and there is
///   something to answer at the end.
/// * Two answers of the model never follow each other.
/// * The `functionCall`s of an answer are answered by `functionResponse`s, one for each, in order,
///   with the same names and ids, before anybody says anything else. Responses may share a content
///   or have one each, in any role: both are in use.
///
/// # Errors
///
/// The first violation, in words that name the content by its index.
pub fn check_gemini_request(body: &Value) -> Result<(), String> {
    if system_text(body).trim().is_empty() {
        return Err("systemInstruction holds no text".into());
    }
    check_tools(body)?;
    let contents = contents(body);
    let Some(first) = contents.first() else {
        return Err("contents is empty".into());
    };
    if kind(first) != Kind::Said {
        return Err("contents does not start with the user".into());
    }

    let mut open: VecDeque<Reference> = VecDeque::new();
    let mut after_model = false;
    for (at, content) in contents.iter().enumerate() {
        if parts(content).is_empty() {
            return Err(format!("contents[{at}] has no parts"));
        }
        if kind(content) == Kind::Answer {
            if let Some(call) = open.front() {
                return Err(format!("contents[{at}]: no response for {call}"));
            }
            if after_model {
                return Err(format!(
                    "contents[{at}]: a second answer with nothing in between"
                ));
            }
            open = references(content, "functionCall").collect();
            let mut ids = BTreeSet::new();
            if let Some(twice) = open.iter().find(|c| c.id.is_some() && !ids.insert(c.id)) {
                return Err(format!(
                    "contents[{at}]: a second call with the id of {twice}"
                ));
            }
            after_model = true;
            continue;
        }
        after_model = false;
        for part in parts(content) {
            if let Some(response) = part.get("functionResponse") {
                let response = Reference::of(response);
                match open.pop_front() {
                    Some(call) if call == response => {}
                    Some(call) => {
                        return Err(format!(
                            "contents[{at}]: a response for {response} where {call} waits"
                        ));
                    }
                    None => {
                        return Err(format!(
                            "contents[{at}]: the response for {response} answers no call"
                        ));
                    }
                }
            } else if part.get("text").is_some()
                && let Some(call) = open.front()
            {
                return Err(format!(
                    "contents[{at}]: text before the response for {call}"
                ));
            }
        }
    }
    if let Some(call) = open.front() {
        return Err(format!("contents ends without a response for {call}"));
    }
    if after_model {
        return Err("contents ends with an answer of the model".into());
    }
    Ok(())
}

/// Checks a scripted expectation against a request in Gemini form.
///
/// The wire does not tell notices from inputs: both are looked for in everything said to the model
/// since its last answer without calls. Nor does it tell how a call ended: of `tool_results` the
/// number is compared.
pub(crate) fn check_expectation(expect: &Expectation, body: &Value) -> Result<(), String> {
    let contents = contents(body);
    let turn_start = contents
        .iter()
        .rposition(|content| {
            kind(content) == Kind::Answer && references(content, "functionCall").next().is_none()
        })
        .map_or(0, |at| at + 1);
    let said: Vec<_> = contents[turn_start..]
        .iter()
        .filter(|content| kind(content) != Kind::Answer)
        .flat_map(parts)
        .filter_map(|part| part["text"].as_str().map(str::to_owned))
        .collect();
    contains("last_input_contains", &expect.last_input_contains, &said)?;
    contains("notice_contains", &expect.notice_contains, &said)?;

    let results = last_responses(body);
    let texts: Vec<_> = results.iter().map(|result| response_text(result)).collect();
    contains("tool_result_contains", &expect.tool_result_contains, &texts)?;
    if let Some(expected) = &expect.tool_results
        && expected.len() != results.len()
    {
        return Err(format!(
            "tool_results: expected {expected:?}, found {texts:?}"
        ));
    }

    contains(
        "system_contains",
        &expect.system_contains,
        &[system_text(body)],
    )?;
    expect.check_tools(&tool_names(body))
}

/// The responses since the last answer of the model.
pub(crate) fn last_responses(body: &Value) -> Vec<&Value> {
    let contents = contents(body);
    let start = contents
        .iter()
        .rposition(|content| kind(content) == Kind::Answer)
        .map_or(0, |at| at + 1);
    contents[start..]
        .iter()
        .flat_map(parts)
        .filter_map(|part| part.get("functionResponse"))
        .collect()
}

/// A response as text: its strings as they are, before the JSON form of the whole.
fn response_text(response: &Value) -> String {
    let response = &response["response"];
    let mut text = String::new();
    if let Some(map) = response.as_object() {
        for string in map.values().filter_map(Value::as_str) {
            text.push_str(string);
            text.push('\n');
        }
    }
    text + &response.to_string()
}

pub(crate) fn system_text(body: &Value) -> String {
    parts(&body["systemInstruction"])
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect()
}

pub(crate) fn tool_names(body: &Value) -> Vec<&str> {
    declarations(body)
        .filter_map(|declaration| declaration["name"].as_str())
        .collect()
}

fn declarations(body: &Value) -> impl Iterator<Item = &Value> {
    items(&body["tools"])
        .iter()
        .flat_map(|tool| items(&tool["functionDeclarations"]))
}

fn check_tools(body: &Value) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for declaration in declarations(body) {
        let Some(name) = declaration["name"].as_str() else {
            return Err(format!("a function has no name: {declaration}"));
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !(1..=64).contains(&name.len()) || !name.chars().all(fits) {
            return Err(format!("a function has the unusable name {name:?}"));
        }
        if !names.insert(name) {
            return Err(format!("two functions are named {name:?}"));
        }
        if let Some(schema) = declaration.get("parametersJsonSchema")
            && !schema.is_object()
        {
            return Err(format!(
                "the parameters of {name:?} are not an object schema"
            ));
        }
    }
    Ok(())
}

fn contains(name: &str, expected: &[String], texts: &[String]) -> Result<(), String> {
    match expected
        .iter()
        .find(|wanted| !texts.iter().any(|text| text.contains(*wanted)))
    {
        None => Ok(()),
        Some(missing) => {
            let found: String = format!("{texts:?}").chars().take(400).collect();
            Err(format!("{name}: {missing:?} is not in {found}"))
        }
    }
}

#[derive(PartialEq)]
enum Kind {
    Said,
    Answer,
    Responses,
}

fn kind(content: &Value) -> Kind {
    let responses = parts(content)
        .iter()
        .any(|part| part.get("functionResponse").is_some());
    match content["role"].as_str() {
        _ if responses => Kind::Responses,
        Some("model") => Kind::Answer,
        _ => Kind::Said,
    }
}

/// A call, or the call a response is for.
#[derive(PartialEq)]
struct Reference<'a> {
    name: &'a str,
    id: Option<&'a str>,
}

impl<'a> Reference<'a> {
    fn of(value: &'a Value) -> Self {
        Self {
            name: value["name"].as_str().unwrap_or_default(),
            id: value["id"].as_str(),
        }
    }
}

impl std::fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.id {
            Some(id) => write!(f, "{:?} ({id:?})", self.name),
            None => write!(f, "{:?}", self.name),
        }
    }
}

fn references<'a>(content: &'a Value, key: &'a str) -> impl Iterator<Item = Reference<'a>> {
    parts(content)
        .iter()
        .filter_map(move |part| part.get(key).map(Reference::of))
}

pub(crate) fn contents(body: &Value) -> &[Value] {
    items(&body["contents"])
}

fn parts(content: &Value) -> &[Value] {
    items(&content["parts"])
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(contents: Value) -> Value {
        json!({
            "systemInstruction": { "parts": [{ "text": "You are an assistant." }] },
            "tools": [{ "functionDeclarations": [
                { "name": "look", "parametersJsonSchema": { "type": "object" } },
            ] }],
            "contents": contents,
        })
    }

    fn user(text: &str) -> Value {
        json!({ "role": "user", "parts": [{ "text": text }] })
    }

    fn model(parts: Value) -> Value {
        json!({ "role": "model", "parts": parts })
    }

    fn call(id: &str) -> Value {
        json!({ "functionCall": { "name": "look", "id": id, "args": {} } })
    }

    fn response(id: &str) -> Value {
        json!({ "functionResponse": {
            "name": "look", "id": id, "response": { "output": "3 \"files\"" },
        } })
    }

    #[test]
    fn good_histories_pass() {
        let answer = || model(json!([{ "text": "x" }]));
        for contents in [
            json!([user("hello")]),
            json!([user("hello"), user("again")]),
            json!([user("hello"), answer(), user("more")]),
            // All responses in one content of the user, then the user's own words.
            json!([
                user("hello"),
                model(json!([{ "text": "x" }, call("a"), call("b")])),
                { "role": "user", "parts": [response("a"), response("b"), { "text": "more" }] },
            ]),
            // One content for each response, in the model's role.
            json!([
                user("hello"),
                model(json!([call("a"), call("b")])),
                model(json!([response("a")])),
                model(json!([response("b")])),
                answer(),
                user("more"),
            ]),
            // A provider that knows no ids.
            json!([
                user("hello"),
                model(json!([{ "functionCall": { "name": "look" } }])),
                { "role": "user", "parts": [{ "functionResponse": { "name": "look" } }] },
            ]),
        ] {
            assert_eq!(
                check_gemini_request(&body(contents.clone())),
                Ok(()),
                "{contents}"
            );
        }
    }

    #[test]
    fn every_break_of_the_history_is_named() {
        let answer = || model(json!([{ "text": "x" }]));
        for (contents, problem) in [
            (json!([]), "contents is empty"),
            (json!([answer()]), "contents does not start with the user"),
            (
                json!([user("a"), answer()]),
                "contents ends with an answer of the model",
            ),
            (
                json!([user("a"), answer(), answer()]),
                "contents[2]: a second answer with nothing in between",
            ),
            (
                json!([user("a"), { "role": "user", "parts": [] }]),
                "contents[1] has no parts",
            ),
            (
                json!([user("a"), model(json!([call("1"), call("2")]))]),
                r#"contents ends without a response for "look" ("1")"#,
            ),
            (
                json!([user("a"), model(json!([call("1")])), user("b")]),
                r#"contents[2]: text before the response for "look" ("1")"#,
            ),
            (
                json!([user("a"), model(json!([call("1")])), answer()]),
                r#"contents[2]: no response for "look" ("1")"#,
            ),
            (
                json!([
                    user("a"),
                    model(json!([call("1"), call("2")])),
                    model(json!([response("2"), response("1")])),
                ]),
                r#"contents[2]: a response for "look" ("2") where "look" ("1") waits"#,
            ),
            (
                json!([
                    user("a"),
                    model(json!([call("1")])),
                    model(json!([response("1"), response("1")])),
                ]),
                r#"contents[2]: the response for "look" ("1") answers no call"#,
            ),
            (
                json!([user("a"), model(json!([call("1"), call("1")]))]),
                r#"contents[1]: a second call with the id of "look" ("1")"#,
            ),
        ] {
            assert_eq!(check_gemini_request(&body(contents)), Err(problem.into()));
        }
    }

    #[test]
    fn the_prompt_and_the_functions_are_checked() {
        let with = |pointer: &str, value: Value| {
            let mut body = body(json!([user("a")]));
            *body.pointer_mut(pointer).unwrap() = value;
            check_gemini_request(&body)
        };
        assert_eq!(
            with("/systemInstruction/parts", json!([])),
            Err("systemInstruction holds no text".into())
        );
        let named = |names: &[&str]| {
            let list: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
            with("/tools/0/functionDeclarations", json!(list))
        };
        assert_eq!(
            named(&["a", "a"]),
            Err(r#"two functions are named "a""#.into())
        );
        assert_eq!(
            named(&["a b"]),
            Err(r#"a function has the unusable name "a b""#.into())
        );
    }

    #[test]
    fn expectations_are_looked_up_in_the_provider_form() {
        let body = body(json!([
            user("first"),
            model(json!([{ "text": "x" }])),
            user("second"),
            model(json!([call("1")])),
            model(json!([response("1")])),
        ]));
        let texts = |text: &str| vec![text.to_owned()];
        let met = Expectation {
            last_input_contains: texts("second"),
            tool_result_contains: texts("3 \"files\""),
            tool_results: Some(vec![harness_types::ToolResultStatus::Succeeded]),
            system_contains: texts("assistant"),
            tools_include: texts("look"),
            ..Expectation::default()
        };
        assert_eq!(check_expectation(&met, &body), Ok(()));
        let missed = Expectation {
            last_input_contains: texts("first"),
            ..Expectation::default()
        };
        assert_eq!(
            check_expectation(&missed, &body),
            Err(r#"last_input_contains: "first" is not in ["second"]"#.into())
        );
    }
}
