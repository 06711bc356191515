//! Requests and results made of others: with other values, as a batch, for another table.

use crate::envelope::Version;
use crate::reader::{Malformed, Reader};
use crate::request::{Options, ValueRef, query_flags};
use crate::result::{GLOBAL_TABLE, METADATA_CHANGED, MORE_PAGES, PreparedView, RowsView};
use crate::types::{ColumnSpec, ColumnType};
use crate::write;

impl Options<'_> {
    /// Appends these options, which are those of `body`, as they are but for the paging state, if they
    /// have one.
    pub fn write_with_state(&self, body: &[u8], state: Option<&[u8]>, out: &mut Vec<u8>) {
        let from = self.flags_at.saturating_sub(2);
        let (Some(own), Some(state)) = (self.paging_state, state) else {
            return out.extend_from_slice(body.get(from..).unwrap_or_default());
        };
        let state_at = self.behind_page_at.saturating_sub(4 + own.len());
        out.extend_from_slice(body.get(from..state_at).unwrap_or_default());
        write::bytes(out, Some(state));
        out.extend_from_slice(body.get(self.behind_page_at..).unwrap_or_default());
    }

    /// [`Self::write_with_state`], but the columns of the result are asked for.
    pub fn write_with_state_and_columns(
        &self,
        body: &[u8],
        version: Version,
        state: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        let begin = out.len();
        self.write_with_state(body, state, out);
        // Behind the consistency level are one byte of flags until v4, four in v5.
        let last_of_flags = match version {
            Version::V5 => begin + 5,
            _ => begin + 2,
        };
        if let Some(flags) = out.get_mut(last_of_flags) {
            *flags &= !(query_flags::SKIP_METADATA as u8);
        }
    }

    /// Appends these options, which are those of `body`, as they are but for the timestamp, if they have none, and for
    /// the time at which values begin to live, which only v5 has, likewise.
    pub fn write_timed(
        &self,
        body: &[u8],
        version: Version,
        timestamp: i64,
        now_in_seconds: i32,
        out: &mut Vec<u8>,
    ) {
        use query_flags::*;
        let lacks = |flag: u32| self.flags & flag == 0;
        let now = (version == Version::V5 && lacks(NOW_IN_SECONDS)).then_some(now_in_seconds);
        let added_now = now.map_or(0, |_| NOW_IN_SECONDS);
        write::u16(out, self.consistency.0);
        write_flags(out, self.flags | TIMESTAMP | added_now, version);
        let flags_end = self.flags_at + if version == Version::V5 { 4 } else { 1 };
        out.extend_from_slice(body.get(flags_end..self.keyspace_at).unwrap_or_default());
        if lacks(TIMESTAMP) {
            write::i64(out, timestamp);
        }
        out.extend_from_slice(body.get(self.keyspace_at..).unwrap_or_default());
        if let Some(now) = now {
            write::i32(out, now);
        }
    }

    /// Appends these options, which are those of `body`, as they are but for the values: these, without
    /// names; and for the keyspace, which only v5 has.
    pub fn write_with_values(
        &self,
        body: &[u8],
        version: Version,
        values: &[ValueRef<'_>],
        keyspace: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        use query_flags::*;
        let keyspace = keyspace.filter(|_| version == Version::V5);
        let mut flags = self.flags & !(VALUES | NAMES | KEYSPACE);
        if !values.is_empty() {
            flags |= VALUES;
        }
        if keyspace.is_some() {
            flags |= KEYSPACE;
        }
        write::u16(out, self.consistency.0);
        write_flags(out, flags, version);
        if !values.is_empty() {
            write_values(out, values);
        }
        let own_len = self.keyspace.map_or(0, |own| 2 + own.len());
        let behind = self.keyspace_at + own_len;
        out.extend_from_slice(body.get(self.page_at..self.keyspace_at).unwrap_or_default());
        if let Some(keyspace) = keyspace {
            write::string(out, keyspace);
        }
        out.extend_from_slice(body.get(behind..).unwrap_or_default());
    }
}

/// Keyspace and name of a table.
pub type TableName<'a> = (&'a str, &'a str);

