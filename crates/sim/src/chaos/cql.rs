//! The statements that the modelled clients send, and those that the proxy makes of them, as the
//! modelled nodes read them.

use helenus_wire::{ValueRef, Values, write};

use super::coverage::Kind;
use super::lists;
use super::wide::{self, Action, KEYSPACE, LAYOUTS, TABLE};

/// Reads of a key, by anybody; writes of a key, by the one client that owns it.
pub(super) const READ: &str = "SELECT v FROM ks.t WHERE k = ?";
pub(super) const WRITE: &str = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
/// What the proxy makes of it in a batch with others.
const TIMED_WRITE: &str = "INSERT INTO ks.t (k, v) VALUES (?, ?) USING TIMESTAMP ?";
/// Adds up, so that it must not be executed twice.
pub(super) const ADD: &str = "UPDATE ks.n SET n = n + ? WHERE k = ?";
/// Conditional.
pub(super) const CAS: &str = "UPDATE ks.l SET v = ? WHERE k = ? IF v = ?";
pub(super) const READ_CAS: &str = "SELECT v FROM ks.l WHERE k = ?";
pub(super) const SCAN: &str = "SELECT k, v FROM ks.t";
/// With a LIMIT that it may not reach on its first page.
pub(super) const SCAN_SOME: &str = "SELECT k, v FROM ks.t LIMIT 25";
pub(super) const LIMIT: u32 = 25;
/// Of every third key, by a column that nobody writes. The second one's LIMIT may not be reached on its
/// first page.
pub(super) const FILTER: &str = "SELECT k, v FROM ks.t WHERE f = 1 ALLOW FILTERING";
pub(super) const FILTER_SOME: &str = "SELECT k, v FROM ks.t WHERE f = 1 LIMIT 7 ALLOW FILTERING";
const FILTER_LIMIT: u32 = 7;
pub(super) const COUNT: &str = "SELECT count(*) FROM ks.t";
pub(super) const MANY: &str = "SELECT k, v FROM ks.t WHERE k IN ?";
/// Its keyspace is that of the session. Never prepared.
pub(super) const READ_HERE: &str = "SELECT v FROM t WHERE k = ?";
pub(super) const USE: &str = "USE ks";
/// The role of the connection that it comes over.
pub(super) const WHO: &str = "SELECT role FROM ks.who WHERE k = ?";

/// All columns, whichever there are by then.
pub(super) const READ_ALL: &str = "SELECT * FROM ks.t WHERE k = ?";
pub(super) const SCAN_ALL: &str = "SELECT * FROM ks.t";
/// The schema changes, one after the other. Columns come in the order of their names, so that each of
/// these shifts all that there were before but the key.
pub(super) const ALTER: &str = "ALTER TABLE ks.t ADD c bigint";
const ADDED: [&str; 6] = ["q", "m", "j", "g", "e", "c"];
pub(super) const SCHEMA_MAX: usize = ADDED.len();

pub(super) const MANY_ALL: &str = "SELECT * FROM ks.t WHERE k IN ?";

pub(super) const ALL: [&str; 15] = [
    READ,
    WRITE,
    ADD,
    CAS,
    READ_CAS,
    SCAN,
    SCAN_SOME,
    FILTER,
    FILTER_SOME,
    COUNT,
    MANY,
    WHO,
    READ_ALL,
    SCAN_ALL,
    MANY_ALL,
];

/// Whether a scan filters.
pub(super) fn filters(text: &str) -> bool {
    text.ends_with("ALLOW FILTERING")
}

/// Whether a scan returns a key.
pub(super) fn returns(text: &str, key: i64) -> bool {
    !filters(text) || key % 3 == 0
}

/// Whether a text's result has other columns when the schema has changed.
pub(super) fn is_of_all(text: &str) -> bool {
    text.starts_with("SELECT *") && table(text) == "t"
}

/// Whether a change of the schema makes nodes forget a text.
pub(super) fn is_of_altered(text: &str) -> bool {
    table(text) == "t"
}

