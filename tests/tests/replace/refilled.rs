//! A copy that is rebuilt while clients write and delete: its rows are copied from another one.

use std::time::Instant;

use helenus_tests::proxy::Proxy;
use serde_json::Value;

use crate::history::{Writing, check_rows};
use crate::in_use::{ON, kill_when};
use crate::{Nodes, eventually};

const COPIES: [(usize, &str); 3] = [
    (1, "refill__t__x.t"),
    (2, "refill__t__y.t"),
    (0, "refill__t__z.t"),
];

/// How many ranges the layout has that is being filled.
fn ranges_copied(nodes: &mut Nodes) -> usize {
    let select = "SELECT range_end FROM helenus.layout_progress WHERE keyspace_name = 'refill' AND table_name = 't' AND \
                  layout = 'x'";
    nodes.run(select).len()
}

fn seed() -> u64 {
    let seed = match std::env::var("HELENUS_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => rand::random::<u32>().into(),
    };
    println!("seed {seed} (HELENUS_SEED)");
    seed
}

#[test]
fn a_copy_is_filled_from_another_one_and_goes_on_where_it_was() {
    let seed = seed();
    let mut nodes = Nodes::take();
    nodes.table(
        "refill",
        "k int, a int, b int, v int, PRIMARY KEY (k, a, b)",
    );
    let create = ["create", "refill.t", "--no-proxies", "--mode", "replace"];
    let layouts = ["x=b,a@dc2", "y=a,b@dc3", "z=a,b@dc1"];
    let layouts = layouts.into_iter().flat_map(|of| ["--layout", of]);
    nodes.succeeds(&create.into_iter().chain(layouts).collect::<Vec<_>>());
    let contact = nodes.cluster.contact_points();
    let proxies = [0, 1].map(|_| Proxy::start(&contact, &ON).expect("a proxy"));
    let proxies_at = [proxies[0].address, proxies[1].address];
    let writing = Writing::begin(proxies_at, "refill.t", seed);
    eventually("there are rows", || writing.acknowledged() > 800);

    // Interrupted while rows are copied.
    let began = Instant::now();
    let rebuild = ["rebuild", "refill.t", "--layout", "x"];
    let slowly = [&rebuild[..], &["--rows-per-second", "40"]].concat();
    kill_when(nodes.begin(&slowly), "rows are being copied", || {
        ranges_copied(&mut nodes) > 4 && nodes.rows_at(1, COPIES[0].1).len() > 60
    });
    println!("killed after {:?}", began.elapsed());
    let (is_well, told, _) = nodes.layouts(&["status", "refill.t"]);
    assert!(!is_well && told.contains("layout x is out"), "{told}");
    nodes.refused(
        &["rebuild", "refill.t", "--layout", "y"],
        "layout x of refill.t is being rebuilt",
    );
    let before = writing.acknowledged();
    eventually("clients go on", || writing.acknowledged() > before + 50);

    let began = Instant::now();
    let rebuilt: Value = nodes.json(&rebuild);
    println!("gone on with in {:?}: {rebuilt}", began.elapsed());
    let copied = rebuilt["rows_copied"].as_u64().expect("a number") as usize;
    let all = nodes.rows_at(2, COPIES[1].1).len();
    assert!(0 < copied && copied + 30 < all, "{copied} of {all}");
    assert_eq!(ranges_copied(&mut nodes), 0);
    let before = writing.acknowledged();
    eventually("clients write to it", || {
        writing.acknowledged() > before + 50
    });
    let (history, _) = writing.end();
    for (node, table) in COPIES {
        check_rows(table, &nodes.rows_at(node, table), &history);
    }
    nodes.succeeds(&["verify", "refill.t"]);
}
