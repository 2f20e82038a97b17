//! Which crate may depend on which. A change here is a decision: write it down in
//! `docs/decisions/` in the same commit.

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    /// The crates of this workspace it may depend on.
    pub(crate) workspace: Workspace,
    /// The heavy dependencies it may have, by the names in [`HEAVY`].
    pub(crate) heavy: Heavy,
}

/// The edges to other crates of the workspace.
#[derive(Debug)]
pub(crate) enum Workspace {
    /// These and no others.
    Only(&'static [Allowed]),
    /// Every library, but nothing meant for development only.
    Libraries,
    /// Anything: the crate itself is for development only.
    Any,
}

/// The edges to heavy dependencies.
#[derive(Debug)]
pub(crate) enum Heavy {
    /// These and no others.
    Only(&'static [Allowed]),
    /// Anything: the crate itself is for development only.
    Any,
}

/// A permitted edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
}

/// How a permitted edge may be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// In any way.
    Always,
    /// With `optional = true`, so that a user who does not want it does not build it.
    ByFeature,
    /// With none of the other crate's features.
    WithoutFeatures,
}

const fn always(name: &'static str) -> Allowed {
    Allowed {
        name,
        form: Form::Always,
    }
}

const fn by_feature(name: &'static str) -> Allowed {
    Allowed {
        name,
        form: Form::ByFeature,
    }
}

const fn without_features(name: &'static str) -> Allowed {
    Allowed {
        name,
        form: Form::WithoutFeatures,
    }
}

const fn library(
    name: &'static str,
    workspace: &'static [Allowed],
    heavy: &'static [Allowed],
) -> Layer {
    Layer {
        name,
        workspace: Workspace::Only(workspace),
        heavy: Heavy::Only(heavy),
    }
}

const fn development(name: &'static str) -> Layer {
    Layer {
        name,
        workspace: Workspace::Any,
        heavy: Heavy::Any,
    }
}

/// The table, lowest layer first: an edge points to a row above its own.
///
/// A row that names `tungstenite`, `reqwest`, `tonic` or `rmcp` names `tokio` too, because they
/// run on it.
pub(crate) const LAYERS: &[Layer] = &[
    library("harness-framing", &[], &[by_feature("tokio-util")]),
    library("harness-proto", &[], &[]),
    library("harness-types", &[], &[]),
    library("harness-policy", &[always("harness-types")], &[]),
    library("harness-process", &[], &[always("tokio")]),
    library(
        "harness-toolkit",
        &[always("harness-types"), by_feature("harness-process")],
        &[
            always("tokio"),
            // Decision 0005: the arguments of a call are checked against the tool's schema.
            always("jsonschema"),
            by_feature("grep"),
            by_feature("reqwest"),
        ],
    ),
    library(
        "harness-session",
        &[always("harness-types")],
        &[always("rusqlite")],
    ),
    library(
        "harness-agent",
        // The loop runs tools; which ones exist is the business of whoever builds the registry.
        &[
            always("harness-types"),
            always("harness-policy"),
            without_features("harness-toolkit"),
        ],
        &[always("tokio")],
    ),
    library(
        "harness-auth",
        &[always("harness-types")],
        &[always("reqwest"), always("tokio")],
    ),
    library(
        "harness-grpc",
        &[
            always("harness-proto"),
            always("harness-types"),
            always("harness-auth"),
        ],
        &[always("tonic"), always("tokio")],
    ),
    library(
        "harness-gemini",
        &[
            always("harness-types"),
            always("harness-auth"),
            by_feature("harness-grpc"),
        ],
        &[always("reqwest"), always("tokio")],
    ),
    library(
        "harness-openai",
        &[always("harness-types"), always("harness-auth")],
        &[always("reqwest"), always("tokio")],
    ),
    library(
        "harness-mcp",
        &[
            always("harness-types"),
            always("harness-toolkit"),
            always("harness-process"),
        ],
        &[always("rmcp"), always("tokio")],
    ),
    library(
        "harness-host",
        &[always("harness-types"), always("harness-agent")],
        &[always("tokio")],
    ),
    library(
        "harness-server",
        &[
            always("harness-framing"),
            always("harness-proto"),
            always("harness-types"),
            always("harness-host"),
        ],
        &[always("tungstenite"), always("tokio")],
    ),
    library(
        "harness-client",
        &[
            always("harness-framing"),
            always("harness-proto"),
            always("harness-process"),
        ],
        &[always("tungstenite"), always("tokio")],
    ),
    library(
        "harness-sdk",
        // The four that an embedded agent cannot do without; the rest is chosen by feature.
        &[
            always("harness-types"),
            always("harness-toolkit"),
            always("harness-agent"),
            always("harness-host"),
            by_feature("harness-framing"),
            by_feature("harness-proto"),
            by_feature("harness-policy"),
            by_feature("harness-process"),
            by_feature("harness-session"),
            by_feature("harness-auth"),
            by_feature("harness-grpc"),
            by_feature("harness-gemini"),
            by_feature("harness-openai"),
            by_feature("harness-mcp"),
            by_feature("harness-server"),
            by_feature("harness-client"),
        ],
        &[always("tokio")],
    ),
    Layer {
        name: "harness-bin",
        workspace: Workspace::Libraries,
        heavy: Heavy::Only(&[
            always("clap"),
            always("tokio"),
            always("tracing-subscriber"),
        ]),
    },
    development("harness-testkit"),
    development("harness-examples"),
    development("harness-benches"),
    Layer {
        name: "xtask",
        workspace: Workspace::Only(&[]),
        heavy: Heavy::Only(&[]),
    },
];

