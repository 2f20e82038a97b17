//! When calls of an ended answer start, and in which order they are answered.

use serde_json::json;

use crate::support::{Rig, config};

fn with_calls(names: &[&str]) -> (Rig, Vec<String>) {
    let mut rig = Rig::asked(config());
    // Held by a first call that starts with the end of the answer.
    let mut effects = Vec::new();
    for (n, name) in names.iter().enumerate() {
        effects.extend(rig.call(&format!("c{n}"), name, json!({})));
    }
    effects.extend(rig.stop());
    (rig, effects)
}

#[test]
fn a_writer_waits_for_earlier_calls_and_holds_later_ones() {
    for writer in ["put", "set"] {
        let (mut rig, effects) = with_calls(&["look", "peek", writer, "look", "send"]);
        assert_eq!(effects, ["run 1 look {}", "run 2 peek {}"]);
        assert_eq!(rig.tool(2, "x"), [""; 0]);
        assert_eq!(rig.tool(1, "x"), [format!("run 3 {writer} {{}}")]);
        assert_eq!(rig.tool(3, "x"), ["run 4 look {}", "run 5 send {}"]);
        rig.tool(5, "x");
        assert_eq!(rig.tool(4, "x"), ["ask 1"]);
    }
}

#[test]
fn writers_run_one_after_the_other_in_call_order() {
    let (mut rig, effects) = with_calls(&["put", "set", "put"]);
    assert_eq!(effects, ["run 1 put {}"]);
    assert_eq!(rig.tool(1, "x"), ["run 2 set {}"]);
    assert_eq!(rig.tool_fails(2, "x"), ["run 3 put {}"]);
    assert_eq!(rig.tool(3, "x"), ["ask 1"]);
}

#[test]
fn host_tools_run_together_and_are_answered_in_call_order() {
    let (mut rig, effects) = with_calls(&["host_a", "host_b", "host_a", "send"]);
    assert_eq!(effects, ["run 4 send {}"]);
    assert_eq!(
        rig.open(),
        [
            "0 at 1: host host_a",
            "1 at 2: host host_b",
            "2 at 3: host host_a"
        ]
    );
    rig.tool(4, "sent");
    rig.host(2, "third");
    rig.host(0, "first");
    assert_eq!(rig.host(1, "second"), ["ask 1"]);
    assert_eq!(
        rig.last_messages(1),
        [
            r#"results c0 host_a Succeeded "first" + c1 host_b Succeeded "second" + c2 host_a Succeeded "third" + c3 send Succeeded "sent""#
        ]
    );
}

#[test]
fn a_host_tool_waits_for_an_earlier_writer() {
    let (mut rig, effects) = with_calls(&["put", "host_a"]);
    assert_eq!(
        (effects, rig.open()),
        (vec!["run 1 put {}".to_owned()], Vec::new())
    );
    rig.tool(1, "x");
    assert_eq!(rig.open(), ["0 at 2: host host_a"]);
}

#[test]
fn a_writer_waits_for_an_earlier_host_tool() {
    let (mut rig, effects) = with_calls(&["host_a", "put"]);
    assert_eq!(effects, [""; 0]);
    assert_eq!(rig.host(0, "x"), ["run 2 put {}"]);
}

#[test]
fn a_tool_that_ends_twice_ends_once() {
    let (mut rig, _) = with_calls(&["put", "put"]);
    rig.tool(1, "first");
    let before = rig.state.clone();
    assert_eq!(rig.tool(1, "again"), [""; 0]);
    assert_eq!(rig.state, before);
}

#[test]
fn progress_is_shown_while_the_call_runs_and_not_after() {
    use harness_types::Action;
    let shows = |query: &str| Action::FindFile {
        path: "/w".into(),
        query: query.into(),
        output: None,
    };
    let (mut rig, _) = with_calls(&["put", "put"]);
    rig.shows(2, shows("too early"));
    rig.shows(1, shows("half"));
    assert_eq!(rig.state.root().steps[1].action, Some(shows("half")));
    rig.tool(1, "done");
    let after = rig.steps();
    rig.shows(1, shows("too late"));
    assert_eq!(rig.steps(), after);
}

#[test]
fn a_host_call_is_not_ended_by_a_tool() {
    let (mut rig, _) = with_calls(&["host_a"]);
    assert_eq!(rig.tool(1, "not the host"), [""; 0]);
    assert_eq!(rig.open(), ["0 at 1: host host_a"]);
}