/// The statement of a child of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStatement<'a> {
    Text(&'a str),
    Prepared(&'a [u8]),
}

/// Appends the body of a BATCH with another request's consistency, serial consistency, timestamp,
/// keyspace and time, in the version of that request. False, with nothing written, if there are too many
/// children or one has too many values.
pub fn write_batch(
    batch_type: u8,
    children: &[(BatchStatement<'_>, Vec<ValueRef<'_>>)],
    options: &Options<'_>,
    version: Version,
    out: &mut Vec<u8>,
) -> bool {
    use query_flags::*;
    let too_many = |count: usize| u16::try_from(count).is_err();
    let Ok(count) = u16::try_from(children.len()) else {
        return false;
    };
    if children.iter().any(|(_, values)| too_many(values.len())) {
        return false;
    }
    out.push(batch_type);
    write::u16(out, count);
    for (statement, values) in children {
        match statement {
            BatchStatement::Text(text) => {
                out.push(0);
                write::long_string(out, text);
            }
            BatchStatement::Prepared(id) => {
                out.push(1);
                write::short_bytes(out, id);
            }
        }
        write_values(out, values);
    }
    let v5 = version == Version::V5;
    let keyspace = options.keyspace.filter(|_| v5);
    let now_in_seconds = options.now_in_seconds.filter(|_| v5);
    let set = |on: bool, bit: u32| if on { bit } else { 0 };
    let flags = set(options.serial_consistency.is_some(), SERIAL_CONSISTENCY)
        | set(options.timestamp.is_some(), TIMESTAMP)
        | set(keyspace.is_some(), KEYSPACE)
        | set(now_in_seconds.is_some(), NOW_IN_SECONDS);
    write::u16(out, options.consistency.0);
    write_flags(out, flags, version);
    if let Some(serial) = options.serial_consistency {
        write::u16(out, serial.0);
    }
    if let Some(timestamp) = options.timestamp {
        write::i64(out, timestamp);
    }
    if let Some(keyspace) = keyspace {
        write::string(out, keyspace);
    }
    if let Some(now) = now_in_seconds {
        write::i32(out, now);
    }
    true
}

fn write_flags(out: &mut Vec<u8>, flags: u32, version: Version) {
    match version {
        Version::V5 => write::u32(out, flags),
        _ => out.push(flags as u8),
    }
}

fn write_values(out: &mut Vec<u8>, values: &[ValueRef<'_>]) {
    write::u16(out, values.len() as u16);
    for value in values {
        match value {
            ValueRef::Set(bytes) => write::bytes(out, Some(bytes)),
            ValueRef::Null => write::i32(out, -1),
            ValueRef::Unset => write::i32(out, -2),
        }
    }
}

impl RowsView<'_> {
    /// Appends the page as one of another table: `from` is renamed to `to` wherever it is named, and the
    /// paging state, if there is one, is replaced. The node's notice that columns have changed is about
    /// its own table, so it is left out; the columns themselves stay.
    pub fn write_for_table(
        &self,
        from: TableName<'_>,
        to: TableName<'_>,
        state: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        self.write_head_for_table(from, to, state, self.column_count, out);
        write::i32(out, self.row_count as i32);
        out.extend_from_slice(self.cells);
    }

    /// Appends the first so many columns of the page as a whole result of another table, with these rows: bytes
    /// that [`RowsView::for_each_row`] gives of them.
    pub fn write_rows_for_table(
        &self,
        from: TableName<'_>,
        to: TableName<'_>,
        column_count: usize,
        rows: &[&[u8]],
        out: &mut Vec<u8>,
    ) {
        self.write_head_for_table(from, to, None, column_count, out);
        write::i32(out, rows.len() as i32);
        for row in rows {
            out.extend_from_slice(row);
        }
    }

    /// Appends everything in front of the rows, with some of the columns only, and these as `as_told` has them.
    pub fn write_head_of_columns<'s>(
        &'s self,
        is_kept: impl Fn(usize) -> bool,
        as_told: impl Fn(usize, ColumnSpec<'s>) -> ColumnSpec<'s>,
        out: &mut Vec<u8>,
    ) {
        let kept = || (0..self.column_count).filter(|at| is_kept(*at));
        write::i32(out, 2);
        write::u32(out, self.flags);
        write::i32(out, kept().count() as i32);
        if self.flags & MORE_PAGES != 0 {
            write::bytes(out, self.paging_state);
        }
        if let Some(id) = self.new_metadata_id {
            write::short_bytes(out, id);
        }
        let kept = kept().filter_map(|at| Some(as_told(at, *self.columns.get(at)?)));
        write_columns(kept, self.flags & GLOBAL_TABLE != 0, out);
        write::i32(out, self.row_count as i32);
    }

    /// Everything in front of the number of rows.
    fn write_head_for_table(
        &self,
        from: TableName<'_>,
        to: TableName<'_>,
        state: Option<&[u8]>,
        column_count: usize,
        out: &mut Vec<u8>,
    ) {
        write::i32(out, 2);
        write::u32(out, self.flags & !METADATA_CHANGED);
        write::i32(out, column_count as i32);
        if self.flags & MORE_PAGES != 0 {
            write::bytes(out, state.filter(|_| self.paging_state.is_some()));
        }
        let is_global = self.flags & GLOBAL_TABLE != 0;
        for (at, column) in self.columns.iter().take(column_count).enumerate() {
            if !is_global || at == 0 {
                let own = (column.keyspace, column.table);
                let (keyspace, table) = if own == from { to } else { own };
                write::string(out, keyspace);
                write::string(out, table);
            }
            write::string(out, column.name);
            out.extend_from_slice(column.column_type.raw);
        }
    }
}

fn write_columns<'a>(
    columns: impl Iterator<Item = ColumnSpec<'a>>,
    is_global: bool,
    out: &mut Vec<u8>,
) {
    for (at, column) in columns.enumerate() {
        if !is_global || at == 0 {
            write::string(out, column.keyspace);
            write::string(out, column.table);
        }
        write::string(out, column.name);
        out.extend_from_slice(column.column_type.raw);
    }
}

