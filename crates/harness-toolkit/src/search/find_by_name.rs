use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use globset::{GlobBuilder, GlobMatcher};
use harness_types::{
    Action, BoxFuture, Tool, ToolCall, ToolClass, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use ignore::DirEntry;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::MAX_RESULTS;
use super::scope::{Globs, Hidden, Scope, lock};
use crate::built_ins::{parse_path, path_arg, read_args, shown_path, spec, text_arg};
use crate::files::{look, one_line};
use crate::work::{Cancelled, FirstFew, blocking};
use crate::{FileAccess, WorkspacePath};

/// `find_by_name`: finds files and directories by name.
///
/// Globs with smart case, on all cores. Ignored and hidden entries are left out. Results are
/// ordered by path; the first 50 are shown, all are counted. A name that exists as it is written
/// matches, whatever it means as a glob (F034).
#[derive(Debug, Clone)]
pub struct FindByName {
    access: FileAccess,
}

impl FindByName {
    /// The tool with this access.
    pub fn new(access: FileAccess) -> Self {
        Self { access }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Args {
    search_directory: String,
    pattern: Option<String>,
    excludes: Option<Vec<String>>,
    extensions: Option<Vec<String>>,
    full_path: Option<bool>,
    max_depth: Option<i64>,
    #[serde(rename = "Type")]
    kind: Option<String>,
}

impl Tool for FindByName {
    fn spec(&self) -> ToolSpec {
        spec(
            ("find_by_name", "find_file"),
            ToolClass::ReadOnly,
            "Finds files and directories by name below a directory. Results are relative paths in \
             order, directories with `/` at the end; the first 50 are shown and all are counted. \
             Hidden entries and what .gitignore excludes are skipped.",
            &["SearchDirectory", "Pattern"],
            json!({
                "SearchDirectory": {
                    "type": "string",
                    "description": "Absolute path of the directory to search.",
                },
                "Pattern": {
                    "type": "string",
                    "description": "Glob for the name, such as `*.rs` or `test_*`; with `/` in \
                                    it, for the relative path. Capitals make it case-sensitive. \
                                    Empty for everything.",
                },
                "Excludes": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Globs of entries to leave out, with what is in them.",
                },
                "Extensions": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Only names with one of these extensions, without the dot.",
                },
                "Type": {
                    "type": "string",
                    "enum": ["file", "directory", "any"],
                    "description": "What to find. Default any.",
                },
                "MaxDepth": {
                    "type": "integer",
                    "description": "How deep to go; 1 is the directory itself. Default: no limit.",
                },
                "FullPath": {
                    "type": "boolean",
                    "description": "Whether Pattern has to match the whole absolute path.",
                },
            }),
        )
    }

    fn opening(&self, call: &ToolCall) -> Action {
        Action::FindFile {
            path: shown_path(&call.args, "SearchDirectory"),
            query: text_arg(&call.args, "Pattern").to_owned(),
            output: None,
        }
    }

    fn paths(&self, args: &Map<String, Value>) -> Vec<PathBuf> {
        path_arg(args, "SearchDirectory")
    }

    fn call<'a>(
        &'a self,
        _: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Args = read_args(args)?;
            let path = parse_path("SearchDirectory", &args.search_directory)?;
            let filter = Filter::new(&args)?;
            let access = self.access.clone();
            blocking(move |cancelled| find(&access, &path, &args, &filter, cancelled)).await
        })
    }
}

/// What kinds of entry are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Any,
}

/// What a pattern is matched against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Name,
    Relative,
    Absolute,
}

#[derive(Debug)]
struct Filter {
    /// `None` matches everything.
    glob: Option<(GlobMatcher, String)>,
    subject: Subject,
    kind: Kind,
    extensions: Vec<String>,
}

