//! Commands at a table that a client writes and reads all the time, through a proxy.

use std::time::{Duration, Instant};

use helenus_tests::proxy::Proxy;
use serde_json::json;

use crate::history::{History, Writing, check_rows};
use crate::{Nodes, eventually};

pub(crate) const ON: [&str; 4] = [
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

/// For so long a client may get nothing but errors of a proxy, on a busy machine.
const OUTAGE_MAX: Duration = Duration::from_secs(2);

/// All copies have what the client was told.
fn check_copies(nodes: &mut Nodes, history: &History) {
    for (node, table) in COPIES {
        let rows = nodes.rows_at(node, table);
        check_rows(table, &rows, history);
    }
}

/// Kills the command once that is so.
pub(crate) fn kill_when(mut command: std::process::Child, what: &str, is_so: impl FnMut() -> bool) {
    eventually(what, is_so);
    command.kill().expect("killed");
    command.wait().expect("ended");
}

/// How many lists have the table itself, and copies, in this state.
fn members(nodes: &Nodes, state: &str) -> (usize, usize) {
    let status = nodes.status("shop.t");
    let lists = status["copies"].as_array().cloned().unwrap_or_default();
    let is_it = |member: &&serde_json::Value| member["state"] == state;
    let tables = lists.iter().map(|list| &list["table_itself"]);
    let copies = lists.iter().filter_map(|list| list["copies"].as_array());
    (
        tables.filter(is_it).count(),
        copies.flatten().filter(is_it).count(),
    )
}

fn mode_and_stage(nodes: &mut Nodes) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut first = |column: &str, table: &str| {
        let place = "keyspace_name = 'shop' AND table_name = 't' LIMIT 1";
        let select = format!("SELECT {column} FROM helenus.{table} WHERE {place}");
        let told = nodes.connections[0].query(&select, helenus_cluster::Consistency::Quorum);
        told.ok()?.first()?[0].clone()
    };
    (first("mode", "layouts"), first("stage", "copies"))
}

fn are(nodes: &mut Nodes, mode: &str, stage: &str) -> bool {
    let text = |text: &str| Some(text.as_bytes().to_vec());
    mode_and_stage(nodes) == (text(mode), text(stage))
}

/// Whether the catalogue says of all copies that none may join.
fn are_writing(nodes: &mut Nodes) -> bool {
    let select =
        "SELECT state FROM helenus.layouts WHERE keyspace_name = 'shop' AND table_name = 't'";
    let states = nodes.run(select);
    let is_writing = |row: &Vec<Option<Vec<u8>>>| row[0].as_deref() == Some(b"writing");
    !states.is_empty() && states.iter().all(is_writing)
}

