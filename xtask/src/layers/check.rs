//! Compares a workspace with the table.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use super::graph::{Crate, Dependency, DependencyForm, Graph};
use super::table::{self, Allowed, DEVELOPMENT_ONLY, Form, Heavy, Layer, Workspace};
use super::{reserved, unsafe_code};

const TABLE: &str = "xtask/src/layers/table.rs";

/// A rule of the house that the workspace breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A crate has no row in the table.
    NotInTable { krate: String },
    /// A crate has no line in `crates/README.md`.
    NotInReadme { krate: String },
    /// An edge between two crates of the workspace that the table does not have.
    Edge { from: String, to: String },
    /// A heavy dependency that the crate's row does not have.
    HeavyDependency {
        from: String,
        to: String,
        family: &'static str,
    },
    /// An edge that may only be taken with a feature.
    NotOptional { from: String, to: String },
    /// An edge that must ask for none of the other crate's features.
    FeaturesAskedFor {
        from: String,
        to: String,
        features: Vec<String>,
    },
    /// A crate that does not take over the lints of the workspace.
    LintsNotInherited { krate: String },
    /// `unsafe`, or leave for it, outside the one crate that may contain it.
    Unsafe { path: PathBuf, line: usize },
    /// A name that is kept for the control plane.
    Reserved { place: String, name: String },
    /// The commands of a program that cannot be compared with the reserved names.
    CommandsNotFound { krate: String },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decide = format!(
            "if this edge is wanted, record the decision in docs/decisions/ and add it to {TABLE}"
        );
        match self {
            Self::NotInTable { krate } => write!(
                f,
                "{krate} is not in the table of layers: record in docs/decisions/ what it owns and \
                 may depend on, and add a row to {TABLE}"
            ),
            Self::NotInReadme { krate } => {
                write!(
                    f,
                    "{krate} is not in crates/README.md: add a line that says what it is for"
                )
            }
            Self::Edge { from, to } => {
                write!(f, "{from} -> {to}: {from} may not depend on {to}; {decide}")
            }
            Self::HeavyDependency { from, to, family } => write!(
                f,
                "{from} -> {to}: {from} may not have the heavy dependency {family}; {decide}"
            ),
            Self::NotOptional { from, to } => write!(
                f,
                "{from} -> {to}: must be `optional = true`, behind a feature of {from}; {decide}"
            ),
            Self::FeaturesAskedFor { from, to, features } => write!(
                f,
                "{from} -> {to}: must ask for no feature of {to}, but asks for {}; {decide}",
                features.join(", ")
            ),
            Self::LintsNotInherited { krate } => write!(
                f,
                "{krate}: its Cargo.toml must have `[lints]` with `workspace = true`, which denies \
                 `unsafe` and asks for documentation"
            ),
            Self::Unsafe { path, line } => write!(
                f,
                "{}:{line}: `unsafe` belongs in {} alone; give that crate a safe function for this",
                path.display(),
                table::MAY_BE_UNSAFE
            ),
            Self::Reserved { place, name } => write!(
                f,
                "{place}: `{name}` is reserved for the control plane (see docs/glossary.md); choose \
                 another name, or record the decision in docs/decisions/ and take it off the list \
                 in xtask/src/layers/reserved.rs"
            ),
            Self::CommandsNotFound { krate } => write!(
                f,
                "{krate}: it derives `Subcommand`, but no struct that derives `Parser` has a \
                 `#[command(subcommand)]` field whose enum can be found, so its commands cannot be \
                 compared with the reserved names"
            ),
        }
    }
}

/// Everything in `graph` that breaks a rule.
pub(crate) fn violations(graph: &Graph) -> Vec<Violation> {
    let mut found = Vec::new();
    for krate in &graph.crates {
        match table::layer_of(&krate.name) {
            Some(layer) => check_dependencies(graph, krate, layer, &mut found),
            None => found.push(Violation::NotInTable {
                krate: krate.name.clone(),
            }),
        }
        if !graph.readme.contains(&format!("`{}`", krate.name))
            && krate.name.starts_with("harness-")
        {
            found.push(Violation::NotInReadme {
                krate: krate.name.clone(),
            });
        }
        unsafe_code::check(krate, &mut found);
        reserved::check(krate, &mut found);
    }
    found
}

