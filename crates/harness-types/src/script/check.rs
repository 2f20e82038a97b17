use std::collections::BTreeSet;

use crate::{Message, ModelPart, ModelRequest, ToolCall, ToolResult, ToolSpec};

/// Checks what every request to a model has to satisfy, whatever it is about.
///
/// * The system prompt is not empty.
/// * Tools have names of 1 to 64 of `[a-zA-Z0-9_-]`, each once, and a JSON object as schema.
/// * The history starts with an input and ends with something to answer: an input, a notice or
///   results.
/// * Two answers of the model never follow each other, and none is empty.
/// * The calls of an answer have different ids; the very next message is their results, one for
///   each, in order, with the ids and names of the calls. Results stand nowhere else.
///
/// These are stricter than any provider, so that a test fails where a provider would only become
/// confused.
///
/// # Errors
///
/// The first violation, in words that name the message by its place in the history, from 0.
pub fn check_request(request: &ModelRequest) -> Result<(), String> {
    if request.system.trim().is_empty() {
        return Err("the system prompt is empty".into());
    }
    check_tools(&request.tools)?;
    check_history(&request.messages)
}

fn check_tools(tools: &[ToolSpec]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for tool in tools {
        let name = tool.name.as_str();
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !(1..=64).contains(&name.len()) || !name.chars().all(fits) {
            return Err(format!("a tool has the unusable name {name:?}"));
        }
        if !names.insert(name) {
            return Err(format!("two tools are named {name:?}"));
        }
        if !tool.parameters.is_object() {
            return Err(format!(
                "the parameters of tool {name:?} are not an object schema"
            ));
        }
    }
    Ok(())
}

fn check_history(messages: &[Message]) -> Result<(), String> {
    if !matches!(messages.first(), Some(Message::Input(_))) {
        return Err("the history does not start with an input".into());
    }
    let mut open: Option<Vec<&ToolCall>> = None;
    let mut after_model = false;
    for (at, message) in messages.iter().enumerate() {
        match (open.take(), message) {
            (Some(calls), Message::ToolResults(results)) => check_results(at, &calls, results)?,
            (Some(calls), _) => return Err(unanswered(at, &calls)),
            (None, Message::ToolResults(_)) => {
                return Err(format!("message {at}: results that answer no call"));
            }
            (None, Message::Model(_)) if after_model => {
                return Err(format!(
                    "message {at}: a second answer of the model with nothing in between"
                ));
            }
            (None, Message::Model(parts)) => {
                let calls = check_answer(at, parts)?;
                open = (!calls.is_empty()).then_some(calls);
            }
            (None, Message::Input(_) | Message::Notice(_)) => {}
        }
        after_model = matches!(message, Message::Model(_));
    }
    if let Some(calls) = open {
        return Err(unanswered(messages.len(), &calls));
    }
    if after_model {
        return Err("the history ends with an answer of the model".into());
    }
    Ok(())
}

fn check_answer(at: usize, parts: &[ModelPart]) -> Result<Vec<&ToolCall>, String> {
    if parts.is_empty() {
        return Err(format!(
            "message {at}: an answer of the model without parts"
        ));
    }
    let mut ids = BTreeSet::new();
    let mut calls = Vec::new();
    for part in parts {
        if let ModelPart::Call { call, .. } = part {
            if !ids.insert(&call.id) {
                return Err(format!(
                    "message {at}: two calls have the id {:?}",
                    call.id.as_str()
                ));
            }
            calls.push(call);
        }
    }
    Ok(calls)
}

fn check_results(at: usize, calls: &[&ToolCall], results: &[ToolResult]) -> Result<(), String> {
    for (number, call) in calls.iter().enumerate() {
        match results.get(number) {
            Some(result) if result.call == call.id && result.name == call.name => {}
            Some(result) => {
                return Err(format!(
                    "message {at}: result {number} answers {:?} of {:?} where call {:?} of {:?} \
                     waits",
                    result.call.as_str(),
                    result.name,
                    call.id.as_str(),
                    call.name,
                ));
            }
            None => return Err(unanswered(at, &calls[number..])),
        }
    }
    match results.get(calls.len()) {
        Some(extra) => Err(format!(
            "message {at}: the result for {:?} answers no call",
            extra.call.as_str()
        )),
        None => Ok(()),
    }
}

