//! Statements and what becomes of them.

mod answers;
mod random;
mod reads;
mod writes;

use super::*;
use crate::layout::Layout;

/// `ks.t`, with partition key `k`, clustering columns `a`, `b DESC`, `c` and the columns below; and a
/// layout for each order.
fn table(orders: &[&[usize]]) -> LogicalTable {
    let column = |name: &str, cql_type: &str, is_static| Column {
        name: name.to_owned(),
        cql_type: cql_type.to_owned(),
        is_static,
    };
    let clustering = |name: &str, descending| ClusteringColumn {
        name: name.to_owned(),
        cql_type: "int".to_owned(),
        descending,
    };
    let copy = |(at, order): (usize, &&[usize])| Copy {
        keyspace: None,
        physical: format!("t__layout_{at}"),
        layout: Layout::new(order).expect("a permutation"),
        readable: true,
        further: Vec::new(),
        outlived: Vec::new(),
    };
    let distinct = [("a", 100.0), ("b", 100.0), ("c", 10.0)];
    LogicalTable {
        keyspace: "ks".to_owned(),
        name: "t".to_owned(),
        partition_key: vec!["k".to_owned()],
        clustering: vec![
            clustering("a", false),
            clustering("b", true),
            clustering("c", false),
        ],
        columns: vec![
            column("v", "int", false),
            column("Up", "text", false),
            column("dec", "decimal", false),
            column("fl", "float", false),
            column("l", "list<int>", false),
            column("fz", "frozen<list<int>>", false),
            column("m", "map<int, text>", false),
            column("st", "set<text>", false),
            column("u", "address", false),
            column("s", "int", true),
        ],
        indexed: false,
        may_hold_times: false,
        copies: orders.iter().enumerate().map(copy).collect(),
        distinct: distinct
            .map(|(name, count)| (name.to_owned(), count))
            .into(),
        rows: None,
    }
}
