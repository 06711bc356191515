//! A read that is carried out on a layout of its table.
//!
//! The node request is one for the derived statement, so that what is learned, hedged and sent again is
//! learned of, hedged and sent again on the layout. What the client sees is the table's: the columns are
//! said to be of it, and errors that are of the layout only make it read the table after all.
//!
//! A paging state that comes from a layout says from which, so that any proxy continues there:
//! `0xff`, a version, a hash of the layout's name and order, and the node's own state. Cassandra's states
//! begin with the length of a partition key as a variable-length integer, which is never that large. What
//! nobody here knows goes to a node as it is, which refuses it as any other state that is none.

use std::sync::Arc;

use helenus_layout::plan::{Copy, LogicalTable};
use helenus_policy::schedule::Class;
use helenus_wire::{ErrorBody, Malformed, Opcode, RowsView, TableName, code};

use crate::features::layouts::restored_order::RestoredOrder;
use crate::pipeline::node_request::Target;
use crate::pipeline::query::Query;
use crate::rewrite::rewritten::Tried;
use crate::statement::classify::class_of_partition;
use crate::statement::prepared::{Prepared, Statement};

/// How a wrapped paging state begins: no state of Cassandra's does, and the version of the format.
const PREFIX: [u8; 2] = [0xff, 1];
/// Bytes in front of the node's own state.
pub(super) const WRAPPED_LEN: usize = PREFIX.len() + size_of::<u64>();

/// A read of a layout as it is sent.
#[derive(Debug)]
pub(crate) struct LayoutRead {
    pub opcode: Opcode,
    /// In the client's version.
    pub body: Vec<u8>,
    pub statement: Arc<Statement>,
    pub prepared: Option<Arc<Prepared>>,
    pub table: Arc<LogicalTable>,
    /// Which of the table's layouts.
    pub at: usize,
    /// It continues a page that came from the layout: the table cannot do that.
    pub continues: bool,
    /// How its answer becomes the table's, if the rows come in another order.
    pub order: Option<Arc<RestoredOrder>>,
    /// Where it goes, if the layout has owners of its own.
    pub target: Option<Target>,
}

impl LayoutRead {
    /// The query to nodes in place of `asked`, and the read that makes its answer the table's.
    pub(crate) fn begin(self, asked: &mut Query) -> (Query, ReadOfLayout) {
        let query = Query {
            header_flags: asked.header_flags,
            keyspace: asked.keyspace.clone(),
            class: match asked.class {
                Class::Point | Class::Slice => class_of_partition(&self.statement),
                other => other,
            },
            statement: Some(self.statement),
            prepared: self.prepared,
            table: asked.table.clone(),
            pool: asked.pool,
            resendable: asked.resendable,
            consistency: asked.consistency,
            serial_consistency: asked.serial_consistency,
            send_before: asked.send_before.take(),
            ..Query::new(self.opcode, asked.version, self.body)
        };
        let nothing = Query::new(asked.opcode, asked.version, Vec::new());
        let read = ReadOfLayout {
            asked: std::mem::replace(asked, nothing),
            table: self.table,
            at: self.at,
            continues: self.continues,
            order: self.order,
            of_table: None,
        };
        (query, read)
    }
}

/// A read of a layout that is under way.
pub(crate) struct ReadOfLayout {
    /// The client's own query.
    pub asked: Query,
    pub table: Arc<LogicalTable>,
    at: usize,
    continues: bool,
    order: Option<Arc<RestoredOrder>>,
    /// Where the table is read, if that is elsewhere.
    pub of_table: Option<Target>,
}

/// Why a read is not carried out on a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The lease on the catalogue has run out.
    Lease,
    /// The nodes do not know the statement any more: the layout is gone, or its columns are others.
    Layout,
    /// The role may not read the layout.
    Role,
    /// The layout's, or that of what the client asks: the table tells.
    Unknown,
    /// The rows cannot be put into the table's order.
    Order,
    /// The layout has fewer replicas than the table, and they are not there.
    Away,
}

/// The fate of a read of a layout that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// The table is read.
    Table(Fault),
    /// The client hears that its paging state is none, as a node would say it: the table cannot continue
    /// what was begun on a layout that is gone.
    InvalidState,
    /// The client hears the error.
    Nothing,
}

impl ReadOfLayout {
    /// The content of an answer as one of the table; `None` if it cannot be made that.
    ///
    /// # Errors
    /// It is not what it says.
    pub(crate) fn answer(&self, content: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        let page = RowsView::parse(content)?;
        let (from, to) = (self.layout(), (&*self.table.keyspace, &*self.table.name));
        let mut out = Vec::with_capacity(content.len() + WRAPPED_LEN);
        if let Some(order) = &self.order {
            let is_written = order.write(&page, from, to, &mut out)?;
            return Ok(is_written.then_some(out));
        }
        let state = page.paging_state;
        let state = state.map(|state| wrap(identity(&self.table, self.at), state));
        page.write_for_table(from, to, state.as_deref(), &mut out);
        Ok(Some(out))
    }

