//! `harness doctor`.

use serde_json::Value;

use crate::program::{Place, said};

fn statuses(report: &str) -> Vec<(String, String)> {
    let report: Value = serde_json::from_str(report).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| (text(&check["name"]), text(&check["status"])))
        .collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, status)| ((*name).to_owned(), (*status).to_owned()))
        .collect()
}

#[test]
fn a_healthy_place_is_healthy() {
    let place = Place::new();
    let mut command = place.harness(["doctor", "--output", "json"]);
    // Whether the machine of the tests has the SDK must not matter.
    let found = env!("CARGO_BIN_EXE_localharness");
    command.env("ANTIGRAVITY_HARNESS_PATH", found);
    let said = said(command.output().unwrap());
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (Some(0), ""),
        "{}",
        said.stdout
    );
    let platform = if cfg!(target_os = "linux") {
        "ok"
    } else {
        "warning"
    };
    assert_eq!(
        statuses(&said.stdout),
        owned(&[
            ("version", "ok"),
            ("platform", platform),
            ("temporary files", "ok"),
            ("workspace", "ok"),
            ("model", "ok"),
            ("key", "warning"),
            ("address", "ok"),
            ("Python SDK", "ok"),
            ("self-test", "ok"),
        ])
    );
    assert_eq!(
        place.home.left_behind().unwrap(),
        Vec::<std::path::PathBuf>::new()
    );
}

#[test]
fn what_is_broken_is_named_and_ends_with_1() {
    let place = Place::new();
    let mut command = place.harness(["doctor", "-o", "json", "--base-url", "localhost:1"]);
    command.env("ANTIGRAVITY_HARNESS_PATH", "/nowhere/localharness");
    let said = said(command.output().unwrap());
    assert_eq!(said.code, Some(1));
    let broken: Vec<_> = statuses(&said.stdout)
        .into_iter()
        .filter(|(_, status)| status == "broken")
        .collect();
    assert_eq!(
        broken,
        owned(&[("address", "broken"), ("Python SDK", "broken")])
    );
}

#[test]
fn the_report_for_people_says_what_to_do() {
    let place = Place::new();
    let said = place.run(["doctor", "--workspace", "nowhere"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(1), ""));
    assert!(
        said.stdout
            .contains("BROKEN   workspace        workspace nowhere:"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("name a folder with --workspace"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("\n1 broken.\n"), "{}", said.stdout);
}
