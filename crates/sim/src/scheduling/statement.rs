//! Statements: those of clients, and what proxies make of them, as nodes read them.

use helenus_wire::{
    ExecuteView, Header, Opcode, Options, PageStart, PrepareView, QueryView, ValueRef, Version,
    query_flags,
};

use super::rows::KEYSPACE;

pub(super) fn point_text(table: u32) -> String {
    format!("SELECT * FROM {KEYSPACE}.t{table} WHERE k = ?")
}

pub(super) fn scan_text(table: u32) -> String {
    format!("SELECT * FROM {KEYSPACE}.t{table} WHERE token(k) > ? LIMIT ?")
}

pub(super) fn filter_text(table: u32) -> String {
    format!("SELECT * FROM {KEYSPACE}.t{table} WHERE f = ? ALLOW FILTERING")
}

pub(super) fn write_text(table: u32) -> String {
    format!("INSERT INTO {KEYSPACE}.t{table} (k, v) VALUES (?, ?)")
}

/// A message to a node, by what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Options,
    Prepare {
        text: String,
        table: u32,
    },
    Read(Read),
    /// By an id that the node must know.
    Execute {
        text: String,
        read: Read,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub table: u32,
    pub of: Of,
    pub skip_metadata: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Key(i64),
    /// Of a row with this key.
    Write(i64),
    Range {
        above: i64,
        up_to: i64,
        /// The last key of the page before.
        behind: Option<i64>,
        /// Rows that are still wanted in all, and in this page.
        remaining: u32,
        page_rows: usize,
        /// True if none of the rows that are read is one that is wanted.
        filters: bool,
    },
}

impl Asked {
    /// `None` if the model does not know it.
    pub(super) fn read(header: &Header, body: &[u8]) -> Option<Asked> {
        let version = Version::from_number(header.version)?;
        Some(match Opcode::from_number(header.opcode)? {
            Opcode::Options => Asked::Options,
            Opcode::Prepare => {
                let text = PrepareView::parse(body, version).ok()?.text.to_owned();
                let table = table_of(&text)?;
                Asked::Prepare { text, table }
            }
            Opcode::Query => {
                let view = QueryView::parse(body, version).ok()?;
                Asked::Read(Read::of(view.text, &view.options)?)
            }
            Opcode::Execute => {
                let view = ExecuteView::parse(body, version).ok()?;
                let text = String::from_utf8(view.id.to_vec()).ok()?;
                let read = Read::of(&text, &view.options)?;
                Asked::Execute { text, read }
            }
            _ => return None,
        })
    }
}

impl Read {
    fn of(text: &str, options: &Options<'_>) -> Option<Read> {
        let mut values = options.values.iter().map(|(_, value)| value);
        // A literal, or the next marker's value.
        let mut term = |written: &str| match written {
            "?" => match values.next()? {
                ValueRef::Set(bytes) => whole(bytes),
                _ => None,
            },
            literal => literal.parse().ok(),
        };
        if text.starts_with("INSERT") {
            return Some(Read {
                table: table_of(text)?,
                of: Of::Write(term("?")?),
                skip_metadata: false,
            });
        }
        let (mut key, mut above, mut up_to, mut limit) = (None, i64::MIN, i64::MAX, None);
        let filters = text.ends_with("ALLOW FILTERING");
        let mut words = text.split_ascii_whitespace();
        while let Some(word) = words.next() {
            match word {
                "f" => _ = term(words.nth(1)?)?,
                "=" => key = Some(term(words.next()?)?),
                ">" => above = term(words.next()?)?,
                "<=" => up_to = term(words.next()?)?,
                "LIMIT" => limit = Some(term(words.next()?)?),
                _ => {}
            }
        }
        let of = match key {
            Some(key) => Of::Key(key),
            None => {
                let state = options
                    .paging_state
                    .map(PageStart::parse)
                    .transpose()
                    .ok()?;
                let limit = limit.map_or(i32::MAX as u32, |limit| limit as u32);
                let remaining = state.as_ref().map_or(limit, |state| state.remaining);
                let behind = match state {
                    Some(state) => Some(whole(state.key)?),
                    None => None,
                };
                let size = options.page_size.filter(|size| *size > 0);
                let size = size.map_or(usize::MAX, |size| size as usize);
                Of::Range {
                    above,
                    up_to,
                    behind,
                    remaining,
                    page_rows: size.min(remaining as usize),
                    filters,
                }
            }
        };
        Some(Read {
            table: table_of(text)?,
            of,
            skip_metadata: options.flags & query_flags::SKIP_METADATA != 0,
        })
    }
}

fn whole(bytes: &[u8]) -> Option<i64> {
    match bytes.len() {
        4 => Some(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
    }
}

fn table_of(text: &str) -> Option<u32> {
    let mut words = text.split_ascii_whitespace();
    let name = words.find_map(|word| word.strip_prefix(KEYSPACE)?.strip_prefix(".t"))?;
    name.parse().ok()
}
