//! `check-features`: every library, alone, with each of its features.
//!
//! Cargo unites the features of all crates it builds together. A crate that forgot to ask for a
//! feature of tokio builds in the workspace, where its neighbour asked for it, and not for the
//! user who depends on that crate alone.

use std::collections::BTreeSet;

use anyhow::bail;
use cargo_metadata::Package;

use crate::shell;

/// Lints every library with no feature and with each one by itself; warnings are errors. All are
/// tried, also after one has failed.
///
/// # Errors
///
/// When a combination has a warning or does not build.
pub(crate) fn check_features() -> anyhow::Result<()> {
    let metadata = shell::metadata()?;
    let mut failed = Vec::new();
    for package in metadata.workspace_packages() {
        let is_published = package
            .publish
            .as_ref()
            .is_none_or(|registries| !registries.is_empty());
        if !is_published || !package.targets.iter().any(cargo_metadata::Target::is_lib) {
            continue;
        }
        for feature in combinations(package) {
            let mut command = shell::cargo(["clippy", "--quiet", "--lib", "--package"]);
            command
                .arg(package.name.as_str())
                .arg("--no-default-features");
            if let Some(feature) = &feature {
                command.args(["--features", feature]);
            }
            if shell::run(command.args(["--", "--no-deps", "-D", "warnings"])).is_err() {
                failed.push(format!(
                    "{} with {}",
                    package.name,
                    feature.as_deref().unwrap_or("none")
                ));
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("check-features: {}", failed.join("; "))
    }
}

/// No feature, then each one a user may choose. Those that start with `_` are our own affair.
fn combinations(package: &Package) -> BTreeSet<Option<String>> {
    let features = package.features.keys();
    let chosen = features.filter(|name| *name != "default" && !name.starts_with('_'));
    chosen.cloned().map(Some).chain([None]).collect()
}