/// What a key has in a column that was added, which nobody writes.
pub(super) fn added_value(key: i64, column: &str) -> Option<i64> {
    let at = ADDED.iter().position(|name| *name == column)?;
    Some(-(key * 10 + at as i64 + 1))
}

pub(super) const BIGINT: u16 = 0x02;
const BOOLEAN: u16 = 0x04;
pub(super) const VARCHAR: u16 = 0x0D;
pub(super) const LIST: u16 = 0x20;

/// What a statement asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Read(i64),
    ReadHere(i64),
    Use,
    Alter,
    Write(i64, i64),
    /// Key, value, and when its client wrote it.
    TimedWrite(i64, i64, i64),
    /// Key and amount.
    Add(i64, i64),
    /// Key, new value, and the one that must be there.
    Cas(i64, i64, i64),
    ReadCas(i64),
    List(lists::Change),
    ReadList(i64),
    /// The stretch of the ring above one token and up to another.
    Scan(i64, i64),
    /// The same of a scan that filters.
    Filter(i64, i64),
    Count(i64, i64),
    Many(Vec<i64>),
    Who,
    /// Something of the table with clustering columns, or of a layout.
    Rows(Box<wide::Statement>),
}

impl Asked {
    pub(super) fn is_write(&self) -> bool {
        matches!(
            self,
            Asked::Write(..)
                | Asked::TimedWrite(..)
                | Asked::Add(..)
                | Asked::Cas(..)
                | Asked::List(_)
        )
    }

    pub(super) fn kind(&self) -> Kind {
        let whole = (i64::MIN, i64::MAX);
        match self {
            Asked::Rows(statement) => of_rows(statement),
            Asked::Read(_) | Asked::ReadHere(_) | Asked::ReadCas(_) => Kind::Read,
            Asked::ReadList(_) | Asked::Who => Kind::Read,
            Asked::List(_) => Kind::List,
            Asked::Use => Kind::Use,
            Asked::Alter => Kind::Alter,
            Asked::Write(..) | Asked::TimedWrite(..) => Kind::Write,
            Asked::Add(..) => Kind::Counter,
            Asked::Cas(..) => Kind::Conditional,
            Asked::Scan(above, up_to) if (*above, *up_to) == whole => Kind::Page,
            Asked::Scan(..) => Kind::PagePart,
            Asked::Filter(above, up_to) if (*above, *up_to) == whole => Kind::Page,
            Asked::Filter(..) => Kind::Stretch,
            Asked::Count(above, up_to) if (*above, *up_to) == whole => Kind::Count,
            Asked::Count(..) => Kind::CountPart,
            Asked::Many(_) => Kind::Many,
        }
    }
}

fn of_rows(statement: &wide::Statement) -> Kind {
    match statement.action {
        Action::Select(_) if statement.table != TABLE => Kind::LayoutRead,
        Action::Select(_) => Kind::Read,
        Action::If(..) => Kind::Conditional,
        Action::Change(_) | Action::Slice(_) | Action::Uncopied | Action::Definition => Kind::Write,
    }
}

