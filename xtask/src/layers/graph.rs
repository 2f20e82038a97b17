//! The workspace as the checks see it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cargo_metadata::{DependencyKind, Metadata};

use crate::shell;

/// All crates of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) crates: Vec<Crate>,
    /// The text of `crates/README.md`, which lists them for people.
    pub(crate) readme: String,
}

/// One crate of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Normal and build dependencies.
    pub(crate) dependencies: Vec<Dependency>,
    /// The names of its programs and examples.
    pub(crate) programs: Vec<String>,
    pub(crate) manifest: String,
    pub(crate) sources: Vec<Source>,
}

/// A declared dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package's name, also where the crate calls it otherwise.
    pub(crate) name: String,
    pub(crate) form: DependencyForm,
    /// The features asked for, the default ones not among them.
    pub(crate) features: Vec<String>,
}

/// Whether a user can do without a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyForm {
    Required,
    Optional,
}

/// One source file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the workspace.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Graph {
    /// Whether `name` is a crate of this workspace.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.crates.iter().any(|each| each.name == name)
    }
}

/// Reads the crates that cargo knows of, and their sources.
///
/// # Errors
///
/// When a manifest or a source file cannot be read.
pub(crate) fn read(metadata: &Metadata) -> anyhow::Result<Graph> {
    let mut crates = Vec::new();
    for package in metadata.workspace_packages() {
        let dependencies = package
            .dependencies
            .iter()
            .filter(|each| matches!(each.kind, DependencyKind::Normal | DependencyKind::Build))
            .map(|each| Dependency {
                name: each.name.to_string(),
                form: if each.optional {
                    DependencyForm::Optional
                } else {
                    DependencyForm::Required
                },
                features: each.features.clone(),
            })
            .collect();
        let programs = package
            .targets
            .iter()
            .filter(|target| target.is_bin() || target.is_example())
            .map(|target| target.name.clone())
            .collect();
        let manifest_path = package.manifest_path.as_std_path();
        let folder = manifest_path.parent().unwrap_or(manifest_path);
        crates.push(Crate {
            name: package.name.to_string(),
            dependencies,
            programs,
            manifest: read_text(manifest_path)?,
            sources: sources_below(folder)?,
        });
    }
    let readme = read_text(&shell::root().join("crates/README.md"))?;
    Ok(Graph { crates, readme })
}

fn sources_below(folder: &Path) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = read_text(&path)?;
                let path = path.strip_prefix(shell::root()).unwrap_or(&path).to_owned();
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(sources)
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
