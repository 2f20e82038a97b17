use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use harness_toolkit::{FileAccess, RunCommandOptions};
use harness_types::{Action, ToolError};
use serde_json::json;
use tokio::sync::oneshot;

use crate::support::Workshop;

/// What a command gives: its result for the model.
async fn run(shop: &Workshop, line: &str) -> String {
    shop.ok("run_command", json!({"CommandLine": line})).await
}

fn ended(code: i32, output: &str) -> String {
    format!("The command exited with code {code}.\nOutput:\n{output}")
}

fn limited(limit: Duration) -> Workshop {
    let options = RunCommandOptions {
        timeout: Some(limit),
        ..RunCommandOptions::default()
    };
    Workshop::with(options, |_| FileAccess::Unconfined)
}

#[tokio::test]
async fn a_command_gives_its_exit_code_and_its_output() {
    let shop = Workshop::new();
    let line = "echo out; echo err >&2; pwd; exit 3";
    let output = shop
        .call(
            "run_command",
            json!({"CommandLine": line, "WaitMsBeforeAsync": 500}),
        )
        .await
        .expect("success");
    let work = shop.text("work");
    let printed = format!("out\nerr\n{work}\n");
    assert_eq!(
        output,
        harness_types::ToolOutput::text(ended(3, &printed)).with_action(Action::RunCommand {
            command_line: line.to_owned(),
            working_dir: work,
            exit_code: Some(3),
            output: Some(printed),
        })
    );
    assert_eq!(
        run(&shop, "true").await,
        "The command exited with code 0.\nIt printed nothing.\n"
    );
    assert_eq!(run(&shop, "printf x").await, ended(0, "x\n"));
    // What begins like an option is a command all the same.
    assert!(
        run(&shop, "-no-such-thing")
            .await
            .starts_with("The command exited with code 127.")
    );
    assert_eq!(
        run(&shop, "kill -9 $$").await,
        "The command was ended by signal 9 (exit code 137).\nIt printed nothing.\n"
    );
}

#[tokio::test]
async fn the_directory_is_the_one_given() {
    let shop = Workshop::new();
    std::fs::create_dir(shop.path("work/sub")).expect("a folder");
    let at = |cwd: &str| json!({"CommandLine": "pwd", "Cwd": cwd});
    let sub = shop.text("work/sub");
    assert_eq!(
        shop.ok("run_command", at(&sub)).await,
        ended(0, &format!("{sub}\n"))
    );
    let empty = shop.ok("run_command", at("")).await;
    assert_eq!(empty, ended(0, &format!("{}\n", shop.text("work"))));

    let missing = shop.text("work/none");
    let error = shop.error("run_command", at(&missing)).await;
    assert!(
        error.contains(&format!("cannot use `{missing}` as working directory")),
        "{error}"
    );
    let error = shop.error("run_command", at("sub")).await;
    assert!(
        error.starts_with("Cwd: \"sub\" is not an absolute path"),
        "{error}"
    );

    let contained = Workshop::with(RunCommandOptions::default(), |root| {
        FileAccess::contained([root.join("work")])
    });
    let error = contained.error("run_command", at("/")).await;
    assert!(
        error.contains("is outside the allowed directories"),
        "{error}"
    );
}

#[tokio::test]
async fn f031_nothing_waits_for_a_key_press() {
    let shop = Workshop::new();
    // Input is at its end, there is no terminal, editors fail, pagers do not page.
    let line = "cat; test -t 0 || test -t 1 || echo no terminal; \
                $EDITOR file || echo no editor; $GIT_EDITOR || echo no git editor; \
                echo paged | $PAGER; echo $GIT_PAGER $GIT_TERMINAL_PROMPT $TERM $ANTIGRAVITY_AGENT";
    assert_eq!(
        run(&shop, line).await,
        ended(
            0,
            "no terminal\nno editor\nno git editor\npaged\ncat 0 dumb 1\n"
        )
    );
    let id = "07".repeat(16);
    assert_eq!(
        run(
            &shop,
            "echo $ANTIGRAVITY_CONVERSATION_ID $ANTIGRAVITY_TRAJECTORY_ID"
        )
        .await,
        ended(0, &format!("{id} {id}\n"))
    );
}

#[tokio::test]
async fn the_callers_environment_wins_and_credentials_stay_out() {
    let env = BTreeMap::from([
        ("PAGER".into(), "less".into()),
        ("OWN".into(), "secret-7".into()),
    ]);
    let options = RunCommandOptions {
        timeout: None,
        env,
        env_deny: vec!["CARGO_MANIFEST_DIR".into()],
    };
    assert!(!format!("{options:?}").contains("secret-7"));
    let shop = Workshop::with(options, |_| FileAccess::Unconfined);
    // The test runner sets both; only one is kept out.
    let line = "echo $PAGER $GIT_PAGER $OWN ${CARGO_MANIFEST_DIR-none} ${CARGO_PKG_NAME-none}";
    assert_eq!(
        run(&shop, line).await,
        ended(0, "less cat secret-7 none harness-toolkit\n")
    );
}

#[tokio::test]
async fn f002_a_command_that_takes_too_long_is_ended_with_its_children() {
    let shop = limited(Duration::from_secs(1));
    for line in [
        "(while true; do echo x; sleep 0.05; done) & sleep 60",
        "echo x; setsid sleep 60 & sleep 60",
        "echo x; trap '' TERM; sleep 60 & setsid sleep 60 & wait",
    ] {
        let error = shop
            .call("run_command", json!({"CommandLine": line}))
            .await
            .expect_err("a timeout");
        let ToolError::Failed { message, action } = error else {
            panic!("another error: {error}");
        };
        assert!(
            message.starts_with(
                "The command timed out: it had not ended after 1s and was ended with \
                 everything it had started.\nOutput:\nx\n"
            ),
            "{message}"
        );
        let Some(Action::RunCommand {
            command_line,
            exit_code,
            output,
            ..
        }) = action.as_deref()
        else {
            panic!("another action: {action:?}");
        };
        assert_eq!(command_line, line);
        assert!(exit_code.is_some_and(|code| code > 128), "{exit_code:?}");
        assert!(
            output
                .as_ref()
                .is_some_and(|output| output.starts_with("x\n"))
        );
    }
}