fn unanswered(at: usize, calls: &[&ToolCall]) -> String {
    let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
    format!("message {at}: no result for {ids:?}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::super::test_data::{request, result, tool};
    use super::*;
    use crate::{CallId, Input, InputPart};

    fn input() -> Message {
        Message::Input(Input::user([InputPart::text("hello")]))
    }

    fn text() -> Message {
        Message::Model(vec![ModelPart::Text {
            text: "x".into(),
            signature: None,
        }])
    }

    fn calls(ids: &[&str]) -> Message {
        let call = |id: &&str| ModelPart::Call {
            call: ToolCall {
                id: CallId::new(*id),
                name: "look".into(),
                args: Map::new(),
            },
            signature: None,
        };
        Message::Model(ids.iter().map(call).collect())
    }

    fn results(ids: &[&str]) -> Message {
        Message::ToolResults(ids.iter().map(|id| result(id, "look", "ok")).collect())
    }

    fn verdict(messages: Vec<Message>) -> Result<(), String> {
        check_request(&request(messages))
    }

    #[test]
    fn good_histories_pass() {
        let notice = || Message::Notice("go on".into());
        for messages in [
            vec![input()],
            vec![input(), input()],
            vec![input(), text(), notice()],
            vec![input(), calls(&["a", "b"]), results(&["a", "b"])],
            vec![input(), calls(&["a"]), results(&["a"]), input()],
            vec![
                input(),
                calls(&["a"]),
                results(&["a"]),
                calls(&["a"]),
                results(&["a"]),
            ],
        ] {
            assert_eq!(verdict(messages.clone()), Ok(()), "{messages:?}");
        }
    }

    #[test]
    fn every_break_of_the_history_is_named() {
        for (messages, expected) in [
            (vec![], "the history does not start with an input"),
            (vec![text()], "the history does not start with an input"),
            (
                vec![input(), text()],
                "the history ends with an answer of the model",
            ),
            (
                vec![input(), text(), text()],
                "message 2: a second answer of the model with nothing in between",
            ),
            (
                vec![input(), Message::Model(vec![]), input()],
                "message 1: an answer of the model without parts",
            ),
            (
                vec![input(), calls(&["a", "b"])],
                r#"message 2: no result for ["a", "b"]"#,
            ),
            (
                vec![input(), calls(&["a"]), input(), results(&["a"])],
                r#"message 2: no result for ["a"]"#,
            ),
            (
                vec![input(), calls(&["a", "b"]), results(&["a"])],
                r#"message 2: no result for ["b"]"#,
            ),
            (
                vec![input(), calls(&["a", "b"]), results(&["b", "a"])],
                r#"message 2: result 0 answers "b" of "look" where call "a" of "look" waits"#,
            ),
            (
                vec![input(), calls(&["a"]), results(&["a", "a"])],
                r#"message 2: the result for "a" answers no call"#,
            ),
            (
                vec![input(), calls(&["a"]), results(&["a"]), results(&["a"])],
                "message 3: results that answer no call",
            ),
            (
                vec![input(), calls(&["a", "a"]), results(&["a", "a"])],
                r#"message 1: two calls have the id "a""#,
            ),
            (
                vec![
                    input(),
                    calls(&["a"]),
                    Message::ToolResults(vec![result("a", "find", "ok")]),
                ],
                r#"message 2: result 0 answers "a" of "find" where call "a" of "look" waits"#,
            ),
        ] {
            assert_eq!(verdict(messages), Err(expected.into()));
        }
    }

    #[test]
    fn the_prompt_and_the_tools_are_checked() {
        let with = |change: fn(&mut ModelRequest)| {
            let mut request = request(vec![input()]);
            change(&mut request);
            check_request(&request)
        };
        let err = |text: &str| Err(text.to_owned());
        assert_eq!(
            with(|r| r.system = " \n".into()),
            err("the system prompt is empty")
        );
        assert_eq!(
            with(|r| r.tools = [tool("look"), tool("look")].into()),
            err(r#"two tools are named "look""#)
        );
        assert_eq!(
            with(|r| r.tools = [tool("look at")].into()),
            err(r#"a tool has the unusable name "look at""#)
        );
        assert_eq!(
            with(|r| r.tools = [ToolSpec {
                parameters: json!(true),
                ..tool("look")
            }]
            .into()),
            err(r#"the parameters of tool "look" are not an object schema"#)
        );
    }
}
