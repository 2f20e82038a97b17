use harness_proto::localharness::{ActionError, ActionFinish, ActionRunCommand};
use proptest::prelude::*;
use step_update::{Source, State, Target};
use trajectory_state_update::State as TrajectoryState;

use super::*;

const ROOT: &str = "root";

fn tracker() -> Tracker {
    let mut tracker = Tracker::new(Dialect::Current);
    tracker.opened(Some(ROOT), &[], None);
    tracker
}

fn step(index: u32, source: Source, target: Target, state: State) -> StepUpdate {
    StepUpdate {
        trajectory_id: Some(ROOT.into()),
        step_index: Some(index),
        state: Some(state.into()),
        source: Some(source.into()),
        target: Some(target.into()),
        ..StepUpdate::default()
    }
}

fn echo(index: u32) -> StepUpdate {
    step(index, Source::User, Target::Model, State::Done)
}

fn answer(index: u32, state: State, text: &str, delta: &str) -> StepUpdate {
    StepUpdate {
        text: Some(text.into()),
        text_delta: Some(delta.into()),
        ..step(index, Source::Model, Target::User, state)
    }
}

fn state_of(trajectory: &str, state: TrajectoryState) -> TrajectoryStateUpdate {
    TrajectoryStateUpdate {
        trajectory_id: Some(trajectory.into()),
        state: Some(state.into()),
        ..TrajectoryStateUpdate::default()
    }
}

fn running() -> TrajectoryStateUpdate {
    state_of(ROOT, TrajectoryState::Running)
}

fn idle() -> TrajectoryStateUpdate {
    state_of(ROOT, TrajectoryState::FullyIdle)
}

fn failed(message: &str) -> TrajectoryStateUpdate {
    TrajectoryStateUpdate {
        error: Some(message.into()),
        ..idle()
    }
}

/// Ends the turn that runs and returns its outcome and text.
fn end(tracker: &mut Tracker) -> (Outcome, String) {
    let end = tracker.state(idle()).end.expect("the turn ends");
    (end.outcome, end.text)
}

#[test]
fn an_answer_is_the_text_of_its_steps() {
    let mut tracker = tracker();
    tracker.begin(true);
    tracker.state(running());
    tracker.step(echo(0));
    tracker.step(answer(1, State::Active, "I look", "I look"));
    tracker.step(answer(1, State::Done, "I look.", "."));
    tracker.step(answer(3, State::Done, "It is blue.", "It is blue."));
    let expected = (Outcome::Completed, "I look.\n\nIt is blue.".to_owned());
    assert_eq!(end(&mut tracker), expected);
}

#[test]
fn what_is_not_the_answer_is_left_out() {
    let mut tracker = tracker();
    tracker.begin(true);
    tracker.step(echo(0));
    let denied = answer(1, State::Error, "denied by a hook", "denied by a hook");
    let tool = StepUpdate {
        run_command: Some(ActionRunCommand::default()),
        ..answer(2, State::Done, "Tool execution", "Tool execution")
    };
    let environment = StepUpdate {
        target: Some(Target::Environment.into()),
        ..answer(3, State::Done, "listing", "listing")
    };
    let system = StepUpdate {
        source: Some(Source::System.into()),
        ..answer(4, State::Done, "[Message]", "[Message]")
    };
    let subagent = StepUpdate {
        trajectory_id: Some("child".into()),
        parent_trajectory_id: Some(ROOT.into()),
        ..answer(5, State::Done, "my part", "my part")
    };
    for other in [denied, tool, environment, system, subagent] {
        let events = tracker.step(other.clone()).events;
        assert_eq!(events, [Event::Step(Box::new(other))]);
    }
    tracker.step(answer(6, State::Done, "Done.", "Done."));
    let expected = (Outcome::Completed, "Done.".to_owned());
    assert_eq!(end(&mut tracker), expected);
}

#[test]
fn a_step_that_fails_later_takes_its_text_back() {
    let mut tracker = tracker();
    tracker.begin(true);
    tracker.step(echo(0));
    tracker.step(answer(1, State::Active, "par", "par"));
    tracker.step(answer(1, State::Error, "par (cut)", " (cut)"));
    tracker.step(answer(2, State::Done, "whole", "whole"));
    assert_eq!(end(&mut tracker).1, "whole");
}

