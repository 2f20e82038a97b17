//! Corrects what pbjson-build writes where it departs from the protobuf JSON of the peers.
//!
//! pbjson-build has no hooks, so its text is rewritten line by line. Every rule is counted against
//! the descriptors in [`Rewriter::finish`]: a new version of the generator that writes something
//! else fails the code generation instead of losing a rule in silence.
//!
//! | written by pbjson-build | becomes | because |
//! |---|---|---|
//! | unknown enum name: error, or value 0 | unset; left out of a list | the SDKs' parser does that |
//! | unknown enum number: error both ways | kept | proto3 enums are open |
//! | `null` for a list or map: error | empty | as above |
//! | `1.0`, `"1.0"` for an integer: error | 1 | as above |
//! | NaN and infinities: `null` | their names | `null` reads as unset |
//! | enum aliases: unknown | read | `STATE_IDLE` of SDK 0.1.0 to 0.1.8 |
//! | unknown fields: skipped | skipped, and noticed | so that readers can be told of them |
//! | pbjson's private helpers | `crate::wire` | they are private, and one dependency less |

use anyhow::{Context as _, bail, ensure};

use super::schema::{Kind, Model};

/// Rewrites the files of one run and counts.
#[derive(Debug)]
pub(super) struct Rewriter<'a> {
    model: &'a Model,
    aliases: &'a [(&'a str, &'a str, &'a [&'a str])],
    manual: &'a [&'a str],
    found: Counts,
}

/// How often each rule applied, or must apply.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    enum_read: usize,
    enum_list_read: usize,
    enum_written: usize,
    enum_list_written: usize,
    repeated_read: usize,
    double_written: usize,
    skipped: usize,
    name_aliases: usize,
    value_aliases: usize,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(
        model: &'a Model,
        aliases: &'a [(&'a str, &'a str, &'a [&'a str])],
        manual: &'a [&'a str],
    ) -> Self {
        Self {
            model,
            aliases,
            manual,
            found: Counts::default(),
        }
    }

    /// Rewrites one file.
    pub(super) fn rewrite(&mut self, text: &str) -> anyhow::Result<String> {
        let mut out = String::with_capacity(text.len());
        let mut lines = text.lines();
        // The message or enum whose `Serialize` implementation came last.
        let mut rust = String::new();
        while let Some(line) = lines.next() {
            let indent = &line[..line.len() - line.trim_start().len()];
            let code = line.trim_start();
            if let Some(name) = code
                .strip_prefix("impl serde::Serialize for ")
                .and_then(|rest| rest.strip_suffix(" {"))
            {
                rust = name.to_owned();
            }
            let mut next = || {
                lines
                    .next()
                    .map(str::trim)
                    .context("file ends in a statement")
            };
            let new = if let Some((target, ty)) = enum_read(code) {
                self.found.enum_read += 1;
                format!("{target}map_.next_value::<crate::wire::EnumField<{ty}>>()?.0;")
            } else if let Some((target, ty, variant)) = oneof_enum_read(code) {
                self.found.enum_read += 1;
                format!(
                    "{target}map_.next_value::<crate::wire::EnumField<{ty}>>()?.0.map({variant});"
                )
            } else if let Some((target, ty)) = enum_list_read(code) {
                self.found.enum_list_read += 1;
                self.found.repeated_read += 1;
                format!("{target}Some(map_.next_value::<crate::wire::EnumList<{ty}>>()?.0);")
            } else if let Some(ty) = between(code, "let v = ", "::try_from(*v)") {
                ensure!(
                    next()?.starts_with(".map_err("),
                    "unexpected enum conversion"
                );
                self.found.enum_written += 1;
                format!("let v = crate::wire::EnumValue::<{ty}>::new(*v);")
            } else if let Some(list) = between(code, "let v = ", ".iter().cloned().map(|v| {") {
                let ty = next()?
                    .strip_suffix("::try_from(v)")
                    .context("unexpected enum list conversion")?;
                ensure!(
                    next()?.starts_with(".map_err("),
                    "unexpected enum list conversion"
                );
                ensure!(
                    next()? == "}).collect::<std::result::Result<Vec<_>, _>>()?;",
                    "unexpected enum list conversion"
                );
                self.found.enum_list_written += 1;
                format!(
                    "let v = {list}.iter().map(|v| crate::wire::EnumValue::<{ty}>::new(*v)).collect::<Vec<_>>();"
                )
            } else if code == "let _ = map_.next_value::<serde::de::IgnoredAny>()?;" {
                self.found.skipped += 1;
                "map_.next_value::<crate::wire::Skipped>()?;".into()
            } else if let Some(target) = code.strip_suffix("Some(map_.next_value()?);") {
                self.found.repeated_read += 1;
                format!("{target}map_.next_value()?;")
            } else if code
                == "Some(map_.next_value::<Vec<::pbjson::private::NumberDeserialize<_>>>()?"
            {
                ensure!(
                    next()? == ".into_iter().map(|x| x.0).collect())",
                    "unexpected list of numbers"
                );
                self.found.repeated_read += 1;
                "map_.next_value::<::std::option::Option<Vec<crate::wire::Number<_>>>>()?.map(|list| list.into_iter().map(|x| x.0).collect())".into()
            } else if let Some(target) = code.strip_suffix("__ = Some(") {
                ensure!(
                    next()? == "map_.next_value::<std::collections::BTreeMap<_, _>>()?"
                        && next()? == ");",
                    "unexpected map"
                );
                self.found.repeated_read += 1;
                format!("{target}__ = map_.next_value()?;")
            } else {
                self.simple(code, &rust)
            };
            out.push_str(indent);
            out.push_str(&new);
            out.push('\n');
        }
        if out.contains("pbjson") {
            bail!("a use of pbjson's runtime is left");
        }
        Ok(out)
    }

    /// Rules within one line.
    fn simple(&mut self, code: &str, rust: &str) -> String {
        let mut code = code
            .replace(
                "::pbjson::private::NumberDeserialize<_>",
                "crate::wire::Number<_>",
            )
            .replace(
                "::pbjson::private::BytesDeserialize<_>",
                "crate::wire::Base64",
            )
            .replace(
                "pbjson::private::base64::encode",
                "crate::wire::encode_base64",
            )
            .replace(
                "formatter.write_str(\"struct ",
                "formatter.write_str(\"an object of type ",
            );
        if let Some(field) = between(&code, "struct_ser.serialize_field(\"", "\", v)?;")
            && self.is_double(field)
        {
            self.found.double_written += 1;
            code = code.replace("\", v)?;", "\", &crate::wire::Float(*v))?;");
        }
        let here = |path: &str| path.ends_with(&format!("::{rust}"));
        for (message, field, names) in self.aliases {
            let Some(message) = self
                .model
                .messages
                .get(*message)
                .filter(|it| here(&it.rust))
            else {
                continue;
            };
            let Some(field) = message.fields.iter().find(|it| it.name == *field) else {
                continue;
            };
            if code.starts_with(&format!("\"{}\" ", field.json))
                && code.contains("GeneratedField::")
            {
                self.found.name_aliases += 1;
                let names: Vec<_> = names.iter().map(|name| format!("{name:?} | ")).collect();
                code.insert_str(0, &names.concat());
            }
        }
        for item in self.model.enums.values().filter(|it| here(&it.rust)) {
            for (alias, of) in aliases_of(&item.values) {
                if code.starts_with(&format!("\"{of}\" => Ok(")) {
                    self.found.value_aliases += 1;
                    code.insert_str(0, &format!("{alias:?} | "));
                }
            }
        }
        code
    }

    fn is_double(&self, json: &str) -> bool {
        self.model
            .messages
            .values()
            .flat_map(|message| &message.fields)
            .any(|field| field.json == json && field.kind == Kind::Double)
    }

    /// Compares the counts with the descriptors.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let mut wanted = Counts::default();
        for (name, message) in &self.model.messages {
            if self.manual.contains(&format!(".{name}").as_str()) {
                continue;
            }
            wanted.skipped += 1;
            for field in &message.fields {
                let is_enum = matches!(field.kind, Kind::Enum(_));
                wanted.repeated_read += usize::from(field.repeated);
                wanted.enum_read += usize::from(is_enum && !field.repeated);
                wanted.enum_written += usize::from(is_enum && !field.repeated);
                wanted.enum_list_read += usize::from(is_enum && field.repeated);
                wanted.enum_list_written += usize::from(is_enum && field.repeated);
                wanted.double_written += usize::from(field.kind == Kind::Double);
            }
        }
        wanted.name_aliases = self.aliases.len();
        wanted.value_aliases = self
            .model
            .enums
            .values()
            .map(|item| aliases_of(&item.values).count())
            .sum();
        ensure!(
            self.found == wanted,
            "pbjson-build writes other text than the rules expect\n  wanted: {wanted:?}\n  found:  {:?}",
            self.found
        );
        Ok(())
    }
}