/// A RESULT of kind Prepared without some of the columns of its result; `None` if it has all that are kept.
///
/// # Errors
/// It cannot be understood.
pub fn without_result_columns(
    body: &[u8],
    version: Version,
    is_kept: impl Fn(&ColumnSpec<'_>) -> bool,
) -> Result<Option<Vec<u8>>, Malformed> {
    let view = PreparedView::parse(body, version)?;
    let columns = &view.result_columns;
    if columns.iter().all(&is_kept) {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(body.len());
    out.extend_from_slice(body.get(..view.result_at).unwrap_or_default());
    let kept = || columns.iter().filter(|column| is_kept(column));
    write::u32(&mut out, view.result_flags);
    write::i32(&mut out, kept().count() as i32);
    write_columns(
        kept().copied(),
        view.result_flags & GLOBAL_TABLE != 0,
        &mut out,
    );
    Ok(Some(out))
}

/// True if two results have the same columns, each in a table of its own: of results whose columns are of one table each.
/// The first one has so many more at its end.
pub fn same_columns(
    one: &[u8],
    table: TableName<'_>,
    other: &[u8],
    renamed: TableName<'_>,
    more: usize,
) -> bool {
    let split = |metadata: &'_ [u8], of: TableName<'_>| -> Option<usize> {
        let mut reader = Reader::new(metadata);
        let named = (reader.string().ok()?, reader.string().ok()?);
        (named == of).then(|| reader.position())
    };
    let (Some(at), Some(other_at)) = (split(one, table), split(other, renamed)) else {
        return one.is_empty() && other.is_empty() && more == 0;
    };
    let Some(rest) = one[at..].strip_prefix(&other[other_at..]) else {
        return false;
    };
    let mut reader = Reader::new(rest);
    let mut columns =
        (0..more).map(|_| reader.string().is_ok() && ColumnType::parse(&mut reader).is_ok());
    columns.all(|is_column| is_column) && reader.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(keyspace: &str, table: &str, columns: &[(&str, u16)]) -> Vec<u8> {
        let mut out = Vec::new();
        write::string(&mut out, keyspace);
        write::string(&mut out, table);
        for (name, column_type) in columns {
            write::string(&mut out, name);
            write::u16(&mut out, *column_type);
        }
        out
    }

    #[test]
    fn what_has_no_time_gets_one_and_what_has_keeps_it() {
        use crate::request::QueryView;
        for version in [Version::V3, Version::V4, Version::V5] {
            let keyspaces = [None, Some("app")];
            let keyspaces = keyspaces
                .iter()
                .filter(|of| of.is_none() || version == Version::V5);
            for keyspace in keyspaces {
                for own in [None, Some(7)] {
                    for state in [None, Some(&b"state"[..])] {
                        let mut body = Vec::new();
                        write::long_string(&mut body, "x");
                        let options = Options {
                            consistency: crate::Consistency::QUORUM,
                            flags: own.map_or(0, |_| query_flags::TIMESTAMP)
                                | query_flags::SERIAL_CONSISTENCY,
                            timestamp: own,
                            serial_consistency: Some(crate::Consistency::SERIAL),
                            ..QueryView::parse(&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0], Version::V5)
                                .expect("a QUERY without options")
                                .options
                        };
                        let page = crate::Page { size: 10, state };
                        let is_written = crate::write_query(
                            "x",
                            &options,
                            &[],
                            page,
                            version,
                            *keyspace,
                            &mut body,
                        );
                        assert!(is_written);
                        let body = body.split_off(5);
                        let view = QueryView::parse(&body, version).expect("a QUERY");
                        let mut timed = Vec::new();
                        write::long_string(&mut timed, "x");
                        view.options.write_timed(&body, version, 9, 11, &mut timed);
                        let timed = QueryView::parse(&timed, version).expect("a QUERY").options;
                        assert_eq!(timed.timestamp, own.or(Some(9)));
                        let now = (version == Version::V5).then_some(11);
                        assert_eq!(timed.now_in_seconds, now);
                        assert_eq!(timed.keyspace, *keyspace);
                        assert_eq!((timed.page_size, timed.paging_state), (Some(10), state));
                        assert_eq!(timed.serial_consistency, Some(crate::Consistency::SERIAL));
                        assert_eq!(timed.consistency, crate::Consistency::QUORUM);
                    }
                }
            }
        }
    }

    #[test]
    fn columns_are_the_same_whatever_the_table_is_called() {
        let own = metadata("ks", "t", &[("a", 9), ("b", 13)]);
        let is_same =
            |other: &[u8], name: &str| same_columns(other, ("ks", name), &own, ("ks", "t"), 0);
        assert!(is_same(
            &metadata("ks", "longer", &[("a", 9), ("b", 13)]),
            "longer"
        ));
        let elsewhere = metadata("sk", "u", &[("a", 9), ("b", 13)]);
        assert!(same_columns(&elsewhere, ("sk", "u"), &own, ("ks", "t"), 0));
        for (other, name) in [
            (metadata("sk", "u", &[("a", 9), ("b", 13)]), "u"),
            (metadata("ks", "u", &[("a", 9), ("b", 13)]), "v"),
            (metadata("ks", "u", &[("b", 13), ("a", 9)]), "u"),
            (metadata("ks", "u", &[("a", 9)]), "u"),
            (metadata("ks", "u", &[("a", 2), ("b", 13)]), "u"),
            (Vec::new(), "u"),
            (vec![0, 9, 1], "u"),
        ] {
            assert!(!is_same(&other, name), "{other:?}");
        }
    }

    #[test]
    fn further_columns_are_counted() {
        let own = metadata("ks", "t", &[("a", 9)]);
        let has = |columns: &[(&str, u16)], more: usize| {
            let one = metadata("ks", "u", columns);
            same_columns(&one, ("ks", "u"), &own, ("ks", "t"), more)
        };
        assert!(has(&[("a", 9), ("b", 13)], 1));
        assert!(has(&[("a", 9), ("b", 13), ("c", 9)], 2));
        for (columns, more) in [
            (&[("a", 9)][..], 1),
            (&[("a", 9), ("b", 13), ("c", 9)], 1),
            (&[("a", 9), ("b", 13)], 0),
            (&[("b", 13), ("a", 9)], 1),
            (&[("a", 9), ("b", 13)], usize::MAX),
        ] {
            assert!(!has(columns, more), "{columns:?} {more}");
        }
        assert!(!same_columns(&[], ("ks", "u"), &[], ("ks", "t"), 1));
    }

    #[test]
    fn rows_are_given_in_another_order_and_without_the_last_columns() {
        let page = |columns: &[(&str, u16)], rows: &[&[&str]], flags: u32| {
            let mut body = Vec::new();
            write::i32(&mut body, 2);
            write::u32(&mut body, flags);
            write::i32(&mut body, columns.len() as i32);
            if flags == 1 {
                body.extend(metadata("ks", "t", columns));
            }
            write::i32(&mut body, rows.len() as i32);
            for cell in rows.iter().copied().flatten() {
                write::bytes(&mut body, (*cell != "null").then_some(cell.as_bytes()));
            }
            body
        };
        let columns = [("a", 9), ("b", 13), ("c", 9)];
        let rows: [&[&str]; 3] = [&["1", "null", "x"], &["", "2", "null"], &["33", "4", "z"]];
        // With metadata and without.
        for flags in [1, 4] {
            let sent = page(&columns, &rows, flags);
            let view = RowsView::parse(&sent).expect("rows");
            let (mut first, mut last) = (Vec::new(), Vec::new());
            let read = view.for_each_row(2, |bytes, cells| {
                first.push(bytes);
                last.push(cells[2]);
            });
            assert_eq!(read, Ok(()));
            assert_eq!(last, [Some(&b"x"[..]), None, Some(b"z")]);
            let mut out = Vec::new();
            view.write_rows_for_table(("ks", "u"), ("ks", "t"), 2, &[first[2], first[0]], &mut out);
            let sorted: [&[&str]; 2] = [&["33", "4"], &["1", "null"]];
            assert_eq!(out, page(&columns[..2], &sorted, flags));
            let cut = RowsView::parse(&sent[..sent.len() - 1]).expect("rows");
            assert!(cut.for_each_row(2, |_, _| {}).is_err());
        }
    }

    #[test]
    fn columns_are_left_out_of_rows_and_of_what_is_prepared() {
        let columns = [("a", 9), ("b", 13), ("c", 9)];
        let kept = [("a", 9), ("c", 9)];
        let page = |columns: &[(&str, u16)]| {
            let mut body = Vec::new();
            write::i32(&mut body, 2);
            write::u32(&mut body, 1 | 2 | 8);
            write::i32(&mut body, columns.len() as i32);
            write::bytes(&mut body, Some(b"state"));
            write::short_bytes(&mut body, b"id");
            body.extend(metadata("ks", "t", columns));
            write::i32(&mut body, 0);
            body
        };
        let whole = page(&columns);
        let view = RowsView::parse(&whole).expect("rows");
        let mut out = Vec::new();
        view.write_head_of_columns(|at| at != 1, |_, spec| spec, &mut out);
        assert_eq!(out, page(&kept));
        out.clear();
        let as_told = |at, spec| match at {
            2 => ColumnSpec {
                name: "d",
                column_type: ColumnType::VARCHAR,
                ..spec
            },
            _ => spec,
        };
        view.write_head_of_columns(|at| at != 1, as_told, &mut out);
        assert_eq!(out, page(&[("a", 9), ("d", 13)]));

        let prepared = |columns: &[(&str, u16)], version: Version| {
            let mut body = Vec::new();
            write::i32(&mut body, 4);
            write::short_bytes(&mut body, b"id");
            if version == Version::V5 {
                write::short_bytes(&mut body, b"of the result");
            }
            write::u32(&mut body, 1);
            write::i32(&mut body, 1);
            if version >= Version::V4 {
                write::i32(&mut body, 1);
                write::u16(&mut body, 0);
            }
            body.extend(metadata("ks", "t", &[("a", 9)]));
            write::u32(&mut body, 1);
            write::i32(&mut body, columns.len() as i32);
            body.extend(metadata("ks", "t", columns));
            body
        };
        for version in [Version::V3, Version::V4, Version::V5] {
            let body = prepared(&columns, version);
            let without = without_result_columns(&body, version, |column| column.name != "b");
            assert_eq!(without, Ok(Some(prepared(&kept, version))));
            let all = without_result_columns(&body, version, |column| column.name != "z");
            assert_eq!(all, Ok(None));
            assert!(without_result_columns(&body[..body.len() - 1], version, |_| true).is_err());
        }
    }

    #[test]
    fn a_page_is_renamed_and_says_nothing_of_changed_columns() {
        let page = |flags: u32, table: &str, state: Option<&[u8]>, id: &[u8]| {
            let mut body = Vec::new();
            write::i32(&mut body, 2);
            write::u32(&mut body, flags);
            write::i32(&mut body, 1);
            if let Some(state) = state {
                write::bytes(&mut body, Some(state));
            }
            body.extend_from_slice(id);
            body.extend(metadata("ks", table, &[("a", 9)]));
            write::i32(&mut body, 1);
            write::bytes(&mut body, Some(b"cell"));
            body
        };
        let mut id = Vec::new();
        write::short_bytes(&mut id, b"id");
        for (flags, state) in [(1, None), (3, Some(&b"state"[..]))] {
            for (changed, id) in [(0, &[][..]), (8, &id)] {
                let sent = page(flags | changed, "t__layout_a", state, id);
                let view = RowsView::parse(&sent).expect("rows");
                let mut out = Vec::new();
                let (from, to) = (("ks", "t__layout_a"), ("ks", "t"));
                view.write_for_table(from, to, Some(b"longer state"), &mut out);
                let state = state.map(|_| &b"longer state"[..]);
                assert_eq!(out, page(flags, "t", state, &[]));
            }
        }
    }
}
