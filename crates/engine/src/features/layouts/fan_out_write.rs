//! A write on a table and all its layouts: one request for all of them.
//!
//! Table and layouts have the same keyspace and partition key, so what is written to one partition of
//! them in one unlogged batch is one mutation to Cassandra: atomic on each replica, one entry of the commit
//! log, one consistency level, one timestamp, hinted and replayed as one. A single statement becomes such a
//! batch; a client's own batch stays of its kind, and gets the further statements behind each of its own.

use std::sync::Arc;

use helenus_layout::plan::LogicalTable;
use helenus_wire::{BatchStatement, Options, ValueRef, Version, write_batch};

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

    /// Its statement and values, if it has only one.
    pub(crate) fn only(&self) -> Option<(&Sent<'a>, &[ValueRef<'a>])> {
        match &self.children[..] {
            [(sent, values)] => Some((sent, values)),
            _ => None,
        }
    }

    /// The layouts' statements that are prepared.
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

/// A layout's statement as the nodes have prepared it.
pub(crate) fn known(copy: &CopyWrite<Statement>) -> Option<Arc<Prepared>> {
    match &*copy.statement().in_range() {
        InRange::Known(prepared) => Some(prepared.clone()),
        _ => None,
    }
}
