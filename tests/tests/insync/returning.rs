//! Copies that are out of sync are compared with the others and come back; what a proxy that is gone has left is made good.

use std::collections::BTreeMap;
use std::time::Instant;

use helenus_cluster::{Connection, Consistency};
use helenus_tests::proxy::Proxy;

use crate::writes::{COPIES, ON, in_sync, replace, three_data_centers};
use crate::{TURN, eventually, joined, lists, run, uuid};

/// Parts of the ring for which proxies record intents.
const BUCKETS: u128 = 1_024;

/// A row of each of these copies, by `k` and `a`, with value, time of writing, and TTL.
fn insert(
    node: &mut Connection,
    copies: &[usize],
    (k, a): (i32, i32),
    (value, time, ttl): (i32, i64, i32),
) {
    for copy in copies {
        let cql = format!(
            "INSERT INTO {}.orders (k, a, b, v) VALUES ({k}, {a}, 2, {value}) USING TIMESTAMP {time} AND TTL {ttl}",
            COPIES[*copy]
        );
        run(node, &cql);
    }
}

fn delete(node: &mut Connection, copies: &[usize], (k, a): (i32, i32), time: i64) {
    for copy in copies {
        let cql = format!(
            "DELETE FROM {}.orders USING TIMESTAMP {time} WHERE k = {k} AND a = {a} AND b = 2",
            COPIES[*copy]
        );
        run(node, &cql);
    }
}

/// `k` and `a` of all rows, with value and time of writing.
pub(crate) type Rows = BTreeMap<(i32, i32), (i32, i64)>;

pub(crate) fn rows_of(node: &mut Connection, copy: usize) -> Rows {
    let select = format!("SELECT k, a, v, WRITETIME(v) FROM {}.orders", COPIES[copy]);
    let rows = node.query(&select, Consistency::One).expect("rows");
    let int = |cell: &Option<Vec<u8>>| {
        let bytes = cell.clone().expect("a value").try_into().expect("an int");
        i32::from_be_bytes(bytes)
    };
    let time = |cell: &Option<Vec<u8>>| {
        let bytes = cell.clone().expect("a time").try_into().expect("a bigint");
        i64::from_be_bytes(bytes)
    };
    rows.iter()
        .map(|row| {
            let key = (int(&row[0]), int(&row[1]));
            (key, (int(&row[2]), time(&row[3])))
        })
        .collect()
}

/// All copies are equal, and have these rows beside those that have made the nodes warm.
fn check(node: &mut Connection, expected: &Rows) {
    let all = [0, 1, 2].map(|copy| rows_of(node, copy));
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
    let [rows, ..] = all;
    let rows: Rows = rows.into_iter().filter(|((k, _), _)| *k >= 0).collect();
    assert_eq!(rows, *expected);
}

/// The bucket of a key's token.
fn bucket(node: &mut Connection, key: i32) -> u128 {
    let cql = format!(
        "SELECT token(k) FROM {}.orders WHERE k = {key} LIMIT 1",
        COPIES[0]
    );
    let rows = run(node, &cql);
    let token = rows[0][0]
        .clone()
        .expect("a token")
        .try_into()
        .expect("a bigint");
    let offset = (i128::from(i64::from_be_bytes(token)) - i128::from(i64::MIN)) as u128;
    (offset * BUCKETS) >> 64
}

