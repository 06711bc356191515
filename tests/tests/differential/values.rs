//! Types and values: each value as a literal and as the bytes that a driver would bind.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// A CQL type. The user-defined type is always `{ks}.u1 (a int, b text, c frozen<list<int>>)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Native(&'static str),
    List(Box<Ty>, bool),
    Set(Box<Ty>, bool),
    Map(Box<Ty>, Box<Ty>, bool),
    Tuple(Vec<Ty>),
    Udt(bool),
    Vector(u8),
    Counter,
    /// No type of a column: the text of a marker that stands for JSON.
    Json(String),
}

/// Types that may be part of a primary key.
pub(crate) const KEY_TYPES: &[&str] = &[
    "int",
    "text",
    "bigint",
    "uuid",
    "blob",
    "boolean",
    "inet",
    "date",
    "smallint",
    "varint",
    "decimal",
    "timestamp",
    "double",
    "time",
    "tinyint",
    "ascii",
    "timeuuid",
    "float",
];

/// A value in both spellings; `None` bytes are null.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub literal: String,
    pub bytes: Vec<u8>,
}

impl Ty {
    pub(crate) fn cql(&self) -> String {
        let frozen = |frozen: bool, text: String| match frozen {
            true => format!("frozen<{text}>"),
            false => text,
        };
        match self {
            Ty::Native(name) => (*name).to_owned(),
            Ty::List(of, f) => frozen(*f, format!("list<{}>", of.cql())),
            Ty::Set(of, f) => frozen(*f, format!("set<{}>", of.cql())),
            Ty::Map(k, v, f) => frozen(*f, format!("map<{}, {}>", k.cql(), v.cql())),
            Ty::Tuple(of) => {
                let of: Vec<String> = of.iter().map(Ty::cql).collect();
                format!("tuple<{}>", of.join(", "))
            }
            Ty::Udt(f) => frozen(*f, "u1".to_owned()),
            Ty::Vector(n) => format!("vector<float, {n}>"),
            Ty::Counter => "counter".to_owned(),
            Ty::Json(_) => "text".to_owned(),
        }
    }

    pub(crate) fn is_multi_cell(&self) -> bool {
        matches!(
            self,
            Ty::List(_, false) | Ty::Set(_, false) | Ty::Map(_, _, false) | Ty::Udt(false)
        )
    }

    /// A type for a regular column.
    pub(crate) fn random(rng: &mut ChaCha8Rng) -> Ty {
        let simple = |rng: &mut ChaCha8Rng| Ty::Native(KEY_TYPES.choose(rng).unwrap());
        let frozen = rng.random_bool(0.4);
        match rng.random_range(0..20) {
            0 => Ty::Native("duration"),
            1 | 2 => Ty::List(Box::new(simple(rng)), frozen),
            3 | 4 => Ty::Set(Box::new(simple(rng)), frozen),
            5 | 6 => Ty::Map(Box::new(simple(rng)), Box::new(simple(rng)), frozen),
            7 => Ty::Tuple(vec![simple(rng), simple(rng)]),
            8 => Ty::Udt(frozen),
            9 => Ty::Vector(rng.random_range(1..5)),
            10 => {
                let inner = Ty::Set(Box::new(simple(rng)), true);
                Ty::Map(Box::new(simple(rng)), Box::new(inner), frozen)
            }
            11 => Ty::List(Box::new(Ty::Udt(true)), frozen),
            12 => Ty::Tuple(vec![Ty::Native("date"), Ty::Native("duration")]),
            _ => simple(rng),
        }
    }

