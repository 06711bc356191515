//! A write that one copy refuses and others have is given up, and its own proxy makes it good.

use std::io::Write;

use helenus_cluster::{Cluster, Connection};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, QUORUM};

use crate::returning::rows_of;
use crate::writes::{ON, data_centers, in_sync, replace_as};
use crate::{TURN, eventually, joined, lists, run};

const UNAUTHORIZED: i32 = 0x2100;

fn upkeep(proxy: &Proxy, of: &str) -> u64 {
    let lists = lists(proxy);
    lists["upkeep"][of].as_u64().expect("a number")
}

fn recorded(node: &mut Connection) -> usize {
    let rows = run(node, "SELECT recorded FROM helenus.intents");
    rows.iter().filter(|row| row[0] == Some(vec![1])).count()
}

#[test]
fn a_write_that_one_copy_refuses_is_made_good() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let spec = data_centers().auth(true);
    let cluster = Cluster::up(spec.yaml("permissions_validity", "100ms")).expect("three nodes");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "cassandra").expect("written");
    let path = file.path().to_str().expect("a path");
    let mut node = replace_as(&cluster, &["--user", "cassandra", "--password-file", path]);
    let everywhere = "{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1, 'dc3': 1}";
    let roles = format!("ALTER KEYSPACE system_auth WITH replication = {everywhere}");
    for cql in [
        &*roles,
        "CREATE ROLE app WITH PASSWORD = 'a' AND LOGIN = true",
        "GRANT MODIFY ON shop_a.orders TO app",
        "GRANT MODIFY ON shop_c.orders TO app",
    ] {
        run(&mut node, cql);
    }
    let login = ["cluster.username=cassandra", "cluster.password=cassandra"];
    let settings: Vec<&str> = ON.iter().chain(&login).copied().collect();
    let proxy = Proxy::start(&cluster.contact_points(), &settings).expect("a proxy");
    joined(&proxy);
    eventually("the copies are known", || in_sync(&proxy).len() == 3);

    let mut client = Client::connect(proxy.address, 5).expect("a client");
    let answer = client.startup(Some(("app", "a"))).expect("an answer");
    answer.expect("logged in");
    let insert = "INSERT INTO shop.orders (k, a, b, v) VALUES (1, 1, 2, 7) USING TIMESTAMP 5000";
    let answer = client.try_query(insert, QUORUM).expect("an answer");
    let fault = answer.expect_err("one copy refuses it");
    assert_eq!(fault.code, UNAUTHORIZED, "{}", fault.message);
    let mut has_it = |copy| rows_of(&mut node, copy).get(&(1, 1)) == Some(&(7, 5_000));
    assert!(has_it(0) && !has_it(1) && has_it(2));
    eventually("it is counted", || upkeep(&proxy, "buckets_given_up") == 1);
    eventually("it is on all copies", || has_it(1));
    eventually("that is counted, too", || {
        upkeep(&proxy, "buckets_given_up") == 0 && upkeep(&proxy, "buckets_resynchronised") == 1
    });
    eventually("its bucket is cleared", || recorded(&mut node) == 0);
    assert_eq!(in_sync(&proxy), [0, 1, 2], "{}", proxy.log());
}
