//! `test`: everything that shows the code is right, with what a newcomer has: cargo, and Python
//! if it is there.

use crate::python::Unavailable;
use crate::{conformance, shell};

/// Runs the unit, integration and documentation tests, then the conformance suite.
///
/// Conformance is left out, and the output says so, where there is no Python. Where there is one
/// that cannot be given the SDK, that is an error in CI and a stated skip elsewhere: a person
/// without a network can still test.
///
/// # Errors
///
/// When a test fails.
pub(crate) fn test() -> anyhow::Result<()> {
    shell::timed("cargo test", || {
        // All test programs run, so that one failure does not hide another.
        let arguments = ["test", "--workspace", "--all-features", "--no-fail-fast"];
        shell::run(&mut shell::cargo(arguments))
    })?;
    let options = conformance::Options::of_tests();
    match conformance::environments(&options.selection) {
        Ok(environments) => {
            if let Some(environment) = environments.first() {
                conformance::test_the_suite(environment)?;
            }
            shell::timed("conformance", || conformance::run(&options, &environments))
        }
        Err(Unavailable::Setup(error)) if shell::is_ci() => Err(error),
        Err(unavailable) => {
            shell::say_skipped("conformance", &unavailable.to_string());
            Ok(())
        }
    }
}