#[test]
fn history_is_no_answer() {
    let mut tracker = Tracker::new(Dialect::Current);
    let history = [echo(0), answer(1, State::Done, "old", "old")];
    tracker.opened(Some(ROOT), &history, None);
    tracker.begin(true);
    tracker.state(running());
    tracker.step(history[1].clone());
    tracker.step(echo(2));
    tracker.step(answer(3, State::Done, "new", "new"));
    assert_eq!(end(&mut tracker).1, "new");
}

#[test]
fn repeated_updates_say_nothing_new() {
    let mut tracker = tracker();
    tracker.begin(true);
    let update = answer(1, State::Active, "a", "a");
    assert_eq!(tracker.step(update.clone()).events.len(), 2);
    assert_eq!(tracker.step(update).events, []);
    let done = answer(1, State::Done, "a", "");
    assert_eq!(
        tracker.step(done.clone()).events,
        [Event::Step(Box::new(done))]
    );
}

#[test]
fn an_idle_that_comes_before_the_turn_has_begun_is_not_its_end() {
    let mut tracker = tracker();
    tracker.begin(true);
    assert_eq!(tracker.state(idle()).end, None);
    tracker.state(running());
    assert!(tracker.state(idle()).end.is_some());
}

#[test]
fn a_turn_behind_another_input_ends_with_its_own_idle() {
    let mut tracker = tracker();
    tracker.input_sent();
    tracker.begin(true);
    // The input sent first is answered on its own.
    tracker.state(running());
    tracker.step(echo(0));
    tracker.step(answer(1, State::Done, "first", "first"));
    assert_eq!(tracker.state(idle()).end, None);
    tracker.state(running());
    tracker.step(echo(2));
    tracker.step(answer(3, State::Done, "second", "second"));
    assert!(tracker.state(idle()).end.is_some());
}

#[test]
fn inputs_answered_together_end_together() {
    let mut tracker = tracker();
    tracker.begin(true);
    tracker.input_sent();
    tracker.state(running());
    tracker.step(echo(0));
    tracker.step(echo(1));
    tracker.step(answer(2, State::Done, "both", "both"));
    assert_eq!(end(&mut tracker).1, "both");
    tracker.begin(true);
    tracker.state(running());
    assert_eq!(end(&mut tracker).0, Outcome::Completed);
}

#[test]
fn an_input_that_is_refused_ends_its_turn() {
    let cancelled = TrajectoryStateUpdate {
        error: Some("not now".into()),
        ..state_of(ROOT, TrajectoryState::Cancelled)
    };
    for refusal in [cancelled, failed("not now")] {
        let mut tracker = tracker();
        tracker.begin(true);
        let end = tracker.state(refusal).end.expect("the turn ends");
        let Outcome::Failed(error) = end.outcome else {
            panic!("{:?}", end.outcome);
        };
        assert_eq!(error.to_string(), "the turn failed: not now");
    }
}

#[test]
fn an_input_that_is_refused_does_not_end_the_next_turn() {
    let mut tracker = tracker();
    tracker.input_sent();
    tracker.begin(true);
    assert_eq!(tracker.state(failed("unsupported")).end, None);
    tracker.state(running());
    tracker.step(echo(0));
    assert!(tracker.state(idle()).end.is_some());
}

#[test]
fn a_halted_turn_ends_with_any_idle() {
    let mut tracker = tracker();
    tracker.begin(true);
    tracker.halt();
    assert_eq!(end(&mut tracker), (Outcome::Halted, String::new()));
}

#[test]
fn a_halt_that_comes_too_early_is_said_again_once() {
    let mut tracker = tracker();
    tracker.begin(true);
    tracker.halt();
    assert!(tracker.state(running()).halt);
    assert!(!tracker.step(echo(0)).halt);
    assert_eq!(end(&mut tracker).0, Outcome::Halted);

    tracker.begin(true);
    assert!(!tracker.state(running()).halt);
    tracker.halt();
    assert!(!tracker.step(echo(1)).halt);
}

#[test]
fn nothing_at_all_is_no_success() {
    let error_step = |http_code| StepUpdate {
        error: Some(ActionError {
            error_message: Some("model unreachable".into()),
            http_code: Some(http_code),
        }),
        ..step(1, Source::System, Target::User, State::Error)
    };
    let failure = |status| {
        Outcome::Failed(TurnError {
            message: "model unreachable".into(),
            code: None,
            http_status: status,
        })
    };
    let turn = |steps: &[StepUpdate]| {
        let mut tracker = tracker();
        tracker.begin(true);
        tracker.step(echo(0));
        for step in steps {
            tracker.step(step.clone());
        }
        end(&mut tracker)
    };
    let said = answer(2, State::Done, "hello", "hello");
    assert_eq!(turn(&[error_step(503)]).0, failure(Some(503)));
    assert_eq!(turn(&[error_step(0)]).0, failure(None));
    assert_eq!(turn(&[error_step(503), said.clone()]).0, Outcome::Completed);
    assert_eq!(turn(&[error_step(401), said]).0, failure(Some(401)));
}

