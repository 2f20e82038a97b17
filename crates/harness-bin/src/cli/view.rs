//! The three ways to show a turn.

use std::collections::BTreeMap;
use std::path::PathBuf;

use harness_host::{StepChange, Update};
use harness_types::{Action, StepIndex, StepState, ToolCall, TrajectoryId, TurnEnd};
use serde_json::{Value, json};

use super::action::{describe, outcome};
use super::args::OutputFormat;
use super::output::{Output, Style};
use super::report::{Report, Tokens, is_answer};

/// Who decided about a call, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The person at the terminal allowed it, now or for the rest of the session.
    Allowed,
    /// The person at the terminal refused it.
    Refused,
    /// Nobody could be asked.
    Unanswered,
}

/// Shows a turn.
#[derive(Debug)]
pub(crate) struct View {
    format: OutputFormat,
    quiet: bool,
    workspace: PathBuf,
    /// The step whose text was written last.
    text_of: Option<(TrajectoryId, StepIndex)>,
    /// Calls that have not ended, with what they do.
    open: BTreeMap<(TrajectoryId, StepIndex), (StepState, Option<Action>)>,
    /// The last error shown, so that none is shown twice.
    last_error: Option<String>,
}

impl View {
    /// A view in a format. Paths are shown from `workspace`.
    pub(crate) fn new(format: OutputFormat, workspace: PathBuf) -> Self {
        Self {
            format,
            quiet: false,
            workspace,
            text_of: None,
            open: BTreeMap::new(),
            last_error: None,
        }
    }

    /// The same without lines about tools.
    pub(crate) fn quiet(self) -> Self {
        Self {
            quiet: true,
            ..self
        }
    }

    /// What a spinner says.
    pub(crate) fn doing(&self) -> String {
        let running = self.open.values().rev().find_map(|(_, action)| {
            let (name, subject) = describe(action.as_ref()?, &self.workspace);
            Some(format!("{name}: {subject}"))
        });
        running.unwrap_or_default()
    }

    /// Shows how a conversation is set up.
    pub(crate) fn opened(&self, output: &mut Output, conversation: &str, model: &str) {
        if self.format == OutputFormat::Jsonl {
            let event = json!({
                "type": "conversation",
                "id": conversation,
                "model": model,
                "workspace": self.workspace,
            });
            output.line(&event.to_string());
        }
    }

    /// Shows an update, which `report` has seen.
    pub(crate) fn show(&mut self, output: &mut Output, report: &Report, update: &Update) {
        match update {
            Update::Step(change) if change.step.call.is_some() => self.tool(output, change),
            Update::Step(change)
                if is_answer(&change.step) && report.is_root(&change.trajectory) =>
            {
                self.text(output, change);
            }
            Update::Step(change) => self.mishap(output, change),
            Update::Usage { total, .. } if self.format == OutputFormat::Jsonl => {
                let event = json!({"type": "usage", "usage": Tokens::of(total)});
                output.line(&event.to_string());
            }
            _ => {}
        }
    }

    /// Shows a decision about a call.
    pub(crate) fn decided(
        &self,
        output: &mut Output,
        tool: &str,
        call: &ToolCall,
        decision: Decision,
    ) {
        if self.format == OutputFormat::Jsonl {
            let (decision, by) = match decision {
                Decision::Allowed => ("allowed", "user"),
                Decision::Refused => ("refused", "user"),
                Decision::Unanswered => ("refused", "nobody"),
            };
            let event = json!({
                "type": "approval",
                "tool": tool,
                "call": call,
                "decision": decision,
                "by": by,
            });
            output.line(&event.to_string());
        }
    }