#[tokio::test]
async fn f002_an_escaped_child_does_not_hold_the_call() {
    let shop = Workshop::new();
    assert_eq!(
        run(&shop, "setsid sleep 600 & echo done").await,
        ended(0, "done\n")
    );
}

#[tokio::test]
async fn dropping_the_call_ends_the_command() {
    let shop = Workshop::new();
    let pipe = shop.path("work/alive");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    let (started, has_started) = oneshot::channel();
    let (ended, has_ended) = oneshot::channel();
    std::thread::spawn(move || {
        let mut pipe = std::fs::File::open(pipe).expect("the pipe");
        let mut line = [0; 3];
        pipe.read_exact(&mut line).expect("the line");
        started.send(line).expect("the test waits");
        // The end comes when the last process that holds the other end has ended.
        let rest = pipe.read_to_end(&mut Vec::new()).expect("the end");
        let _ = ended.send(rest);
    });
    let line = "exec 3>alive; (sleep 600 & sleep 600) & echo up >&3; sleep 600";
    let call = shop.call("run_command", json!({"CommandLine": line}));
    tokio::select! {
        result = call => panic!("the command ended: {result:?}"),
        line = has_started => assert_eq!(&line.expect("a start"), b"up\n"),
    }
    // Here the call has been dropped.
    let rest = tokio::time::timeout(Duration::from_secs(30), has_ended).await;
    assert_eq!(rest.expect("all have ended"), Ok(0));
}

#[tokio::test]
async fn f030_characters_survive_the_pipe() {
    let shop = Workshop::new();
    assert_eq!(
        run(
            &shop,
            r"printf '\xe2'; printf '\x89\xa4\n'; printf '\xff\n'"
        )
        .await,
        ended(0, "≤\n\u{fffd}\n")
    );
    let text = run(
        &shop,
        "for i in $(seq 3000); do printf 漢字漢字漢字漢字; done",
    )
    .await;
    let kept = text.chars().filter(|c| matches!(c, '漢' | '字')).count();
    assert!(kept > 20_000 && !text.contains('\u{fffd}'), "{kept}");
}

#[tokio::test]
async fn f032_output_is_bounded_with_exact_counts() {
    let shop = Workshop::new();
    let text = run(&shop, "seq 1 300000").await;
    assert!(text.len() < 66_000, "{}", text.len());
    let body = text
        .strip_prefix("The command exited with code 0.\nOutput:\n")
        .expect("a result");
    let (head, rest) = body.split_once('[').expect("a mark");
    let (mark, tail) = rest.split_once("]\n").expect("a whole mark");
    let all: String = (1..=300_000).map(|n| format!("{n}\n")).collect();
    assert!(all.starts_with(head) && all.ends_with(tail));
    let left_out = &all[head.len()..all.len() - tail.len()];
    assert_eq!(
        mark,
        format!(
            "{} bytes with {} line ends left out",
            left_out.len(),
            left_out.lines().count()
        )
    );
    let text = run(&shop, "head -c 5000000 /dev/zero | tr '\\0' x").await;
    assert!(text.len() < 66_000, "{}", text.len());
}

#[tokio::test]
async fn escape_sequences_are_taken_out() {
    let shop = Workshop::new();
    let line = r"printf '\033[31mred\033[0m\r\n\033]0;title\007plain\n'";
    assert_eq!(run(&shop, line).await, ended(0, "red\nplain\n"));
}

#[tokio::test]
async fn observers_see_the_output_before_the_command_ends() {
    let shop = Workshop::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let context = {
        let (seen, mark) = (seen.clone(), shop.path("work/seen"));
        shop.context().with_progress(Arc::new(move |action| {
            let Action::RunCommand {
                exit_code, output, ..
            } = action
            else {
                panic!("another action");
            };
            // The command goes on as soon as both of its lines have been seen.
            if output
                .as_ref()
                .is_some_and(|output| output.contains("second"))
            {
                std::fs::write(&mark, "").expect("a file");
            }
            seen.lock().expect("a lock").push((exit_code, output));
        }))
    };
    let line = "echo first; echo second; until [ -e seen ]; do sleep 0.02; done; echo third";
    let call = shop.call_in(context, "run_command", json!({"CommandLine": line}));
    let call = tokio::time::timeout(Duration::from_secs(30), call).await;
    call.expect("both lines were seen").expect("success");
    for (exit_code, output) in seen.lock().expect("a lock").iter() {
        let output = output.as_deref().expect("output");
        assert!(
            !output.is_empty() && "first\nsecond\nthird\n".starts_with(output),
            "{output}"
        );
        assert_eq!(*exit_code, None);
    }
}

#[tokio::test]
async fn commands_that_cannot_be_run_are_refused() {
    let shop = Workshop::new();
    assert_eq!(
        shop.error("run_command", json!({"CommandLine": " "})).await,
        "CommandLine is empty"
    );
    assert_eq!(
        shop.error("run_command", json!({"CommandLine": "echo a\0b"}))
            .await,
        "CommandLine holds a NUL character"
    );
    assert_eq!(
        shop.error("run_command", json!({})).await,
        "`CommandLine`: required, but missing"
    );
}
