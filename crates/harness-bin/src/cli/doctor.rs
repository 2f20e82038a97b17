//! `harness doctor`: is everything in place?

use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use harness_client::{Outcome, SearchEnvironment, find_harness};
use harness_host::Endpoint;
use serde::Serialize;

use super::args::{DoctorArgs, ReportFormat};
use super::child::{self, millis};
use super::exit::{Exit, Failure};
use super::output::{Output, Style};
use super::scratch::Scratch;
use super::setup;
use crate::environment::Environment;

/// How long the model's address may take to answer.
const REACH: Duration = Duration::from_secs(5);

/// Where Gemini answers when nothing else is said.
const GEMINI: &str = "https://generativelanguage.googleapis.com";

/// What the scripted model of the self-test says.
const SCRIPT: &str = r#"{"version": 1, "turns": [{"text": "It works."}]}"#;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    /// Not as it could be, but the rest works.
    Warning,
    Broken,
}

/// A check. Part of the program's interface.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Ok,
            detail: detail.into(),
            advice: None,
        }
    }

    fn warning(name: &'static str, detail: impl Into<String>, advice: &str) -> Self {
        Self {
            status: Status::Warning,
            advice: Some(advice.to_owned()),
            ..Self::ok(name, detail)
        }
    }

    fn broken(name: &'static str, detail: impl Into<String>, advice: &str) -> Self {
        Self {
            status: Status::Broken,
            advice: Some(advice.to_owned()),
            ..Self::ok(name, detail)
        }
    }
}

/// The report. Part of the program's interface.
#[derive(Debug, Serialize)]
struct Findings {
    healthy: bool,
    version: &'static str,
    checks: Vec<Check>,
}

/// Runs the command.
///
/// # Errors
///
/// None: what does not work is part of the report.
pub(crate) async fn run(
    args: DoctorArgs,
    environment: &Environment,
    mut output: Output,
) -> Result<Exit, Failure> {
    let mut checks = vec![
        Check::ok("version", concat!("harness ", env!("CARGO_PKG_VERSION"))),
        platform(),
        temporary_files(),
        workspace(args.workspace.as_deref()),
    ];
    checks.extend(model(&args, environment));
    let base_url = setup::base_url(&args.model, environment).unwrap_or(GEMINI);
    if args.online {
        checks.push(reach(base_url).await);
    }
    checks.push(python_sdk());
    checks.push(self_test().await);
    let findings = Findings {
        healthy: checks.iter().all(|check| check.status != Status::Broken),
        version: env!("CARGO_PKG_VERSION"),
        checks,
    };
    match args.output {
        ReportFormat::Text => print(&mut output, &findings),
        ReportFormat::Json => {
            let json = serde_json::to_string_pretty(&findings).context("the report")?;
            output.line(&json);
        }
    }
    Ok(match (output.is_closed(), findings.healthy) {
        (true, _) => Exit::Closed,
        (_, true) => Exit::Done,
        (_, false) => Exit::Failed,
    })
}

fn print(output: &mut Output, findings: &Findings) {
    for check in &findings.checks {
        let mark = match check.status {
            Status::Ok => output.styled(Style::Good, "ok     "),
            Status::Warning => output.styled(Style::Ask, "warning"),
            Status::Broken => output.styled(Style::Bad, "BROKEN "),
        };
        output.line(&format!("{mark}  {:<16} {}", check.name, check.detail));
        if let Some(advice) = &check.advice {
            output.line(&format!("{:26} {}", "", output.styled(Style::Dim, advice)));
        }
    }
    let count = |status| {
        let checks = findings.checks.iter();
        checks.filter(|check| check.status == status).count()
    };
    output.line("");
    output.line(&match (count(Status::Broken), count(Status::Warning)) {
        (0, 0) => "All is well.".to_owned(),
        (0, warnings) => format!("Works, with {warnings} to look at."),
        (broken, _) => format!("{broken} broken."),
    });
}

fn platform() -> Check {
    let detail = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    if cfg!(target_os = "linux") {
        Check::ok("platform", detail)
    } else {
        let advice = "Linux is the tested platform; others may work";
        Check::warning("platform", detail, advice)
    }
}

fn temporary_files() -> Check {
    let name = "temporary files";
    let folder = std::env::temp_dir().display().to_string();
    match try_temporary_files() {
        Ok(()) => Check::ok(name, format!("{folder} can be written to")),
        Err(error) => Check::broken(
            name,
            format!("{folder}: {error}"),
            "set TMPDIR to a folder that exists and that you may write to",
        ),
    }
}

fn try_temporary_files() -> io::Result<()> {
    let scratch = Scratch::new("doctor")?;
    let mut file = std::fs::File::create(scratch.path().join("probe"))?;
    file.write_all(b"probe")
}

