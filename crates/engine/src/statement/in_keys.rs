//! Prepared reads with `IN` on the partition key: their keys, and the rows of several such reads in
//! the order of one.
//!
//! Cassandra takes the keys of an `IN` in the order of their type, each once, whatever the order in
//! the statement. So the rows of reads of some of the keys each are merged by the column that the
//! `IN` is on, which must be among those selected.

use helenus_cql::{Facts, InValues, Term, encode_literal};
use helenus_policy::token::composite_key;
use helenus_wire::{Reader, RowsJoin, RowsView, ValueRef, Values};

use crate::snapshot::KeyColumn;
use crate::statement::order::Order;
use crate::statement::pieces::comes_in_pieces;

/// The `IN` of such a statement: its keys, and the order of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InKeys {
    /// The columns of the partition key in order.
    key: Vec<Component>,
    list: List,
    order: Order,
    /// The result's column that the `IN` is on.
    column: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Component {
    In,
    Marker(u16),
    Bytes(Box<[u8]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum List {
    /// `IN ?`
    Marker(u16),
    /// `IN (?, ?)`
    Markers(Vec<u16>),
}

/// The parts of a partition key; `None` where the value of the `IN` goes.
pub(crate) struct Key<'a>(Vec<Option<&'a [u8]>>);

impl Key<'_> {
    /// Bytes of the parts that all values have in common.
    pub(crate) fn common_len(&self) -> usize {
        self.0.iter().flatten().map(|part| part.len()).sum()
    }

    /// Writes the partition key of one of the values; false if it has none.
    pub(crate) fn write(&self, one: &[u8], out: &mut Vec<u8>) -> bool {
        composite_key(self.0.iter().map(|part| part.unwrap_or(one)), out)
    }
}

impl InKeys {
    /// `None` if the statement is of another kind, or must be read as it is.
    pub(crate) fn of(facts: &Facts, key: &[KeyColumn]) -> Option<InKeys> {
        let select = facts.select.as_deref()?;
        if select.json || !comes_in_pieces(select) {
            return None;
        }
        let is_key = |name: &str| key.iter().position(|column| column.name == name);
        let mut ins = select.ins.iter().filter(|relation| {
            relation
                .columns
                .iter()
                .any(|c| is_key(c.as_str()).is_some())
        });
        let (relation, None) = (ins.next()?, ins.next()) else {
            return None;
        };
        let [name] = relation.columns.as_slice() else {
            return None;
        };
        let at = is_key(name.as_str())?;
        // Pages are put in order by what they show.
        if key[at].is_masked {
            return None;
        }
        let marker = |term: &Term| match term {
            Term::Marker(index) | Term::NamedMarker(index) => Some(*index),
            _ => None,
        };
        let list = match &relation.values {
            InValues::Marker(term) => List::Marker(marker(term)?),
            InValues::Terms(terms) => {
                List::Markers(terms.iter().map(marker).collect::<Option<_>>()?)
            }
        };
        let components = key.iter().enumerate().map(|(place, column)| {
            if place == at {
                return Some(Component::In);
            }
            let mut terms = facts.key_terms.iter();
            let term = &terms.find(|t| t.column.as_str() == column.name)?.term;
            Some(match term {
                Term::Literal(literal) => {
                    Component::Bytes(encode_literal(literal, &column.cql_type)?.into())
                }
                term => Component::Marker(marker(term)?),
            })
        });
        let column = match &select.columns {
            // The columns of the partition key come first.
            helenus_cql::Selected::All => at,
            helenus_cql::Selected::Columns(columns) => columns
                .iter()
                .position(|c| c.column.as_ref() == Some(name))?,
        };
        Some(InKeys {
            key: components.collect::<Option<_>>()?,
            list,
            order: Order::of_name(&key[at].cql_type)?,
            column,
        })
    }

