//! Which frames belong to which turn, and when a turn is over. Pure: frames in, events out.

use std::collections::{BTreeMap, BTreeSet};

use harness_proto::localharness::{
    StepUpdate, TrajectoryStateUpdate, UsageMetadata, UsageUpdate, step_update,
    trajectory_state_update,
};

use crate::event::{Event, Outcome, StepId, StopReason, TurnEnd};
use crate::{Dialect, TurnError};

/// HTTP statuses of a model that no retry repairs. SDKs raise on them in every version.
const FATAL_STATUSES: [u32; 3] = [400, 401, 403];

/// What a frame came to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Applied {
    /// For the reader of the turn.
    pub(crate) events: Vec<Event>,
    /// The turn is over.
    pub(crate) end: Option<TurnEnd>,
    /// The root agent is idle: nobody waits for answers any more.
    pub(crate) idle: bool,
    /// The turn began after it was halted: the halt has to be said again, since the closed
    /// harness passes over one that comes before the turn runs.
    pub(crate) halt: bool,
}

#[derive(Debug)]
pub(crate) struct Tracker {
    dialect: Dialect,
    /// The trajectory of the agent the user talks to.
    root: Option<String>,
    /// Whether a frame has confirmed that `root` is right.
    root_seen: bool,
    running: bool,
    /// Running trajectories besides the root.
    others: BTreeSet<String>,
    /// User inputs sent, and those the harness has shown or refused.
    sent: u64,
    consumed: u64,
    /// The highest step of the root so far, history included.
    highest: Option<u32>,
    usage: Option<UsageMetadata>,
    turn: Option<Turn>,
}

#[derive(Debug)]
struct Turn {
    /// `Tracker::consumed` has to reach this before an idle can be this turn's.
    need: u64,
    /// Nothing else was on its way when it began, so that any work seen is its own.
    alone: bool,
    begun: bool,
    halted: bool,
    /// Steps up to this one are older than the turn.
    after: Option<u32>,
    steps: BTreeMap<StepId, StepState>,
    failure: Option<TurnError>,
    finish: Option<String>,
    /// How the root ended, while subagents have not (old harnesses).
    root_end: Option<Outcome>,
}

#[derive(Debug, Default)]
struct StepState {
    /// The last update, without texts.
    shown: StepUpdate,
    text: String,
    thinking: String,
    failed: bool,
}

