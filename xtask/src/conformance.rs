//! `conformance`: the built `localharness`, driven by the real Python SDKs.
//!
//! The suite itself is `conformance/run.py`; this command gives it a binary and, for every
//! version of the SDK, an interpreter that has that version.

use std::ffi::OsString;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use crate::args::Args;
use crate::programs::{self, Program};
use crate::python::{self, Environment, Unavailable};
use crate::shell;

/// The versions of the SDK, by their last number, that speak alike in what matters most: who
/// answers the first message, who gates a tool, what a user's input is. One version of each era
/// tells most of what all would.
const ERAS: &[RangeInclusive<u32>] = &[0..=4, 5..=5, 6..=9, 10..=10, 11..=22];

/// Which versions to run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    One(String),
    /// All that the suite lists.
    All,
    /// The newest listed one of each era.
    Eras,
}

/// What a run is told.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) selection: Selection,
    harness: Harness,
    /// Arguments of the suite that are the same for every version.
    passed_on: Vec<OsString>,
    json: Option<PathBuf>,
    frames: Option<PathBuf>,
}

#[derive(Debug)]
enum Harness {
    /// Ours, built with this profile.
    Ours {
        profile: String,
    },
    Given(PathBuf),
    /// The one in the SDK's own package.
    Bundled,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            selection: Selection::Eras,
            harness: Harness::Ours {
                profile: programs::RELEASE.to_owned(),
            },
            passed_on: Vec::new(),
            json: None,
            frames: None,
        }
    }
}

impl Options {
    /// What a test run does: the programs it has built already.
    pub(crate) fn of_tests() -> Self {
        Self {
            harness: Harness::Ours {
                profile: programs::DEV.to_owned(),
            },
            ..Self::default()
        }
    }
}

/// Reads the command's arguments.
///
/// # Errors
///
/// When one is unknown, lacks its value, or contradicts another.
pub(crate) fn options(mut args: Args) -> anyhow::Result<Options> {
    let mut options = Options {
        selection: match args.take_value("--sdk")?.as_deref() {
            None | Some("eras") => Selection::Eras,
            Some("all") => Selection::All,
            Some(version) => Selection::One(version.to_owned()),
        },
        json: args.take_path("--json")?,
        frames: args.take_path("--frames")?,
        ..Options::default()
    };
    for name in ["--only", "--jobs"] {
        if let Some(value) = args.take_value(name)? {
            options.passed_on.extend([name.into(), value.into()]);
        }
    }
    let profile = args.take_value("--profile")?;
    let harness = args.take_path("--harness")?;
    let peer = args.take_flag("--peer");
    args.finish()?;
    options.harness = match (harness, peer, profile) {
        (Some(_), _, Some(_)) | (None, true, Some(_)) => {
            bail!("--profile says how to build our harness; it does not go with another one")
        }
        (Some(path), ..) => Harness::Given(path),
        (None, true, None) => Harness::Bundled,
        (None, false, Some(profile)) => Harness::Ours { profile },
        (None, false, None) => options.harness,
    };
    if peer {
        options.passed_on.push("--expect-peer".into());
    }
    Ok(options)
}

/// The environments for the selected versions.
///
/// # Errors
///
/// [`Unavailable`] if one cannot be made, or the suite does not list the version.
pub(crate) fn environments(selection: &Selection) -> Result<Vec<Environment>, Unavailable> {
    let versions = listed_versions()
        .and_then(|listed| select(selection, &listed))
        .map_err(Unavailable::Setup)?;
    let folder = results_folder().map_err(Unavailable::Setup)?;
    versions
        .iter()
        .map(|version| python::environment(&folder, version))
        .collect()
}

