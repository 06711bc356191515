//! The requests that write derived layouts.

use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_layout::plan::LogicalTable;
use helenus_wire::{
    BatchStatement, Consistency, Opcode, Options, Page, ValueRef, Version, write_execute,
    write_query_of,
};

use crate::features::layouts::fan_out_write::{FanOut, Sent, UNLOGGED};
use crate::features::layouts::plan::CopyWrite;
use crate::pipeline::node_request::Target;
use crate::snapshot::Snapshot;
use crate::statement::place::Place;
use crate::statement::prepared::{Prepared, Statement};

const PAGE_SIZE: i32 = 100;

/// One request: what is written to the layouts of one number, of all tables of the write; of several statements, an
/// unlogged batch. Of one, no batch: that would have bounds of its own.
#[derive(Debug)]
pub(crate) struct Part {
    pub opcode: Opcode,
    /// In the client's version.
    pub body: Vec<u8>,
    /// Of an EXECUTE.
    pub prepared: Option<Arc<Prepared>>,
    pub keyspace: Option<Rc<str>>,
    pub target: Target,
    /// Which of their layouts.
    pub at: usize,
    pub tables: Vec<Arc<LogicalTable>>,
}

impl Part {
    /// Keyspace and name of each layout that it writes.
    pub(crate) fn layouts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tables.iter().filter_map(|table| {
            let copy = table.copies.get(self.at)?;
            Some((table.keyspace_of(copy), &*copy.physical))
        })
    }
}

/// Those of one write, as they are put together: by the number of the layout.
#[derive(Default)]
pub(crate) struct Parts<'a>(Vec<(usize, FanOut<'a>)>);

impl<'a> Parts<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a statement on the layout of that number of a table.
    pub(crate) fn push(
        &mut self,
        table: &Arc<LogicalTable>,
        at: usize,
        copy: &'a CopyWrite<Statement>,
        prepared: Option<Arc<Prepared>>,
        values: &[ValueRef<'a>],
    ) {
        let batch = self.of(table, at);
        batch.push_copy(copy, prepared, values);
    }

    /// The same for one of a batch that is one text.
    pub(crate) fn push_text(
        &mut self,
        table: &Arc<LogicalTable>,
        at: usize,
        text: &'a str,
        values: &[ValueRef<'a>],
    ) {
        let batch = self.of(table, at);
        batch.push(BatchStatement::Text(text), values.to_vec());
    }

    /// The batch for the layout of that number of a table.
    fn of(&mut self, table: &Arc<LogicalTable>, at: usize) -> &mut FanOut<'a> {
        let place = match self.0.iter().position(|(of, _)| *of == at) {
            Some(place) => place,
            None => {
                self.0.push((at, FanOut::default()));
                self.0.len() - 1
            }
        };
        let (_, batch) = &mut self.0[place];
        batch.note_table(table);
        batch
    }

    /// The statements that are prepared.
    pub(crate) fn prepared(&self) -> impl Iterator<Item = Arc<Prepared>> {
        self.0.iter().flat_map(|(_, batch)| batch.prepared())
    }

    /// Bytes that they will have at least.
    pub(crate) fn byte_len(&self) -> usize {
        self.0.iter().map(|(_, batch)| batch.byte_len()).sum()
    }

    /// The requests; `None` if one has too many statements. `options`: the write's own, with its time.
    pub(crate) fn write(
        self,
        options: &Options<'_>,
        version: Version,
        keyspace: Option<&Rc<str>>,
        snapshot: &Snapshot,
        place: Option<&Place>,
    ) -> Option<Vec<Part>> {
        let mut options = *options;
        options.consistency = Consistency::ANY;
        options.serial_consistency = None;
        let parts = self.0.into_iter().map(|(at, batch)| {
            let tables = batch.tables.clone();
            let mut body = Vec::with_capacity(batch.byte_len() + 64);
            let (opcode, prepared) = write_one(batch, &options, version, &mut body)?;
            Some(Part {
                opcode,
                body,
                prepared,
                keyspace: keyspace.cloned(),
                target: Target::of(owned(snapshot, place, &tables, at)),
                at,
                tables,
            })
        });
        parts.collect()
    }
}

