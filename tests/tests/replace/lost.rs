//! A node that ends may lose what it had acknowledged last. What a command had copied by then is not lost with it.

use helenus_tests::proxy::Proxy;
use serde_json::json;

use crate::Nodes;
use crate::in_use::{ON, kill_when};

const CREATE: [&str; 10] = [
    "create",
    "lost.t",
    "--mode",
    "replace",
    "--layout",
    "x=b,a@dc2",
    "--layout",
    "y=a,b@dc1",
    "--layout",
    "z=a,b@dc3",
];
const COPIES: [(usize, &str); 3] = [
    (1, "lost__t__x.t"),
    (0, "lost__t__y.t"),
    (2, "lost__t__z.t"),
];
const LOST: (i32, i32) = (77, 1);

/// An acknowledged row, as it is where it was not lost.
fn put(nodes: &mut Nodes, table: &str) {
    nodes.run(&format!(
        "INSERT INTO {table} (k, a, b, v) VALUES (77, 1, 2, 7) USING TIMESTAMP 7000"
    ));
}

/// As a command leaves it that is interrupted while rows are copied.
fn forget_ranges(nodes: &mut Nodes, layout: &str) {
    nodes.run(&format!(
        "DELETE FROM helenus.layout_progress WHERE keyspace_name = 'lost' AND table_name = 't' AND layout = '{layout}'"
    ));
}

#[test]
fn what_a_node_loses_after_it_was_copied_is_not_deleted_elsewhere() {
    let mut nodes = Nodes::take();
    nodes.table("lost", "k int, a int, b int, v int, PRIMARY KEY (k, a, b)");
    for k in 0..20 {
        nodes.run(&format!(
            "INSERT INTO lost.t (k, a, b, v) VALUES ({k}, 1, 2, {k}) USING TIMESTAMP {}",
            1_000 + k
        ));
    }
    nodes.succeeds(&[&CREATE[..], &["--no-proxies"]].concat());
    let contact = nodes.cluster.contact_points();
    let _proxy = Proxy::start(&contact, &ON).expect("a proxy");

    // The rows go back, and the first copy has lost one that the table has got from it.
    let drop_all = ["drop", "lost.t", "--all"];
    kill_when(nodes.begin(&drop_all), "rows go back", || {
        let rows = nodes.run(
            "SELECT stage FROM helenus.copies WHERE keyspace_name = 'lost' AND table_name = 't'",
        );
        let stage = rows.first().and_then(|row| row[0].clone());
        stage.as_deref() == Some(b"returning")
    });
    forget_ranges(&mut nodes, "(table)");
    for table in ["lost.t", COPIES[1].1, COPIES[2].1] {
        put(&mut nodes, table);
    }
    assert_eq!(nodes.rows_at(COPIES[0].0, COPIES[0].1).get(&LOST), None);
    nodes.succeeds(&drop_all);
    assert_eq!(nodes.stage("lost.t").1, json!(null));
    let rows = nodes.rows_at(0, "lost.t");
    assert_eq!(rows.get(&LOST), Some(&7), "{rows:?}");
    assert_eq!(rows.len(), 21, "{rows:?}");
    assert!(nodes.names("lost").is_empty());
}
