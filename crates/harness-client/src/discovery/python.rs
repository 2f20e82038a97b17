//! Where Python keeps packages, read without running it.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{SearchEnvironment, normalized};

/// The program inside the package.
pub(super) const PROGRAM_IN_PACKAGE: &str = "google/antigravity/bin/localharness";

/// The most of a package's file list that is read. The real one has 20 KiB.
const MAX_RECORD_BYTES: u64 = 8 * 1024 * 1024;

/// The folders that may hold the package, in the order they are looked at, each once.
pub(super) fn package_folders(environment: &SearchEnvironment) -> Vec<PathBuf> {
    let mut folders = environment.folders("PYTHONPATH");
    if let Some(environment) = environment.get("VIRTUAL_ENV") {
        folders.extend(folders_of_prefix(Path::new(environment)));
    }
    for folder in environment.folders("PATH") {
        for name in ["python3", "python"] {
            let python = folder.join(name);
            if !python.is_file() {
                continue;
            }
            // A virtual environment's interpreter is a link out of it, so the link's place
            // counts first; a link in /usr/local/bin has nothing around it.
            folders.extend(prefix(&python).iter().flat_map(|it| folders_of_prefix(it)));
            if let Ok(real) = python.canonicalize() {
                folders.extend(prefix(&real).iter().flat_map(|it| folders_of_prefix(it)));
            }
        }
    }
    if let Some(home) = environment.get("HOME") {
        folders.extend(folders_of_prefix(&Path::new(home).join(".local")));
    }
    let mut seen = std::collections::BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders
}

/// `/usr` of `/usr/bin/python3`.
fn prefix(python: &Path) -> Option<PathBuf> {
    Some(python.parent()?.parent()?.to_owned())
}

/// `lib/python3.*/site-packages` and what Debian has instead; newest version first.
fn folders_of_prefix(prefix: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = ["lib", "lib64"]
        .iter()
        .flat_map(|lib| entries(&prefix.join(lib)))
        .filter_map(|(name, path)| {
            let minor = name.strip_prefix("python3")?;
            Some((minor.strip_prefix('.').unwrap_or("0").parse().ok()?, path))
        })
        .collect();
    versions.sort_by(|(one, _), (other, _)| other.cmp(one));
    versions
        .iter()
        .flat_map(|(_, path)| ["site-packages", "dist-packages"].map(|name| path.join(name)))
        .filter(|folder| folder.is_dir())
        .collect()
}

/// The harness programs that the metadata of the package lists, the newest version first.
pub(super) fn listed_programs(folder: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(Vec<u64>, PathBuf)> = entries(folder)
        .filter_map(|(name, path)| Some((version_of_package(&name)?, path)))
        .collect();
    versions.sort_by(|(one, _), (other, _)| other.cmp(one));
    versions
        .iter()
        .filter_map(|(_, metadata)| read_record(&metadata.join("RECORD")))
        .filter_map(|record| listed_program(&record))
        .map(|relative| normalized(&folder.join(relative)))
        .collect()
}

/// The version in `google_antigravity-0.1.22.dist-info`. Names of packages are compared without
/// case, with `-`, `_` and `.` alike.
fn version_of_package(folder: &str) -> Option<Vec<u64>> {
    let (name, version) = folder.strip_suffix(".dist-info")?.rsplit_once('-')?;
    let name = name.to_ascii_lowercase().replace(['-', '.'], "_");
    (name == "google_antigravity").then(|| {
        let numbers = version.split(|it: char| !it.is_ascii_digit());
        numbers.filter_map(|number| number.parse().ok()).collect()
    })
}

fn read_record(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MAX_RECORD_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The program's path in a `RECORD`: lines of `path,hash,size`, the path quoted when it has to be.
fn listed_program(record: &str) -> Option<String> {
    record
        .lines()
        .filter_map(|line| match line.strip_prefix('"') {
            Some(quoted) => Some(quoted.split_once("\",")?.0.replace("\"\"", "\"")),
            None => Some(line.split_once(',')?.0.to_owned()),
        })
        .map(|path| path.replace('\\', "/"))
        .find(|path| {
            let rest = path.strip_suffix(PROGRAM_IN_PACKAGE);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        })
}

/// Names and paths inside a folder; nothing when it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> + use<> {
    let read = fs::read_dir(folder).into_iter().flatten().flatten();
    read.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_a_record() {
        let path = "google/antigravity/bin/localharness";
        #[rustfmt::skip]
        let table = [
            (format!("google/__init__.py,,\n{path},sha256=x,131326296\n"), Some(path)),
            (format!("\"{path}\",sha256=x,1\r\n"), Some(path)),
            (format!("../../{path},,"), Some("../../google/antigravity/bin/localharness")),
            (path.replace('/', "\\") + ",,", Some(path)),
            (format!("{path}.py,,\nx{path},,"), None),
            (format!("{path}\n\"{path}"), None),
            (String::new(), None),
        ];
        for (record, expected) in table {
            assert_eq!(listed_program(&record).as_deref(), expected, "{record}");
        }
    }

    #[test]
    fn packages_are_known_by_their_normal_name() {
        #[rustfmt::skip]
        let table = [
            ("google_antigravity-0.1.22.dist-info", Some(vec![0, 1, 22])),
            ("Google.Antigravity-1.0rc2.dist-info", Some(vec![1, 0, 2])),
            ("google_antigravity_extras-0.1.22.dist-info", None),
            ("google_antigravity-0.1.22.egg-info", None),
            ("google_antigravity.dist-info", None),
        ];
        for (folder, expected) in table {
            assert_eq!(version_of_package(folder), expected, "{folder}");
        }
    }
}
