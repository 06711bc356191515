//! Commands at a table that a client writes and reads all the time, through a proxy.

use std::time::{Duration, Instant};

use helenus_tests::proxy::Proxy;
use serde_json::json;

use crate::history::{History, Writing, check_rows};
use crate::{Nodes, eventually};

const ON: [&str; 4] = [
    "layouts.enabled=true",
    "listen.workers=2",
    "cluster.local_dc=dc1",
    "cluster.allow_remote_dc=true",
];
const CREATE: [&str; 11] = [
    "create",
    "shop.t",
    "--mode",
    "replace",
    "--layout",
    "x=b,a@dc2",
    "--layout",
    "y=a,b@dc1",
    "--layout",
    "z=a,b@dc3",
    "--json",
];
const COPIES: [(usize, &str); 3] = [
    (1, "shop__t__x.t"),
    (0, "shop__t__y.t"),
    (2, "shop__t__z.t"),
];

/// All copies have what the client was told.
fn check_copies(nodes: &mut Nodes, history: &History) {
    for (node, table) in COPIES {
        let rows = nodes.rows_at(node, table);
        check_rows(table, &rows, history);
    }
}

fn kill(mut command: std::process::Child) {
    command.kill().expect("killed");
    command.wait().expect("ended");
}

#[test]
fn rows_go_over_to_copies_and_back_while_clients_write() {
    let seed = match std::env::var("HELENUS_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => rand::random::<u32>().into(),
    };
    println!("seed {seed} (HELENUS_SEED)");
    let mut nodes = Nodes::take();
    nodes.table("shop", "k int, a int, b int, v int, PRIMARY KEY (k, a, b)");
    let proxy = Proxy::start(&nodes.cluster.contact_points(), &ON).expect("a proxy");
    let writing = Writing::begin(proxy.address, "shop.t", seed);
    eventually("there are rows", || writing.acknowledged() > 200);

    // Interrupted while rows are copied: nobody has noticed anything.
    let slowly = [&CREATE[..], &["--rows-per-second", "50"]].concat();
    let command = nodes.begin(&slowly);
    eventually("rows are being copied", || {
        let rows =
            "SELECT mode FROM helenus.layouts WHERE keyspace_name = 'shop' AND table_name = 't'";
        let told = nodes.connections[0].query(rows, helenus_cluster::Consistency::Quorum);
        told.is_ok_and(|rows| {
            rows.first()
                .is_some_and(|row| row[0] == Some(b"replacing".to_vec()))
        })
    });
    assert_eq!(
        nodes.stage("shop.t"),
        (json!("replacing"), json!("filling"))
    );
    kill(command);
    let before = writing.acknowledged();
    eventually("clients write", || writing.acknowledged() > before + 50);

    // Interrupted while nobody may write: the table has all rows, and clients wait.
    let command = nodes.begin(&CREATE);
    eventually("clients wait", || nodes.stage("shop.t").0 == "replace");
    eventually("nobody knows where to write to", || {
        let before = writing.acknowledged();
        std::thread::sleep(Duration::from_millis(500));
        writing.acknowledged() == before
    });
    kill(command);
    assert_eq!(nodes.stage("shop.t"), (json!("replace"), json!("filling")));
    nodes.refused(
        &["rebuild", "shop.t", "--layout", "x"],
        "finish what was interrupted",
    );

    let created = nodes.json(&CREATE[..10]);
    println!("{created}");
    assert!(created["rows"].as_u64() > Some(0), "{created}");
    assert_eq!(nodes.stage("shop.t"), (json!("replace"), json!("in use")));
    let before = writing.acknowledged();
    eventually("clients write again", || {
        writing.acknowledged() > before + 100
    });
    for node in 0..3 {
        assert!(
            nodes.rows_at(node, "shop.t").is_empty(),
            "the table has no row"
        );
    }
    let status = nodes.status("shop.t");
    let copies = &status["copies"][0]["copies"];
    assert_eq!(copies[0]["layout"], "x");
    assert_eq!(
        status["tables"][0]["layouts"][0]["physical_keyspace"],
        "shop__t__x"
    );
    let again = nodes.json(&CREATE[..10]);
    assert_eq!(
        again["rows"],
        json!(null),
        "there is nothing to do: {again}"
    );

    // A copy is emptied, and comes back.
    let began = Instant::now();
    nodes.succeeds(&["rebuild", "shop.t", "--layout", "x"]);
    println!("rebuilt in {:?}", began.elapsed());
    let before = writing.acknowledged();
    eventually("clients write to it", || {
        writing.acknowledged() > before + 50
    });
    nodes.succeeds(&["verify", "shop.t"]);
    let history = writing.end();
    check_copies(&mut nodes, &history);

    // The rows go back.
    let writing = Writing::go_on(proxy.address, "shop.t", (seed + 1, history));
    nodes.refused(&["drop", "shop.t", "--layout", "x"], "--all");
    let dropped = nodes.json(&["drop", "shop.t", "--all"]);
    println!("{dropped}");
    let before = writing.acknowledged();
    eventually("clients write to the table", || {
        writing.acknowledged() > before + 100
    });
    let history = writing.end();
    for node in 0..3 {
        // At QUORUM a row may be on two of three nodes only.
        assert!(!nodes.rows_at(node, "shop.t").is_empty());
    }
    let rows = nodes.run("SELECT k, a, v FROM shop.t");
    let rows = rows.iter().map(|row| {
        let [k, a, v] = [0, 1, 2].map(|at| crate::int(&row[at]));
        ((k, a), v)
    });
    check_rows("shop.t", &rows.collect(), &history);
    assert!(nodes.names("shop__t").is_empty());
    let rows = nodes
        .run("SELECT owners FROM helenus.copies WHERE keyspace_name = 'shop' AND table_name = 't'");
    assert!(rows.is_empty(), "{rows:?}");
    assert!(
        nodes.status("shop.t")["tables"][0]["layouts"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
}