/// Clients have gone on all the time, but for what they may hear while proxies change over.
fn check_gone_on(longest: Duration) {
    assert!(longest < OUTAGE_MAX, "{longest:?} without an answer");
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
    let contact = nodes.cluster.contact_points();
    let proxies = [0, 1].map(|_| Proxy::start(&contact, &ON).expect("a proxy"));
    let proxies_at = [proxies[0].address, proxies[1].address];
    let writing = Writing::begin(proxies_at, "shop.t", seed);
    eventually("there are rows", || writing.acknowledged() > 200);

    // Interrupted while rows are copied: nobody has noticed anything.
    let slowly = [&CREATE[..], &["--rows-per-second", "50"]].concat();
    kill_when(nodes.begin(&slowly), "rows are being copied", || {
        are(&mut nodes, "replacing", "filling")
    });
    let before = writing.acknowledged();
    eventually("clients write", || writing.acknowledged() > before + 50);

    // Interrupted once proxies go by the lists; and given up.
    kill_when(nodes.begin(&CREATE), "proxies go by the lists", || {
        are(&mut nodes, "replace", "joining")
    });
    assert_eq!(members(&nodes, "in sync"), (1, 0));
    nodes.refused(
        &["rebuild", "shop.t", "--layout", "x"],
        "finish what was interrupted",
    );
    nodes.succeeds(&["drop", "shop.t", "--all"]);
    assert!(nodes.names("shop__t").is_empty());
    assert_eq!(mode_and_stage(&mut nodes), (None, None));
    let before = writing.acknowledged();
    eventually("clients write", || writing.acknowledged() > before + 50);

    // Interrupted while copies come in sync.
    kill_when(nodes.begin(&CREATE), "copies join", || {
        are(&mut nodes, "replace", "joining") && members(&nodes, "out").1 < 3
    });
    nodes.refused(&["drop", "shop.t", "--undo"], "is not being dropped");
    // Given up, and that interrupted, when they are in sync; gone on with when they are too old.
    eventually("proxies bring them in sync", || {
        members(&nodes, "in sync") == (1, 3)
    });
    nodes.run(
        "UPDATE helenus.copies SET begun = 1 WHERE keyspace_name = 'shop' AND table_name = 't'",
    );
    kill_when(
        nodes.begin(&["drop", "shop.t", "--all"]),
        "none joins",
        || are_writing(&mut nodes),
    );
    assert!(members(&nodes, "in sync").1 > 0, "they are listed");
    let created = nodes.json(&CREATE[..10]);
    println!("{created}");
    assert_eq!(nodes.stage("shop.t"), (json!("replace"), json!("in use")));
    // On a busy machine a copy is out now and then, and comes back.
    eventually("all copies are in sync", || {
        members(&nodes, "in sync") == (0, 3)
    });
    writing.copies_are_in_use(true);
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
    let (history, longest) = writing.end();
    check_gone_on(longest);
    check_copies(&mut nodes, &history);

    // The rows go back; interrupted when the table is in sync, and given up.
    let writing = Writing::go_on(proxies_at, "shop.t", (seed + 10, history));
    nodes.refused(&["drop", "shop.t", "--layout", "x"], "--all");
    let drop_all = ["drop", "shop.t", "--all"];
    // Something has come to the table past the proxies; interrupted while it is emptied.
    nodes.run("INSERT INTO shop.t (k, a, b, v) VALUES (9999, 1, 2, 3)");
    kill_when(nodes.begin(&drop_all), "the table is emptied", || {
        are(&mut nodes, "replace", "open")
    });
    kill_when(nodes.begin(&drop_all), "the table is in sync", || {
        members(&nodes, "in sync") == (1, 3)
    });
    nodes.refused(&CREATE, "--undo");
    nodes.succeeds(&["drop", "shop.t", "--undo"]);
    writing.copies_are_in_use(true);
    assert_eq!(nodes.stage("shop.t"), (json!("replace"), json!("in use")));
    // On a busy machine a copy is out now and then, and comes back.
    eventually("all copies are in sync", || {
        members(&nodes, "in sync") == (0, 3)
    });
    for node in 0..3 {
        assert!(
            nodes.rows_at(node, "shop.t").is_empty(),
            "it is empty again"
        );
    }
    let before = writing.acknowledged();
    eventually("clients write to the copies", || {
        writing.acknowledged() > before + 50
    });
    writing.copies_are_in_use(false);

    // Interrupted while rows are copied back, and when clients use the table.
    kill_when(nodes.begin(&drop_all), "rows are copied back", || {
        are(&mut nodes, "replace", "returning")
    });
    kill_when(nodes.begin(&drop_all), "copies are out", || {
        mode_and_stage(&mut nodes).1 == Some(b"closing".to_vec())
    });
    nodes.refused(&["drop", "shop.t", "--undo"], "clients use shop.t itself");
    nodes.refused(&CREATE, "is being dropped");
    let dropped = nodes.json(&drop_all);
    println!("{dropped}");
    let before = writing.acknowledged();
    eventually("clients write to the table", || {
        writing.acknowledged() > before + 100
    });
    let (history, longest) = writing.end();
    check_gone_on(longest);
    for node in 0..3 {
        // At QUORUM a row may be on two of three nodes only.
        assert!(!nodes.rows_at(node, "shop.t").is_empty());
    }
    let rows = nodes.connections[0]
        .query(
            "SELECT k, a, v FROM shop.t",
            helenus_cluster::Consistency::All,
        )
        .expect("rows");
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