    /// Shows how a turn ended.
    pub(crate) fn ended(&mut self, output: &mut Output, report: &Report) {
        self.open.clear();
        output.erase();
        match self.format {
            OutputFormat::Text => {
                if let Some(TurnEnd::Finished { output: answer }) = &report.end {
                    if self.text_of.is_some() {
                        output.separate();
                    }
                    output.text(answer);
                }
                output.end_line();
                self.text_of = None;
            }
            OutputFormat::Json => {
                if let Ok(line) = serde_json::to_string_pretty(&report.summary()) {
                    output.line(&line);
                }
            }
            OutputFormat::Jsonl => {
                if let Ok(mut summary) = serde_json::to_value(report.summary()) {
                    let mut event = json!({"type": "result"});
                    if let (Some(event), Some(summary)) =
                        (event.as_object_mut(), summary.as_object_mut())
                    {
                        event.append(summary);
                    }
                    output.line(&event.to_string());
                }
            }
        }
        match &report.end {
            Some(TurnEnd::Failed { error }) if self.last_error.as_ref() != Some(&error.message) => {
                output.complain(&error.message);
            }
            Some(TurnEnd::Denied { reason }) => output.complain(reason),
            Some(TurnEnd::Stopped { reason }) => {
                let name = serde_json::to_value(reason).unwrap_or_default();
                let name = name.as_str().unwrap_or("limit").replace('_', " ");
                output.complain(&format!("stopped by a limit: {name}"));
            }
            _ => {}
        }
        self.last_error = None;
    }

    fn text(&mut self, output: &mut Output, change: &StepChange) {
        let (text, thinking) = (change.text_delta(), change.thinking_delta());
        match self.format {
            OutputFormat::Text if !text.is_empty() => {
                let step = (change.trajectory.clone(), change.step.index);
                if self.text_of.as_ref().is_some_and(|last| *last != step) {
                    output.separate();
                }
                self.text_of = Some(step);
                output.text(text);
            }
            OutputFormat::Jsonl => {
                for (kind, delta) in [("thinking", thinking), ("text", text)] {
                    if !delta.is_empty() {
                        let step = change.step.index;
                        let event = json!({"type": kind, "step": step, "delta": delta});
                        output.line(&event.to_string());
                    }
                }
            }
            _ => {}
        }
    }

    fn tool(&mut self, output: &mut Output, change: &StepChange) {
        let step = &change.step;
        let place = (change.trajectory.clone(), step.index);
        let known = self.open.remove(&place);
        let before = known.as_ref().map(|(state, _)| *state);
        // A refused call no longer says what it wanted to do.
        let action = step
            .action
            .clone()
            .or_else(|| known.and_then(|(_, action)| action));
        if matches!(action, Some(Action::Finish { .. })) {
            return;
        }
        if self.format == OutputFormat::Jsonl && before != Some(step.state) {
            output.line(&tool_event(change, action.as_ref()).to_string());
        }
        if !step.state.is_final() {
            // The spinner tells of it.
            output.make_room();
            self.open.insert(place, (step.state, action));
            return;
        }
        if self.quiet || self.format == OutputFormat::Jsonl {
            return;
        }
        let (name, subject) = match &action {
            Some(action) => describe(action, &self.workspace),
            None => ("tool".to_owned(), String::new()),
        };
        let (mark, came) = match &step.error {
            None => (
                (Style::Good, "✓ "),
                action.as_ref().map(outcome).unwrap_or_default(),
            ),
            Some(error) => ((Style::Bad, "✗ "), error.message.clone()),
        };
        let mut pieces = vec![
            mark,
            (Style::Bold, name.as_str()),
            (Style::Plain, " "),
            (Style::Plain, subject.as_str()),
        ];
        let came = super::output::one_line(&came, 300);
        if !came.is_empty() {
            pieces.extend([(Style::Dim, " · "), (Style::Dim, came.as_str())]);
        }
        output.note(&pieces);
    }

    /// Something that went wrong between the loop and the model.
    fn mishap(&mut self, output: &mut Output, change: &StepChange) {
        let Some(error) = &change.step.error else {
            return;
        };
        if self.last_error.as_ref() != Some(&error.message) {
            output.complain(&error.message);
            self.last_error = Some(error.message.clone());
        }
    }
}

/// A call as an event: its kind and the fields of that kind.
fn tool_event(change: &StepChange, action: Option<&Action>) -> Value {
    let step = &change.step;
    let action = action.map(|action| serde_json::to_value(action).unwrap_or_default());
    let (kind, fields) = match action {
        Some(Value::Object(action)) => action.into_iter().next().unwrap_or_default(),
        _ => ("tool".to_owned(), Value::Null),
    };
    json!({
        "type": "tool",
        "step": step.index,
        "state": step.state,
        "kind": kind,
        "action": fields,
        "error": step.error.as_ref().map(|error| &error.message),
    })
}