    /// A value; keys come from a small domain so that rows meet again.
    pub(crate) fn value(&self, rng: &mut ChaCha8Rng, key: bool) -> Value {
        let n: i64 = rng.random_range(0..if key { 5 } else { 40 });
        match self {
            Ty::Native(name) => native(name, n, key, rng),
            Ty::Counter => native("bigint", n, false, rng),
            Ty::Json(text) => Value {
                literal: format!("'{}'", text.replace('\'', "''")),
                bytes: text.clone().into_bytes(),
            },
            Ty::List(of, _) => many(of, '[', ']', rng),
            Ty::Set(of, _) => many(of, '{', '}', rng),
            Ty::Map(k, v, _) => {
                let mut literals = Vec::new();
                // Which of two equal keys wins in a literal is left to a hash table in Cassandra.
                let mut entries: Vec<(Value, Value)> = Vec::new();
                for _ in 0..rng.random_range(1..4) {
                    let (k, v) = (k.value(rng, true), v.value(rng, false));
                    if entries.iter().all(|(other, _)| other.bytes != k.bytes) {
                        entries.push((k, v));
                    }
                }
                let mut bytes = (entries.len() as i32).to_be_bytes().to_vec();
                for (k, v) in entries {
                    literals.push(format!("{}: {}", k.literal, v.literal));
                    append(&mut bytes, &k.bytes);
                    append(&mut bytes, &v.bytes);
                }
                Value {
                    literal: format!("{{{}}}", literals.join(", ")),
                    bytes,
                }
            }
            Ty::Tuple(of) => {
                let parts: Vec<Value> = of.iter().map(|t| t.value(rng, false)).collect();
                fields("(", ")", parts.into_iter().map(|p| (String::new(), p)))
            }
            Ty::Udt(_) => {
                let a = native("int", n, false, rng);
                let b = native("text", n + 1, false, rng);
                let c = many(&Ty::Native("int"), '[', ']', rng);
                let named = [("a: ", a), ("b: ", b), ("c: ", c)];
                fields("{", "}", named.into_iter().map(|(n, v)| (n.to_owned(), v)))
            }
            Ty::Vector(len) => {
                let parts: Vec<f32> = (0..*len)
                    .map(|_| rng.random_range(-8..8) as f32 / 4.0)
                    .collect();
                Value {
                    literal: format!("{parts:?}"),
                    bytes: parts.iter().flat_map(|f| f.to_be_bytes()).collect(),
                }
            }
        }
    }
}

fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn many(of: &Ty, open: char, close: char, rng: &mut ChaCha8Rng) -> Value {
    let len: i32 = rng.random_range(0..4);
    let mut bytes = len.to_be_bytes().to_vec();
    let mut literals = Vec::new();
    for _ in 0..len {
        let value = of.value(rng, true);
        append(&mut bytes, &value.bytes);
        literals.push(value.literal);
    }
    Value {
        literal: format!("{open}{}{close}", literals.join(", ")),
        bytes,
    }
}

fn fields(open: &str, close: &str, parts: impl Iterator<Item = (String, Value)>) -> Value {
    let mut bytes = Vec::new();
    let mut literals = Vec::new();
    for (name, value) in parts {
        append(&mut bytes, &value.bytes);
        literals.push(format!("{name}{}", value.literal));
    }
    Value {
        literal: format!("{open}{}{close}", literals.join(", ")),
        bytes,
    }
}

