use std::cmp::Ordering;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use harness_types::{
    Action, BoxFuture, ResultContent, Tool, ToolCall, ToolClass, ToolContext, ToolError,
    ToolOutput, ToolSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::MAX_RESULTS;
use super::line::around;
use super::scope::{Globs, Hidden, Scope, lock};
use crate::built_ins::{parse_path, path_arg, read_args, shown_path, spec, text_arg};
use crate::files::{look, one_line, regular};
use crate::limit::brief;
use crate::paths::Located;
use crate::work::{Cancelled, FirstFew, blocking};
use crate::{FileAccess, WorkspacePath};

/// The longest line that is held in memory; a file with a longer one cannot be searched.
const MAX_BUFFER_BYTES: usize = 64 * 1024 * 1024;

/// The largest compiled pattern.
const MAX_PATTERN_BYTES: usize = 16 * 1024 * 1024;

/// `grep_search`: searches the content of files.
///
/// Literal or regular expression, on all cores. Ignored files are left out unless they are named
/// (F033), hidden ones are searched, `.git` and binary files are not. Results are ordered by path
/// and line; the first 50 are shown, all are counted. Long lines are cut around the match.
#[derive(Debug, Clone)]
pub struct GrepSearch {
    access: FileAccess,
}

impl GrepSearch {
    /// The tool with this access.
    pub fn new(access: FileAccess) -> Self {
        Self { access }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Args {
    query: String,
    search_path: String,
    case_insensitive: Option<bool>,
    includes: Option<Vec<String>>,
    is_regex: Option<bool>,
    match_per_line: Option<bool>,
}

impl Tool for GrepSearch {
    fn spec(&self) -> ToolSpec {
        spec(
            ("grep_search", "search_directory"),
            ToolClass::ReadOnly,
            "Searches the content of files for text or a regular expression. Results are ordered \
             by path; the first 50 are shown and all are counted. Files that .gitignore excludes \
             are skipped unless SearchPath or Includes names them; hidden files are searched, \
             binary files and .git are not.",
            &["Query", "SearchPath"],
            json!({
                "Query": {"type": "string", "description": "What to search for."},
                "SearchPath": {
                    "type": "string",
                    "description": "Absolute path of the directory or file to search.",
                },
                "IsRegex": {
                    "type": "boolean",
                    "description": "Whether Query is a regular expression (Rust syntax). \
                                    Default false: literal text.",
                },
                "CaseInsensitive": {
                    "type": "boolean",
                    "description": "Whether case is ignored. Default false.",
                },
                "MatchPerLine": {
                    "type": "boolean",
                    "description": "Whether each matching line is a result, with its number and \
                                    content. Default false: each matching file is a result.",
                },
                "Includes": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Globs of the files to search, such as `*.rs` or `src/**`; \
                                    `!` in front excludes. An existing path is taken literally.",
                },
            }),
        )
    }

    fn opening(&self, call: &ToolCall) -> Action {
        Action::SearchDirectory {
            path: shown_path(&call.args, "SearchPath"),
            query: text_arg(&call.args, "Query").to_owned(),
            results: None,
        }
    }

    fn paths(&self, args: &Map<String, Value>) -> Vec<PathBuf> {
        path_arg(args, "SearchPath")
    }

    fn call<'a>(
        &'a self,
        _: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Args = read_args(args)?;
            let path = parse_path("SearchPath", &args.search_path)?;
            let search = Search::new(&args)?;
            let includes = args.includes.unwrap_or_default();
            let access = self.access.clone();
            blocking(move |cancelled| {
                let found = search.run(&access, &path, &includes, cancelled)?;
                Ok(found.present(&path, &args.query, search.mode))
            })
            .await
        })
    }
}

/// What a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Files,
    Lines,
}

#[derive(Debug, PartialEq, Eq)]
struct Hit {
    path: Arc<Path>,
    line_number: u64,
    line: String,
}

impl Ord for Hit {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.path, self.line_number).cmp(&(&other.path, other.line_number))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct Search {
    matcher: RegexMatcher,
    mode: Mode,
    multi_line: bool,
}

impl Search {
    fn new(args: &Args) -> Result<Self, ToolError> {
        if args.query.is_empty() {
            return Err(ToolError::invalid(
                "Query is empty; give text to search for",
            ));
        }
        let is_regex = args.is_regex.unwrap_or(false);
        // A query that spans lines needs whole files in memory; all others go line by line.
        let multi_line = args.query.contains('\n') || is_regex && args.query.contains("\\n");
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(args.case_insensitive.unwrap_or(false))
            .fixed_strings(!is_regex)
            .multi_line(true)
            .size_limit(MAX_PATTERN_BYTES)
            .dfa_size_limit(MAX_PATTERN_BYTES);
        if !multi_line {
            builder.crlf(true);
        }
        let matcher = builder.build(&args.query).map_err(|error| {
            ToolError::invalid(format!(
                "Query is not a usable regular expression: {}",
                brief(&error.to_string(), 1000)
            ))
        })?;
        Ok(Self {
            matcher,
            mode: match args.match_per_line {
                Some(true) => Mode::Lines,
                _ => Mode::Files,
            },
            multi_line,
        })
    }