/// Appends one request, and tells its opcode and, of an EXECUTE, the statement; `None` if it has too many.
fn write_one(
    batch: FanOut<'_>,
    options: &Options<'_>,
    version: Version,
    body: &mut Vec<u8>,
) -> Option<(Opcode, Option<Arc<Prepared>>)> {
    // A node reads it, and goes on without it.
    let page = Page {
        size: PAGE_SIZE,
        state: None,
    };
    match batch.only() {
        Some((Sent::Text(text) | Sent::Own(BatchStatement::Text(text)), values)) => {
            write_query_of(text, options, values, page, version, body);
            Some((Opcode::Query, None))
        }
        Some((Sent::Prepared(prepared), values)) => {
            let ids = prepared.ids();
            write_execute(ids, options, values, page, version, body);
            Some((Opcode::Execute, Some(prepared.clone())))
        }
        _ => {
            let is_written = batch.write(UNLOGGED, options, version, body);
            is_written.then_some((Opcode::Batch, None))
        }
    }
}

/// The same place in the keyspace of a layout: tokens are those of the table.
fn owned(
    snapshot: &Snapshot,
    place: Option<&Place>,
    tables: &[Arc<LogicalTable>],
    at: usize,
) -> Option<Place> {
    let table = tables.first()?;
    let keyspace = table.keyspace_of(table.copies.get(at)?);
    Some(Place {
        owners: snapshot.schema().owners(keyspace)?.clone(),
        ..place?.clone()
    })
}

/// A clause of a batch that says something else than its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotATime;

/// The timestamp that stands in front of the first statement of a batch that is one text: `BEGIN BATCH USING TIMESTAMP 5`.
///
/// # Errors
/// It says something else there.
pub(crate) fn batch_timestamp(
    before: &str,
    values: &[ValueRef<'_>],
) -> Result<Option<i64>, NotATime> {
    let mut tokens = Lexer::new(before).map(|token| {
        let text = before.get(token.start..token.end).unwrap_or_default();
        (token.kind, text)
    });
    let is = |text: &str, word: &str| text.eq_ignore_ascii_case(word);
    if !tokens.any(|(_, text)| is(text, "using")) {
        return Ok(None);
    }
    if !tokens.next().is_some_and(|(_, text)| is(text, "timestamp")) {
        return Err(NotATime);
    }
    match tokens.next() {
        Some((TokenKind::Question | TokenKind::NamedMarker | TokenKind::Colon, _)) => {
            match values.first() {
                Some(ValueRef::Set(bytes)) => {
                    let bytes = (*bytes).try_into().map_err(|_| NotATime)?;
                    Ok(Some(i64::from_be_bytes(bytes)))
                }
                _ => Err(NotATime),
            }
        }
        Some((_, text)) => text.parse().map(Some).map_err(|_| NotATime),
        None => Err(NotATime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_tells_its_timestamp() {
        let bound = 7_i64.to_be_bytes();
        let values = [ValueRef::Set(&bound)];
        for (clause, expected) in [
            ("BEGIN BATCH ", Ok(None)),
            ("BEGIN UNLOGGED BATCH USING TIMESTAMP 12 ", Ok(Some(12))),
            ("begin batch using timestamp ?", Ok(Some(7))),
            ("BEGIN BATCH USING TIMESTAMP :t", Ok(Some(7))),
            ("BEGIN BATCH USING TTL 5", Err(NotATime)),
            ("BEGIN BATCH USING TIMESTAMP", Err(NotATime)),
            ("BEGIN BATCH USING TIMESTAMP now", Err(NotATime)),
        ] {
            assert_eq!(batch_timestamp(clause, &values), expected, "{clause}");
        }
        let unbound = batch_timestamp("BEGIN BATCH USING TIMESTAMP ?", &[ValueRef::Null]);
        assert_eq!(unbound, Err(NotATime));
    }
}
