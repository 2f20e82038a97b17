//! The program `localharness`: one process, many conversations, for clients on the wire.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use harness_host::{Host, Limits};
use harness_server::{Server, handshake};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::assemble::Assembler;
use crate::environment::Environment;
use crate::log;

const HELP: &str = "\
localharness runs agents for the google-antigravity SDKs and other clients of their wire protocol.

It is not meant to be started by hand: a client starts it, writes an InputConfig to its stdin and
reads a port and a key from its stdout. To use it with the Python SDK, name it in the environment:

    ANTIGRAVITY_HARNESS_PATH=/path/to/localharness python your_agent.py

At a terminal, use `harness` instead: `harness run \"PROMPT\"` or `harness chat`.

Options:
  --help       print this text
  --version    print the version

Environment:
  GEMINI_API_KEY            the key for models that are configured without one
  GOOGLE_GEMINI_BASE_URL    the address for models that are configured without one
  HARNESS_LOG               off, error, warn (default), info, debug or trace; logs go to stderr
";

/// Runs the program. `args` are its arguments without its name.
///
/// Standard output belongs to the handshake alone: help and version are the only other things ever
/// written there, and then no client is listening.
pub fn main(args: impl IntoIterator<Item = String>) -> ExitCode {
    let mut args = args.into_iter();
    match args.next().as_deref() {
        None => {}
        Some("--help" | "-h") => return say(HELP),
        Some("--version" | "-V") => {
            return say(concat!("localharness ", env!("CARGO_PKG_VERSION"), "\n"));
        }
        Some(other) => {
            complain(&format!(
                "unknown argument {other:?}; localharness takes none (see --help)"
            ));
            return ExitCode::from(2);
        }
    }
    if std::io::stdin().is_terminal() {
        complain(
            "this program is started by a client, not by hand. At a terminal use `harness run` or \
             `harness chat`; see --help",
        );
        return ExitCode::from(2);
    }
    match run(Environment::of_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&describe(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(environment: Environment) -> Result<(), Box<dyn std::error::Error>> {
    // First of all, so that the client waits for nothing else.
    let bound = handshake(std::io::stdin().lock(), std::io::stdout().lock())?;
    log::start(environment.get(log::LEVEL_VARIABLE));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()?;
    // SDKs count the folder for temporary files as part of the workspace.
    let assembler = Assembler::new(environment).with_reachable(std::env::temp_dir());
    let host = Host::new(Arc::new(assembler), Limits::default());
    let ended = runtime.block_on(async {
        let stop = stop_signal()?;
        Server::new(bound, host).run(stop).await?;
        Ok(())
    });
    // A blocked thread, such as the one that reads stdin, is no reason to stay.
    runtime.shutdown_background();
    ended
}

/// Enough to answer everybody while one of them works; more would only cost memory.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 4))
}

/// Ready when stdin has ended or a signal asks for the end.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (ended, stdin_ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            // What a client writes after the handshake is ignored; its end is the sign to leave.
            let mut stdin = std::io::stdin().lock();
            let mut ignored = [0; 4096];
            loop {
                match stdin.read(&mut ignored) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            let _ = ended.send(());
        })?;
    Ok(async move {
        tokio::select! {
            _ = stdin_ended => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn say(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// One line on stderr. A reader that has gone away is no reason to fail.
fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "localharness: {message}");
}

/// An error with its causes, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