fn workspace(named: Option<&Path>) -> Check {
    let name = "workspace";
    let named: Vec<_> = named.map(Path::to_owned).into_iter().collect();
    let advice = "name a folder with --workspace that exists and that you may read";
    let folder = match setup::workspaces(&named) {
        Ok(folders) => folders.into_iter().next().unwrap_or_default(),
        Err(failure) => return Check::broken(name, failure.to_string(), advice),
    };
    let shown = folder.display();
    if let Err(error) = folder.read_dir() {
        return Check::broken(name, format!("{shown}: {error}"), advice);
    }
    let writable = rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK).is_ok();
    if writable {
        Check::ok(name, format!("{shown} can be read and written to"))
    } else {
        let advice = "files cannot be created there; for reading that is enough";
        Check::warning(name, format!("{shown} can only be read"), advice)
    }
}

fn model(args: &DoctorArgs, environment: &Environment) -> Vec<Check> {
    let name = setup::model_name(&args.model, environment);
    if name.starts_with("script:") {
        return vec![script(args, environment)];
    }
    let mut checks = vec![Check::ok("model", name)];
    checks.push(match environment.get("GEMINI_API_KEY") {
        Some(_) => Check::ok("key", "GEMINI_API_KEY is set"),
        None => Check::warning(
            "key",
            "GEMINI_API_KEY is not set",
            "needed for Gemini models: https://aistudio.google.com/apikey",
        ),
    });
    checks.push(match setup::base_url(&args.model, environment) {
        None => Check::ok("address", GEMINI),
        Some(url) if setup::host_and_port(url).is_some() => Check::ok("address", url),
        Some(url) => Check::broken(
            "address",
            format!("{url:?} is no http or https address"),
            "repair --base-url or GOOGLE_GEMINI_BASE_URL, for instance http://localhost:8080",
        ),
    });
    checks
}

fn script(args: &DoctorArgs, environment: &Environment) -> Check {
    let name = "model";
    let advice = "name a script that can be read with --model script:FILE";
    let config = match setup::model(&args.model, environment).map(|spec| spec.endpoint) {
        Ok(Endpoint::Custom { config, .. }) => config,
        Ok(_) => return Check::broken(name, "it is no script", advice),
        Err(failure) => return Check::broken(name, failure.to_string(), advice),
    };
    match crate::scripted::model(config.expose(), &[std::env::temp_dir()]) {
        Ok(_) => Check::ok(name, setup::model_name(&args.model, environment)),
        Err(error) => Check::broken(name, crate::scripted::describe(&error), advice),
    }
}

async fn reach(url: &str) -> Check {
    let name = "reachability";
    let Some((host, port)) = setup::host_and_port(url) else {
        return Check::broken(name, "there is no address to reach", "see above");
    };
    let began = Instant::now();
    let connecting = tokio::net::TcpStream::connect((host, port));
    let problem = match tokio::time::timeout(REACH, connecting).await {
        Ok(Ok(_)) => {
            let took = millis(began.elapsed());
            return Check::ok(name, format!("{host}:{port} answered after {took}"));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", REACH.as_secs()),
    };
    Check::broken(
        name,
        format!("{host}:{port}: {problem}"),
        "check the network; behind a proxy this says nothing, as it connects directly",
    )
}

fn python_sdk() -> Check {
    let name = "Python SDK";
    match find_harness(None, &SearchEnvironment::current()) {
        Ok(found) => Check::ok(
            name,
            format!(
                "would start {} (from {})",
                found.program.display(),
                found.origin
            ),
        ),
        Err(error) if !error.tried.is_empty() => Check::broken(
            name,
            error.to_string(),
            "set ANTIGRAVITY_HARNESS_PATH to the program localharness",
        ),
        Err(_) => Check::ok(
            name,
            "not installed here; it finds this harness through ANTIGRAVITY_HARNESS_PATH",
        ),
    }
}

async fn self_test() -> Check {
    let name = "self-test";
    match try_self_test().await {
        Ok(detail) => Check::ok(name, detail),
        Err(error) => Check::broken(
            name,
            format!("{error:#}"),
            "run again with HARNESS_LOG=debug, and report what it says",
        ),
    }
}

/// A harness process, a conversation, a turn, the end.
async fn try_self_test() -> anyhow::Result<String> {
    let scratch = Scratch::new("doctor").context("no temporary folder can be made")?;
    let (harness, started) = child::start().await?;
    let began = Instant::now();
    let config = child::scripted(SCRIPT).workspace(scratch.path());
    let session = harness.session(config).open().await?;
    let opened = began.elapsed();
    let began = Instant::now();
    let end = session.chat("Does it work?").await?.end().await?;
    let turn = began.elapsed();
    drop(session);
    let began = Instant::now();
    let status = harness.shutdown().await?;
    let ended = began.elapsed();
    anyhow::ensure!(
        end.outcome == Outcome::Completed && end.text == "It works.",
        "the turn ended as {:?} with {:?}",
        end.outcome,
        end.text
    );
    anyhow::ensure!(status.is_success(), "the process ended with {status}");
    Ok(format!(
        "started in {}, opened in {}, turn in {}, ended in {}",
        millis(started),
        millis(opened),
        millis(turn),
        millis(ended)
    ))
}
