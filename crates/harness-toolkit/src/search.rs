//! `grep_search` and `find_by_name`.

mod find_by_name;
mod grep_search;
mod line;
mod scope;

pub use find_by_name::FindByName;
pub use grep_search::GrepSearch;

/// How many results are shown.
const MAX_RESULTS: usize = 50;
