//! The programs run, offline, and show what they say they show.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Output};

fn run(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let errors = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{status}\n{text}\n{errors}");
    text
}

#[test]
fn framing() {
    let text = run(&mut Command::new(env!("CARGO_BIN_EXE_framing")));
    let expected = [
        r#"two messages take 18 bytes: b"\x05\0\0\0hello\x05\0\0\0world""#,
        "11 bytes came",
        "  a message: hello",
        "7 bytes came",
        "  a message: world",
    ];
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..5], expected);
    assert!(lines[5].starts_with("too long: "), "{text}");
    assert_eq!(lines.len(), 6);
}

#[test]
fn embed() {
    let text = run(&mut Command::new(env!("CARGO_BIN_EXE_embed")));
    // Whoever is asked runs beside whoever reads, so the place of the question may vary.
    let (asked, told): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("may "));
    assert_eq!(
        asked,
        [r#"may set_reminder run with {"day":"Friday","text":"water the plants"}?"#]
    );
    let expected = [
        "agent: Let me read it.",
        "tool:  Done",
        "tool:  Done",
        "agent: I will remind you on Friday.",
        "ended: Completed",
        "resumed with 5 steps",
        "agent: On Friday.",
    ];
    assert_eq!(told, expected);
}

#[test]
fn drive() {
    let harness = harness_testkit::binary_path("localharness").expect(
        "build the programs first: cargo build -p harness-bin, or run all tests with cargo xtask \
         test",
    );
    let home = harness_testkit::EmptyHome::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drive"));
    command.env_clear().envs(home.env());
    let text = run(command.env("ANTIGRAVITY_HARNESS_PATH", harness));
    // The tool runs beside whoever reads, so the place of its line may vary.
    let (asked, told): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("asked "));
    assert_eq!(asked, ["asked for the weather in Oslo"]);
    let expected = [
        "harness: found by ANTIGRAVITY_HARNESS_PATH",
        "step 1: view_file",
        "agent: Water them: it stays dry in Oslo.",
        r#"ended: Completed, answer: "Water them: it stays dry in Oslo.""#,
        "harness: ended, success: true",
    ];
    assert_eq!(told, expected);
}