/// Names that share their number with an earlier one, and that one.
fn aliases_of(values: &[(String, i32)]) -> impl Iterator<Item = (&str, &str)> {
    values
        .iter()
        .enumerate()
        .filter_map(|(index, (name, number))| {
            values[..index]
                .iter()
                .find(|(_, earlier)| earlier == number)
                .map(|(first, _)| (name.as_str(), first.as_str()))
        })
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    text.strip_prefix(start)?.strip_suffix(end)
}

/// `x__ = map_.next_value::<Option<E>>()?.map(|x| x as i32);`
fn enum_read(code: &str) -> Option<(&str, &str)> {
    code.strip_suffix(">>()?.map(|x| x as i32);")?
        .split_once("map_.next_value::<::std::option::Option<")
}

/// `x__ = map_.next_value::<Option<E>>()?.map(|x| Variant(x as i32));`
fn oneof_enum_read(code: &str) -> Option<(&str, &str, &str)> {
    let (target, rest) = code
        .strip_suffix("(x as i32));")?
        .split_once("map_.next_value::<::std::option::Option<")?;
    let (ty, variant) = rest.split_once(">>()?.map(|x| ")?;
    Some((target, ty, variant))
}

/// `x__ = Some(map_.next_value::<Vec<E>>()?.into_iter().map(|x| x as i32).collect());`
fn enum_list_read(code: &str) -> Option<(&str, &str)> {
    code.strip_suffix(">>()?.into_iter().map(|x| x as i32).collect());")?
        .split_once("Some(map_.next_value::<Vec<")
}
