//! Names that are kept for the control plane (decisions for which live elsewhere), so that
//! nothing of today stands in its way: verbs of the program `harness`, and its file.

use super::check::Violation;
use super::graph::Crate;
use crate::source::{self, Blank};

/// The verbs of the control plane. `harness` uses none of them at its top level; below a word
/// of its own, as in `harness sessions list`, they are free.
pub(crate) const VERBS: &[&str] = &[
    "list",
    "describe",
    "start",
    "stop",
    "restart",
    "enable",
    "disable",
    "remove",
    "logs",
    "profiles",
    "use-profile",
    "reload",
    "info",
    "up",
    "down",
    "scratch",
    "jobs",
    "trigger",
    "runs",
    "attach",
    "connect",
    "daemon",
    "tls",
];

/// The control plane's configuration file.
const FILE: &str = "harness.toml";

/// The crate whose programs have commands.
const PROGRAMS: &str = "harness-bin";

/// Checks the programs, their commands and the file names in `krate`.
pub(crate) fn check(krate: &Crate, found: &mut Vec<Violation>) {
    for program in &krate.programs {
        if VERBS.contains(&program.as_str()) {
            let place = format!("{}: a program", krate.name);
            found.push(Violation::Reserved {
                place,
                name: program.clone(),
            });
        }
    }
    // xtask names the file to look for it.
    if krate.name != "xtask" {
        for source in &krate.sources {
            let text = source::blanked(&source.text, Blank::Comments);
            for (index, _) in text
                .lines()
                .enumerate()
                .filter(|(_, line)| line.contains(FILE))
            {
                let place = format!("{}:{}", source.path.display(), index + 1);
                found.push(Violation::Reserved {
                    place,
                    name: FILE.to_owned(),
                });
            }
        }
    }
    if krate.name == PROGRAMS {
        check_commands(krate, found);
    }
}

fn check_commands(krate: &Crate, found: &mut Vec<Violation>) {
    let sources: Vec<(String, String)> = krate
        .sources
        .iter()
        .map(|each| {
            let text = source::blanked(&each.text, Blank::Comments);
            (each.path.display().to_string(), text)
        })
        .collect();
    let roots: Vec<String> = sources
        .iter()
        .flat_map(|(_, text)| subcommand_enums_of_parsers(text))
        .collect();
    let mut is_found = false;
    for (path, text) in &sources {
        for root in &roots {
            let Some(body) = body_of(text, "enum", root) else {
                continue;
            };
            is_found = true;
            for name in variants(body).flat_map(|variant| variant.names()) {
                if VERBS.contains(&name.as_str()) {
                    let place = format!("{path}: a command in `{root}`");
                    found.push(Violation::Reserved { place, name });
                }
            }
        }
    }
    let derives_commands = sources
        .iter()
        .any(|(_, text)| derived_items(text, "Subcommand").next().is_some());
    if derives_commands && !is_found {
        found.push(Violation::CommandsNotFound {
            krate: krate.name.clone(),
        });
    }
}

/// The names of the enums that hold the top-level commands: the types of the fields marked
/// `#[command(subcommand)]` in a struct that derives clap's `Parser`.
fn subcommand_enums_of_parsers(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for item in derived_items(text, "Parser") {
        let Some(open) = item.find('{') else { continue };
        let body = braced(&item[open..]);
        for (at, _) in body.match_indices("#[command(subcommand") {
            // `command: Option<cli::Command>,`: the last word before the comma.
            let field = body[at..].split_once(':').map_or("", |(_, after)| after);
            let field = skip_paths(field);
            names.extend(
                field
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .rfind(|word| !word.is_empty())
                    .map(str::to_owned),
            );
        }
    }
    names
}

/// A field's type, up to the comma or brace that ends it.
fn skip_paths(field: &str) -> &str {
    &field[..field.find([',', '}', '\n']).unwrap_or(field.len())]
}

/// The texts that follow each `derive(…)` list containing `name`.
fn derived_items<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices("derive(")
        .filter_map(move |(at, start)| {
            let list = &text[at + start.len()..];
            let (list, rest) = list.split_once(')')?;
            let has = list
                .split(',')
                .any(|each| each.trim().rsplit("::").next() == Some(name));
            has.then_some(rest)
        })
}

/// What stands between the braces of the item `keyword name`.
fn body_of<'a>(text: &'a str, keyword: &str, name: &str) -> Option<&'a str> {
    source::word_positions(text, name)
        .find(|&at| text[..at].trim_end().ends_with(keyword))
        .and_then(|at| text[at..].find('{').map(|open| braced(&text[at + open..])))
}

/// What stands between the first brace of `text`, at its start, and the one that closes it.
fn braced(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return &text[1.min(at)..at];
        }
    }
    text
}

/// A variant of an enum of commands.
struct Variant<'a> {
    attributes: &'a str,
    identifier: &'a str,
}