#[test]
fn a_copy_that_missed_much_comes_back_and_what_a_dead_proxy_left_is_made_good() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let cluster = three_data_centers();
    let mut node = replace(&cluster);
    let all = [0, 1, 2];
    for k in 0..20 {
        insert(&mut node, &all, (k, 1), (k, 1_000, 0));
    }
    // The last copy has missed new rows, one with a time to live, deletions, and a change,
    for k in 100..110 {
        insert(&mut node, &[0, 1], (k, 1), (k, 2_000, 0));
    }
    insert(&mut node, &[0, 1], (200, 1), (1, 2_000, 10_000));
    delete(&mut node, &[0, 1], (1, 1), 3_000);
    insert(&mut node, &[0, 1], (2, 1), (20, 3_000, 0));
    // many of both in one partition each,
    for a in 0..60 {
        insert(&mut node, &[0, 1], (500, a), (a, 2_000, 0));
        insert(&mut node, &[2], (600, a), (a, 1_000, 0));
        delete(&mut node, &[0, 1], (600, a), 3_000);
    }
    // and has what no other has: of a proxy that is gone, acknowledged by nobody.
    insert(&mut node, &[2], (400, 1), (4, 500, 0));
    insert(&mut node, &[2], (3, 1), (30, 4_000, 0));
    let owners = owners(&mut node);
    run(
        &mut node,
        &format!(
            "UPDATE helenus.copies SET version = 2, in_sync = {{0, 1}}, since = [1, 1, 2], \
             changed = toTimestamp(now()), left[2] = toTimestamp(now()) WHERE keyspace_name = 'shop' AND table_name = 'orders' AND \
             owners = {owners}"
        ),
    );
    let began = Instant::now();
    let first = Proxy::start(&cluster.contact_points(), &ON).expect("a proxy");
    joined(&first);
    eventually("the copy is in sync", || in_sync(&first) == [0, 1, 2]);
    println!("in sync after {:?}", began.elapsed());

    let mut expected: Rows = (0..20).map(|k| ((k, 1), (k, 1_000))).collect();
    expected.extend((100..110).map(|k| ((k, 1), (k, 2_000))));
    expected.extend((0..60).map(|a| ((500, a), (a, 2_000))));
    expected.extend([
        ((200, 1), (1, 2_000)),
        ((2, 1), (20, 3_000)),
        ((400, 1), (4, 500)),
        ((3, 1), (30, 4_000)),
    ]);
    expected.remove(&(1, 1));
    check(&mut node, &expected);
    let cql = format!("SELECT TTL(v) FROM {}.orders WHERE k = 200", COPIES[2]);
    let ttl = run(&mut node, &cql)[0][0].clone().expect("it expires");
    let ttl = i32::from_be_bytes(ttl.try_into().expect("an int"));
    assert!((1..=10_000).contains(&ttl), "{ttl}");
    // What was deleted is deleted, not only gone: a write from before does not bring it back.
    insert(&mut node, &[2], (600, 7), (1, 999, 0));
    assert!(!rows_of(&mut node, 2).contains_key(&(600, 7)));
    let upkeep = lists(&first)["upkeep"].clone();
    assert_eq!(upkeep["copies_returned"], 1, "{upkeep}");
    assert!(upkeep["rows_repaired"].as_u64() >= Some(135), "{upkeep}");

    // A proxy has written to one copy, and to another one, and dies.
    let second = Proxy::start(&cluster.contact_points(), &ON).expect("a proxy");
    let number = joined(&second);
    let starts = run(&mut node, "SELECT start, number FROM helenus.proxies");
    let number = i32::try_from(number.as_i64().expect("a number")).expect("a small one");
    let own = starts
        .iter()
        .find(|row| row[1] == Some(number.to_be_bytes().to_vec()));
    let start = uuid(&own.expect("its row")[0]);
    insert(&mut node, &[1], (5, 1), (50, 9_000, 0));
    delete(&mut node, &[2], (6, 1), 9_000);
    for key in [5, 6] {
        let bucket = bucket(&mut node, key);
        run(
            &mut node,
            &format!(
                "UPDATE helenus.intents USING TIMESTAMP 1 SET recorded = true WHERE start = {start} AND \
                 bucket = {bucket}"
            ),
        );
    }
    second.kill().expect("killed");
    eventually("its buckets are cleared", || {
        let left = format!("SELECT bucket FROM helenus.intents WHERE start = {start}");
        run(&mut node, &left).is_empty()
    });
    expected.insert((5, 1), (50, 9_000));
    expected.remove(&(6, 1));
    check(&mut node, &expected);
    let upkeep = lists(&first)["upkeep"].clone();
    assert_eq!(upkeep["buckets_resynchronised"], 2, "{upkeep}");
}

/// The owners of the only group, as they are stored.
pub(crate) fn owners(node: &mut Connection) -> String {
    let rows = run(node, "SELECT owners FROM helenus.copies");
    let list = rows[0][0].clone().expect("owners");
    // A count, and then each with its length.
    let ids = list[4..]
        .chunks(20)
        .map(|item| uuid(&Some(item[4..].to_vec())));
    format!("[{}]", ids.collect::<Vec<_>>().join(", "))
}
