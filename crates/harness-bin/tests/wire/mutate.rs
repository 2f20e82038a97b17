//! Changes messages: some so that they still mean something, some so that they mean nothing.

use serde_json::{Map, Value, json};

/// Numbers that look random and are the same in every run: splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// A changed message: its bytes, and whether they are to be sent as text.
pub(crate) fn json_frame(chance: &mut Chance, frames: &[Value]) -> Vec<u8> {
    let mut value = chance.pick(frames).clone();
    match chance.below(10) {
        // Most changes are to the structure, so that many are still understood.
        0..=6 => {
            for _ in 0..=chance.below(2) {
                change(chance, &mut value, frames);
            }
            value.to_string().into_bytes()
        }
        7 => respelled(chance, &value).into_bytes(),
        8 => doubled(chance, &value).into_bytes(),
        _ => {
            let other = chance.pick(frames).to_string();
            bytes(chance, value.to_string().into_bytes(), other.as_bytes())
        }
    }
}

/// Changes bytes, whatever they mean.
pub(crate) fn bytes(chance: &mut Chance, mut bytes: Vec<u8>, other: &[u8]) -> Vec<u8> {
    match chance.below(5) {
        0 => {
            for _ in 0..=chance.below(4) {
                if !bytes.is_empty() {
                    let at = chance.below(bytes.len());
                    bytes[at] ^= 1 << chance.below(8);
                }
            }
        }
        1 => bytes.truncate(chance.below(bytes.len() + 1)),
        2 => {
            // The beginning of one and the end of another.
            bytes.truncate(chance.below(bytes.len() + 1));
            bytes.extend_from_slice(&other[chance.below(other.len() + 1)..]);
        }
        3 => {
            let at = chance.below(bytes.len() + 1);
            let new: Vec<u8> = (0..=chance.below(16))
                .map(|_| chance.next().to_le_bytes()[0])
                .collect();
            bytes.splice(at..at, new);
        }
        _ => {
            let from = chance.below(bytes.len() + 1);
            let to = from + chance.below(bytes.len() + 1 - from);
            bytes.drain(from..to);
        }
    }
    bytes
}

/// Changes one value somewhere.
fn change(chance: &mut Chance, value: &mut Value, frames: &[Value]) {
    let mut places = 0;
    visit(value, &mut |_| {
        places += 1;
        false
    });
    let mut at = chance.below(places);
    let donor = chance.pick(frames).clone();
    visit(value, &mut |value| {
        if at == 0 {
            change_here(chance, value, &donor);
            return true;
        }
        at -= 1;
        false
    });
}

/// Visits a value and all below it until the visitor says that it has seen enough.
fn visit(value: &mut Value, seen: &mut impl FnMut(&mut Value) -> bool) -> bool {
    if seen(value) {
        return true;
    }
    match value {
        Value::Array(list) => list.iter_mut().any(|value| visit(value, seen)),
        Value::Object(map) => map.values_mut().any(|value| visit(value, seen)),
        _ => false,
    }
}

fn change_here(chance: &mut Chance, value: &mut Value, donor: &Value) {
    if let Value::Object(map) = value
        && chance.below(3) > 0
    {
        return change_object(chance, map, donor);
    }
    *value = match chance.below(12) {
        0 => Value::Null,
        1 => json!(chance.below(2) == 0),
        2 => chance.pick(&numbers()).clone(),
        3 => json!(""),
        4 => json!("ü\u{0}\u{202e}𝄞".repeat(1 + chance.below(200))),
        5 => json!(["a", 1, null]),
        6 => json!({ "a": {} }),
        7 => donor.clone(),
        8 => nested(chance.below(300), value.take()),
        9 => json!([value.take()]),
        10 => json!(value.to_string()),
        _ => match value.take() {
            Value::String(text) => json!(text.chars().rev().collect::<String>()),
            Value::Number(number) => json!(number.to_string()),
            Value::Bool(flag) => json!(!flag),
            Value::Array(mut list) => {
                let copy = list.first().cloned();
                list.extend(copy);
                Value::Array(list)
            }
            other => other,
        },
    };
}

fn change_object(chance: &mut Chance, map: &mut Map<String, Value>, donor: &Value) {
    let names: Vec<String> = map.keys().cloned().collect();
    if names.is_empty() || chance.below(4) == 0 {
        // Unknown fields are no reason to refuse a message.
        map.insert(format!("field{}", chance.below(9)), donor.clone());
        return;
    }
    let name = chance.pick(&names).clone();
    match chance.below(4) {
        0 => {
            map.remove(&name);
        }
        1 => {
            map.insert(name, Value::Null);
        }
        2 => {
            // The value goes to another field.
            let other = chance.pick(&names).clone();
            let (a, b) = (map[&name].clone(), map[&other].clone());
            map.insert(name, b);
            map.insert(other, a);
        }
        _ => {
            let value = map.remove(&name).unwrap_or_default();
            map.insert(snake_case(&name), value);
        }
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn numbers() -> [Value; 9] {
    [
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(4_294_967_296_u64),
        json!(1e300),
        json!("NaN"),
        json!("18446744073709551616"),
    ]
}

fn nested(depth: usize, inner: Value) -> Value {
    (0..depth).fold(inner, |inner, n| {
        if n % 2 == 0 {
            json!([inner])
        } else {
            json!({ "a": inner })
        }
    })
}

/// The same in another spelling: blanks, escapes, numbers without end, nesting without bottom.
fn respelled(chance: &mut Chance, value: &Value) -> String {
    let text = value.to_string();
    match chance.below(5) {
        0 => serde_json::to_string_pretty(value).unwrap_or(text),
        1 => text.replace("\":", "\" \t\r\n:"),
        2 => {
            let escaped = text.chars().map(|c| match c {
                'a'..='f' => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            });
            // Only strings hold these letters, but for the words of JSON.
            escaped
                .collect::<String>()
                .replace("tru\\u0065", "true")
                .replace("\\u0066\\u0061ls\\u0065", "false")
        }
        3 => format!(
            "{{\"userInput\": {}1{}}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        ),
        _ => format!(
            "{{\"haltRequest\": 1{}, \"extra\": {text}}}",
            "0".repeat(5000)
        ),
    }
}

/// A member given twice.
fn doubled(chance: &mut Chance, value: &Value) -> String {
    let Some(map) = value.as_object().filter(|map| !map.is_empty()) else {
        return value.to_string();
    };
    let members: Vec<String> = map
        .iter()
        .map(|(name, value)| format!("{}:{value}", json!(name)))
        .collect();
    let again = chance.pick(&members).clone();
    format!("{{{},{again}}}", members.join(","))
}
