//! A model that follows a script, for demonstrations, examples and tests.
//!
//! On the wire it is the custom endpoint of kind [`SCRIPT`], whose configuration is the script
//! itself, as JSON text. It answers only in conversations whose client asks for it.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;

use harness_types::{Script, ScriptError, ScriptedModel};

/// The kind of custom endpoint that is a script.
pub const SCRIPT: &str = "script";

/// Reads a script and makes a model that follows it, in real time.
///
/// `${workspace}` in the script stands for the first of `workspaces`.
///
/// # Errors
///
/// [`ScriptError`] when the text is no script, or names a variable that has no value.
pub fn model(text: &str, workspaces: &[PathBuf]) -> Result<ScriptedModel, ScriptError> {
    let variables: BTreeMap<String, String> = workspaces
        .first()
        .map(|path| ("workspace".to_owned(), path.display().to_string()))
        .into_iter()
        .collect();
    let script = Script::from_json(text)?.with_variables(&variables)?;
    Ok(ScriptedModel::new(script)
        .with_name(SCRIPT)
        .with_sleeper(Arc::new(|time| Box::pin(tokio::time::sleep(time)))))
}

/// What is wrong with a script, in one line.
pub fn describe(error: &ScriptError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_known_to_a_script() {
        let text = r#"{"version": 1, "turns": [{"text": "in ${workspace}"}]}"#;
        let model = model(text, &[PathBuf::from("/work")]).unwrap();
        assert_eq!(model.turns_left(), 1);

        let error = super::model(text, &[]).unwrap_err();
        assert_eq!(
            describe(&error),
            "turn 1 of the script: no value is given for `${workspace}`, only for []; a plain \
             `${` is written `$${`"
        );
        let error = super::model(r#"{"version": 1, "turn": []}"#, &[]).unwrap_err();
        assert!(
            describe(&error).starts_with("the script cannot be read: unknown field `turn`"),
            "{error}"
        );
    }
}