fn native(name: &str, n: i64, key: bool, rng: &mut ChaCha8Rng) -> Value {
    let value = |literal: String, bytes: Vec<u8>| Value { literal, bytes };
    let number = |bytes: Vec<u8>| value(n.to_string(), bytes);
    match name {
        "tinyint" => number(vec![n as u8]),
        "smallint" => number((n as i16).to_be_bytes().to_vec()),
        "int" => number((n as i32).to_be_bytes().to_vec()),
        "bigint" => number(n.to_be_bytes().to_vec()),
        "varint" => {
            let n = n * 1_000_003 - 20_000_000;
            value(n.to_string(), varint(n))
        }
        "decimal" => {
            let unscaled = n * 10_007 - 50_000;
            let mut bytes = 2i32.to_be_bytes().to_vec();
            bytes.extend(varint(unscaled));
            let sign = if unscaled < 0 { "-" } else { "" };
            let abs = unscaled.abs();
            value(format!("{sign}{}.{:02}", abs / 100, abs % 100), bytes)
        }
        "float" => {
            let f = n as f32 / 4.0;
            value(format!("{f:?}"), f.to_be_bytes().to_vec())
        }
        "double" => {
            let f = n as f64 / 8.0 - 1.0;
            value(format!("{f:?}"), f.to_be_bytes().to_vec())
        }
        "boolean" => value((n % 2 == 0).to_string(), vec![u8::from(n % 2 == 0)]),
        "ascii" => value(format!("'a{n}'"), format!("a{n}").into_bytes()),
        // Of several frames.
        "blob" if !key && n == 0 && rng.random_bool(0.1) => {
            let bytes = vec![0x5a; rng.random_range(130_000..300_000)];
            value(format!("0x{}", "5a".repeat(bytes.len())), bytes)
        }
        "text" if !key && n == 0 => {
            let long = "long ".repeat(rng.random_range(1..2000));
            value(format!("'{long}'"), long.into_bytes())
        }
        "text" => value(format!("'it''s é {n}'"), format!("it's é {n}").into_bytes()),
        "blob" => value(format!("0x00ff{n:02x}"), vec![0, 0xff, n as u8]),
        "inet" if n % 2 == 0 => value(format!("'10.0.0.{n}'"), vec![10, 0, 0, n as u8]),
        "inet" => {
            let mut bytes = vec![0x20, 1, 0xd, 0xb8];
            bytes.resize(15, 0);
            bytes.push(n as u8);
            value(format!("'2001:db8::{n:x}'"), bytes)
        }
        "uuid" => {
            let mut bytes = vec![
                0x55, 0x0e, 0x84, 0, 0xe2, 0x9b, 0x41, 0xd4, 0xa7, 0x16, 0x44, 0x66, 0x55, 0x44, 0,
            ];
            bytes.push(n as u8);
            value(format!("550e8400-e29b-41d4-a716-4466554400{n:02x}"), bytes)
        }
        "timeuuid" => {
            let mut bytes = vec![
                0xd2, 0x17, 0x7d, 0xd0, 0xea, 0xa2, 0x11, 0xde, 0xa5, 0x72, 0, 0x1b, 0x77, 0x9c,
                0x76,
            ];
            bytes.push(n as u8);
            value(format!("d2177dd0-eaa2-11de-a572-001b779c76{n:02x}"), bytes)
        }
        // Of what expires, nothing does within a run.
        "ttl" => {
            let seconds = 8_640_000 + n as i32;
            value(seconds.to_string(), seconds.to_be_bytes().to_vec())
        }
        "timestamp" => {
            let ms = 1_600_000_000_000 + n;
            value(ms.to_string(), ms.to_be_bytes().to_vec())
        }
        "date" => {
            let day = (1u32 << 31) + n as u32;
            value(day.to_string(), day.to_be_bytes().to_vec())
        }
        "time" => {
            let ns = n * 1_000_000_007;
            value(ns.to_string(), ns.to_be_bytes().to_vec())
        }
        _ => {
            let (months, days, ns) = (n, n * 3, n * 3_600_000_000_000);
            let mut bytes = Vec::new();
            for part in [months, days, ns] {
                zigzag(&mut bytes, part);
            }
            value(format!("{months}mo{days}d{n}h"), bytes)
        }
    }
}

/// The shortest two's complement.
fn varint(n: i64) -> Vec<u8> {
    let bytes = n.to_be_bytes();
    let sign = if n < 0 { 0xff } else { 0 };
    let mut start = 0;
    while start < 7 && bytes[start] == sign && (bytes[start + 1] ^ sign) & 0x80 == 0 {
        start += 1;
    }
    bytes[start..].to_vec()
}

/// `[vint]` of the protocol's specification, for durations.
fn zigzag(out: &mut Vec<u8>, n: i64) {
    let n = ((n << 1) ^ (n >> 63)) as u64;
    let bits = 64 - n.leading_zeros().min(63);
    let extra = (bits.saturating_sub(1) / 7).min(8) as usize;
    let bytes = n.to_be_bytes();
    if extra == 8 {
        out.push(0xff);
        out.extend_from_slice(&bytes);
        return;
    }
    let at = out.len();
    out.extend_from_slice(&bytes[7 - extra..]);
    out[at] |= !(0xffu32 >> extra) as u8;
}