impl Tracker {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            root: None,
            root_seen: false,
            running: false,
            others: BTreeSet::new(),
            sent: 0,
            consumed: 0,
            highest: None,
            usage: None,
            turn: None,
        }
    }

    /// What the harness says about the conversation before the first turn.
    pub(crate) fn opened(
        &mut self,
        root: Option<&str>,
        history: &[StepUpdate],
        usage: Option<UsageMetadata>,
    ) {
        self.root = root.filter(|root| !root.is_empty()).map(str::to_owned);
        let own = history
            .iter()
            .filter(|step| self.is_root(step.trajectory_id()));
        self.highest = own.map(StepUpdate::step_index).max();
        self.usage = usage;
    }

    pub(crate) fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    pub(crate) fn usage(&self) -> Option<&UsageMetadata> {
        self.usage.as_ref()
    }

    /// Whether the root agent works, as far as the harness has said.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// A user input is sent that no turn waits for.
    pub(crate) fn input_sent(&mut self) {
        self.sent += 1;
    }

    /// An input is sent that begins a turn.
    pub(crate) fn begin(&mut self, from_user: bool) {
        let alone = !self.running && self.sent == self.consumed;
        if from_user {
            self.sent += 1;
        }
        self.turn = Some(Turn {
            need: self.sent,
            alone,
            begun: false,
            halted: false,
            after: self.highest,
            steps: BTreeMap::new(),
            failure: None,
            finish: None,
            root_end: None,
        });
    }

    /// A halt is sent. Whatever idle comes next ends the turn.
    pub(crate) fn halt(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.halted = true;
        }
    }

    pub(crate) fn step(&mut self, update: StepUpdate) -> Applied {
        self.find_root(&update);
        let is_root = self.is_root(update.trajectory_id());
        let index = update.step_index();
        let is_new = is_root && self.highest.is_none_or(|highest| index > highest);
        if is_new {
            self.highest = Some(index);
            if update.source() == step_update::Source::User {
                self.consumed = self.sent.min(self.consumed + 1);
            }
        }
        let Some(turn) = &mut self.turn else {
            return Applied::default();
        };
        let halt = is_new && turn.begin();
        let is_answer =
            is_root && turn.after.is_none_or(|after| index > after) && is_answer(&update);
        Applied {
            events: turn.step(update, is_root, is_answer),
            halt,
            ..Applied::default()
        }
    }

    pub(crate) fn usage_update(&mut self, update: UsageUpdate) -> Applied {
        if let Some(total) = &update.total {
            self.usage = Some(total.clone());
        }
        let event = Event::Usage(Box::new(update));
        Applied {
            events: self.turn.iter().map(|_| event.clone()).collect(),
            ..Applied::default()
        }
    }

    pub(crate) fn state(&mut self, update: TrajectoryStateUpdate) -> Applied {
        use trajectory_state_update::State;
        let state = update.state();
        if !self.is_root(update.trajectory_id()) {
            match state {
                State::Running => self.others.insert(update.trajectory_id().to_owned()),
                State::FullyIdle | State::Cancelled => self.others.remove(update.trajectory_id()),
                _ => false,
            };
            let mut applied = self.other_state(update);
            if let Some(outcome) = self.turn.as_mut().and_then(|turn| turn.root_end.take()) {
                self.end(&mut applied, outcome);
            }
            return applied;
        }
        match state {
            State::FullyIdle | State::Cancelled => self.root_idle(&update, state),
            _ => {
                let mut halt = false;
                if state == State::Running {
                    self.running = true;
                    halt = self.turn.as_mut().is_some_and(Turn::begin);
                }
                Applied {
                    halt,
                    ..self.other_state(update)
                }
            }
        }
    }

    fn other_state(&self, update: TrajectoryStateUpdate) -> Applied {
        let event = Event::Trajectory(Box::new(update));
        Applied {
            events: self.turn.iter().map(|_| event.clone()).collect(),
            ..Applied::default()
        }
    }

    fn root_idle(
        &mut self,
        update: &TrajectoryStateUpdate,
        state: trajectory_state_update::State,
    ) -> Applied {
        let cancelled = state == trajectory_state_update::State::Cancelled;
        let error = match update.error() {
            "" if cancelled => Some("the turn was cancelled".to_owned()),
            "" => None,
            text => Some(text.to_owned()),
        };
        self.running = false;
        let mut applied = Applied {
            idle: true,
            ..Applied::default()
        };
        let Some(turn) = &mut self.turn else {
            if error.is_some() {
                self.consumed = self.sent.min(self.consumed + 1);
            }
            return applied;
        };
        let own = self.consumed >= turn.need && (turn.begun || error.is_some())
            || turn.alone && (turn.begun || error.is_some())
            || turn.halted;
        if !own {
            // Of an input sent before; one that was refused is never shown as a step.
            if error.is_some() {
                self.consumed = self.sent.min(self.consumed + 1);
            }
            return applied;
        }
        let outcome = turn.outcome(error, update);
        applied.idle = false;
        self.end(&mut applied, outcome);
        applied
    }

    /// The root has ended its turn. In old harnesses subagents may have not.
    fn end(&mut self, applied: &mut Applied, outcome: Outcome) {
        let Some(mut turn) = self.turn.take() else {
            return;
        };
        if self.dialect == Dialect::UpTo014 && !self.others.is_empty() && !turn.halted {
            turn.root_end = Some(outcome);
            self.turn = Some(turn);
            return;
        }
        if turn.alone || turn.halted {
            self.consumed = self.sent;
        }
        applied.idle = true;
        applied.end = Some(TurnEnd {
            outcome,
            text: turn.text(),
            finish: turn.finish,
            usage: self.usage.clone(),
        });
    }

    fn is_root(&self, trajectory: &str) -> bool {
        // Frames about the connection as a whole may name none.
        trajectory.is_empty() || self.root.as_deref().is_none_or(|root| root == trajectory)
    }

    /// Without word from the harness, or against it, the root is the trajectory that shows the
    /// first user input.
    fn find_root(&mut self, step: &StepUpdate) {
        let trajectory = step.trajectory_id();
        if self.root_seen || trajectory.is_empty() || !step.parent_trajectory_id().is_empty() {
            return;
        }
        if self.root.as_deref() == Some(trajectory) {
            self.root_seen = true;
        } else if self.root.is_none() || step.source() == step_update::Source::User {
            self.root = Some(trajectory.to_owned());
            self.root_seen = true;
        }
    }
}

