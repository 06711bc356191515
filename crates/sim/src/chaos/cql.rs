//! The statements that the modelled clients send, and those that the proxy makes of them, as the
//! modelled nodes read them.

use helenus_wire::{Options, ValueRef, write};

use super::coverage::Kind;

/// Reads of a key, by anybody; writes of a key, by the one client that owns it.
pub(super) const READ: &str = "SELECT v FROM ks.t WHERE k = ?";
pub(super) const WRITE: &str = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
/// Adds up, so that it must not be executed twice.
pub(super) const ADD: &str = "UPDATE ks.n SET n = n + ? WHERE k = ?";
/// Conditional.
pub(super) const CAS: &str = "UPDATE ks.l SET v = ? WHERE k = ? IF v = ?";
pub(super) const READ_CAS: &str = "SELECT v FROM ks.l WHERE k = ?";
pub(super) const SCAN: &str = "SELECT k, v FROM ks.t";
/// With a LIMIT that it may not reach on its first page.
pub(super) const SCAN_SOME: &str = "SELECT k, v FROM ks.t LIMIT 25";
pub(super) const LIMIT: u32 = 25;
pub(super) const COUNT: &str = "SELECT count(*) FROM ks.t";
pub(super) const MANY: &str = "SELECT k, v FROM ks.t WHERE k IN ?";
/// Its keyspace is that of the session. Never prepared.
pub(super) const READ_HERE: &str = "SELECT v FROM t WHERE k = ?";
pub(super) const USE: &str = "USE ks";
/// The role of the connection that it comes over.
pub(super) const WHO: &str = "SELECT role FROM ks.who WHERE k = ?";

pub(super) const ALL: [&str; 10] = [
    READ, WRITE, ADD, CAS, READ_CAS, SCAN, SCAN_SOME, COUNT, MANY, WHO,
];

pub(super) const BIGINT: u16 = 0x02;
const BOOLEAN: u16 = 0x04;
const VARCHAR: u16 = 0x0D;
const LIST: u16 = 0x20;

/// What a statement asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Read(i64),
    ReadHere(i64),
    Use,
    Write(i64, i64),
    /// Key and amount.
    Add(i64, i64),
    /// Key, new value, and the one that must be there.
    Cas(i64, i64, i64),
    ReadCas(i64),
    /// The stretch of the ring above one token and up to another.
    Scan(i64, i64),
    Count(i64, i64),
    Many(Vec<i64>),
    Who,
}

impl Asked {
    pub(super) fn is_write(&self) -> bool {
        matches!(self, Asked::Write(..) | Asked::Add(..) | Asked::Cas(..))
    }

    pub(super) fn kind(&self) -> Kind {
        let whole = (i64::MIN, i64::MAX);
        match *self {
            Asked::Read(_) | Asked::ReadHere(_) | Asked::ReadCas(_) | Asked::Who => Kind::Read,
            Asked::Use => Kind::Use,
            Asked::Write(..) => Kind::Write,
            Asked::Add(..) => Kind::Counter,
            Asked::Cas(..) => Kind::Conditional,
            Asked::Scan(above, up_to) if (above, up_to) == whole => Kind::Page,
            Asked::Scan(..) => Kind::PagePart,
            Asked::Count(above, up_to) if (above, up_to) == whole => Kind::Count,
            Asked::Count(..) => Kind::CountPart,
            Asked::Many(_) => Kind::Many,
        }
    }
}

/// What a text with these values asks for; `None` if the model does not know it.
pub(super) fn read(text: &str, options: &Options<'_>) -> Option<Asked> {
    let mut values = options.values.iter().map(|(_, value)| value);
    // A literal, or the next marker's value.
    let mut term = |written: &str| -> Option<i64> {
        let written = written.trim_end_matches([')', ';']);
        if written != "?" {
            return written.parse().ok();
        }
        match values.next()? {
            ValueRef::Set(bytes) => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    };
    let words: Vec<&str> = text
        .split([' ', ',', '('])
        .filter(|w| !w.is_empty())
        .collect();
    let stretch = |term: &mut dyn FnMut(&str) -> Option<i64>| -> Option<(i64, i64)> {
        let (mut above, mut up_to) = (i64::MIN, i64::MAX);
        for (at, word) in words.iter().enumerate() {
            match *word {
                ">" => above = term(words.get(at + 1)?)?,
                ">=" => above = term(words.get(at + 1)?)?.saturating_sub(1),
                "<=" => up_to = term(words.get(at + 1)?)?,
                "<" => up_to = term(words.get(at + 1)?)?.checked_sub(1)?,
                _ => {}
            }
        }
        Some((above, up_to))
    };
    Some(match words.as_slice() {
        ["SELECT", "v", "FROM", "ks.t", "WHERE", "k", "=", k] => Asked::Read(term(k)?),
        ["SELECT", "v", "FROM", "t", "WHERE", "k", "=", k] => Asked::ReadHere(term(k)?),
        ["USE", _] => Asked::Use,
        ["SELECT", "v", "FROM", "ks.l", "WHERE", "k", "=", k] => Asked::ReadCas(term(k)?),
        ["SELECT", "role", "FROM", "ks.who", ..] => Asked::Who,
        ["INSERT", "INTO", "ks.t", "k", "v)", "VALUES", k, v] => Asked::Write(term(k)?, term(v)?),
        [
            "UPDATE",
            "ks.n",
            "SET",
            "n",
            "=",
            "n",
            "+",
            n,
            "WHERE",
            "k",
            "=",
            k,
        ] => {
            let n = term(n)?;
            Asked::Add(term(k)?, n)
        }
        [
            "UPDATE",
            "ks.l",
            "SET",
            "v",
            "=",
            v,
            "WHERE",
            "k",
            "=",
            k,
            "IF",
            "v",
            "=",
            old,
        ] => {
            let v = term(v)?;
            Asked::Cas(term(k)?, v, term(old)?)
        }
        ["SELECT", "k", "v", "FROM", "ks.t", "WHERE", "k", "IN", "?"] => {
            let Some(ValueRef::Set(list)) = options.values.get(0) else {
                return None;
            };
            let keys = list.get(4..)?.chunks_exact(12);
            let key = |chunk: &[u8]| i64::from_be_bytes(chunk[4..].try_into().expect("8 bytes"));
            Asked::Many(keys.map(key).collect())
        }
        ["SELECT", "k", "v", "FROM", "ks.t", ..] => {
            let (above, up_to) = stretch(&mut term)?;
            Asked::Scan(above, up_to)
        }
        ["SELECT", "count", "*)", "FROM", "ks.t", ..] => {
            let (above, up_to) = stretch(&mut term)?;
            Asked::Count(above, up_to)
        }
        _ => return None,
    })
}

/// Name and type of each column of a statement's result.
pub(super) fn columns(text: &str) -> &'static [(&'static str, u16)] {
    if text.starts_with("SELECT v") {
        &[("v", BIGINT)]
    } else if text.starts_with("SELECT k") {
        &[("k", BIGINT), ("v", BIGINT)]
    } else if text.starts_with("SELECT count") {
        &[("count", BIGINT)]
    } else if text.starts_with("SELECT role") {
        &[("role", VARCHAR)]
    } else {
        &[]
    }
}