/// Runs the suite once for each environment. All run, also after one has failed.
///
/// # Errors
///
/// When a scenario failed, or the suite could not be run.
pub(crate) fn run(options: &Options, environments: &[Environment]) -> anyhow::Result<()> {
    let ours = match &options.harness {
        Harness::Ours { profile } => Some(programs::build(profile, Program::Localharness)?),
        Harness::Given(_) | Harness::Bundled => None,
    };
    let mut total = Counts::default();
    let mut failed = Vec::new();
    for environment in environments {
        let harness = match (&options.harness, &ours) {
            (Harness::Given(path), _) | (_, Some(path)) => path.clone(),
            _ => environment.bundled_harness()?,
        };
        let log = results_folder()?.join(format!("{}.log", environment.sdk));
        let mut command = shell::program(&environment.python);
        command
            .arg("conformance/run.py")
            .arg("--harness")
            .arg(harness)
            .args(["--sdk", &environment.sdk])
            .args(&options.passed_on);
        let is_only = environments.len() == 1;
        if let Some(json) = &options.json {
            command.arg("--json").arg(if is_only {
                json.clone()
            } else {
                with_version(json, &environment.sdk)
            });
        }
        if let Some(frames) = &options.frames {
            command.arg("--frames").arg(if is_only {
                frames.clone()
            } else {
                frames.join(&environment.sdk)
            });
        }
        let status = shell::run_logged(&mut command, &log)?;
        let counts = Counts::read(&fs::read_to_string(&log).context("the suite's output is lost")?);
        if !status.success() || counts.is_none_or(|counts| counts.passed == 0) {
            failed.push(format!("{} ({status})", environment.sdk));
        }
        total.add(counts.unwrap_or_default());
    }
    if environments.len() > 1 {
        println!("{}", total.line());
    }
    ensure!(
        failed.is_empty(),
        "conformance failed with SDK {}",
        failed.join(", ")
    );
    Ok(())
}

/// Runs the suite's own tests, which need no harness.
///
/// # Errors
///
/// When one fails.
pub(crate) fn test_the_suite(environment: &Environment) -> anyhow::Result<()> {
    let arguments = ["-m", "unittest", "discover", "-s", "conformance/tests"];
    shell::run(
        shell::program(&environment.python)
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    )
}

/// Where the environments and the logs are.
fn results_folder() -> anyhow::Result<PathBuf> {
    Ok(shell::target_directory()?.join("conformance"))
}

/// The versions in `conformance/versions.toml`, oldest first.
fn listed_versions() -> anyhow::Result<Vec<String>> {
    let path = shell::root().join("conformance/versions.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(versions_in(&text))
}

fn versions_in(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("sdk")?
                .trim_start()
                .strip_prefix('=')
        })
        .filter_map(|value| value.split('"').nth(1))
        .map(str::to_owned)
        .collect()
}

fn select(selection: &Selection, listed: &[String]) -> anyhow::Result<Vec<String>> {
    let chosen: Vec<String> = match selection {
        Selection::One(version) => {
            ensure!(
                listed.contains(version),
                "SDK {version} is not in conformance/versions.toml, which lists {}",
                listed.join(", ")
            );
            vec![version.clone()]
        }
        Selection::All => listed.to_vec(),
        Selection::Eras => {
            let newest_of = |era: &RangeInclusive<u32>| {
                listed
                    .iter()
                    .rev()
                    .find(|version| last_number(version).is_some_and(|n| era.contains(&n)))
            };
            ERAS.iter().filter_map(newest_of).cloned().collect()
        }
    };
    ensure!(
        !chosen.is_empty(),
        "conformance/versions.toml lists no version for this selection"
    );
    Ok(chosen)
}

fn last_number(version: &str) -> Option<u32> {
    version.rsplit('.').next()?.parse().ok()
}

/// `out.json` as `out-0.1.22.json`.
fn with_version(path: &Path, version: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let dot = if extension.is_empty() { "" } else { "." };
    path.with_file_name(format!("{stem}-{version}{dot}{extension}"))
}