#[test]
fn the_structured_result_is_kept() {
    let mut tracker = tracker();
    tracker.begin(true);
    tracker.step(echo(0));
    tracker.step(StepUpdate {
        finish: Some(ActionFinish {
            output_string: Some("{\"n\":1}".into()),
        }),
        ..answer(1, State::Done, "Finished", "Finished")
    });
    let end = tracker.state(idle()).end.expect("the turn ends");
    let expected = TurnEnd {
        outcome: Outcome::Completed,
        text: String::new(),
        finish: Some("{\"n\":1}".into()),
        usage: None,
    };
    assert_eq!(end, expected);
}

#[test]
fn limits_are_reasons_not_errors() {
    let mut tracker = tracker();
    tracker.begin(true);
    tracker.state(running());
    let end = tracker.state(TrajectoryStateUpdate {
        stop_reason: Some(trajectory_state_update::StopReason::MaxToolCallsExceeded.into()),
        ..idle()
    });
    let outcome = end.end.map(|end| end.outcome);
    assert_eq!(outcome, Some(Outcome::Stopped(StopReason::ToolCalls)));
}

#[test]
fn waiting_for_subagents_is_not_the_end() {
    let mut tracker = tracker();
    tracker.begin(true);
    tracker.state(running());
    tracker.state(state_of("child", TrajectoryState::Running));
    let waiting = state_of(ROOT, TrajectoryState::WaitingForSubagents);
    assert_eq!(
        tracker.state(waiting.clone()).events,
        [Event::Trajectory(Box::new(waiting))]
    );
    assert_eq!(
        tracker
            .state(state_of("child", TrajectoryState::FullyIdle))
            .end,
        None
    );
    assert!(tracker.state(idle()).end.is_some());
}

#[test]
fn old_harnesses_are_idle_when_all_agents_are() {
    let mut tracker = Tracker::new(Dialect::UpTo014);
    tracker.begin(true);
    tracker.state(running());
    // The first step tells which trajectory is the root.
    tracker.step(echo(0));
    assert_eq!(tracker.root(), Some(ROOT));
    for child in ["one", "two"] {
        tracker.state(state_of(child, TrajectoryState::Running));
    }
    assert_eq!(tracker.state(idle()).end, None);
    assert_eq!(
        tracker
            .state(state_of("one", TrajectoryState::FullyIdle))
            .end,
        None
    );
    let last = tracker.state(state_of("two", TrajectoryState::FullyIdle));
    assert!(last.idle);
    assert_eq!(last.end.map(|end| end.outcome), Some(Outcome::Completed));
}

proptest! {
    /// However the text is cut into updates, which of them are lost or repeated: what the reader
    /// puts together from the deltas is the text.
    #[test]
    fn deltas_add_up_to_the_text(
        text in "\\PC{0,40}",
        cuts in proptest::collection::vec(0usize..41, 0..10),
        fate in proptest::collection::vec(0usize..3, 10),
    ) {
        let chars: Vec<char> = text.chars().collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(chars.len())).collect();
        cuts.sort_unstable();
        let prefix = |cut: usize| chars[..cut].iter().collect::<String>();

        let mut tracker = tracker();
        tracker.begin(true);
        let mut sum = String::new();
        let mut sent = 0;
        let mut receive = |tracker: &mut Tracker, update: StepUpdate| {
            for event in tracker.step(update).events {
                if let Event::TextDelta { text, .. } = event {
                    sum.push_str(&text);
                }
            }
        };
        for (cut, fate) in cuts.iter().zip(fate) {
            let update = answer(1, State::Active, &prefix(*cut), &prefix(*cut)[prefix(sent).len()..]);
            sent = *cut;
            for _ in 0..fate {
                receive(&mut tracker, update.clone());
            }
        }
        receive(&mut tracker, answer(1, State::Done, &text, ""));
        prop_assert_eq!(&sum, &text);
        prop_assert_eq!(end_of_untold(&mut tracker), text);
    }
}

fn end_of_untold(tracker: &mut Tracker) -> String {
    tracker.step(echo(9));
    end(tracker).1
}
