//! Taking a conversation up again: what was open when its process ended is closed, and nothing is
//! done twice.

use harness_types::{
    CallStage, RecordBody, RequestOutcome, StepError, StepIndex, ToolClass, TrajectoryId, TurnEnd,
    TurnStage, Waiting,
};

use super::Stepper;
use super::calls::cancelled;

impl Stepper<'_> {
    /// Closes what was open. Runs nothing: the model hears of it with the next input.
    pub(super) fn resume(&mut self, notice: Option<String>) {
        self.emit(RecordBody::Resumed);
        let requests: Vec<_> = self.state.requests().keys().copied().collect();
        for request in requests {
            let outcome = RequestOutcome::Cancelled;
            self.emit(RecordBody::RequestClosed { request, outcome });
        }
        let open: Vec<TrajectoryId> = self
            .state
            .trajectories()
            .filter(|trajectory| trajectory.turn.is_some())
            .map(|trajectory| trajectory.id.clone())
            .collect();
        for id in open {
            self.interrupt(&id);
        }
        if let Some(message) = notice {
            let root = self.state.root();
            let (trajectory, step) = (root.id.clone(), root.next_step());
            let error = StepError {
                message,
                http_code: None,
            };
            self.emit(RecordBody::ErrorShown {
                trajectory,
                step,
                error,
            });
        }
    }

    fn interrupt(&mut self, id: &TrajectoryId) {
        let Some(turn) = self.state.trajectory(id).and_then(|t| t.turn.as_ref()) else {
            return;
        };
        // The work was done; only the hooks that wanted to know are missing.
        if let TurnStage::Stopping { end } | TurnStage::PostTurn { end } = &turn.stage {
            let (trajectory, end) = (id.clone(), end.clone());
            self.emit(RecordBody::TurnEnded { trajectory, end });
            return;
        }
        let begun = turn.worked
            || matches!(&turn.waiting, Waiting::Answer(call) if !call.answer.parts.is_empty());
        if let Waiting::Answer(model_call) = &turn.waiting {
            let call = model_call.id;
            self.end_answer_partial(id, call, "the harness was stopped");
        }
        let told = self.close_open_calls(id);
        let trajectory = id.clone();
        // The results of closed calls say it already; an input nobody has begun to answer needs no
        // word.
        if begun && !told {
            let text = "Your last answer was interrupted here: the program that runs you was \
                        stopped and has been started again. Check what was done before you \
                        repeat it."
                .to_owned();
            self.emit(RecordBody::NoticeGiven {
                trajectory: trajectory.clone(),
                text,
            });
        }
        self.emit(RecordBody::TurnEnded {
            trajectory,
            end: TurnEnd::Interrupted,
        });
    }

    /// Whether there were any.
    fn close_open_calls(&mut self, id: &TrajectoryId) -> bool {
        let Some(turn) = self
            .state
            .trajectory(id)
            .and_then(|t| t.turn.as_ref())
            .filter(|turn| !turn.calls.is_empty())
        else {
            return false;
        };
        let open: Vec<(StepIndex, CallStage, ToolClass, bool)> = turn
            .calls
            .iter()
            .filter(|call| call.stage != CallStage::Done)
            .map(|call| (call.step, call.stage.clone(), call.class, call.ran))
            .collect();
        for (step, stage, class, ran) in open {
            let result = match (stage, class, ran) {
                (CallStage::Ran { result }, ..) => *result,
                (_, _, false) => {
                    cancelled("the call was not run: the harness was stopped before".to_owned())
                }
                (_, ToolClass::ReadOnly, true) => {
                    cancelled("the call was interrupted: the harness was stopped".to_owned())
                }
                (..) => cancelled(
                    "outcome unknown: the harness was stopped while the call ran. Check what it \
                     did before you repeat it"
                        .to_owned(),
                ),
            };
            self.finish_call(id, step, result);
        }
        self.emit(RecordBody::CallsSettled {
            trajectory: id.clone(),
        });
        true
    }
}