/// What the suite counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// Reads the suite's closing line: `conformance: 40 passed, 0 failed, 2 skipped`.
    fn read(output: &str) -> Option<Self> {
        let line = output
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("conformance: "))?;
        let mut counts = Self::default();
        for part in line.split(", ") {
            let (number, what) = part.split_once(' ')?;
            *match what {
                "passed" => &mut counts.passed,
                "failed" => &mut counts.failed,
                "skipped" => &mut counts.skipped,
                _ => return None,
            } = number.parse().ok()?;
        }
        Some(counts)
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    fn line(self) -> String {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        let skipped = if skipped > 0 {
            format!(", {skipped} skipped")
        } else {
            String::new()
        };
        format!("conformance: {passed} passed, {failed} failed{skipped}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> anyhow::Result<Options> {
        options(Args::new(line.split_whitespace().map(str::to_owned)))
    }

    #[test]
    fn a_selection_takes_only_what_the_suite_lists() {
        let listed: Vec<String> = ["0.1.0", "0.1.4", "0.1.6", "0.1.21", "0.1.22"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(select(&Selection::All, &listed).unwrap(), listed);
        assert_eq!(
            select(&Selection::Eras, &listed).unwrap(),
            ["0.1.4", "0.1.6", "0.1.22"]
        );
        assert_eq!(
            select(&Selection::One("0.1.6".into()), &listed).unwrap(),
            ["0.1.6"]
        );
        assert_eq!(
            select(&Selection::One("0.1.7".into()), &listed)
                .unwrap_err()
                .to_string(),
            "SDK 0.1.7 is not in conformance/versions.toml, which lists 0.1.0, 0.1.4, 0.1.6, \
             0.1.21, 0.1.22"
        );
        select(&Selection::All, &[]).unwrap_err();
        select(&Selection::Eras, &["0.1.23".to_owned()]).unwrap_err();
    }

    #[test]
    fn every_published_version_has_one_era() {
        for version in 0..=22 {
            assert_eq!(
                ERAS.iter().filter(|era| era.contains(&version)).count(),
                1,
                "0.1.{version}"
            );
        }
    }

    #[test]
    fn the_list_of_versions_is_read_and_is_not_empty() {
        let text =
            "# sdk = \"0.1.1\"\n[[version]]\nsdk = \"0.1.2\"\n\n[[version]]\nsdk=\"0.1.3\" # x\n";
        assert_eq!(versions_in(text), ["0.1.2", "0.1.3"]);
        assert!(!listed_versions().unwrap().is_empty());
    }

    #[test]
    fn the_closing_line_is_read_and_written() {
        let counts = Counts {
            passed: 40,
            failed: 1,
            skipped: 2,
        };
        assert_eq!(counts.line(), "conformance: 40 passed, 1 failed, 2 skipped");
        let output = format!(
            "PASS one\nconformance: 1 passed, 0 failed\n{}\nbye\n",
            counts.line()
        );
        assert_eq!(Counts::read(&output), Some(counts));
        let mut total = Counts {
            passed: 1,
            failed: 0,
            skipped: 0,
        };
        assert_eq!(total.line(), "conformance: 1 passed, 0 failed");
        total.add(counts);
        assert_eq!(
            total,
            Counts {
                passed: 41,
                failed: 1,
                skipped: 2
            }
        );
        assert_eq!(Counts::read("conformance: none"), None);
        assert_eq!(Counts::read(""), None);
    }

    #[test]
    fn options_become_arguments_of_the_suite() {
        let options =
            read("--sdk all --only chat* --jobs 4 --peer --harness /opt/localharness").unwrap();
        assert_eq!(options.selection, Selection::All);
        assert_eq!(
            options.passed_on,
            ["--only", "chat*", "--jobs", "4", "--expect-peer"]
        );
        assert!(
            matches!(options.harness, Harness::Given(path) if path == Path::new("/opt/localharness"))
        );
        assert!(matches!(read("--peer").unwrap().harness, Harness::Bundled));
        assert!(
            matches!(read("").unwrap().harness, Harness::Ours { profile } if profile == "release")
        );
        read("--peer --profile dev").unwrap_err();
        read("--peers").unwrap_err();
    }

    #[test]
    fn results_of_several_versions_get_a_name_each() {
        assert_eq!(
            with_version(Path::new("/a/out.json"), "0.1.22"),
            Path::new("/a/out-0.1.22.json")
        );
        assert_eq!(
            with_version(Path::new("out"), "0.1.5"),
            Path::new("out-0.1.5")
        );
    }
}