/// What is not for users of the libraries, so no library and no program may depend on it.
pub(crate) const DEVELOPMENT_ONLY: &[&str] = &[
    "harness-testkit",
    "harness-examples",
    "harness-benches",
    "xtask",
];

/// The only crate that may contain `unsafe`.
pub(crate) const MAY_BE_UNSAFE: &str = "harness-process";

/// A group of dependencies that a crate may have only if its row says so.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// Package names; one that ends in `*` stands for all that start so.
    pub(crate) members: &'static [&'static str],
}

/// The dependencies that cost a user much: an async runtime, an HTTP stack, a database, a large
/// tree.
pub(crate) const HEAVY: &[Family] = &[
    Family {
        name: "tokio",
        members: &["tokio", "tokio-stream", "async-std", "smol"],
    },
    Family {
        name: "tokio-util",
        members: &["tokio-util"],
    },
    Family {
        name: "tungstenite",
        members: &[
            "tungstenite",
            "tokio-tungstenite",
            "async-tungstenite",
            "fastwebsockets",
        ],
    },
    Family {
        name: "reqwest",
        members: &[
            "reqwest",
            "hyper",
            "hyper-*",
            "h2",
            "rustls",
            "rustls-*",
            "tokio-rustls",
            "native-tls",
            "ureq",
            "axum",
        ],
    },
    Family {
        name: "rusqlite",
        members: &["rusqlite", "libsqlite3-sys", "sqlx", "redb", "diesel"],
    },
    Family {
        name: "tonic",
        members: &["tonic", "tonic-*", "tower", "tower-*"],
    },
    Family {
        name: "rmcp",
        members: &["rmcp", "rmcp-*"],
    },
    Family {
        name: "clap",
        members: &["clap", "clap_*"],
    },
    Family {
        name: "grep",
        members: &["grep", "grep-*", "ignore", "globset"],
    },
    Family {
        name: "jsonschema",
        members: &["jsonschema"],
    },
    Family {
        name: "tracing-subscriber",
        members: &["tracing-subscriber", "opentelemetry*"],
    },
    Family {
        name: "cel",
        members: &["cel", "cel-*"],
    },
    Family {
        name: "chromiumoxide",
        members: &["chromiumoxide", "chromiumoxide*"],
    },
];

/// The family of a package, if it is a heavy one.
pub(crate) fn family_of(package: &str) -> Option<&'static Family> {
    HEAVY.iter().find(|family| {
        family
            .members
            .iter()
            .any(|member| match member.strip_suffix('*') {
                Some(start) => package.starts_with(start),
                None => package == *member,
            })
    })
}

/// The row of a crate.
pub(crate) fn layer_of(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_points_to_a_lower_layer() {
        for (row, layer) in LAYERS.iter().enumerate() {
            let Workspace::Only(edges) = &layer.workspace else {
                continue;
            };
            for edge in *edges {
                let to = LAYERS.iter().position(|below| below.name == edge.name);
                assert!(
                    to.is_some_and(|to| to < row),
                    "{} -> {}",
                    layer.name,
                    edge.name
                );
                assert!(
                    !DEVELOPMENT_ONLY.contains(&edge.name),
                    "{} -> {}",
                    layer.name,
                    edge.name
                );
            }
        }
    }

    #[test]
    fn every_heavy_dependency_of_a_row_is_a_known_family() {
        for layer in LAYERS {
            let Heavy::Only(edges) = &layer.heavy else {
                continue;
            };
            for edge in *edges {
                assert!(
                    HEAVY.iter().any(|family| family.name == edge.name),
                    "{}",
                    edge.name
                );
            }
        }
    }

    #[test]
    fn a_package_has_the_family_it_belongs_to() {
        let name = |package| family_of(package).map(|family| family.name);
        assert_eq!(name("grep-searcher"), Some("grep"));
        assert_eq!(name("tokio-tungstenite"), Some("tungstenite"));
        assert_eq!(name("hyper-util"), Some("reqwest"));
        assert_eq!(name("clap_complete"), Some("clap"));
        assert_eq!(name("serde"), None);
        assert_eq!(name("tokio-utilities"), None);
    }
}
