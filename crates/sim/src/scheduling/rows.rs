//! Rows of answers: a key of 8 bytes, and a value of zeros that makes up the row's size.

use std::ops::Range;

use helenus_wire::{PageStart, RowsView, Version, write};

use super::data::Data;

/// The lengths of two cells, and the key.
pub(super) const ROW_BYTES_LEAST: usize = 16;
const BIGINT: u16 = 0x02;
const BLOB: u16 = 0x03;
const INT: u16 = 0x09;
/// The kind of a RESULT without anything.
pub(super) const VOID: i32 = 1;
pub(super) const KEYSPACE: &str = "bench";

/// The parts of a page of rows.
pub(super) struct PageBody<'a> {
    pub data: &'a Data,
    pub table: u32,
    pub rows: Range<usize>,
    /// Rows that the statement still wants behind these, if there may be some.
    pub remaining: Option<u32>,
    pub row_bytes: usize,
    pub skip_metadata: bool,
}

impl PageBody<'_> {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.rows.len() * self.row_bytes + 128);
        write::i32(&mut out, 2);
        let more = if self.remaining.is_some() { 2 } else { 0 };
        let metadata = if self.skip_metadata { 4 } else { 1 };
        write::u32(&mut out, more | metadata);
        write::i32(&mut out, 2);
        if let Some(remaining) = self.remaining {
            let last = self.rows.end.saturating_sub(1);
            let key = self.data.key(last).to_be_bytes();
            let state = PageStart::behind_partition(&key, remaining).write();
            write::bytes(&mut out, Some(&state));
        }
        if !self.skip_metadata {
            write_columns(&mut out, self.table, &[("k", BIGINT), ("v", BLOB)]);
        }
        write::i32(&mut out, self.rows.len() as i32);
        let value = self.row_bytes - ROW_BYTES_LEAST;
        for row in self.rows.clone() {
            write::bytes(&mut out, Some(&self.data.key(row).to_be_bytes()));
            write::i32(&mut out, value as i32);
            out.resize(out.len() + value, 0);
        }
        out
    }
}

/// The rows of a page, if they stand behind each other in the table.
pub(super) fn read_rows(data: &Data, page: &RowsView<'_>) -> Option<Range<usize>> {
    let mut each = page.rows_by(0).map(|row| {
        let (_, key) = row.ok()?;
        Some(i64::from_be_bytes(key?.try_into().ok()?))
    });
    let Some(first) = each.next() else {
        return Some(0..0);
    };
    let first = data.row_of(first?)?;
    let mut next = first + 1;
    for key in each {
        if next >= data.len() || key? != data.key(next) {
            return None;
        }
        next += 1;
    }
    Some(first..next)
}

/// The PREPARED that answers a text, with its text as its id.
pub(super) fn prepared(text: &str, table: u32, version: Version) -> Vec<u8> {
    let is_write = text.starts_with("INSERT");
    let has_key = is_write || text.contains("k = ?");
    let markers: Vec<(&str, u16)> = match has_key {
        true if is_write => vec![("k", BIGINT), ("v", BLOB)],
        true => vec![("k", BIGINT)],
        false => {
            let bounds = text
                .matches("token(k)")
                .map(|_| ("partition key token", BIGINT));
            let limit = text.contains("LIMIT").then_some(("[limit]", INT));
            let filter = text.contains("f = ?").then_some(("f", BIGINT));
            filter.into_iter().chain(bounds).chain(limit).collect()
        }
    };
    let mut out = Vec::new();
    write::i32(&mut out, 4);
    write::short_bytes(&mut out, text.as_bytes());
    if version == Version::V5 {
        write::short_bytes(&mut out, &[7; 16]);
    }
    write::u32(&mut out, 1);
    write::u32(&mut out, markers.len() as u32);
    write::u32(&mut out, u32::from(has_key));
    if has_key {
        write::u16(&mut out, 0);
    }
    write_columns(&mut out, table, &markers);
    if is_write {
        write::u32(&mut out, 4);
        write::u32(&mut out, 0);
        return out;
    }
    write::u32(&mut out, 1);
    write::u32(&mut out, 2);
    write_columns(&mut out, table, &[("k", BIGINT), ("v", BLOB)]);
    out
}

fn write_columns(out: &mut Vec<u8>, table: u32, columns: &[(&str, u16)]) {
    write::string(out, KEYSPACE);
    write::string(out, &format!("t{table}"));
    for (name, id) in columns {
        write::string(out, name);
        write::u16(out, *id);
    }
}
