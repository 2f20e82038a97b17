//! Only one crate contains `unsafe`, and no crate leaves the workspace's lints.

use super::check::Violation;
use super::graph::Crate;
use super::table::MAY_BE_UNSAFE;
use crate::source::{self, Blank};

/// Checks the manifest and every source file of `krate`, its tests and benches too.
pub(crate) fn check(krate: &Crate, found: &mut Vec<Violation>) {
    if !inherits_lints(&krate.manifest) {
        found.push(Violation::LintsNotInherited {
            krate: krate.name.clone(),
        });
    }
    if krate.name == MAY_BE_UNSAFE {
        return;
    }
    for source in &krate.sources {
        let code = source::blanked(&source.text, Blank::CommentsAndLiterals);
        let mut lines = source::lines_with_word(&code, "unsafe");
        lines.extend(lines_that_permit(&code));
        lines.sort_unstable();
        lines.dedup();
        let path = &source.path;
        found.extend(lines.into_iter().map(|line| Violation::Unsafe {
            path: path.clone(),
            line,
        }));
    }
}

/// Whether the manifest's `[lints]` table is that of the workspace.
fn inherits_lints(manifest: &str) -> bool {
    let mut table = "";
    manifest.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            table = line;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match table {
            "[lints]" => words == ["workspace", "=", "true"] || words == ["workspace=true"],
            _ => words == ["lints.workspace", "=", "true"],
        }
    })
}

/// The lines on which an attribute makes the lint `unsafe_code` weaker.
fn lines_that_permit(code: &str) -> Vec<usize> {
    source::word_positions(code, "unsafe_code")
        .filter(|&at| {
            let level = code[..at].rfind('(').map_or("", |open| {
                let before = code[..open].trim_end();
                let start = before
                    .rfind(|c: char| !c.is_alphanumeric())
                    .map_or(0, |i| i + 1);
                &before[start..]
            });
            ["allow", "expect", "warn"].contains(&level)
        })
        .map(|at| code[..at].matches('\n').count() + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::graph::Source;
    use super::*;

    fn checked(name: &str, manifest: &str, text: &str) -> Vec<Violation> {
        let krate = Crate {
            name: name.to_owned(),
            manifest: manifest.to_owned(),
            sources: vec![Source {
                path: PathBuf::from("src/lib.rs"),
                text: text.to_owned(),
            }],
            ..Crate::default()
        };
        let mut found = Vec::new();
        check(&krate, &mut found);
        found
    }

    const LINTS: &str = "[dependencies]\n[lints]\nworkspace = true\n";

    const TEXT: &str = "#![forbid(unsafe_code)]\n\
                        // unsafe in a comment\n\
                        #[allow(dead_code, unsafe_code)]\n\
                        fn f() { \"unsafe\"; unsafe { g() } }\n\
                        #[cfg_attr(x, expect(unsafe_code, reason = \"(\"))]\n\
                        unsafe impl Send for T {}\n";

    #[test]
    fn unsafe_and_leave_for_it_are_found_by_line() {
        let at = |line| Violation::Unsafe {
            path: PathBuf::from("src/lib.rs"),
            line,
        };
        assert_eq!(
            checked("harness-types", LINTS, TEXT),
            [at(3), at(4), at(5), at(6)]
        );
        assert_eq!(checked(MAY_BE_UNSAFE, LINTS, TEXT), []);
    }

    #[test]
    fn the_lints_of_the_workspace_must_be_taken_over() {
        let missing = [Violation::LintsNotInherited {
            krate: "harness-types".into(),
        }];
        assert_eq!(checked("harness-types", "[dependencies]\n", ""), missing);
        assert_eq!(
            checked(
                "harness-types",
                "[lints.rust]\nunsafe_code = \"allow\"\n",
                ""
            ),
            missing
        );
        assert_eq!(
            checked("harness-types", "[package]\nworkspace = true\n", ""),
            missing
        );
        assert_eq!(
            checked("harness-types", "[package]\n[lints]\nworkspace=true", ""),
            []
        );
        assert_eq!(
            checked("harness-types", "lints.workspace = true\n[package]\n", ""),
            []
        );
    }
}
