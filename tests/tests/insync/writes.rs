//! Writes to a table whose replicas are copies in sync, each on the only node of a virtual data center.

use std::collections::BTreeSet;
use std::net::TcpStream;

use helenus_cluster::{Cluster, ClusterSpec, Connection, Consistency};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, Fault, QUORUM};

use crate::{PATIENCE, TURN, eventually, joined, lists, on, refused, run, uuid};

/// Keyspaces of the copies, in the order of their numbers.
pub(crate) const COPIES: [&str; 3] = ["shop_a", "shop_b", "shop_c"];
/// Tables are in other data centers than the proxy's own.
pub(crate) const ON: [&str; 4] = [
    "layouts.enabled=true",
    "listen.workers=2",
    "cluster.local_dc=dc1",
    "cluster.allow_remote_dc=true",
];

/// Three nodes, each in a data center of its own.
pub(crate) fn three_data_centers() -> Cluster {
    Cluster::up(data_centers()).expect("three nodes")
}

pub(crate) fn data_centers() -> ClusterSpec {
    // Schema changes are flushed: a node is killed, and must know its tables when it comes back.
    helenus_tests::ephemeral()
        .nodes(3)
        .place("dc1", "r1")
        .place("dc2", "r1")
        .place("dc3", "r1")
        .yaml("auto_snapshot", "false")
}

/// `shop.orders` with a copy on each node, as a command would make it.
pub(crate) fn replace(cluster: &Cluster) -> Connection {
    replace_as(cluster, &[])
}

/// The same by who logs in with these arguments.
pub(crate) fn replace_as(cluster: &Cluster, login: &[&str]) -> Connection {
    let mut nodes: Vec<Connection> = (1..=3)
        .map(|number| cluster.connect(number).expect("a connection"))
        .collect();
    let mut told = Vec::new();
    for node in &mut nodes {
        let rows = run(node, "SELECT host_id, gossip_generation FROM system.local");
        let generation = rows[0][1].clone().expect("a generation");
        let generation = generation.try_into().expect("an int");
        told.push((uuid(&rows[0][0]), i32::from_be_bytes(generation)));
    }
    let mut node = nodes.remove(0);
    let everywhere = "{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1, 'dc3': 1}";
    run(
        &mut node,
        &format!("CREATE KEYSPACE shop WITH replication = {everywhere}"),
    );
    let columns = "(k int, a int, b int, v int, PRIMARY KEY";
    run(
        &mut node,
        &format!("CREATE TABLE shop.orders {columns} (k, a, b))"),
    );
    // The catalogue, by a layout of another table.
    run(
        &mut node,
        &format!("CREATE TABLE shop.other {columns} (k, a, b))"),
    );
    let contact = cluster.address(1).expect("an address").to_string();
    let create = ["create", "shop.other", "--no-proxies", "--layout", "x=b,a"];
    on(&contact, &[&create, login].concat());
    for (number, keyspace) in COPIES.iter().enumerate() {
        let data_center = format!("dc{}", number + 1);
        let order = ["a, b", "b, a", "a, b"][number];
        for cql in [
            format!(
                "CREATE KEYSPACE {keyspace} WITH replication = \
                 {{'class': 'NetworkTopologyStrategy', '{data_center}': 1}}"
            ),
            format!("CREATE TABLE {keyspace}.orders {columns} (k, {order}))"),
            format!(
                "INSERT INTO helenus.layouts (keyspace_name, table_name, mode, layout, physical, physical_keyspace, \
                 clustering, state) VALUES ('shop', 'orders', 'replace', '{keyspace}', 'orders', '{keyspace}', \
                 ['{}'], 'ready')",
                order.replace(", ", "', '")
            ),
        ] {
            run(&mut node, &cql);
        }
        // A node that has not written yet is slow, and a copy that is slow is evicted.
        let mut own = cluster.connect(number as u16 + 1).expect("a connection");
        eventually("the node knows the table", || {
            let select = format!("SELECT k FROM {keyspace}.orders LIMIT 1");
            own.query(&select, Consistency::One).is_ok()
        });
        for key in -200..0 {
            let row = format!("(k, a, b, v) VALUES ({key}, 1, 2, {key})");
            run(&mut own, &format!("INSERT INTO {keyspace}.orders {row}"));
        }
    }
    let in_list = |of: &dyn Fn(&(String, i32)) -> String| {
        let items: Vec<String> = told.iter().map(of).collect();
        items.join(", ")
    };
    run(
        &mut node,
        &format!(
            "INSERT INTO helenus.copies (keyspace_name, table_name, owners, version, in_sync, joining, since, boot, ranges) \
             VALUES ('shop', 'orders', [{}], 1, {{0, 1, 2}}, {{}}, [1, 1, 1], [{}], [{}, {}])",
            in_list(&|(host, _)| host.clone()),
            in_list(&|(_, generation)| generation.to_string()),
            i64::MIN,
            i64::MAX
        ),
    );
    node
}

/// A client that writes rows with growing keys, and the keys of those that were acknowledged.
struct Writer {
    client: Client<TcpStream>,
    next: i32,
    acknowledged: BTreeSet<i32>,
}