/// What a text with these values asks for; `None` if the model does not know it.
pub(super) fn read(text: &str, given: &Values<'_>) -> Option<Asked> {
    if is_about_rows(text) {
        return wide::read(text, given).map(|statement| Asked::Rows(Box::new(statement)));
    }
    if text.contains(" ks.q ") {
        return lists::read(text, given);
    }
    let mut values = given.iter().map(|(_, value)| value);
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
        ["ALTER", ..] => Asked::Alter,
        ["SELECT", "*", "FROM", "ks.t", "WHERE", "k", "=", k] => Asked::Read(term(k)?),
        ["SELECT", "v", "FROM", "ks.l", "WHERE", "k", "=", k] => Asked::ReadCas(term(k)?),
        ["SELECT", "role", "FROM", "ks.who", ..] => Asked::Who,
        ["INSERT", "INTO", "ks.t", "k", "v)", "VALUES", k, v] => Asked::Write(term(k)?, term(v)?),
        [
            "INSERT",
            "INTO",
            "ks.t",
            "k",
            "v)",
            "VALUES",
            k,
            v,
            "USING",
            "TIMESTAMP",
            at,
        ] => Asked::TimedWrite(term(k)?, term(v)?, term(at)?),
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
        ["SELECT", "k", "v", "FROM", "ks.t", "WHERE", "k", "IN", "?"]
        | ["SELECT", "*", "FROM", "ks.t", "WHERE", "k", "IN", "?"] => {
            let Some(ValueRef::Set(list)) = given.get(0) else {
                return None;
            };
            Asked::Many(elements(list)?)
        }
        ["SELECT", "k", "v", "FROM", "ks.t", ..] => {
            let (above, up_to) = stretch(&mut term)?;
            match filters(text) {
                true => Asked::Filter(above, up_to),
                false => Asked::Scan(above, up_to),
            }
        }
        ["SELECT", "*", "FROM", "ks.t", ..] => {
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

/// Whether a text is about the table with clustering columns, or a layout.
pub(super) fn is_about_rows(text: &str) -> bool {
    (text.contains("ks.g") || text.contains(" g ") || text.contains(LAYOUTS))
        && wide::table(text).is_some()
}

/// Name and type of each column of a statement's result, under a schema.
pub(super) fn columns(text: &str, schema: usize) -> Vec<(&'static str, u16)> {
    if is_about_rows(text) {
        let columns = wide::columns(text).unwrap_or_default();
        return columns.into_iter().map(|name| (name, BIGINT)).collect();
    }
    if !is_of_all(text) {
        return fixed_columns(text).to_vec();
    }
    let mut columns: Vec<(&str, u16)> =
        ADDED[..schema].iter().map(|name| (*name, BIGINT)).collect();
    columns.push(("v", BIGINT));
    columns.sort_unstable();
    columns.insert(0, ("k", BIGINT));
    columns
}

fn fixed_columns(text: &str) -> &'static [(&'static str, u16)] {
    if text.starts_with("SELECT v") {
        &[("v", BIGINT)]
    } else if text.starts_with("SELECT k") {
        &[("k", BIGINT), ("v", BIGINT)]
    } else if text.starts_with("SELECT count") {
        &[("count", BIGINT)]
    } else if text.starts_with("SELECT l ") {
        &[("l", LIST)]
    } else if text.starts_with("SELECT role") {
        &[("role", VARCHAR)]
    } else {
        &[]
    }
}

pub(super) const APPLIED: &[(&str, u16)] = &[("[applied]", BOOLEAN)];
pub(super) const NOT_APPLIED: &[(&str, u16)] = &[("[applied]", BOOLEAN), ("v", BIGINT)];

pub(super) fn table(text: &str) -> &str {
    if is_about_rows(text) {
        return wide::table(text).unwrap_or(TABLE);
    }
    let found = text.split(' ').find_map(|word| match word {
        TABLE => Some(word),
        word => word.strip_prefix("ks."),
    });
    found.unwrap_or("t")
}

fn write_columns(out: &mut Vec<u8>, text: &str, columns: &[(&str, u16)]) {
    let is_derived = text.contains(LAYOUTS);
    write::string(out, if is_derived { LAYOUTS } else { KEYSPACE });
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
    match text {
        text if text.ends_with(" LIMIT 25") => Some(LIMIT),
        text if text.contains(" LIMIT 7 ") => Some(FILTER_LIMIT),
        _ => None,
    }
}

/// The id of a text's result metadata under a schema.
pub(super) fn metadata_id(text: &str, schema: usize) -> [u8; 16] {
    let schema = if is_of_all(text) { schema as u8 } else { 0 };
    let mut id = [3 + schema; 16];
    // Cassandra's is that of the columns, whichever table has them.
    let columns = is_about_rows(text).then(|| wide::columns(text).unwrap_or_default().join(" "));
    let text = columns.as_deref().unwrap_or(text);
    for (at, byte) in text.bytes().enumerate() {
        id[at % 16] = id[at % 16].wrapping_mul(31) ^ byte;
    }
    id
}

