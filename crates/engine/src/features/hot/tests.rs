use std::sync::Arc;
use std::time::Duration;

use helenus_policy::token::murmur3_token;
use helenus_wire::{Opcode, Version, write};

use super::*;
use crate::config::Config;
use crate::shared::WorkerMessage;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, no_rows};

const SELECT: &str = "SELECT total FROM app.others WHERE customer = ?";
const INSERT: &str = "INSERT INTO app.others (customer, total) VALUES (?, ?)";
const READ: &[u8] = &[1; 16];
const WRITE: &[u8] = &[2; 16];
const CUSTOMER: Spec = ("customer", BIGINT);
const TOTAL: Spec = ("total", BIGINT);
const NODES: u8 = 3;
const HOT: [u8; 8] = [5; 8];

#[test]
fn long_keys_are_cut_and_said_to_be() {
    let long: Vec<u8> = (0..100).collect();
    let key = Key::new(&long);
    assert_eq!((key.bytes(), key.is_cut), (&long[..KEY_BYTES_MAX], true));
    let whole = Key::new(&long[..KEY_BYTES_MAX]);
    assert_eq!(
        (whole.bytes(), whole.is_cut),
        (&long[..KEY_BYTES_MAX], false)
    );
    assert!(
        !format!("{key:?}").contains('['),
        "its bytes are not logged"
    );
}

fn bench(config: Config) -> Bench {
    let mut bench = Bench::with_nodes(NODES, config, (Version::V5, Version::V5));
    bench.adopt_none();
    bench.wait(Duration::from_millis(100));
    for text in [SELECT, INSERT] {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        write::u32(&mut body, 0);
        bench.ask(Opcode::Prepare, 1, &body);
        settle(&mut bench);
        assert_eq!(bench.answer().0, Opcode::Result);
        settle(&mut bench);
    }
    bench
}

/// The nodes prepare what they are asked to.
fn settle(bench: &mut Bench) {
    for node in 0..NODES.into() {
        for (opcode, stream, body) in bench.at(node) {
            assert_eq!(opcode, Opcode::Prepare);
            let is_read = String::from_utf8_lossy(&body).contains("SELECT");
            let answer = match is_read {
                true => bench.prepared(READ, "others", &[CUSTOMER], &[TOTAL]),
                false => bench.prepared(WRITE, "others", &[CUSTOMER, TOTAL], &[]),
            };
            bench.say_as(node, Opcode::Result, stream, &answer);
        }
    }
}

/// Asks for one key and answers at once; the node that was asked.
fn serve(bench: &mut Bench, id: &[u8], key: &[u8; 8]) -> usize {
    let values: &[&[u8]] = match id == READ {
        true => &[key],
        false => &[key, &[0; 8]],
    };
    let asking = Asking {
        values,
        ..Asking::default()
    };
    bench.ask(Opcode::Execute, 1, &asking.execute(Version::V5, id));
    let answer = match id == READ {
        true => no_rows("others", &[TOTAL]),
        false => 1_i32.to_be_bytes().to_vec(),
    };
    for node in 0..NODES.into() {
        if let Some((_, stream, _)) = bench.at(node).first() {
            bench.now += Duration::from_micros(200);
            bench.say_as(node, Opcode::Result, *stream, &answer);
            assert_eq!(bench.answer().0, Opcode::Result);
            return node;
        }
    }
    panic!("no node was asked");
}

/// Four of five reads are of one key.
fn read_skewed(bench: &mut Bench, reads: u64) -> [u32; NODES as usize] {
    let mut hot_reads = [0; NODES as usize];
    for at in 0..reads {
        match at % 5 {
            0 => {
                serve(bench, READ, &at.to_be_bytes());
            }
            _ => hot_reads[serve(bench, READ, &HOT)] += 1,
        }
        if at % 100 == 0 {
            bench.wait(Duration::from_millis(100));
        }
    }
    hot_reads
}

#[test]
fn a_hot_key_is_published_by_its_token_and_without_its_value() {
    let mut bench = bench(Config::default());
    read_skewed(&mut bench, 2_000);
    for _ in 0..200 {
        serve(&mut bench, WRITE, &HOT);
    }
    bench.wait(Duration::from_secs(1));
    let hottest = bench.common.features.hot.hottest(5);
    assert_eq!(hottest.summary.entries.len(), 5);
    let first = &hottest.summary.entries[0];
    assert_eq!(first.partition.token, murmur3_token(&HOT));
    assert_eq!(
        (&*first.label.table.keyspace, &*first.label.table.table),
        ("app", "others")
    );
    assert!(first.label.key.is_none() && first.label.role.is_none());
    let share = hottest.summary.share(first);
    assert!((0.7..0.95).contains(&share), "{share}");
    let rates = first.rates;
    let writes = rates.writes / (rates.reads + rates.writes);
    assert!((0.05..0.25).contains(&writes), "{rates:?}");
    assert!(hottest.is_spread(first) && !hottest.is_spread(&hottest.summary.entries[1]));
}

#[test]
fn values_of_keys_are_kept_only_while_that_is_allowed() {
    let mut config = Config::default();
    config.admin.show_keys = true;
    let mut bench = bench(config.clone());
    let key = |bench: &Bench| {
        bench.common.features.hot.hottest(1).summary.entries[0]
            .label
            .key
    };
    read_skewed(&mut bench, 500);
    bench.wait(Duration::from_secs(1));
    assert_eq!(
        key(&bench).map(|key| key.bytes().to_vec()),
        Some(HOT.to_vec())
    );
    config.admin.show_keys = false;
    let message = WorkerMessage::Settings(Arc::new(config));
    bench.engine.on_message(bench.now, message);
    bench.wait(Duration::from_millis(100));
    read_skewed(&mut bench, 500);
    bench.wait(Duration::from_secs(1));
    assert_eq!(key(&bench), None);
}

#[test]
fn an_idle_cluster_serves_a_hot_key_from_all_replicas_and_others_from_one() {
    let mut bench = bench(Config::default());
    let begin = read_skewed(&mut bench, 100);
    assert!(
        begin.iter().filter(|reads| **reads > 10).count() == 1,
        "{begin:?}"
    );
    read_skewed(&mut bench, 2_000);
    let hot_reads = read_skewed(&mut bench, 600);
    assert!(hot_reads.iter().all(|reads| *reads > 100), "{hot_reads:?}");
    let mut others = [0; NODES as usize];
    for _ in 0..64 {
        others[serve(&mut bench, READ, &[9; 8])] += 1;
    }
    assert!(others.iter().max() > Some(&55), "{others:?}");
}

#[test]
fn spreading_can_be_switched_off() {
    let mut config = Config::default();
    config.assignment.spread_hot = false;
    let mut bench = bench(config);
    read_skewed(&mut bench, 2_000);
    let hot_reads = read_skewed(&mut bench, 600);
    assert!(hot_reads.iter().max() > Some(&440), "{hot_reads:?}");
    let hottest = bench.common.features.hot.hottest(5);
    assert!(hottest.spread.is_empty() && !hottest.summary.entries.is_empty());
}

#[test]
fn a_worker_that_has_ended_is_forgotten() {
    let mut bench = bench(Config::default());
    read_skewed(&mut bench, 500);
    bench.wait(Duration::from_secs(1));
    assert!(
        !bench
            .common
            .features
            .hot
            .hottest(5)
            .summary
            .entries
            .is_empty()
    );
    bench.common.on_worker_ended(0);
    assert!(
        bench
            .common
            .features
            .hot
            .hottest(5)
            .summary
            .entries
            .is_empty()
    );
}