    /// The values of the `IN`, each once; `None` if there is one that a node would object to.
    pub(crate) fn values<'a>(&self, values: &Values<'a>) -> Option<Vec<&'a [u8]>> {
        if values.named {
            return None;
        }
        let mut all = match &self.list {
            List::Marker(index) => {
                let ValueRef::Set(list) = values.get(usize::from(*index))? else {
                    return None;
                };
                let mut reader = Reader::new(list);
                let count = reader.i32().ok()?;
                let all = (0..count).map(|_| reader.bytes().ok()?);
                let all: Vec<&[u8]> = all.collect::<Option<_>>()?;
                reader.rest().is_empty().then_some(all)?
            }
            List::Markers(markers) => {
                let bound: Vec<ValueRef<'a>> = values.iter().map(|(_, value)| value).collect();
                let all = markers
                    .iter()
                    .map(|index| match bound.get(usize::from(*index))? {
                        ValueRef::Set(bytes) => Some(*bytes),
                        _ => None,
                    });
                all.collect::<Option<_>>()?
            }
        };
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    /// The part that the partition keys of all values share; `None` if they have none.
    pub(crate) fn key<'a>(&'a self, values: &Values<'a>) -> Option<Key<'a>> {
        let parts = self.key.iter().map(|part| match part {
            Component::In => Some(None),
            Component::Bytes(bytes) => Some(Some(&**bytes)),
            Component::Marker(index) => match values.get(usize::from(*index))? {
                ValueRef::Set(bytes) => Some(Some(bytes)),
                _ => None,
            },
        });
        Some(Key(parts.collect::<Option<_>>()?))
    }

    /// All values of the statement with only these in the `IN`. `list` is where they are kept.
    pub(crate) fn bind<'a>(
        &self,
        values: &Values<'a>,
        only: &[&'a [u8]],
        list: &'a mut Vec<u8>,
    ) -> Vec<ValueRef<'a>> {
        let mut bound: Vec<ValueRef<'a>> = values.iter().map(|(_, value)| value).collect();
        match &self.list {
            List::Marker(index) => {
                list.clear();
                helenus_wire::write::i32(list, only.len() as i32);
                for value in only {
                    helenus_wire::write::bytes(list, Some(value));
                }
                bound[usize::from(*index)] = ValueRef::Set(list);
            }
            List::Markers(markers) => {
                // A repeated value counts once.
                let all = only.iter().chain(std::iter::repeat(&only[0]));
                for (index, value) in markers.iter().zip(all) {
                    bound[usize::from(*index)] = ValueRef::Set(value);
                }
            }
        }
        bound
    }

    /// The rows of all pages in the order of one read, `limit` of them at most. `None` if that is not
    /// known here.
    pub(crate) fn merge(&self, pages: &[RowsView<'_>], limit: usize) -> Option<RowsJoin> {
        let bytes = pages.iter().map(RowsView::byte_len).sum();
        let mut join = RowsJoin::with_capacity(bytes);
        let mut sources: Vec<_> = pages
            .iter()
            .map(|page| (page, page.rows_by(self.column).peekable()))
            .collect();
        loop {
            let mut least: Option<(usize, &[u8])> = None;
            for (at, (_, rows)) in sources.iter_mut().enumerate() {
                let Some(row) = rows.peek() else { continue };
                let cell = row.as_ref().ok()?.1?;
                let before = match least {
                    None => self.order.compare(cell, cell)?.is_eq(),
                    Some((_, known)) => self.order.compare(cell, known)?.is_lt(),
                };
                if before {
                    least = Some((at, cell));
                }
            }
            let Some((at, key)) = least else { break };
            let (page, rows) = &mut sources[at];
            while let Some(Ok((row, _))) =
                rows.next_if(|row| matches!(row, Ok((_, Some(cell))) if *cell == key))
            {
                if join.row_count() == limit {
                    return Some(join);
                }
                join.push(&page.with_rows(row, 1)).ok()?;
            }
        }
        if join.pages() == 0 {
            // No rows at all: the columns are wanted nevertheless.
            join.push(pages.first()?).ok()?;
        }
        Some(join)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_wire::{ExecuteView, Version, write};

    /// The partition key.
    fn key() -> [KeyColumn; 2] {
        let column = |name: &str, cql_type: &str| KeyColumn {
            name: name.into(),
            cql_type: cql_type.into(),
            is_masked: false,
        };
        [column("a", "int"), column("b", "text")]
    }

    fn in_keys(cql: &str) -> Option<InKeys> {
        InKeys::of(&helenus_cql::facts(cql), &key())
    }

    fn list(values: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        write::i32(&mut out, values.len() as i32);
        for value in values {
            write::bytes(&mut out, Some(value));
        }
        out
    }

    /// These values when only some are left in the `IN`, and the key of one.
    fn bound(cql: &str, values: &[&[u8]], only: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut body = Vec::new();
        write::short_bytes(&mut body, b"id");
        write::u16(&mut body, 1);
        body.push(1);
        write::u16(&mut body, values.len() as u16);
        for value in values {
            write::bytes(&mut body, Some(value));
        }
        let view = ExecuteView::parse(&body, Version::V4).unwrap();
        let (in_keys, values) = (in_keys(cql).unwrap(), &view.options.values);
        let (mut kept, mut key) = (Vec::new(), Vec::new());
        assert!(in_keys.key(values).unwrap().write(only[0], &mut key));
        let bound = in_keys.bind(values, only, &mut kept);
        let bytes = bound.into_iter().map(|value| match value {
            ValueRef::Set(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        });
        (bytes.collect(), key)
    }

    #[test]
    fn only_some_keys_are_bound() {
        let seven = 7_i32.to_be_bytes();
        let all = list(&[b"z", b"x", b"y", b"x"]);
        let cql = "SELECT b FROM t WHERE a = ? AND b IN ?";
        let (values, key) = bound(cql, &[&seven, &all], &[b"x", b"z"]);
        assert_eq!(values, [seven.to_vec(), list(&[b"x", b"z"])]);
        assert_eq!(key, b"\0\x04\0\0\0\x07\0\0\x01x\0");
        let cql = "SELECT * FROM t WHERE b IN (?, ?, ?) AND a = 7 LIMIT ?";
        let values: [&[u8]; 4] = [b"x", b"y", b"z", &seven];
        let (values, same) = bound(cql, &values, &[b"x", b"z"]);
        assert_eq!(values, [&b"x"[..], b"z", b"x", &seven], "twice is once");
        assert_eq!(same, key);
    }

    #[test]
    fn an_in_on_a_masked_column_is_left_alone() {
        let facts = helenus_cql::facts("SELECT * FROM t WHERE a = 1 AND b IN ?");
        let masked = |at: usize| {
            let mut key = key();
            key[at].is_masked = true;
            InKeys::of(&facts, &key)
        };
        assert!(masked(0).is_some(), "pages are in order of the other");
        assert!(masked(1).is_none());
    }

    #[test]
    fn other_statements_are_left_alone() {
        for cql in [
            "SELECT a FROM t WHERE a = ? AND b IN ?",
            "SELECT b FROM t WHERE a IN ? AND b IN ?",
            "SELECT b FROM t WHERE b IN ?",
            "SELECT b FROM t WHERE a = ? AND b = ?",
            "SELECT b FROM t WHERE a = ? AND b IN ('x', ?)",
            "SELECT b, count(*) FROM t WHERE a = ? AND b IN ?",
            "SELECT JSON b FROM t WHERE a = ? AND b IN ?",
            "SELECT b FROM t WHERE a = ? AND b IN ? ORDER BY c",
            "DELETE FROM t WHERE a = ? AND b IN ?",
        ] {
            assert_eq!(in_keys(cql), None, "{cql}");
        }
        let known = in_keys("SELECT c, b AS a FROM t WHERE a = 1 AND b IN ?").unwrap();
        assert_eq!((known.column, known.order), (1, Order::Bytes));
    }

    #[test]
    fn rows_are_merged_by_key() {
        let page = |rows: &[(&[u8], u8)]| {
            let mut out = Vec::new();
            for number in [2, 4, 2] {
                write::i32(&mut out, number);
            }
            write::i32(&mut out, rows.len() as i32);
            for (key, value) in rows {
                write::bytes(&mut out, Some(&[*value]));
                write::bytes(&mut out, Some(key));
            }
            out
        };
        let in_keys = in_keys("SELECT c, b FROM t WHERE a = 1 AND b IN ?").unwrap();
        let bodies = [
            page(&[(b"b", 1), (b"b", 2), (b"d", 3)]),
            page(&[]),
            page(&[(b"a", 4), (b"c", 5)]),
        ];
        let pages: Vec<RowsView<'_>> = bodies
            .iter()
            .map(|body| RowsView::parse(body).unwrap())
            .collect();
        let merged = |limit| in_keys.merge(&pages, limit).unwrap().into_body(Vec::new());
        let all: [(&[u8], u8); 5] = [(b"a", 4), (b"b", 1), (b"b", 2), (b"c", 5), (b"d", 3)];
        assert_eq!(*merged(9), page(&all));
        assert_eq!(*merged(2), page(&all[..2]));
        let nothing = in_keys.merge(&pages[1..2], 9).unwrap();
        assert_eq!(*nothing.into_body(Vec::new()), page(&[]));
    }
}
