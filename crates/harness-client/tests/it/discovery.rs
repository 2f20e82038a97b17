//! Where the program is looked for, in folders made for the purpose.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use harness_client::{
    Found, HARNESS_PATH_VARIABLE, NotFound, Origin, SearchEnvironment, Unusable, find_harness,
};
use tempfile::TempDir;

const IN_PACKAGE: &str = "google/antigravity/bin/localharness";

struct Places {
    root: TempDir,
}

impl Places {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        Self { root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn file(&self, path: &str, mode: u32, text: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn program(&self, path: &str) -> PathBuf {
        self.file(path, 0o755, "")
    }

    /// A package in `site` whose metadata lists the program.
    fn package(&self, site: &str, version: &str) -> PathBuf {
        let record = format!("{site}/google_antigravity-{version}.dist-info/RECORD");
        self.file(&record, 0o644, &format!("{IN_PACKAGE},sha256=x,1\n"));
        self.program(&format!("{site}/{IN_PACKAGE}"))
    }

    fn environment(&self, variables: &[(&str, &str)]) -> SearchEnvironment {
        let absolute = |list: &str| {
            let paths = list.split(':').map(|path| self.path(path));
            std::env::join_paths(paths).unwrap()
        };
        variables
            .iter()
            .map(|(name, list)| ((*name).to_owned(), absolute(list)))
            .collect()
    }

    fn find(&self, variables: &[(&str, &str)]) -> Result<Found, NotFound> {
        find_harness(None, &self.environment(variables))
    }
}

fn found(program: &Path, origin: Origin) -> Result<Found, NotFound> {
    Ok(Found {
        program: program.to_owned(),
        origin,
    })
}

/// What was tried, in short.
fn tried(result: Result<Found, NotFound>) -> Vec<(Origin, Unusable)> {
    let tried = result.unwrap_err().tried;
    tried
        .into_iter()
        .map(|it| (it.origin, it.problem))
        .collect()
}

#[test]
fn the_order_is_kept() {
    let places = Places::new();
    let explicit = places.program("explicit/harness");
    let variable = places.program("variable/harness");
    let package = places.package("venv/lib/python3.11/site-packages", "0.1.22");
    let on_path = places.program("bin/localharness");
    let all = [
        (HARNESS_PATH_VARIABLE, "variable/harness"),
        ("VIRTUAL_ENV", "venv"),
        ("PATH", "bin"),
    ];
    let environment = places.environment(&all);
    assert_eq!(
        find_harness(Some(&explicit), &environment),
        found(&explicit, Origin::Explicit)
    );
    assert_eq!(places.find(&all), found(&variable, Origin::Variable));
    assert_eq!(
        places.find(&all[1..]),
        found(&package, Origin::PackageMetadata)
    );
    assert_eq!(places.find(&all[2..]), found(&on_path, Origin::Path));
}

#[test]
fn what_was_named_is_final() {
    let places = Places::new();
    places.program("bin/localharness");
    places.file("plain", 0o644, "");
    let named = |name| places.find(&[(HARNESS_PATH_VARIABLE, name), ("PATH", "bin")]);
    assert_eq!(
        tried(named("gone")),
        [(Origin::Variable, Unusable::Missing)]
    );
    assert_eq!(
        tried(named("bin")),
        [(Origin::Variable, Unusable::NotAFile)]
    );
    assert_eq!(
        tried(named("plain")),
        [(Origin::Variable, Unusable::NotExecutable)]
    );
    let plain = places.path("plain");
    let error = find_harness(Some(&plain), &places.environment(&[("PATH", "bin")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "no harness program: {} (the path given) is not executable; name an executable file",
            plain.display()
        )
    );
}

#[test]
fn python_environments_are_found_from_their_interpreter() {
    let places = Places::new();
    let package = places.package("env/lib/python3.12/site-packages", "0.1.22");
    places.program("system/python3.12");
    fs::create_dir_all(places.path("env/bin")).unwrap();
    symlink(
        places.path("system/python3.12"),
        places.path("env/bin/python3"),
    )
    .unwrap();
    assert_eq!(
        places.find(&[("PATH", "elsewhere:env/bin")]),
        found(&package, Origin::PackageMetadata)
    );

    // A link into an installation.
    fs::create_dir_all(places.path("links")).unwrap();
    places.program("env/bin/python3.12");
    symlink(
        places.path("env/bin/python3.12"),
        places.path("links/python"),
    )
    .unwrap();
    assert_eq!(
        places.find(&[("PATH", "links")]),
        found(&package, Origin::PackageMetadata)
    );
}

#[test]
fn packages_are_found_where_python_keeps_them() {
    let places = Places::new();
    #[rustfmt::skip]
    let table = [
        ("VIRTUAL_ENV", "a", "a/lib/python3.9/site-packages"),
        ("VIRTUAL_ENV", "b", "b/lib64/python3.13/site-packages"),
        ("HOME", "home", "home/.local/lib/python3.11/site-packages"),
        ("PYTHONPATH", "nowhere:flat", "flat"),
        ("VIRTUAL_ENV", "debian", "debian/lib/python3/dist-packages"),
    ];
    for (variable, value, site) in table {
        let package = places.package(site, "0.1.22");
        assert_eq!(
            places.find(&[(variable, value)]),
            found(&package, Origin::PackageMetadata),
            "{variable}={value}"
        );
    }
}

#[test]
fn newer_versions_come_first() {
    let places = Places::new();
    let site = "venv/lib/python3.11/site-packages";
    places.package("venv/lib/python3.9/site-packages", "0.1.22");
    for (version, path) in [("0.1.9", "old"), ("0.1.22", "new")] {
        let record = format!("{site}/google_antigravity-{version}.dist-info/RECORD");
        places.file(&record, 0o644, &format!("{path}/{IN_PACKAGE},,\n"));
        places.program(&format!("{site}/{path}/{IN_PACKAGE}"));
    }
    assert_eq!(
        places.find(&[("VIRTUAL_ENV", "venv")]),
        found(
            &places.path(&format!("{site}/new/{IN_PACKAGE}")),
            Origin::PackageMetadata
        )
    );
}

#[test]
fn a_package_without_metadata_is_found_by_its_files() {
    let places = Places::new();
    let program = places.program(&format!("venv/lib/python3.11/site-packages/{IN_PACKAGE}"));
    assert_eq!(
        places.find(&[("VIRTUAL_ENV", "venv")]),
        found(&program, Origin::PackageFiles)
    );
}

#[test]
fn what_cannot_be_used_is_passed_over_and_told() {
    let places = Places::new();
    let site = "venv/lib/python3.11/site-packages";
    places.package(site, "0.1.22");
    fs::remove_file(places.path(&format!("{site}/{IN_PACKAGE}"))).unwrap();
    places.file("bin/localharness", 0o644, "");
    let result = places.find(&[("VIRTUAL_ENV", "venv"), ("PATH", "empty:bin")]);
    let text = result.clone().unwrap_err().to_string();
    assert_eq!(
        tried(result),
        [
            (Origin::PackageMetadata, Unusable::Missing),
            (Origin::Path, Unusable::NotExecutable),
        ]
    );
    assert!(
        text.ends_with(
            "; set ANTIGRAVITY_HARNESS_PATH to the program, put localharness on PATH, or install \
             the Python package google-antigravity"
        ),
        "{text}"
    );
}

#[test]
fn nothing_is_found_in_nothing() {
    let places = Places::new();
    assert_eq!(tried(places.find(&[])), []);
    // An empty variable is none, and relative folders are not looked at.
    let environment: SearchEnvironment = [(HARNESS_PATH_VARIABLE, ""), ("PATH", ".:bin")]
        .into_iter()
        .collect();
    assert_eq!(tried(find_harness(None, &environment)), []);
}
