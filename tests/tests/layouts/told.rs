//! Tables as clients are told of them: through the proxy the same as by a node, less the layouts.

use std::collections::BTreeSet;
use std::io::Error;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use helenus_tests::raw::ONE;

use crate::client::{Asked, Request, Rows, Session};
use crate::schema::TestTable;

/// Statements, and the column of the answer that names tables.
const SELECTS: [(&str, usize); 7] = [
    ("SELECT * FROM system_schema.tables", 1),
    (
        "SELECT * FROM system_schema.columns WHERE keyspace_name = 'ks'",
        1,
    ),
    ("SELECT * FROM system_schema.indexes", 1),
    (
        "SELECT * FROM system_schema.dropped_columns WHERE keyspace_name = 'ks'",
        1,
    ),
    (
        "SELECT table_name, position FROM system_schema.columns WHERE keyspace_name = 'ks'",
        0,
    ),
    (
        "SELECT keyspace_name, column_name, table_name AS t FROM system_schema.columns WHERE keyspace_name \
         IN ('ks', 'zq')",
        2,
    ),
    (
        "SELECT * FROM system_schema.tables WHERE keyspace_name = 'ks' AND table_name >= 't0' ORDER BY \
         table_name DESC",
        1,
    ),
];
const DESCRIBES: [(&str, usize); 4] = [
    ("DESCRIBE TABLES", 2),
    ("DESCRIBE KEYSPACE ks", 2),
    ("DESC FULL SCHEMA", 2),
    ("DESCRIBE TABLE ks.t0", 2),
];
/// Rows of a small page.
const PAGE: i32 = 40;
/// Of any of them that has as many rows.
const LIMIT: usize = 5;

/// Asks both, with every version, in small pages and in one. Returns how many rows were left out.
pub(crate) fn compare(proxy: SocketAddr, node: SocketAddr, tables: &[&TestTable]) -> Result<usize> {
    let copies = tables.iter().flat_map(|table| &table.logical.copies);
    let layouts: BTreeSet<&[u8]> = copies.map(|copy| copy.physical.as_bytes()).collect();
    let mut left_out = 0;
    for version in [3, 4, 5] {
        let mut sides = [
            Session::open(proxy, version)?,
            Session::open(node, version)?,
        ];
        for (text, column) in SELECTS.into_iter().chain(DESCRIBES) {
            let is_select = text.starts_with("SELECT");
            for (is_prepared, page_size) in [(false, PAGE), (true, 5_000)] {
                // The other way round with every second version.
                let is_prepared = is_prepared != (version == 4);
                if is_prepared && !is_select {
                    continue;
                }
                let request = Request {
                    page_size: Some(page_size),
                    skip_metadata: is_prepared,
                    consistency: ONE,
                    ..Request::default()
                };
                let mut ask = |side: usize, text: &str| -> Result<Rows> {
                    let answer = sides[side].carry_out(text, is_prepared, &request)?;
                    Ok(answer
                        .map_err(Error::from)
                        .with_context(|| text.to_owned())?
                        .rows)
                };
                let mut all = ask(1, text)?;
                let before = all.len();
                let is_layout = |cell: &Option<Vec<u8>>| {
                    cell.as_deref().is_some_and(|name| layouts.contains(name))
                };
                all.retain(|row| !is_layout(&row[column]));
                left_out += before - all.len();
                let what = format!("v{version}, {page_size}, prepared {is_prepared}: {text}");
                ensure!(ask(0, text)? == all, "{what}");
                if is_select {
                    all.truncate(LIMIT);
                    ensure!(
                        ask(0, &format!("{text} LIMIT {LIMIT}"))? == all,
                        "{what} LIMIT"
                    );
                }
            }
        }
    }
    Ok(left_out)
}

/// Options of storage reach the layouts; what would change columns that there are does not reach anything.
pub(crate) fn alter(proxy: SocketAddr, node: SocketAddr, table: &TestTable) -> Result<()> {
    let (mut proxy, mut node) = (Session::open(proxy, 5)?, Session::open(node, 5)?);
    let request = Request {
        consistency: ONE,
        ..Request::default()
    };
    let name = &table.logical.name;
    proxy.run(&format!(
        "ALTER TABLE ks.{name} WITH comment = 'carried' AND gc_grace_seconds = 7200"
    ))?;
    let physical = table.logical.copies.iter().map(|copy| &copy.physical);
    for of in physical.chain([name]) {
        let text = format!(
            "SELECT comment, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = 'ks' AND \
             table_name = '{of}'"
        );
        let found = node.ask(Asked::Text(&text), &request)?;
        let found = found.map_err(Error::from).context(text)?.rows;
        let expected = vec![vec![
            Some(b"carried".to_vec()),
            Some(vec![0, 0, 0x1c, 0x20]),
        ]];
        ensure!(found == expected, "{of}: {found:?}");
    }
    for refused in [
        "ADD more list<int>",
        "RENAME c TO d",
        "WITH default_time_to_live = 60",
    ] {
        let text = format!("ALTER TABLE ks.{name} {refused}");
        let answer = proxy.ask(Asked::Text(&text), &request)?;
        let fault = answer
            .err()
            .with_context(|| format!("{text} was carried out"))?;
        ensure!(fault.message.contains("has layouts"), "{}", fault.message);
    }
    Ok(())
}
