//! From the command line to a conversation.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness_host::{Blueprint, CommandOptions, Endpoint, ModelRole, ModelSpec};
use harness_toolkit::{BuiltInOptions, built_ins};
use harness_types::{
    AgentBehavior, Budget, Config, Containment, GenerationOptions, PolicyDecision, PolicyRule,
    PolicySpec, PromptSection, RequestKind, Secret, SystemInstructions, ToolClass, ToolSpec,
};

use super::args::{AgentArgs, ModelArgs};
use super::exit::Failure;
use crate::environment::Environment;
use crate::scripted::SCRIPT;

/// The model when nothing names one.
const DEFAULT_MODEL: &str = "gemini-3.8-flash";

/// The most bytes of a prompt or of a file named on the command line.
const MAX_TEXT_BYTES: u64 = 16 * 1024 * 1024;

/// The tool of a rule that speaks of every tool.
const ANY: &str = "*";

/// The name of the tool that asks the user.
const ASK_QUESTION: &str = "ask_question";

/// Whether somebody is there who can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A person at a terminal.
    Person,
    /// Nobody: what would need approval is refused.
    Nobody,
}

/// A conversation about to be opened, and what there is to say about it.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) blueprint: Blueprint,
    /// The model's name.
    pub(crate) model: String,
    /// The built-in tools and who decides about them, by policy name.
    pub(crate) tools: Vec<(String, PolicyDecision)>,
    /// A warning that belongs before everything else.
    pub(crate) warning: Option<String>,
}

impl Setup {
    /// Reads the arguments.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] says what has to be changed.
    pub(crate) fn new(
        args: &AgentArgs,
        environment: &Environment,
        presence: Presence,
    ) -> Result<Self, Failure> {
        let workspaces = workspaces(&args.workspace)?;
        let model = model(&args.model, environment)?;
        let specs = specs();
        let rules = rules(args, &specs)?;
        let tools = decisions(&specs, &rules)?;
        let (behavior, mut declared) = match presence {
            Presence::Person => (AgentBehavior::Interactive, vec![ASK_QUESTION.to_owned()]),
            Presence::Nobody => (AgentBehavior::Autonomous, Vec::new()),
        };
        declared.extend(specs.into_iter().map(|spec| spec.name));
        let config = Config {
            workspaces,
            system: system(args),
            behavior,
            tools: declared.into_iter().collect(),
            policy: PolicySpec {
                rules,
                fallback: PolicyDecision::Ask,
                containment: match args.unconfined {
                    true => Containment::Unconfined,
                    false => Containment::Contained,
                },
            },
            answers: match presence {
                Presence::Person => [RequestKind::Confirmation, RequestKind::Question].into(),
                // Answered with a refusal that says what to do about it.
                Presence::Nobody => [RequestKind::Confirmation].into(),
            },
            budget: Budget {
                max_model_calls: args.max_model_calls,
                max_tool_calls: args.max_tool_calls,
                max_total_tokens: args.max_total_tokens,
                ..Budget::default()
            },
            generation: GenerationOptions {
                thinking_level: args.thinking_level.clone(),
                ..GenerationOptions::default()
            },
            ..Config::default()
        };
        let unset = !args.yes && args.allow.is_empty() && args.deny.is_empty();
        let warning = (presence == Presence::Nobody && unset).then(|| {
            let asked = names_of(&tools, PolicyDecision::Ask);
            format!(
                "nobody can be asked here, so {asked} will be refused; allow them with --yes or \
                 --allow TOOL"
            )
        });
        Ok(Self {
            model: model.name.clone(),
            blueprint: Blueprint {
                config,
                models: vec![model],
                commands: CommandOptions {
                    timeout: args.command_timeout.map(Duration::from_secs),
                    ..CommandOptions::default()
                },
                user_agent: concat!("harness/", env!("CARGO_PKG_VERSION")).to_owned(),
                ..Blueprint::default()
            },
            tools,
            warning,
        })
    }

    /// The folder commands start in.
    pub(crate) fn workspace(&self) -> &Path {
        let first = self.blueprint.config.workspaces.first();
        first.map_or(Path::new("/"), PathBuf::as_path)
    }
}

