//! A model that follows a script.
//!
//! `turn` holds what a script says, `file` its JSON form, `variables` the substitution,
//! `expectation` and `check` what every request must satisfy, `gate` and `sleep` how a turn waits,
//! and `model` plays it.

mod check;
mod expectation;
mod file;
mod gate;
mod model;
mod sleep;
#[cfg(test)]
mod test_data;
mod turn;
mod variables;

pub use check::check_request;
pub use expectation::Expectation;
pub use gate::{Gate, GatePass};
pub use model::ScriptedModel;
pub use sleep::{Sleeper, thread_sleeper};
pub use turn::{Script, ScriptError, ScriptedEnd, ScriptedPart, ScriptedTurn};