impl Writer {
    fn new(proxy: &Proxy) -> Writer {
        Writer {
            client: Client::ready(proxy.address, 5).expect("a client"),
            next: 0,
            acknowledged: BTreeSet::new(),
        }
    }

    /// One more row.
    fn write(&mut self) -> Result<(), Fault> {
        let key = self.next;
        self.next += 1;
        let insert = format!("INSERT INTO shop.orders (k, a, b, v) VALUES ({key}, 1, 2, {key})");
        let answer = self.client.try_query(&insert, QUORUM).expect("an answer");
        answer.map(|_| {
            self.acknowledged.insert(key);
        })
    }

    /// Rows, whatever becomes of each, until that is so.
    fn write_until(&mut self, what: &str, mut is_so: impl FnMut(&Writer) -> bool) {
        eventually(what, || {
            let _ = self.write();
            is_so(self)
        });
    }
}

/// Keys of the rows of a copy, as its own node has them.
pub(crate) fn keys_of(cluster: &Cluster, copy: usize) -> BTreeSet<i32> {
    let mut node = cluster.connect(copy as u16 + 1).expect("a connection");
    let select = format!("SELECT k, v FROM {}.orders", COPIES[copy]);
    let rows = node.query(&select, Consistency::One).expect("rows");
    let int = |cell: &Option<Vec<u8>>| {
        let bytes = cell.clone().expect("a value").try_into().expect("an int");
        i32::from_be_bytes(bytes)
    };
    rows.iter()
        .map(|row| {
            assert_eq!(int(&row[0]), int(&row[1]));
            int(&row[0])
        })
        .collect()
}

/// Copies that are in sync as the proxy knows it.
pub(crate) fn in_sync(proxy: &Proxy) -> Vec<usize> {
    let lists = lists(proxy);
    let is_in_sync = |copy: &usize| lists["copies"][0]["copies"][*copy]["state"] == "in sync";
    (0..COPIES.len()).filter(is_in_sync).collect()
}

/// All that was acknowledged is on each copy that is in sync; these copies. On a slow machine a healthy copy may have
/// been evicted.
fn check(cluster: &Cluster, proxy: &Proxy, writer: &Writer) -> Vec<usize> {
    let copies = in_sync(proxy);
    for copy in &copies {
        let keys = keys_of(cluster, *copy);
        let missing: Vec<_> = writer.acknowledged.difference(&keys).collect();
        assert!(missing.is_empty(), "copy {copy} of {copies:?}: {missing:?}");
    }
    copies
}

/// Buckets in which proxies have recorded intents.
fn intents(node: &mut Connection) -> usize {
    let rows = run(node, "SELECT recorded FROM helenus.intents");
    rows.iter().filter(|row| row[0] == Some(vec![1])).count()
}

#[test]
fn writes_are_on_all_copies_in_sync_and_go_on_without_a_lost_one() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let mut cluster = three_data_centers();
    let mut node = replace(&cluster);
    let mut proxy = Proxy::start(&cluster.contact_points(), &ON).expect("a proxy");
    joined(&proxy);
    eventually("the copies are known", || in_sync(&proxy).len() == 3);

    let mut writer = Writer::new(&proxy);
    writer.write_until("writes are acknowledged", |writer| {
        writer.acknowledged.len() >= 100
    });
    assert!(intents(&mut node) > 0, "they were recorded before");
    assert!(
        check(&cluster, &proxy, &writer).len() >= 2,
        "{}",
        proxy.log()
    );
    eventually("idle buckets are cleared", || intents(&mut node) == 0);
    writer.write_until("they are recorded again", |writer| {
        writer.acknowledged.len() >= 101
    });

    // A node is lost.
    cluster.kill(3).expect("killed");
    writer.write_until("writes go on", |writer| writer.acknowledged.len() >= 120);
    assert!(
        proxy.log().contains("copies were evicted"),
        "{}",
        proxy.log()
    );
    check(&cluster, &proxy, &writer);

    // Another one restarts, and may have lost writes. One of three is left, and QUORUM asks for two.
    writer.write_until("the others are in sync", |_| in_sync(&proxy) == [0, 1]);
    cluster.stop(2).expect("stopped");
    cluster.start(2).expect("started");
    eventually("too few copies are listed", || {
        writer.write().is_err_and(|fault| fault.code == 0x1000)
    });
    check(&cluster, &proxy, &writer);

    // Both come back, while clients write.
    cluster.start(3).expect("started");
    writer.write_until("all are in sync again", |_| in_sync(&proxy).len() == 3);
    check(&cluster, &proxy, &writer);

    // Only what a command has made is dropped.
    let contact = cluster.address(1).expect("an address").to_string();
    refused(
        &contact,
        &["drop", "shop.orders", "--all", "--no-proxies"],
        "not touched",
    );
    on(&contact, &["verify", "shop.orders"]);

    // What it has left is nothing.
    proxy.terminate().expect("a signal");
    proxy.wait(PATIENCE).expect("it ends");
    let rows = run(&mut node, "SELECT start FROM helenus.intents");
    assert_eq!(rows.len(), 0);
}
