//! `harness demo`.

use std::path::PathBuf;

use harness_testkit::TreeSnapshot;

use crate::program::Place;

#[test]
fn the_demo_works_and_leaves_the_home_empty() {
    let place = Place::new();
    let said = place.run(["demo"]);
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (Some(0), ""),
        "{}",
        said.stdout
    );
    assert_eq!(place.home_entries(), Vec::<PathBuf>::new());

    let left: Vec<PathBuf> = std::fs::read_dir(place.home.temp())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let [folder] = left.as_slice() else {
        panic!("one folder, for inspection: {left:?}");
    };
    assert!(
        said.stdout.contains(&folder.display().to_string()),
        "{}",
        said.stdout
    );
    let snapshot = TreeSnapshot::of(folder).unwrap();
    let names: Vec<String> = snapshot
        .entries()
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert_eq!(names, ["CHANGES.md", "NOTES.md", "greet.sh", "test.sh"]);
    let repaired = std::fs::read_to_string(folder.join("greet.sh")).unwrap();
    assert!(repaired.contains("$name!"), "{repaired}");

    for what in [
        "exit code 1",
        "exit code 0",
        "- echo \"Hello, $nmae!\"",
        "+ echo \"Hello, $name!\"",
        "harness doctor",
    ] {
        assert!(said.stdout.contains(what), "{what:?} in {}", said.stdout);
    }
    // Behind a pipe there are no colours.
    assert!(!said.stdout.contains('\x1b'));
}
