//! A write on a table and all its layouts: one request for all of them.
//!
//! Table and layouts have the same keyspace and partition key, so what is written to one partition of
//! them in one unlogged batch is one mutation to Cassandra: atomic on each replica, one entry of the commit
//! log, one consistency level, one timestamp, hinted and replayed as one. A single statement becomes such a
//! batch; a client's own batch stays of its kind, and gets the further statements behind each of its own.

use std::sync::Arc;

use helenus_cql::Facts;
use helenus_layout::plan::LogicalTable;
use helenus_wire::{BatchStatement, Options, ValueRef, Values, Version, write_batch};
use rustc_hash::FxHashMap;

use crate::features::layouts::plan::CopyWrite;
use crate::statement::prepared::{InRange, Prepared, Statement};

/// An unlogged batch's number.
pub(crate) const UNLOGGED: u8 = 1;

/// One statement of a batch as it is sent.
pub(crate) enum Sent<'a> {
    Own(BatchStatement<'a>),
    Text(&'a str),
    Prepared(Arc<Prepared>),
}

impl Sent<'_> {
    fn statement(&self) -> BatchStatement<'_> {
        match self {
            Sent::Own(own) => *own,
            Sent::Text(text) => BatchStatement::Text(text),
            Sent::Prepared(prepared) => BatchStatement::Prepared(&prepared.id),
        }
    }
}

/// A batch that is being put together.
#[derive(Default)]
pub(crate) struct FanOut<'a> {
    children: Vec<(Sent<'a>, Vec<ValueRef<'a>>)>,
    /// Tables whose layouts are written.
    pub tables: Vec<Arc<LogicalTable>>,
}

impl<'a> FanOut<'a> {
    pub(crate) fn push(&mut self, statement: BatchStatement<'a>, values: Vec<ValueRef<'a>>) {
        self.children.push((Sent::Own(statement), values));
    }

    /// Adds a statement on a layout: by the id of what is prepared, or by its text.
    pub(crate) fn push_copy(
        &mut self,
        copy: &'a CopyWrite<Statement>,
        prepared: Option<Arc<Prepared>>,
        values: &[ValueRef<'a>],
    ) {
        let sent = prepared.map_or(Sent::Text(&copy.text), Sent::Prepared);
        self.children.push((sent, values.to_vec()));
    }

    pub(crate) fn note_table(&mut self, table: &Arc<LogicalTable>) {
        if !self.tables.iter().any(|known| Arc::ptr_eq(known, table)) {
            self.tables.push(table.clone());
        }
    }

    /// What is prepared of the layouts' statements.
    pub(crate) fn prepared(&self) -> Vec<Arc<Prepared>> {
        let of = |(sent, _): &(Sent<'_>, _)| match sent {
            Sent::Prepared(prepared) => Some(prepared.clone()),
            Sent::Own(_) | Sent::Text(_) => None,
        };
        self.children.iter().filter_map(of).collect()
    }

    /// Bytes of the statements and values that it will have at least.
    pub(crate) fn byte_len(&self) -> usize {
        let of_child = |(sent, values): &(Sent<'_>, Vec<ValueRef<'_>>)| {
            let statement = match sent.statement() {
                BatchStatement::Text(text) => text.len(),
                BatchStatement::Prepared(id) => id.len(),
            };
            statement + bytes_of(values)
        };
        self.children.iter().map(of_child).sum()
    }

    /// Appends the BATCH; false if it has too many statements.
    pub(crate) fn write(
        self,
        kind: u8,
        options: &Options<'_>,
        version: Version,
        out: &mut Vec<u8>,
    ) -> bool {
        let (statements, values): (Vec<Sent<'a>>, Vec<_>) = self.children.into_iter().unzip();
        let statements = statements.iter().map(Sent::statement);
        let children: Vec<_> = statements.zip(values).collect();
        write_batch(kind, &children, options, version, out)
    }
}

/// Bytes of values in a request.
pub(crate) fn bytes_of(values: &[ValueRef<'_>]) -> usize {
    let of_value = |value: &ValueRef<'_>| match value {
        ValueRef::Set(bytes) => 4 + bytes.len(),
        ValueRef::Null | ValueRef::Unset => 4,
    };
    values.iter().map(of_value).sum()
}

/// What the nodes have prepared of a layout's statement.
pub(crate) fn known(copy: &CopyWrite<Statement>) -> Option<Arc<Prepared>> {
    match &*copy.statement().in_range() {
        InRange::Known(prepared) => Some(prepared.clone()),
        _ => None,
    }
}

/// Why values cannot be put in the order of the markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unordered {
    /// As a node says it.
    Number,
    Names,
}

impl Unordered {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Unordered::Number => "Invalid amount of bind variables",
            Unordered::Names => {
                "the table has layouts, and the values' names do not tell the order of the markers: bind \
                 them by position"
            }
        }
    }
}