/// The PREPARED that answers a text. Its id is its text.
pub(super) fn prepared(text: &str, schema: usize, is_v5: bool) -> Vec<u8> {
    let of_rows = is_about_rows(text).then(|| wide::markers(text).unwrap_or_default());
    let of_lists = lists::markers(text);
    let markers: Vec<(&str, u16)> = match (text, &of_rows) {
        _ if let Some((markers, _)) = of_lists => markers.to_vec(),
        (_, Some(names)) => names.iter().map(|name| (*name, BIGINT)).collect(),
        (MANY | MANY_ALL, _) => vec![("k", LIST)],
        _ => vec![("m", BIGINT); text.matches('?').count()],
    };
    // Which of the markers is the key.
    let key: &[u16] = match text {
        _ if let Some((_, key)) = &of_lists => std::slice::from_ref(key),
        READ | READ_ALL | READ_CAS | WRITE | TIMED_WRITE | WHO => &[0],
        ADD | CAS => &[1],
        _ => match markers.iter().position(|(name, _)| *name == "p") {
            Some(0) => &[0],
            Some(_) => &[1],
            None => &[],
        },
    };
    let mut out = Vec::new();
    write::i32(&mut out, 4);
    write::short_bytes(&mut out, text.as_bytes());
    if is_v5 {
        write::short_bytes(&mut out, &metadata_id(text, schema));
    }
    write::u32(&mut out, u32::from(!markers.is_empty()));
    write::u32(&mut out, markers.len() as u32);
    write::i32(&mut out, key.len() as i32);
    key.iter().for_each(|at| write::u16(&mut out, *at));
    let markers: Vec<(String, u16)> = (0..)
        .zip(&markers)
        .map(|(at, (name, id))| match key.contains(&at) {
            _ if of_rows.is_some() => ((*name).to_owned(), *id),
            true => ("k".to_owned(), *id),
            false => (format!("{name}{at}"), *id),
        })
        .collect();
    let markers: Vec<(&str, u16)> = markers.iter().map(|(name, id)| (&**name, *id)).collect();
    if !markers.is_empty() {
        write_columns(&mut out, text, &markers);
    }
    let columns = columns(text, schema);
    // Without columns: no metadata, as of an INSERT.
    write::u32(&mut out, if columns.is_empty() { 4 } else { 1 });
    write::u32(&mut out, columns.len() as u32);
    if !columns.is_empty() {
        write_columns(&mut out, text, &columns);
    }
    out
}

/// What rows say of their columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metadata {
    Skipped,
    Full,
    /// They have another id than the client has named (v5).
    Changed([u8; 16]),
}

/// The answer to a schema change.
pub(super) fn schema_changed() -> Vec<u8> {
    let mut out = Vec::new();
    write::i32(&mut out, 5);
    for text in ["UPDATED", "TABLE", "ks", "t"] {
        write::string(&mut out, text);
    }
    out
}

/// A page of rows.
pub(super) fn rows(
    text: &str,
    columns: &[(&str, u16)],
    rows: &[Vec<Vec<u8>>],
    paging_state: Option<&[u8]>,
    metadata: &Metadata,
) -> Vec<u8> {
    let skip_metadata = *metadata == Metadata::Skipped;
    let mut out = Vec::new();
    write::i32(&mut out, 2);
    let more = if paging_state.is_some() { 2 } else { 0 };
    let metadata_flags = match metadata {
        Metadata::Skipped => 4,
        Metadata::Full => 1,
        Metadata::Changed(_) => 1 | 8,
    };
    write::u32(&mut out, more | metadata_flags);
    write::u32(&mut out, columns.len() as u32);
    if let Some(state) = paging_state {
        write::bytes(&mut out, Some(state));
    }
    if let Metadata::Changed(id) = metadata {
        write::short_bytes(&mut out, id);
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

/// What is in the body of a `list<bigint>` value.
pub(super) fn elements(list: &[u8]) -> Option<Vec<i64>> {
    let elements = list.get(4..)?.chunks_exact(12);
    let element = |chunk: &[u8]| i64::from_be_bytes(chunk[4..].try_into().expect("8 bytes"));
    Some(elements.map(element).collect())
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