pub(super) const APPLIED: &[(&str, u16)] = &[("[applied]", BOOLEAN)];
pub(super) const NOT_APPLIED: &[(&str, u16)] = &[("[applied]", BOOLEAN), ("v", BIGINT)];

fn table(text: &str) -> &str {
    let found = text.split(' ').find_map(|word| word.strip_prefix("ks."));
    found.unwrap_or("t")
}

fn write_columns(out: &mut Vec<u8>, text: &str, columns: &[(&str, u16)]) {
    write::string(out, "ks");
    write::string(out, table(text));
    for (name, id) in columns {
        write::string(out, name);
        write::u16(out, *id);
        if *id == LIST {
            write::u16(out, BIGINT);
        }
    }
}

/// The rows that a text asks for in all, at most.
pub(super) fn limit(text: &str) -> Option<u32> {
    text.ends_with(" LIMIT 25").then_some(LIMIT)
}

/// The id of a text's result metadata, which never changes.
pub(super) fn metadata_id(text: &str) -> [u8; 16] {
    let mut id = [3_u8; 16];
    for (at, byte) in text.bytes().enumerate() {
        id[at % 16] = id[at % 16].wrapping_mul(31) ^ byte;
    }
    id
}

/// The PREPARED that answers a text. Its id is its text.
pub(super) fn prepared(text: &str, is_v5: bool) -> Vec<u8> {
    let markers: Vec<(&str, u16)> = match text {
        MANY => vec![("k", LIST)],
        _ => vec![("m", BIGINT); text.matches('?').count()],
    };
    // Which of the markers is the key.
    let key: &[u16] = match text {
        READ | READ_CAS | WRITE | WHO => &[0],
        ADD | CAS => &[1],
        _ => &[],
    };
    let mut out = Vec::new();
    write::i32(&mut out, 4);
    write::short_bytes(&mut out, text.as_bytes());
    if is_v5 {
        write::short_bytes(&mut out, &metadata_id(text));
    }
    write::u32(&mut out, u32::from(!markers.is_empty()));
    write::u32(&mut out, markers.len() as u32);
    write::i32(&mut out, key.len() as i32);
    key.iter().for_each(|at| write::u16(&mut out, *at));
    let markers: Vec<(String, u16)> = (0..)
        .zip(&markers)
        .map(|(at, (name, id))| match key.contains(&at) {
            true => ("k".to_owned(), *id),
            false => (format!("{name}{at}"), *id),
        })
        .collect();
    let markers: Vec<(&str, u16)> = markers.iter().map(|(name, id)| (&**name, *id)).collect();
    if !markers.is_empty() {
        write_columns(&mut out, text, &markers);
    }
    let columns = columns(text);
    // Without columns: no metadata, as of an INSERT.
    write::u32(&mut out, if columns.is_empty() { 4 } else { 1 });
    write::u32(&mut out, columns.len() as u32);
    if !columns.is_empty() {
        write_columns(&mut out, text, columns);
    }
    out
}

/// A page of rows.
pub(super) fn rows(
    text: &str,
    columns: &[(&str, u16)],
    rows: &[Vec<Vec<u8>>],
    paging_state: Option<&[u8]>,
    skip_metadata: bool,
) -> Vec<u8> {
    let mut out = Vec::new();
    write::i32(&mut out, 2);
    let more = if paging_state.is_some() { 2 } else { 0 };
    write::u32(&mut out, more | if skip_metadata { 4 } else { 1 });
    write::u32(&mut out, columns.len() as u32);
    if let Some(state) = paging_state {
        write::bytes(&mut out, Some(state));
    }
    if !skip_metadata {
        write_columns(&mut out, text, columns);
    }
    write::i32(&mut out, rows.len() as i32);
    for cell in rows.iter().flatten() {
        write::bytes(&mut out, Some(cell));
    }
    out
}

/// Body of a `list<bigint>` value.
pub(super) fn list(keys: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    write::i32(&mut out, keys.len() as i32);
    for key in keys {
        write::bytes(&mut out, Some(&key.to_be_bytes()));
    }
    out
}