/// The tools with a decision, as a list in words.
pub(crate) fn names_of(tools: &[(String, PolicyDecision)], decision: PolicyDecision) -> String {
    let mut names: Vec<&str> = tools
        .iter()
        .filter(|(_, theirs)| *theirs == decision)
        .map(|(name, _)| name.as_str())
        .collect();
    match names.pop() {
        None => "nothing".to_owned(),
        Some(last) if names.is_empty() => last.to_owned(),
        Some(last) => format!("{} and {last}", names.join(", ")),
    }
}

/// The prompt: the argument, or standard input for `-`.
///
/// # Errors
///
/// [`Failure::Usage`] for an empty prompt and for one that cannot be read.
pub(crate) fn prompt(argument: &str) -> Result<String, Failure> {
    let prompt = if argument == "-" {
        read(std::io::stdin().lock(), "standard input")?
    } else {
        argument.to_owned()
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty"));
    }
    Ok(prompt)
}

/// A JSON Schema from a file.
///
/// # Errors
///
/// [`Failure::Usage`] when the file cannot be read or is no JSON.
pub(crate) fn schema(path: &Path) -> Result<serde_json::Value, Failure> {
    serde_json::from_str(&read_file(path)?)
        .map_err(|error| Failure::usage(format!("{} is no JSON: {error}", path.display())))
}

/// The model the arguments and the environment name.
///
/// # Errors
///
/// [`Failure::Usage`] when there is no key for it, or its script cannot be read.
pub(crate) fn model(args: &ModelArgs, environment: &Environment) -> Result<ModelSpec, Failure> {
    let name = model_name(args, environment);
    let (name, endpoint) = match name.strip_prefix("script:") {
        Some(path) => (
            SCRIPT,
            Endpoint::Custom {
                kind: SCRIPT.to_owned(),
                config: Secret::new(read_file(Path::new(path))?),
            },
        ),
        None => (name, gemini(base_url(args, environment), environment)?),
    };
    Ok(ModelSpec {
        name: name.to_owned(),
        roles: vec![ModelRole::Text],
        endpoint,
        headers: BTreeMap::new(),
    })
}

/// What the arguments and the environment say about the model, or its default.
pub(crate) fn model_name<'a>(args: &'a ModelArgs, environment: &'a Environment) -> &'a str {
    args.model
        .as_deref()
        .or_else(|| environment.get("HARNESS_MODEL"))
        .unwrap_or(DEFAULT_MODEL)
}

/// The address the arguments and the environment name.
pub(crate) fn base_url<'a>(args: &'a ModelArgs, environment: &'a Environment) -> Option<&'a str> {
    let given = args.base_url.as_deref().filter(|url| !url.is_empty());
    given.or_else(|| environment.get("GOOGLE_GEMINI_BASE_URL"))
}

fn gemini(base_url: Option<&str>, environment: &Environment) -> Result<Endpoint, Failure> {
    let key = environment.get("GEMINI_API_KEY");
    if key.is_none() && !base_url.is_some_and(is_loopback) {
        return Err(Failure::usage(
            "GEMINI_API_KEY is not set: set it to a key for the Gemini API \
             (https://aistudio.google.com/apikey). Without a key, try `harness demo`, \
             `--model script:FILE`, or `--base-url` with a model server on this computer",
        ));
    }
    Ok(Endpoint::Gemini {
        base_url: base_url.unwrap_or_default().to_owned(),
        api_key: Secret::new(key.unwrap_or_default()),
    })
}

/// Host and port of an HTTP address; `None` when it is none.
pub(crate) fn host_and_port(url: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let port = match scheme.to_ascii_lowercase().as_str() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    // A colon inside brackets belongs to an IPv6 address.
    let (host, port) = match host.rsplit_once(':') {
        Some((host, digits)) if !digits.contains(']') => (host, digits.parse().ok()?),
        _ => (host, port),
    };
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    (!host.is_empty()).then_some((host, port))
}

/// Whether an address is on this computer, by what it says alone.
pub(crate) fn is_loopback(url: &str) -> bool {
    host_and_port(url).is_some_and(|(host, _)| {
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    })
}

