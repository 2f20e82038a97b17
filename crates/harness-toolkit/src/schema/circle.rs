//! Finds schemas that no value could ever be checked against.

use std::collections::HashSet;
use std::ptr;

use serde_json::Value;

/// How many schemas deep the rules for one value may be stacked; no honest schema gets near.
const MAX_DEPTH: usize = 200;

/// The keywords that refer to another schema for the same value.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Looks for references that come back to where they started without going down into the value:
/// checking anything against them would never end. Returns one of them.
///
/// References by `$id` are resolved by their last segment alone, which may find more schemas than
/// are meant, never fewer.
pub(super) fn find_circle(root: &Value) -> Option<String> {
    let mut walk = Walk {
        root,
        named: Vec::new(),
        under_way: Vec::new(),
        done: HashSet::new(),
    };
    let all = nodes(root);
    walk.named = all
        .iter()
        .copied()
        .filter(|node| names(node).next().is_some())
        .collect();
    let mut referring = all
        .into_iter()
        .filter(|node| references(node).next().is_some());
    referring.find_map(|node| walk.visit(node).err())
}

/// Every object in a document.
fn nodes(root: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(members) => {
                found.push(value);
                pending.extend(members.values());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    found
}

fn texts<'a>(node: &'a Value, keywords: &'static [&str]) -> impl Iterator<Item = &'a str> {
    keywords
        .iter()
        .filter_map(|keyword| node.get(*keyword)?.as_str())
}

fn references(node: &Value) -> impl Iterator<Item = &str> {
    texts(node, &REFERENCES)
}

fn names(node: &Value) -> impl Iterator<Item = &str> {
    texts(node, &["$id", "id", "$anchor", "$dynamicAnchor"])
}

struct Walk<'a> {
    root: &'a Value,
    /// The schemas that have a name.
    named: Vec<&'a Value>,
    /// The schemas that apply to the value at hand, each because of the one before.
    under_way: Vec<*const Value>,
    done: HashSet<*const Value>,
}

impl<'a> Walk<'a> {
    /// Visits every schema that applies to the same value as `node` does.
    fn visit(&mut self, node: &'a Value) -> Result<(), String> {
        let key = ptr::from_ref(node);
        if self.done.contains(&key) {
            return Ok(());
        }
        if self.under_way.contains(&key) || self.under_way.len() == MAX_DEPTH {
            let reference = references(node).next().unwrap_or("#");
            return Err(reference.to_owned());
        }
        self.under_way.push(key);
        for reference in references(node) {
            for target in self.targets(reference) {
                self.visit(target)?;
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for inner in node
                .get(keyword)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                self.visit(inner)?;
            }
        }
        for keyword in ["not", "if", "then", "else"] {
            if let Some(inner) = node.get(keyword) {
                self.visit(inner)?;
            }
        }
        for keyword in ["dependentSchemas", "dependencies"] {
            for inner in node
                .get(keyword)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                self.visit(inner.1)?;
            }
        }
        self.under_way.pop();
        self.done.insert(key);
        Ok(())
    }

    fn targets(&self, reference: &str) -> Vec<&'a Value> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let documents = match document {
            "" => vec![self.root],
            document => self.with_id(document),
        };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            let has_name = |node: &&Value| {
                names(node).any(|name| name == fragment || name.strip_prefix('#') == Some(fragment))
            };
            return self.named.iter().copied().filter(has_name).collect();
        }
        let pointer = decoded(fragment);
        // A pointer in a schema with an `$id` begins there.
        let bases = documents.into_iter().chain(self.named.iter().copied());
        match pointer.as_str() {
            "" => match document {
                "" => std::iter::once(self.root).chain(self.with_id("")).collect(),
                document => self.with_id(document),
            },
            pointer => bases.filter_map(|base| base.pointer(pointer)).collect(),
        }
    }

    /// The schemas whose `$id` ends like `document`.
    fn with_id(&self, document: &str) -> Vec<&'a Value> {
        let last = |uri: &str| {
            uri.trim_end_matches('#')
                .rsplit('/')
                .next()
                .map(str::to_owned)
        };
        let wanted = last(document);
        let anything = matches!(wanted.as_deref(), Some("." | ".."));
        let fits =
            |node: &&Value| texts(node, &["$id", "id"]).any(|id| anything || last(id) == wanted);
        self.named.iter().copied().filter(fits).collect()
    }
}

/// Takes the percent-encoding out of a fragment.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, after @ ..] = rest {
        let code = match after {
            [high, low, ..] if *first == b'%' => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                digit(high)
                    .zip(digit(low))
                    .and_then(|(a, b)| u8::try_from(a * 16 + b).ok())
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn circles_are_found_however_they_are_written() {
        for circle in [
            json!({"$ref": "#"}),
            json!({"$ref": ""}),
            json!({"$dynamicRef": "#"}),
            json!({"$recursiveRef": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"not": {"$ref": "#"}}),
            json!({"dependentSchemas": {"a": {"$ref": "#"}}}),
            json!({"$anchor": "a", "$ref": "#a"}),
            json!({"$dynamicAnchor": "a", "anyOf": [{"$dynamicRef": "#a"}]}),
            json!({"$id": "https://x.example/s", "$ref": "https://x.example/s"}),
            json!({"$id": "https://x.example/s", "$ref": "s"}),
            json!({"$id": "https://x.example/s/", "$ref": "."}),
            json!({"properties": {"a": {"$ref": "#/properties/a"}}}),
            json!({"$ref": "#/%24defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
            json!({"properties": {"a": {"anyOf": [{"$ref": "#/properties/b"}]},
                                  "b": {"if": {"$ref": "#/properties/a"}}}}),
            json!({"properties": {"s": {"$id": "inner", "$defs": {"a": {"$ref": "#/$defs/a"}},
                                        "$ref": "#/$defs/a"}}}),
        ] {
            assert!(find_circle(&circle).is_some(), "{circle}");
        }
    }

    #[test]
    fn references_that_lead_on_are_no_circles() {
        for schema in [
            json!({"properties": {"next": {"$ref": "#"}}}),
            json!({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}),
            json!({"$id": "https://x.example/tree", "properties": {"l": {"$ref": "tree"}}}),
            json!({"$defs": {"b": {"$id": "b"}}, "$id": "a", "allOf": [{"$ref": "b"}]}),
            json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {}}}),
            json!({"properties": {"$ref": {"type": "string"}}}),
        ] {
            assert_eq!(find_circle(&schema), None, "{schema}");
        }
    }

    #[test]
    fn many_paths_to_one_schema_are_walked_once() {
        let mut defs = serde_json::Map::new();
        for level in 0..100 {
            let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
            defs.insert(level.to_string(), json!({"allOf": [next, next]}));
        }
        defs.insert("100".to_owned(), json!({}));
        let schema = json!({"$defs": defs, "$ref": "#/$defs/60"});
        assert_eq!(find_circle(&schema), None);
    }
}
