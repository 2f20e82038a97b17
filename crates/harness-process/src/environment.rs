use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;

/// The variable that marks every process of a tree.
///
/// Its value is a colon-separated list of tree ids, the outermost first. It is set in every
/// command, whatever the [`Environment`] says.
pub const TREE_VARIABLE: &str = "HARNESS_PROCESS_TREE";

/// The longest mark that is carried on; beyond, the list starts afresh. Reached only by hundreds
/// of harnesses inside one another.
const MAX_MARK_BYTES: usize = 4096;

/// Which environment variables a command gets.
///
/// Starts from this program's own or from none, takes names away, then sets values. A value that
/// was set always wins, in whatever order the calls were made.
///
/// `Debug` shows names only: values may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    inherited: bool,
    removed: BTreeSet<OsString>,
    set: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// Returns an environment that has everything this program has at the time of the spawn.
    pub fn inherited() -> Self {
        Self {
            inherited: true,
            removed: BTreeSet::new(),
            set: BTreeMap::new(),
        }
    }

    /// Returns an environment without any variable.
    pub fn empty() -> Self {
        Self {
            inherited: false,
            ..Self::inherited()
        }
    }

    /// Keeps an inherited variable from the command, such as a credential.
    ///
    /// A value given with [`set`](Self::set) stays.
    #[must_use]
    pub fn remove(mut self, name: impl Into<OsString>) -> Self {
        self.removed.insert(name.into());
        self
    }

    /// Does [`remove`](Self::remove) for each name.
    #[must_use]
    pub fn remove_all<N: Into<OsString>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.removed.extend(names.into_iter().map(Into::into));
        self
    }

    /// Gives the command a variable. The last value set for a name counts.
    #[must_use]
    pub fn set(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.insert(name.into(), value.into());
        self
    }

    /// Does [`set`](Self::set) for each pair.
    #[must_use]
    pub fn set_all<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let pairs = variables.into_iter();
        self.set
            .extend(pairs.map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Returns the variables of a command, given those of the parent.
    ///
    /// [`TREE_VARIABLE`] is not part of it; spawning adds it.
    pub fn resolve(
        &self,
        parent: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        let mut variables: BTreeMap<_, _> = parent
            .into_iter()
            .filter(|(name, _)| self.inherited && !self.removed.contains(name))
            .collect();
        variables.extend(self.set.clone());
        variables.remove(OsStr::new(TREE_VARIABLE));
        variables
    }
}

impl Default for Environment {
    /// Returns [`Environment::inherited`].
    fn default() -> Self {
        Self::inherited()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("inherited", &self.inherited)
            .field("removed", &self.removed)
            .field("set", &self.set.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// Returns the mark of a tree inside whatever tree this program runs in.
pub(crate) fn nested_mark(outer: Option<OsString>, id: &str) -> OsString {
    match outer {
        Some(mut mark) if !mark.is_empty() && mark.len() + id.len() < MAX_MARK_BYTES => {
            mark.push(":");
            mark.push(id);
            mark
        }
        _ => id.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_nest_and_stay_short() {
        assert_eq!(nested_mark(None, "b.1"), "b.1");
        assert_eq!(nested_mark(Some("".into()), "b.1"), "b.1");
        assert_eq!(nested_mark(Some("a.7".into()), "b.1"), "a.7:b.1");
        assert_eq!(nested_mark(Some("x".repeat(4093).into()), "b.1"), "b.1");
    }
}