/// Folders as absolute paths without links; the current one when none is named.
pub(crate) fn workspaces(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let current = [PathBuf::from(".")];
    let named = if named.is_empty() { &current } else { named };
    named
        .iter()
        .map(|path| {
            let absolute = path.canonicalize();
            let absolute = absolute.map_err(|error| {
                Failure::usage(format!("workspace {}: {error}", path.display()))
            })?;
            if absolute.is_dir() {
                Ok(absolute)
            } else {
                Err(Failure::usage(format!(
                    "workspace {}: not a directory",
                    path.display()
                )))
            }
        })
        .collect()
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let file = std::fs::File::open(path)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    read(file, &path.display().to_string())
}

fn read(from: impl std::io::Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(MAX_TEXT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        return Err(Failure::usage(format!("{name} is longer than 16 MiB")));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name} is not UTF-8")))
}

fn system(args: &AgentArgs) -> SystemInstructions {
    match (&args.system, &args.instructions) {
        (Some(text), _) => SystemInstructions::Custom(text.clone()),
        (None, instructions) => SystemInstructions::Default {
            identity: None,
            sections: instructions
                .iter()
                .map(|text| PromptSection {
                    title: "instructions".to_owned(),
                    content: text.clone(),
                })
                .collect(),
        },
    }
}

fn specs() -> Vec<ToolSpec> {
    let tools = built_ins(BuiltInOptions::default());
    tools.iter().map(|tool| tool.spec()).collect()
}

fn rules(args: &AgentArgs, specs: &[ToolSpec]) -> Result<Vec<PolicyRule>, Failure> {
    let mut rules = Vec::new();
    let mut add = |tool: &str, name: &str, decision| {
        rules.push(PolicyRule {
            tool: tool.to_owned(),
            server: None,
            name: name.to_owned(),
            id: String::new(),
            decision,
            reason: None,
            dynamic: false,
        });
    };
    for tool in &args.deny {
        add(policy_name(tool, specs)?, "--deny", PolicyDecision::Deny);
    }
    for tool in &args.allow {
        add(policy_name(tool, specs)?, "--allow", PolicyDecision::Allow);
    }
    if args.yes {
        add(ANY, "--yes", PolicyDecision::Allow);
    }
    // "Everything" includes reading, which a rule by name would let through.
    if !args.deny.iter().any(|tool| tool == ANY) {
        for spec in specs
            .iter()
            .filter(|spec| spec.class == ToolClass::ReadOnly)
        {
            add(&spec.policy_name, "reading", PolicyDecision::Allow);
        }
        add(ASK_QUESTION, "questions", PolicyDecision::Allow);
    }
    // The structured answer is no act.
    add("finish", "the answer", PolicyDecision::Allow);
    Ok(rules)
}

/// The name policies know a tool by. A misspelt one is an error: a rule that matches nothing
/// would look like protection.
fn policy_name<'a>(tool: &'a str, specs: &'a [ToolSpec]) -> Result<&'a str, Failure> {
    if tool == ANY || tool == ASK_QUESTION {
        return Ok(tool);
    }
    let known = specs
        .iter()
        .find(|spec| spec.policy_name == tool || spec.name == tool);
    known.map(|spec| spec.policy_name.as_str()).ok_or_else(|| {
        let names: Vec<&str> = specs.iter().map(|spec| spec.policy_name.as_str()).collect();
        Failure::usage(format!(
            "there is no tool {tool:?}; there are {}, and * for all",
            names.join(", ")
        ))
    })
}