impl Variant<'_> {
    /// The words that call the command: its own, and its aliases.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let renamed = strings_of(self.attributes, "name");
        if renamed.is_empty() {
            names.push(kebab(self.identifier));
        }
        names.extend(renamed);
        for key in ["alias", "aliases", "visible_alias", "visible_aliases"] {
            names.extend(strings_of(self.attributes, key));
        }
        names
    }
}

/// The variants of an enum's body: what stands at depth 0 between two commas.
fn variants(body: &str) -> impl Iterator<Item = Variant<'_>> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut pieces = Vec::new();
    for (at, character) in body.char_indices() {
        match character {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                pieces.push(&body[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&body[start..]);
    pieces.into_iter().filter_map(|piece| {
        let mut rest = piece.trim_start();
        while rest.starts_with("#[") {
            rest = rest[bracketed_length(rest)..].trim_start();
        }
        let length = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let attributes = &piece[..piece.len() - rest.len()];
        (length > 0).then_some(Variant {
            attributes,
            identifier: &rest[..length],
        })
    })
}

/// The length of an attribute `#[…]` with nested brackets.
fn bracketed_length(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '[' => depth += 1,
            ']' if depth == 1 => return at + 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

/// The string literals that follow `key =` or `key(` in attributes: `alias = "x"`,
/// `aliases = ["x", "y"]`.
fn strings_of(attributes: &str, key: &str) -> Vec<String> {
    let mut strings = Vec::new();
    for at in source::word_positions(attributes, key) {
        let after = attributes[at + key.len()..].trim_start();
        let Some(value) = after.strip_prefix('=').map(str::trim_start) else {
            continue;
        };
        let end = match value.chars().next() {
            Some('[') => bracketed_length(value),
            _ => value[1.min(value.len())..]
                .find('"')
                .map_or(value.len(), |end| end + 2),
        };
        strings.extend(
            value[..end]
                .split('"')
                .skip(1)
                .step_by(2)
                .map(str::to_owned),
        );
    }
    strings
}

/// `UseProfile` as clap calls it: `use-profile`.
fn kebab(identifier: &str) -> String {
    let mut name = String::new();
    for character in identifier.chars() {
        if character.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(character.to_lowercase());
    }
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::graph::Source;
    use super::*;

    fn checked(name: &str, programs: &[&str], texts: &[&str]) -> Vec<String> {
        let krate = Crate {
            name: name.to_owned(),
            programs: programs.iter().map(|&each| each.to_owned()).collect(),
            sources: texts
                .iter()
                .map(|&text| Source {
                    path: PathBuf::from("a.rs"),
                    text: text.to_owned(),
                })
                .collect(),
            ..Crate::default()
        };
        let mut found = Vec::new();
        check(&krate, &mut found);
        found
            .into_iter()
            .map(|violation| match violation {
                Violation::Reserved { place, name } => format!("{place} {name}"),
                other => format!("{other:?}"),
            })
            .collect()
    }

    const ROOT: &str = "
        /// Says (what) it is, and `Subcommand`.
        #[derive(Debug, clap::Parser)]
        #[command(version, about)]
        struct Cli {
            #[arg(long)] quiet: bool,
            #[command(subcommand)]
            command: Option<commands::Command>,
        }";

    #[test]
    fn a_top_level_command_or_alias_with_a_reserved_verb_is_found() {
        let commands = r#"
            #[derive(Subcommand)]
            pub(crate) enum Command {
                /// Runs, lists, and `Stop`.
                Run { #[arg(long)] list: bool },
                #[command(visible_alias = "describe", aliases = ["talk", "up"])]
                Chat(Chat),
                UseProfile,
                #[command(name = "doctor")]
                Info,
                Sessions(Sessions),
            }
            #[derive(Subcommand)]
            enum SessionsCommand { List, Remove { id: String } }"#;
        assert_eq!(
            checked("harness-bin", &["harness"], &[ROOT, commands]),
            [
                "a.rs: a command in `Command` up",
                "a.rs: a command in `Command` describe",
                "a.rs: a command in `Command` use-profile",
            ]
        );
    }

    #[test]
    fn commands_that_cannot_be_found_are_no_silent_success() {
        let lost = "#[derive(clap::Subcommand)] enum Verbs { List }";
        assert_eq!(
            checked("harness-bin", &[], &[lost]),
            ["CommandsNotFound { krate: \"harness-bin\" }"]
        );
        assert_eq!(checked("harness-types", &[], &[lost]), [""; 0]);
    }

    #[test]
    fn programs_and_the_file_are_checked_in_every_crate() {
        assert_eq!(
            checked(
                "harness-host",
                &["attach", "hello"],
                &["// harness.toml\nconst F: &str = \"harness.toml\";"]
            ),
            ["harness-host: a program attach", "a.rs:2 harness.toml"]
        );
    }

    #[test]
    fn names_are_turned_as_clap_turns_them() {
        assert_eq!(kebab("UseProfile"), "use-profile");
        assert_eq!(kebab("Up"), "up");
    }
}