    /// Keyspace and name of the layout that is read.
    pub(crate) fn layout(&self) -> TableName<'_> {
        let copy = self.table.copies.get(self.at);
        copy.map_or(("", ""), |copy| {
            (self.table.keyspace_of(copy), copy.physical.as_str())
        })
    }

    fn is_derived(&self) -> bool {
        let copy = self.table.copies.get(self.at);
        copy.is_some_and(Copy::is_derived)
    }

    pub(crate) fn instead(&self, tried: &Tried<'_>) -> Instead {
        let (code, is_gone) = match tried {
            Tried::No(code::OVERLOADED) if !self.continues => return Instead::Table(Fault::Lease),
            Tried::No(code) => (*code, true),
            Tried::Answered(error) => (error.code, says_gone(error)),
        };
        let is_of_statement = matches!(
            code,
            code::INVALID | code::SYNTAX | code::CONFIG | code::UNPREPARED | code::PROTOCOL
        );
        let is_away = matches!(
            code,
            code::UNAVAILABLE | code::READ_FAILURE | code::READ_TIMEOUT
        );
        if is_away && self.is_derived() && !self.continues {
            return Instead::Table(Fault::Away);
        }
        // More is read to be sorted than the table might read.
        if let (code::READ_FAILURE | code::READ_TIMEOUT, Some(order)) = (code, &self.order) {
            order.note_failed();
            return Instead::Table(Fault::Order);
        }
        match (code, self.continues) {
            (code::UNAUTHORIZED, false) => Instead::Table(Fault::Role),
            _ if !is_of_statement => Instead::Nothing,
            (_, true) if is_gone => Instead::InvalidState,
            (_, true) => Instead::Nothing,
            (code::UNPREPARED, false) => Instead::Table(Fault::Layout),
            (_, false) if matches!(tried, Tried::No(_)) => Instead::Table(Fault::Layout),
            (_, false) => Instead::Table(Fault::Unknown),
        }
    }
}

/// True if a node has said that it does not know a table, or a column of it.
fn says_gone(error: &ErrorBody<'_>) -> bool {
    let says = |what: &str| error.message.contains(what);
    error.code == code::UNPREPARED
        || says("does not exist")
        || says("unconfigured table")
        || says("Undefined column name")
}

/// Names of a table's layouts and of their keyspaces, each with the name that the client uses. One may be the beginning
/// of another, so the longest comes first.
pub(crate) fn names(table: &LogicalTable) -> Vec<(&str, &str)> {
    let copies = table.copies.iter();
    let keyspaces = copies.clone().filter_map(|copy| copy.keyspace.as_deref());
    let mut names: Vec<_> = copies
        .map(|copy| (copy.physical.as_str(), table.name.as_str()))
        .chain(keyspaces.map(|keyspace| (keyspace, table.keyspace.as_str())))
        .collect();
    names.sort_by_key(|(physical, _)| std::cmp::Reverse(physical.len()));
    names
}

/// An error with the table's name in place of its layouts'; `None` if it names none.
pub(crate) fn named_as_table(table: &LogicalTable, content: &[u8]) -> Option<Vec<u8>> {
    let error = ErrorBody::parse(content).ok()?;
    let names = names(table);
    if !names.iter().any(|(of, _)| error.message.contains(of)) {
        return None;
    }
    let rename = |text: String, (of, to): (&str, &str)| text.replace(of, to);
    let mut message = names.into_iter().fold(error.message.to_owned(), rename);
    if error.code == code::INVALID && error.message.contains("Undefined column name") {
        message.push_str(
            " (a layout of the table does not have it: add it there as well, see `helenus layouts status`)",
        );
    }
    if error.code == code::UNAUTHORIZED {
        message.push_str(
            " (asked for a layout of the table: grant the role the same there, see `helenus layouts \
             status`)",
        );
    }
    let mut out = Vec::with_capacity(content.len() + 128);
    let message = &*message;
    ErrorBody { message, ..error }.write(&mut out);
    Some(out)
}

/// A layout's name and order as a number that is the same in all proxies.
pub(crate) fn identity(table: &LogicalTable, at: usize) -> u64 {
    let Some(copy) = table.copies.get(at) else {
        return 0;
    };
    let order = copy
        .layout
        .columns()
        .filter_map(|column| table.clustering.get(column));
    let names = order.map(|column| column.name.as_str());
    let names = std::iter::once(copy.physical.as_str()).chain(names);
    // FNV-1a, 64 bits: it must not change with a library. Names have no 0xff.
    let bytes = names.flat_map(|name| name.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

pub(crate) fn wrap(identity: u64, state: &[u8]) -> Vec<u8> {
    let mut wrapped = Vec::with_capacity(WRAPPED_LEN + state.len());
    wrapped.extend_from_slice(&PREFIX);
    wrapped.extend_from_slice(&identity.to_be_bytes());
    wrapped.extend_from_slice(state);
    wrapped
}

/// The layout that a paging state is of, and the node's own state; `None` if it is of a table.
pub(crate) fn unwrap(state: &[u8]) -> Option<(u64, &[u8])> {
    let (identity, state) = state.strip_prefix(&PREFIX)?.split_first_chunk()?;
    Some((u64::from_be_bytes(*identity), state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_a_layout_is_told_from_one_of_a_table() {
        let wrapped = wrap(0x0102_0304_0506_0708, b"state");
        assert_eq!(
            unwrap(&wrapped),
            Some((0x0102_0304_0506_0708, &b"state"[..]))
        );
        for of_table in [
            &b""[..],
            b"\x04abcd",
            &PREFIX,
            &wrapped[..9],
            &[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(unwrap(of_table), None, "{of_table:?}");
        }
        assert_eq!(
            unwrap(&wrapped[..10]),
            Some((0x0102_0304_0506_0708, &b""[..]))
        );
    }
}