impl Turn {
    /// Something of the turn was seen. Returns whether a halt came too early for it.
    fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true) && self.halted
    }

    fn step(&mut self, update: StepUpdate, is_root: bool, is_answer: bool) -> Vec<Event> {
        let id = StepId::of(&update);
        let failed = is_failed(&update);
        if is_root {
            self.note_result(&update, failed);
        }
        let shown = without_texts(&update);
        let is_first = !self.steps.contains_key(&id);
        let state = self.steps.entry(id.clone()).or_default();
        state.failed = failed;

        let mut deltas = Vec::new();
        if is_answer {
            let thinking = advance(
                &mut state.thinking,
                update.thinking(),
                update.thinking_delta(),
            );
            if !thinking.is_empty() {
                deltas.push(Event::ThinkingDelta {
                    step: id.clone(),
                    text: thinking,
                });
            }
            let text = advance(&mut state.text, update.text(), update.text_delta());
            if !text.is_empty() {
                deltas.push(Event::TextDelta { step: id, text });
            }
        }
        if is_first || state.shown != shown {
            state.shown = shown;
            let at = if is_first { 0 } else { deltas.len() };
            deltas.insert(at, Event::Step(Box::new(update)));
        }
        deltas
    }

    fn note_result(&mut self, update: &StepUpdate, failed: bool) {
        if let Some(finish) = &update.finish
            && update.state() == step_update::State::Done
        {
            self.finish = finish.output_string.clone();
        }
        if failed && update.source() == step_update::Source::System {
            let error = update.error.as_ref();
            let texts = [
                update.error_message(),
                error.map_or("", |error| error.error_message()),
                update.text(),
            ];
            let message = texts.into_iter().find(|text| !text.is_empty());
            self.failure = Some(TurnError {
                message: message.unwrap_or("the harness gave no reason").to_owned(),
                code: None,
                http_status: error
                    .and_then(|error| error.http_code)
                    .filter(|code| *code != 0),
            });
        }
    }

    fn outcome(&self, error: Option<String>, update: &TrajectoryStateUpdate) -> Outcome {
        let status = self
            .failure
            .as_ref()
            .and_then(|failure| failure.http_status);
        if let Some(message) = error {
            return Outcome::Failed(TurnError {
                message,
                code: Some(update.error_code().to_owned()).filter(|code| !code.is_empty()),
                http_status: status,
            });
        }
        if let Some(reason) = update.stop_reason.and_then(StopReason::from_wire) {
            return Outcome::Stopped(reason);
        }
        if self.halted {
            return Outcome::Halted;
        }
        // Harnesses up to SDK 0.1.2 have no error on the trajectory, and nothing at all is never
        // a success.
        let fatal = status.is_some_and(|status| FATAL_STATUSES.contains(&status));
        match &self.failure {
            Some(failure) if fatal || self.finish.is_none() && self.text().is_empty() => {
                Outcome::Failed(failure.clone())
            }
            _ => Outcome::Completed,
        }
    }

    fn text(&self) -> String {
        let answers = self.steps.values().filter(|step| !step.failed);
        let texts: Vec<&str> = answers
            .map(|step| step.text.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        texts.join("\n\n")
    }
}

/// Whether a step's text is the agent's answer: said by the model to the user, not by a tool.
fn is_answer(step: &StepUpdate) -> bool {
    step.source() == step_update::Source::Model
        && step.target() == step_update::Target::User
        && matches!(
            step.state(),
            step_update::State::Active | step_update::State::Done
        )
        && !has_action(step)
}

fn is_failed(step: &StepUpdate) -> bool {
    matches!(
        step.state(),
        step_update::State::Error | step_update::State::TerminalError
    )
}

fn has_action(step: &StepUpdate) -> bool {
    step.list_directory.is_some()
        || step.find_file.is_some()
        || step.search_directory.is_some()
        || step.view_file.is_some()
        || step.create_file.is_some()
        || step.edit_file.is_some()
        || step.run_command.is_some()
        || step.compaction.is_some()
        || step.invoke_subagent.is_some()
        || step.generate_image.is_some()
        || step.finish.is_some()
        || step.error.is_some()
        || step.mcp_tool.is_some()
        || step.search_web.is_some()
        || step.read_url_content.is_some()
        || step.custom_tool.is_some()
        || step.skill_lookup.is_some()
        || step.run_workflow.is_some()
}

fn without_texts(step: &StepUpdate) -> StepUpdate {
    StepUpdate {
        text: None,
        text_delta: None,
        thinking: None,
        thinking_delta: None,
        ..step.clone()
    }
}

/// Brings `have` up to date and returns what is new.
///
/// The cumulative text counts: it repairs repeated and lost updates. The delta counts where the
/// harness sends no cumulative text, or a cut one (dialects with a limit on frames).
fn advance(have: &mut String, cumulative: &str, delta: &str) -> String {
    if let Some(new) = cumulative.strip_prefix(have.as_str()) {
        have.push_str(new);
        return new.to_owned();
    }
    if have.starts_with(cumulative) {
        have.push_str(delta);
    } else {
        // Rewritten; readers of deltas cannot be told, the end of the turn has it right.
        cumulative.clone_into(have);
    }
    delta.to_owned()
}

#[cfg(test)]
mod tests;