fn decisions(
    specs: &[ToolSpec],
    rules: &[PolicyRule],
) -> Result<Vec<(String, PolicyDecision)>, Failure> {
    use harness_policy::{Policy, Verdict};
    let policy = Policy::compile(&PolicySpec {
        rules: rules.to_vec(),
        fallback: PolicyDecision::Ask,
        ..PolicySpec::default()
    })
    .map_err(|error| Failure::usage(error.to_string()))?;
    let mut tools: Vec<_> = specs
        .iter()
        .map(|spec| {
            let decision = match policy.evaluate(&spec.policy_name, None, 0) {
                Verdict::Allow { .. } => PolicyDecision::Allow,
                Verdict::Deny { .. } => PolicyDecision::Deny,
                _ => PolicyDecision::Ask,
            };
            (spec.policy_name.clone(), decision)
        })
        .collect();
    tools.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(tools)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::args::{Cli, Command};
    use super::*;

    fn setup(args: &[&str], presence: Presence) -> Result<Setup, String> {
        let all = ["harness", "run", "hello"].iter().chain(args);
        let Command::Run(args) = Cli::try_parse_from(all).unwrap().command else {
            panic!("not run");
        };
        let environment = Environment::from_pairs([("GEMINI_API_KEY".into(), "k".into())]);
        Setup::new(&args.agent, &environment, presence).map_err(|failure| failure.to_string())
    }

    fn decided(args: &[&str]) -> [String; 3] {
        let setup = setup(args, Presence::Person).unwrap();
        [
            PolicyDecision::Allow,
            PolicyDecision::Ask,
            PolicyDecision::Deny,
        ]
        .map(|decision| names_of(&setup.tools, decision))
    }

    #[test]
    fn reading_is_allowed_and_the_rest_is_asked_for() {
        let reading = "find_file, list_directory, search_directory and view_file";
        let writing = "create_file, edit_file and run_command";
        let all = "create_file, edit_file, find_file, list_directory, run_command, \
                   search_directory and view_file";
        assert_eq!(decided(&[]), [reading, writing, "nothing"]);
        assert_eq!(decided(&["--yes"]), [all, "nothing", "nothing"]);
        assert_eq!(
            decided(&["--yes", "--deny", "*"]),
            ["nothing", "nothing", all]
        );
        assert_eq!(
            decided(&["--deny", "*", "--allow", "view_file"]),
            [
                "view_file",
                "nothing",
                "create_file, edit_file, find_file, list_directory, run_command and \
                 search_directory"
            ]
        );
        assert_eq!(
            decided(&["--yes", "--deny", "run_command,edit_file"]),
            [
                "create_file, find_file, list_directory, search_directory and view_file",
                "nothing",
                "edit_file and run_command"
            ]
        );
        // Names as the model knows them do as well.
        assert_eq!(
            decided(&["--allow", "write_to_file"]),
            [
                "create_file, find_file, list_directory, search_directory and view_file",
                "edit_file and run_command",
                "nothing"
            ]
        );
    }

    #[test]
    fn a_misspelt_tool_is_an_error() {
        assert_eq!(
            setup(&["--deny", "run_comand"], Presence::Person).unwrap_err(),
            "there is no tool \"run_comand\"; there are find_file, search_directory, \
             list_directory, edit_file, run_command, view_file, create_file, and * for all"
        );
    }

    #[test]
    fn whoever_cannot_be_asked_is_warned_unless_something_was_decided() {
        let warned = |args: &[&str], presence| setup(args, presence).unwrap().warning.is_some();
        assert!(warned(&[], Presence::Nobody));
        assert!(!warned(&[], Presence::Person));
        assert!(!warned(&["--yes"], Presence::Nobody));
        assert!(!warned(&["--deny", "edit_file"], Presence::Nobody));
    }

    #[test]
    fn addresses_on_this_computer_are_told_from_others() {
        for url in [
            "http://localhost:8080",
            "http://LOCALHOST/v1",
            "http://127.0.0.1:1/x?y",
            "https://[::1]:9",
            "http://user:pw@127.8.8.8",
        ] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "",
            "localhost",
            "ftp://localhost",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "http://127.0.0.1@example.com",
            "http://10.0.0.1",
            "http://[::2]",
            "http://127.0.0.1:port",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
        assert_eq!(
            host_and_port("https://example.com/v1beta"),
            Some(("example.com", 443))
        );
        assert_eq!(host_and_port("http://[::1]"), Some(("::1", 80)));
    }

    #[test]
    fn without_a_key_only_this_computer_is_asked() {
        let none = Environment::default();
        let args = |base_url: Option<&str>| ModelArgs {
            model: None,
            base_url: base_url.map(str::to_owned),
        };
        assert!(model(&args(Some("http://127.0.0.1:9")), &none).is_ok());
        for url in [None, Some("https://example.com")] {
            let failure = model(&args(url), &none).unwrap_err().to_string();
            assert!(
                failure.starts_with("GEMINI_API_KEY is not set"),
                "{failure}"
            );
        }
        let environment = Environment::from_pairs([
            ("GEMINI_API_KEY".into(), "k".into()),
            ("HARNESS_MODEL".into(), "gemini-x".into()),
        ]);
        assert_eq!(model(&args(None), &environment).unwrap().name, "gemini-x");
    }
}