fn check_dependencies(graph: &Graph, krate: &Crate, layer: &Layer, found: &mut Vec<Violation>) {
    // One dependency can be declared several times, once for each platform.
    let mut seen = BTreeSet::new();
    for dependency in &krate.dependencies {
        let violation = if graph.contains(&dependency.name) {
            check_workspace_edge(layer, dependency)
        } else {
            check_heavy_edge(layer, dependency)
        };
        if let Some(violation) = violation
            && seen.insert(dependency.name.as_str())
        {
            found.push(violation);
        }
    }
}

fn check_workspace_edge(layer: &Layer, dependency: &Dependency) -> Option<Violation> {
    let is_permitted = match &layer.workspace {
        Workspace::Any => return None,
        Workspace::Libraries => {
            !DEVELOPMENT_ONLY.contains(&dependency.name.as_str())
                && table::layer_of(&dependency.name).is_some()
        }
        Workspace::Only(allowed) => match find(allowed, &dependency.name) {
            Some(allowed) => return check_form(layer, allowed, dependency),
            None => false,
        },
    };
    let violation = Violation::Edge {
        from: layer.name.to_owned(),
        to: dependency.name.clone(),
    };
    (!is_permitted).then_some(violation)
}

fn check_heavy_edge(layer: &Layer, dependency: &Dependency) -> Option<Violation> {
    let family = table::family_of(&dependency.name)?;
    let Heavy::Only(allowed) = &layer.heavy else {
        return None;
    };
    match find(allowed, family.name) {
        Some(allowed) => check_form(layer, allowed, dependency),
        None => Some(Violation::HeavyDependency {
            from: layer.name.to_owned(),
            to: dependency.name.clone(),
            family: family.name,
        }),
    }
}

fn check_form(layer: &Layer, allowed: Allowed, dependency: &Dependency) -> Option<Violation> {
    let (from, to) = (layer.name.to_owned(), dependency.name.clone());
    match allowed.form {
        Form::ByFeature if dependency.form == DependencyForm::Required => {
            Some(Violation::NotOptional { from, to })
        }
        Form::WithoutFeatures if !dependency.features.is_empty() => {
            let features = dependency.features.clone();
            Some(Violation::FeaturesAskedFor { from, to, features })
        }
        Form::Always | Form::ByFeature | Form::WithoutFeatures => None,
    }
}

