use std::collections::BTreeMap;

use serde_json::Value;

use super::{Script, ScriptError, ScriptedEnd, ScriptedPart, ScriptedTurn};

pub(super) fn substitute(
    mut script: Script,
    values: &BTreeMap<String, String>,
) -> Result<Script, ScriptError> {
    for (index, turn) in script.turns.iter_mut().enumerate() {
        visit(turn, &mut |text| {
            // Most strings hold no variable and stay as they are.
            if text.contains("${") {
                *text = expand(text, values)?;
            }
            Ok(())
        })
        .map_err(|problem| ScriptError::Turn {
            turn: index + 1,
            problem,
        })?;
    }
    Ok(script)
}

type Visitor<'a> = &'a mut dyn FnMut(&mut String) -> Result<(), String>;

fn visit(turn: &mut ScriptedTurn, with: Visitor<'_>) -> Result<(), String> {
    let expect = &mut turn.expect;
    for texts in [
        &mut expect.last_input_contains,
        &mut expect.notice_contains,
        &mut expect.tool_result_contains,
        &mut expect.system_contains,
    ] {
        texts.iter_mut().try_for_each(&mut *with)?;
    }
    for part in &mut turn.parts {
        match part {
            ScriptedPart::Thinking { chunks, .. } | ScriptedPart::Text { chunks, .. } => {
                chunks.iter_mut().try_for_each(&mut *with)?;
            }
            ScriptedPart::Call { args, .. } => {
                args.values_mut()
                    .try_for_each(|value| visit_value(value, with))?;
            }
            ScriptedPart::Wait(_) | ScriptedPart::Gate(_) => {}
        }
    }
    match &mut turn.end {
        ScriptedEnd::Finish { message, .. } => message.iter_mut().try_for_each(with),
        ScriptedEnd::Error(error) => with(&mut error.message),
        ScriptedEnd::Cut => Ok(()),
    }
}

fn visit_value(value: &mut Value, with: Visitor<'_>) -> Result<(), String> {
    match value {
        Value::String(text) => with(text),
        Value::Array(values) => values
            .iter_mut()
            .try_for_each(|value| visit_value(value, with)),
        Value::Object(map) => map
            .values_mut()
            .try_for_each(|value| visit_value(value, with)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn expand(text: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = &from[2..];
            continue;
        }
        expanded.push_str(before);
        let Some((name, after)) = from[2..].split_once('}') else {
            return Err("a `${` has no `}`; a plain one is written `$${`".into());
        };
        let Some(value) = values.get(name) else {
            let known: Vec<_> = values.keys().collect();
            return Err(format!(
                "no value is given for `${{{name}}}`, only for {known:?}; a plain `${{` is written \
                 `$${{`"
            ));
        };
        expanded.push_str(value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{Expectation, ModelError, ModelErrorKind};

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn texts_arguments_and_expectations_are_filled_in() {
        let turn = |dir: &str, shell: &str| {
            ScriptedTurn::new()
                .expecting(Expectation {
                    last_input_contains: vec![dir.into()],
                    ..Expectation::default()
                })
                .thinking(dir)
                .text_chunks(["see ".to_owned(), format!("{dir}/a")])
                .call(
                    "run",
                    json!({"deep": [{"path": dir}], "line": shell, "n": 1}),
                )
                .error(ModelError::new(ModelErrorKind::Cut, dir))
        };
        let script = Script::new([turn("${workspace}", "echo $HOME $${HOME} $1")]);
        let filled = script.with_variables(&values(&[("workspace", "/w/${x}"), ("more", "")]));
        assert_eq!(
            filled.unwrap(),
            Script::new([turn("/w/${x}", "echo $HOME ${HOME} $1")])
        );
    }

    #[test]
    fn a_name_without_value_is_an_error_that_names_it() {
        let script = Script::new([ScriptedTurn::new(), ScriptedTurn::new().text("${dir}")]);
        assert_eq!(
            script
                .with_variables(&values(&[("workspace", "/w")]))
                .unwrap_err()
                .to_string(),
            "turn 2 of the script: no value is given for `${dir}`, only for [\"workspace\"]; \
             a plain `${` is written `$${`"
        );
        let script = Script::new([ScriptedTurn::new().text("${dir")]);
        assert_eq!(
            script
                .with_variables(&BTreeMap::new())
                .unwrap_err()
                .to_string(),
            "turn 1 of the script: a `${` has no `}`; a plain one is written `$${`"
        );
    }

    proptest! {
        #[test]
        fn an_escaped_text_comes_out_as_it_was(text in "[a-z{}$ ]{0,40}") {
            // `$${` is the only escape, so a `$` right before a `${` cannot be told apart.
            prop_assume!(!text.contains("$${"));
            let escaped = text.replace("${", "$${");
            prop_assert_eq!(
                expand(&escaped, &BTreeMap::new()),
                Ok(text)
            );
        }
    }
}
