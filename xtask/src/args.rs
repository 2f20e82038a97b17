//! Reading the arguments of a command: flags, values, and an error for everything else.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

/// The arguments that no command has taken yet.
#[derive(Debug)]
pub(crate) struct Args {
    given: Vec<String>,
    after_separator: Vec<String>,
}

impl Args {
    /// Splits the arguments at the first `--`; what follows it is never read as an option.
    pub(crate) fn new(arguments: impl IntoIterator<Item = String>) -> Self {
        let mut given: Vec<String> = arguments.into_iter().collect();
        let after_separator = match given.iter().position(|argument| argument == "--") {
            Some(separator) => given.split_off(separator).split_off(1),
            None => Vec::new(),
        };
        Self {
            given,
            after_separator,
        }
    }

    /// Takes the option `name` and says whether it was given.
    pub(crate) fn take_flag(&mut self, name: &str) -> bool {
        let before = self.given.len();
        self.given.retain(|argument| argument != name);
        self.given.len() != before
    }

    /// Takes `name VALUE` or `name=VALUE`.
    ///
    /// # Errors
    ///
    /// When the value is missing, or the option is given twice.
    pub(crate) fn take_value(&mut self, name: &str) -> anyhow::Result<Option<String>> {
        let Some(at) = self
            .given
            .iter()
            .position(|argument| is_option(argument, name))
        else {
            return Ok(None);
        };
        let option = self.given.remove(at);
        let value = match option.split_once('=') {
            Some((_, value)) => value.to_owned(),
            None if at < self.given.len() && !self.given[at].starts_with("--") => {
                self.given.remove(at)
            }
            None => bail!("{name} needs a value"),
        };
        if self.given.iter().any(|argument| is_option(argument, name)) {
            bail!("{name} is given twice");
        }
        Ok(Some(value))
    }

    /// Takes `name PATH`. A relative path counts from the directory the user stands in, not
    /// from the workspace root where the child programs run.
    ///
    /// # Errors
    ///
    /// As [`take_value`](Self::take_value).
    pub(crate) fn take_path(&mut self, name: &str) -> anyhow::Result<Option<PathBuf>> {
        self.take_value(name)?
            .map(|path| std::path::absolute(path).with_context(|| format!("{name} is no path")))
            .transpose()
    }

    /// Ends the reading.
    ///
    /// # Errors
    ///
    /// When an argument is left that nobody took, or anything follows `--`.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        if self.finish_with_rest()?.is_empty() {
            Ok(())
        } else {
            bail!("this command passes nothing on: remove what follows `--`")
        }
    }

    /// Ends the reading and returns what followed `--`.
    ///
    /// # Errors
    ///
    /// When an argument before `--` is left that nobody took.
    pub(crate) fn finish_with_rest(self) -> anyhow::Result<Vec<String>> {
        match self.given.first() {
            Some(argument) => bail!("unknown argument `{argument}`; see `cargo xtask help`"),
            None => Ok(self.after_separator),
        }
    }
}

fn is_option(argument: &str, name: &str) -> bool {
    argument
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn takes_flags_and_both_forms_of_a_value() {
        let mut read = args("--peer --sdk 0.1.22 --jobs=4 -- --sdk all");
        assert!(read.take_flag("--peer"));
        assert!(!read.take_flag("--peer"));
        assert_eq!(read.take_value("--sdk").unwrap().as_deref(), Some("0.1.22"));
        assert_eq!(read.take_value("--jobs").unwrap().as_deref(), Some("4"));
        assert_eq!(read.take_value("--only").unwrap(), None);
        assert_eq!(read.finish_with_rest().unwrap(), ["--sdk", "all"]);
    }

    #[test]
    fn an_option_is_not_mistaken_for_a_longer_one() {
        let mut read = args("--only-this 1");
        assert_eq!(read.take_value("--only").unwrap(), None);
        let error = read.finish().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown argument `--only-this`; see `cargo xtask help`"
        );
    }

    #[test]
    fn a_missing_or_repeated_value_is_an_error() {
        assert_eq!(
            args("--sdk").take_value("--sdk").unwrap_err().to_string(),
            "--sdk needs a value"
        );
        assert_eq!(
            args("--sdk --peer")
                .take_value("--sdk")
                .unwrap_err()
                .to_string(),
            "--sdk needs a value"
        );
        assert_eq!(
            args("--sdk 1 --sdk=2")
                .take_value("--sdk")
                .unwrap_err()
                .to_string(),
            "--sdk is given twice"
        );
    }

    #[test]
    fn nothing_may_follow_the_separator_of_a_command_that_passes_nothing_on() {
        args("").finish().unwrap();
        args("--").finish().unwrap();
        args("-- left").finish().unwrap_err();
    }

    #[test]
    fn a_path_is_made_absolute() {
        let path = args("--harness bin/localharness")
            .take_path("--harness")
            .unwrap()
            .unwrap();
        assert_eq!(
            path,
            std::env::current_dir().unwrap().join("bin/localharness")
        );
    }
}