fn find(allowed: &[Allowed], name: &str) -> Option<Allowed> {
    allowed.iter().copied().find(|allowed| allowed.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n";

    fn depends_on(name: &str) -> Dependency {
        Dependency {
            name: name.to_owned(),
            form: DependencyForm::Required,
            features: Vec::new(),
        }
    }

    fn krate(name: &str, dependencies: Vec<Dependency>) -> Crate {
        Crate {
            name: name.to_owned(),
            dependencies,
            manifest: LINTS.to_owned(),
            ..Crate::default()
        }
    }

    fn graph(crates: Vec<Crate>) -> Graph {
        let readme = crates
            .iter()
            .map(|each| format!("`{}`", each.name))
            .collect();
        Graph { crates, readme }
    }

    #[test]
    fn a_workspace_that_follows_the_table_has_no_violation() {
        let mut shell = depends_on("harness-process");
        shell.form = DependencyForm::Optional;
        let graph = graph(vec![
            krate("harness-types", vec![depends_on("serde")]),
            krate("harness-policy", vec![depends_on("harness-types")]),
            krate(
                "harness-process",
                vec![depends_on("tokio"), depends_on("libc")],
            ),
            krate(
                "harness-toolkit",
                vec![depends_on("harness-types"), depends_on("jsonschema"), shell],
            ),
            krate(
                "harness-agent",
                vec![
                    depends_on("harness-types"),
                    depends_on("harness-policy"),
                    depends_on("harness-toolkit"),
                    depends_on("tokio"),
                ],
            ),
            krate(
                "harness-bin",
                vec![depends_on("harness-agent"), depends_on("clap")],
            ),
            krate(
                "harness-testkit",
                vec![depends_on("harness-agent"), depends_on("reqwest")],
            ),
        ]);
        assert_eq!(violations(&graph), []);
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_reported_with_both_ends() {
        let graph = graph(vec![
            krate("harness-types", vec![depends_on("harness-agent")]),
            krate("harness-agent", vec![]),
        ]);
        let found = violations(&graph);
        assert_eq!(
            found,
            [Violation::Edge {
                from: "harness-types".into(),
                to: "harness-agent".into()
            }]
        );
        assert_eq!(
            found[0].to_string(),
            "harness-types -> harness-agent: harness-types may not depend on harness-agent; if \
             this edge is wanted, record the decision in docs/decisions/ and add it to \
             xtask/src/layers/table.rs"
        );
    }

    #[test]
    fn every_edge_counts_also_an_optional_one_and_each_once() {
        let mut optional = depends_on("tokio");
        optional.form = DependencyForm::Optional;
        let graph = graph(vec![krate(
            "harness-policy",
            vec![
                optional,
                depends_on("rustls"),
                depends_on("rustls"),
                depends_on("grep-regex"),
            ],
        )]);
        let heavy = |to: &str, family| Violation::HeavyDependency {
            from: "harness-policy".into(),
            to: to.into(),
            family,
        };
        assert_eq!(
            violations(&graph),
            [
                heavy("tokio", "tokio"),
                heavy("rustls", "reqwest"),
                heavy("grep-regex", "grep")
            ]
        );
    }

    #[test]
    fn what_the_table_gives_by_feature_must_be_optional() {
        let graph = graph(vec![
            krate("harness-framing", vec![depends_on("tokio-util")]),
            krate(
                "harness-toolkit",
                vec![depends_on("harness-process"), depends_on("ignore")],
            ),
            krate("harness-process", vec![]),
        ]);
        let required = |from: &str, to: &str| Violation::NotOptional {
            from: from.into(),
            to: to.into(),
        };
        assert_eq!(
            violations(&graph),
            [
                required("harness-framing", "tokio-util"),
                required("harness-toolkit", "harness-process"),
                required("harness-toolkit", "ignore"),
            ]
        );
    }

    #[test]
    fn the_loop_takes_the_tool_runtime_without_the_tools() {
        let mut toolkit = depends_on("harness-toolkit");
        toolkit.features = vec!["shell".into(), "edit".into()];
        let graph = graph(vec![
            krate("harness-agent", vec![toolkit]),
            krate("harness-toolkit", vec![]),
        ]);
        assert_eq!(
            violations(&graph),
            [Violation::FeaturesAskedFor {
                from: "harness-agent".into(),
                to: "harness-toolkit".into(),
                features: vec!["shell".into(), "edit".into()],
            }]
        );
    }

    #[test]
    fn the_programs_take_any_library_but_nothing_made_for_tests() {
        let graph = graph(vec![
            krate(
                "harness-bin",
                vec![
                    depends_on("harness-testkit"),
                    depends_on("harness-types"),
                    depends_on("h2"),
                ],
            ),
            krate("harness-types", vec![]),
            krate("harness-testkit", vec![]),
        ]);
        assert_eq!(
            violations(&graph),
            [
                Violation::Edge {
                    from: "harness-bin".into(),
                    to: "harness-testkit".into()
                },
                Violation::HeavyDependency {
                    from: "harness-bin".into(),
                    to: "h2".into(),
                    family: "reqwest",
                },
            ]
        );
    }

    #[test]
    fn an_unknown_crate_is_reported_and_so_is_one_that_the_list_for_people_lacks() {
        let mut graph = graph(vec![
            krate("harness-clouds", vec![]),
            krate("harness-types", vec![]),
        ]);
        graph.readme = "`harness-clouds`".into();
        assert_eq!(
            violations(&graph),
            [
                Violation::NotInTable {
                    krate: "harness-clouds".into()
                },
                Violation::NotInReadme {
                    krate: "harness-types".into()
                },
            ]
        );
    }
}
