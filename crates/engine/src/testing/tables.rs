//! The tables of these tests, and pages of them.

use std::sync::Arc;

use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::{NodeSpec, Replication, Ring};
use helenus_policy::route::{Locality, NodeTable};
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{Version, write};

use crate::features::InSnapshot;
use crate::features::layouts::Layouts;
use crate::snapshot::list_columns::ListColumns;
use crate::snapshot::{KeyColumn, Snapshot};
use crate::testing::asking::TABLE;
use crate::testing::node;

/// A column and its type's number on the wire.
pub(crate) type Spec = (&'static str, u16);

pub(crate) const BIGINT: u16 = 0x2;
pub(crate) const VARCHAR: u16 = 0xd;

/// A table with a list `l`, a frozen list `f` and a set `s`.
const LISTED: &str = "listed";

/// Of a layout of [`TABLE`].
pub(crate) const LAYOUT: &str = "orders__layout_a";

/// The keyspace of layouts that are not in their table's.
pub(crate) const DERIVED: &str = "app__layouts";

/// A cluster of so many nodes with the tables of these tests.
pub(super) fn snapshot(epoch: u64, nodes: u8, version: Version, table: LogicalTable) -> Snapshot {
    let spec = |number: u8| NodeSpec {
        dc: String::new(),
        rack: String::new(),
        tokens: vec![Token::Murmur3(i64::from(number))],
    };
    let specs: Vec<NodeSpec> = (0..nodes).map(spec).collect();
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let replicas = ring.replica_sets(&Replication::Simple { rf: nodes.into() });
    let key: Arc<[KeyColumn]> = Arc::new([KeyColumn {
        name: "customer".to_owned(),
        cql_type: "bigint".to_owned(),
        is_masked: false,
    }]);
    let mut layouts = Layouts::default();
    layouts.add(Arc::new(table));
    let replicas = Arc::new(replicas);
    let mut snapshot = Snapshot::builder()
        .epoch(epoch)
        .version(version)
        .nodes((0..nodes).map(node))
        .places(NodeTable::from_localities(
            (0..nodes).map(|_| Locality::LocalDc),
        ))
        .keyspace("app", replicas.clone())
        .keyspace(DERIVED, replicas)
        .ring(Some(ring))
        .lists(columns())
        .features(InSnapshot {
            layouts: Arc::new(layouts),
            ..InSnapshot::default()
        });
    for table in [TABLE, LAYOUT, "others", LISTED] {
        snapshot = snapshot.table("app", table, key.clone());
    }
    snapshot.build()
}

/// The columns of the schema's tables.
fn columns() -> ListColumns {
    let mut known = ListColumns::default();
    for table in [TABLE, LAYOUT, "others", LISTED] {
        for (column, cql_type) in [
            ("customer", "bigint"),
            ("day", "bigint"),
            ("status", "text"),
            ("total", "bigint"),
            ("x", "bigint"),
        ] {
            known.note("app", table, column, cql_type);
        }
    }
    for (column, cql_type) in [
        ("l", "list<text>"),
        ("f", "frozen<list<text>>"),
        ("s", "set<text>"),
    ] {
        known.note("app", LISTED, column, cql_type);
    }
    known
}

pub(super) fn specs(body: &mut Vec<u8>, keyspace: &str, table: &str, columns: &[Spec]) {
    write::string(body, keyspace);
    write::string(body, table);
    for (name, column_type) in columns {
        write::string(body, name);
        write::u16(body, *column_type);
    }
}

/// A page of a table, of a cell in each column of each row.
pub(crate) fn rows(
    table: &str,
    columns: &[Spec],
    state: Option<&[u8]>,
    cells: &[&[u8]],
) -> Vec<u8> {
    rows_in("app", table, columns, state, cells)
}

/// As `rows`, of a table in another keyspace.
pub(crate) fn rows_in(
    keyspace: &str,
    table: &str,
    columns: &[Spec],
    state: Option<&[u8]>,
    cells: &[&[u8]],
) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    write::u32(&mut body, 1 | state.map_or(0, |_| 2));
    write::u32(&mut body, columns.len() as u32);
    if state.is_some() {
        write::bytes(&mut body, state);
    }
    specs(&mut body, keyspace, table, columns);
    write::u32(&mut body, (cells.len() / columns.len()) as u32);
    for cell in cells {
        write::bytes(&mut body, Some(cell));
    }
    body
}

/// A page of a table without rows.
pub(crate) fn no_rows(table: &str, columns: &[Spec]) -> Vec<u8> {
    let mut page = rows(table, columns, None, &[]);
    let count = page.len() - 4;
    page[count..].fill(0);
    page
}