impl Filter {
    fn new(args: &Args) -> Result<Self, ToolError> {
        let pattern = args.pattern.as_deref().unwrap_or_default();
        let subject = match (args.full_path, pattern.contains('/')) {
            (Some(true), _) => Subject::Absolute,
            (_, true) => Subject::Relative,
            (_, false) => Subject::Name,
        };
        let pattern = match subject {
            Subject::Relative => pattern.trim_start_matches("./"),
            Subject::Name | Subject::Absolute => pattern,
        };
        let glob = if pattern.is_empty() {
            None
        } else {
            let glob = GlobBuilder::new(pattern)
                .literal_separator(subject != Subject::Absolute)
                .case_insensitive(!pattern.contains(char::is_uppercase))
                .build()
                .map_err(|error| {
                    ToolError::invalid(format!("Pattern is not a usable glob: {error}"))
                })?;
            Some((glob.compile_matcher(), pattern.to_owned()))
        };
        let kind = match args.kind.as_deref() {
            None | Some("" | "any") => Kind::Any,
            Some("file") => Kind::File,
            Some("directory") => Kind::Directory,
            Some(other) => {
                return Err(ToolError::invalid(format!(
                    "Type: expected `file`, `directory` or `any`, got {other:?}"
                )));
            }
        };
        let extensions = args.extensions.iter().flatten();
        Ok(Self {
            glob,
            subject,
            kind,
            extensions: extensions
                .map(|it| it.trim_start_matches('.').to_owned())
                .filter(|it| !it.is_empty())
                .collect(),
        })
    }

    fn accepts(&self, entry: &DirEntry, scope: &Scope) -> bool {
        let is_directory = is_directory(entry);
        let kind_fits = match self.kind {
            Kind::Any => true,
            Kind::File => !is_directory,
            Kind::Directory => is_directory,
        };
        kind_fits && self.accepts_extension(entry.file_name()) && self.accepts_name(entry, scope)
    }

    fn accepts_extension(&self, name: &OsStr) -> bool {
        let name = name.as_bytes();
        let has = |extension: &String| {
            name.strip_suffix(extension.as_bytes())
                .is_some_and(|stem| stem.len() > 1 && stem.ends_with(b"."))
        };
        self.extensions.is_empty() || self.extensions.iter().any(has)
    }

    fn accepts_name(&self, entry: &DirEntry, scope: &Scope) -> bool {
        let Some((glob, literal)) = &self.glob else {
            return true;
        };
        let fits = |subject: &Path| subject == Path::new(literal) || glob.is_match(subject);
        match self.subject {
            Subject::Name => fits(Path::new(entry.file_name())),
            Subject::Relative => fits(scope.relative(entry.path())),
            Subject::Absolute => fits(&scope.shown(entry.path())),
        }
    }
}

fn is_directory(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_dir())
}

fn find(
    access: &FileAccess,
    path: &WorkspacePath,
    args: &Args,
    filter: &Filter,
    cancelled: &Cancelled,
) -> Result<ToolOutput, ToolError> {
    let located = access.locate(path)?;
    if !look(&located, path)?.is_dir() {
        return Err(ToolError::failed(format!("`{path}` is not a directory")));
    }
    let excludes = args.excludes.as_deref().unwrap_or_default();
    let depth = args.max_depth.and_then(|it| usize::try_from(it).ok());
    let scope = Scope::new(&located, path, Hidden::Skip, Globs::Except(excludes))?
        .max_depth(depth.filter(|it| *it > 0));

    let found = Mutex::new(FirstFew::new(MAX_RESULTS));
    let unreadable = scope.visit(cancelled, || {
        let (scope, found) = (&scope, &found);
        move |entry| {
            if filter.accepts(entry, scope) {
                let relative = scope.relative(entry.path()).to_owned();
                lock(found).push((relative, is_directory(entry)));
            }
        }
    });
    let found = found.into_inner().unwrap_or_else(|it| it.into_inner());

    let total = found.total();
    let mut text = format!("Found {total} results\n");
    let found = found.into_sorted();
    for (relative, is_directory) in &found {
        let end = if *is_directory { "/" } else { "" };
        let _ = writeln!(text, "{}{end}", one_line(relative));
    }
    let more = total - found.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "(...{more} more results not shown)");
    }
    if unreadable > 0 {
        let _ = writeln!(text, "({unreadable} entries could not be read)");
    }
    Ok(
        ToolOutput::text(text.clone()).with_action(Action::FindFile {
            path: path.to_string(),
            query: args.pattern.clone().unwrap_or_default(),
            output: Some(text),
        }),
    )
}
