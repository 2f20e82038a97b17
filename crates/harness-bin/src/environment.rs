//! The environment of the process, read once at the start.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Variables whose values are credentials: commands the agent runs do not inherit them.
pub const CREDENTIALS: [&str; 6] = [
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTIGRAVITY_API_KEY",
];

/// Variables by name. Values that are not UTF-8 are left out: none of ours may be.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Self::from_pairs(std::env::vars_os())
    }

    /// An environment of these variables.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let pairs = pairs.into_iter();
        Self(
            pairs
                .filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)))
                .collect(),
        )
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets.
        f.debug_set().entries(self.0.keys()).finish()
    }
}