    fn searcher(&self) -> Searcher {
        let mut builder = SearcherBuilder::new();
        builder
            .line_number(self.mode == Mode::Lines)
            .multi_line(self.multi_line)
            .heap_limit(Some(MAX_BUFFER_BYTES))
            .binary_detection(BinaryDetection::quit(0));
        if !self.multi_line {
            builder.line_terminator(grep_matcher::LineTerminator::crlf());
        }
        builder.build()
    }

    fn run(
        &self,
        access: &FileAccess,
        path: &WorkspacePath,
        includes: &[String],
        cancelled: &Cancelled,
    ) -> Result<Found, ToolError> {
        let located = access.locate(path)?;
        let metadata = look(&located, path)?;
        let found = Mutex::new(Found::new());
        if !metadata.is_dir() {
            regular(path, &metadata)?;
            let searcher = &mut self.searcher();
            self.file(
                searcher,
                &located,
                located.real(),
                path.as_path(),
                cancelled,
                &found,
            );
        } else {
            let scope = Scope::new(&located, path, Hidden::Visit, Globs::Only(includes))?;
            let unreadable = scope.visit(cancelled, || {
                let mut searcher = self.searcher();
                let (scope, located, found) = (&scope, &located, &found);
                move |entry| {
                    if entry.file_type().is_some_and(|kind| kind.is_file()) {
                        let shown = scope.shown(entry.path());
                        self.file(
                            &mut searcher,
                            located,
                            entry.path(),
                            &shown,
                            cancelled,
                            found,
                        );
                    }
                }
            });
            lock(&found).unreadable += unreadable;
        }
        Ok(found.into_inner().unwrap_or_else(|it| it.into_inner()))
    }

    fn file(
        &self,
        searcher: &mut Searcher,
        located: &Located,
        real: &Path,
        shown: &Path,
        cancelled: &Cancelled,
        found: &Mutex<Found>,
    ) {
        let mut hits = Hits {
            matcher: &self.matcher,
            mode: self.mode,
            lines: Vec::new(),
            total: 0,
            binary: false,
        };
        let result = located.open_file_at(real).and_then(|file| {
            let file = cancelled.guard(file);
            searcher.search_reader(&self.matcher, file, &mut hits)
        });
        if result.is_err() {
            lock(found).unreadable += 1;
        }
        if hits.binary || hits.total == 0 {
            return;
        }
        let path: Arc<Path> = shown.into();
        let mut found = lock(found);
        found.hits.count(hits.total - hits.lines.len() as u64);
        for (line_number, line) in hits.lines {
            found.hits.push(Hit {
                path: path.clone(),
                line_number,
                line,
            });
        }
    }
}

/// The matches of one file.
struct Hits<'a> {
    matcher: &'a RegexMatcher,
    mode: Mode,
    /// At most as many as are shown.
    lines: Vec<(u64, String)>,
    total: u64,
    binary: bool,
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        self.total += 1;
        if self.mode == Mode::Files {
            self.lines.push((0, String::new()));
            return Ok(false);
        }
        if self.lines.len() < MAX_RESULTS {
            let bytes = matched.bytes();
            let place = self.matcher.find(bytes).ok().flatten();
            let place = place.map_or(0..0, |it| it.start()..it.end());
            let number = matched.line_number().unwrap_or_default();
            self.lines.push((number, around(bytes, place)));
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

#[derive(Debug)]
struct Found {
    hits: FirstFew<Hit>,
    unreadable: u64,
}

impl Found {
    fn new() -> Self {
        Self {
            hits: FirstFew::new(MAX_RESULTS),
            unreadable: 0,
        }
    }

    fn present(self, path: &WorkspacePath, query: &str, mode: Mode) -> ToolOutput {
        let total = self.hits.total();
        let hits = self.hits.into_sorted();
        let content = if hits.is_empty() {
            let mut text = "No results found".to_owned();
            if self.unreadable > 0 {
                let _ = write!(text, "; {} files could not be read", self.unreadable);
            }
            ResultContent::Text(text)
        } else {
            let elided = total - hits.len() as u64;
            let results: Vec<Value> = hits.iter().map(|hit| describe(hit, mode)).collect();
            let mut object = Map::new();
            object.insert("results".to_owned(), results.into());
            object.insert("num_elided_results".to_owned(), elided.into());
            object.insert("total".to_owned(), total.into());
            if self.unreadable > 0 {
                object.insert("num_unreadable_files".to_owned(), self.unreadable.into());
            }
            ResultContent::Json(object)
        };
        ToolOutput {
            content,
            media: Vec::new(),
            action: Some(Action::SearchDirectory {
                path: path.to_string(),
                query: query.to_owned(),
                results: Some(u32::try_from(total).unwrap_or(u32::MAX)),
            }),
        }
    }
}

fn describe(hit: &Hit, mode: Mode) -> Value {
    let path = one_line(&hit.path);
    match mode {
        Mode::Files => json!({"path": path}),
        Mode::Lines => json!({
            "path": path,
            "line_number": hit.line_number,
            "line_content": hit.line,
        }),
    }
}