impl Unordered {
    /// The same of a table with encoded columns.
    pub(crate) fn text_of_encoded(self) -> &'static str {
        match self {
            Unordered::Number => self.text(),
            Unordered::Names => {
                "the table has encoded columns, and the values' names do not tell the order of the markers: \
                 bind them by position"
            }
        }
    }
}

/// The values of a statement in the order of its markers. `names`: of the markers of a prepared one.
pub(crate) fn in_order<'a>(
    values: &Values<'a>,
    facts: &Facts,
    names: Option<&[Box<str>]>,
) -> Result<Vec<ValueRef<'a>>, Unordered> {
    let markers = usize::from(facts.markers);
    if names.is_some_and(|names| names.len() != markers) {
        return Err(Unordered::Number);
    }
    if !values.named {
        return match usize::from(values.count) == markers {
            true => Ok(values.iter().map(|(_, value)| value).collect()),
            false => Err(Unordered::Number),
        };
    }
    // As a node does it: a name may be that of several markers, the first value of a name counts, and
    // values without a marker do not.
    let mut by_name: FxHashMap<&str, ValueRef<'a>> = FxHashMap::default();
    for (name, value) in values.iter() {
        by_name.entry(name.unwrap_or_default()).or_insert(value);
    }
    let mut of_markers: Vec<Option<&str>> = vec![None; markers];
    match names {
        Some(names) => of_markers = names.iter().map(|name| Some(&**name)).collect(),
        None => {
            for (name, at) in &facts.named_markers {
                if let Some(of) = of_markers.get_mut(usize::from(*at)) {
                    *of = Some(name.as_str());
                }
            }
        }
    }
    let value = |name: Option<&str>| {
        let value = by_name.get(name.ok_or(Unordered::Names)?);
        value.copied().ok_or(Unordered::Number)
    };
    of_markers.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use helenus_cql::facts;
    use helenus_wire::{QueryView, write};

    use super::*;

    fn of(
        text: &str,
        names: Option<&[&str]>,
        values: &[(&str, &[u8])],
    ) -> Result<Vec<Vec<u8>>, Unordered> {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        write::u16(&mut body, 1);
        body.push(0x41);
        write::u16(&mut body, values.len() as u16);
        for (name, value) in values {
            write::string(&mut body, name);
            write::bytes(&mut body, Some(value));
        }
        let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
        let names: Option<Vec<Box<str>>> =
            names.map(|names| names.iter().map(|name| (*name).into()).collect());
        let ordered = in_order(&view.options.values, &facts(text), names.as_deref())?;
        let bytes = |value: ValueRef<'_>| match value {
            ValueRef::Set(bytes) => bytes.to_vec(),
            ValueRef::Null | ValueRef::Unset => Vec::new(),
        };
        Ok(ordered.into_iter().map(bytes).collect())
    }

    #[test]
    fn named_values_are_bound_as_by_a_node() {
        let twice = "UPDATE t SET a = :v, b = :v WHERE k = :k";
        let ordered = Ok(vec![b"v".to_vec(), b"v".to_vec(), b"k".to_vec()]);
        let values: [(&str, &[u8]); 2] = [("k", b"k"), ("v", b"v")];
        assert_eq!(of(twice, None, &values), ordered);
        assert_eq!(of(twice, Some(&["v", "v", "k"]), &values), ordered);
        let more: [(&str, &[u8]); 4] = [("k", b"k"), ("v", b"v"), ("other", b"o"), ("v", b"w")];
        assert_eq!(
            of(twice, None, &more),
            ordered,
            "the first of a name counts"
        );
        assert_eq!(of(twice, None, &values[1..]), Err(Unordered::Number));
        let positional = "UPDATE t SET a = ? WHERE k = :k";
        assert_eq!(of(positional, None, &values), Err(Unordered::Names));
        let of_columns = of(positional, Some(&["v", "k"]), &values);
        assert_eq!(of_columns, Ok(vec![b"v".to_vec(), b"k".to_vec()]));
    }
}
