//! The whole path of a query: from the bytes of its client through an engine to those for a node, and
//! from the bytes of the node's answer to those for the client.

use helenus_engine::SessionKey;
use helenus_engine::config::{Config, RuleSettings};
use helenus_wire::{Opcode, Version};

use crate::work::{Work, execute_body, rows_body};
use crate::worker::{READ_ID, WRITE_ID, Worker};

/// The benchmarks of the whole path; only [`crate::worker::COUNTED`] is counted, and what it calls.
pub(crate) const ALL: &[(&str, Work)] = &[
    ("whole path: read of a v5 client", |times| {
        reads(Version::V5, 1, times);
    }),
    ("whole path: read of a v4 client, v5 nodes", |times| {
        reads(Version::V4, 1, times);
    }),
    ("whole path: write of a v5 client", writes),
    ("whole path: read under eight rules", |times| {
        reads_of(&mut Worker::with(rules()), Version::V5, 1, times);
    }),
    ("whole path: read, eight rules for others", |times| {
        reads_of(&mut Worker::with(rules_for_others()), Version::V5, 1, times);
    }),
    ("whole path: read, one of 1,000 at once", |times| {
        reads(Version::V5, 1_000, times);
    }),
];

/// Reads of this many clients at a time. Each must get the row of its own key.
fn reads(version: Version, at_once: usize, times: usize) {
    reads_of(&mut Worker::new(), version, at_once, times);
}

/// Four rules that the reads match, and four that are for scans.
fn rules() -> Config {
    let limited = |name: usize| RuleSettings {
        name: name.to_string(),
        client: "127.0.0.0/8".into(),
        keyspace: "app".into(),
        class: match name {
            0..4 => "read".into(),
            _ => "scan".into(),
        },
        requests_per_second: (name == 0).then_some(1e9),
        in_flight: Some(1_000),
        ..RuleSettings::default()
    };
    Config {
        rules: (0..8).map(limited).collect(),
        ..Config::default()
    }
}

/// Rules for clients that come from elsewhere.
fn rules_for_others() -> Config {
    let mut config = rules();
    for rule in &mut config.rules {
        rule.client = "10.0.0.0/8".into();
    }
    config
}

fn reads_of(worker: &mut Worker, version: Version, at_once: usize, times: usize) {
    let clients: Vec<SessionKey> = (0..at_once).map(|_| worker.connect(version)).collect();
    for first in (0..times).step_by(at_once) {
        let keys = (first..).map(usize::to_be_bytes);
        for (client, key) in clients.iter().zip(keys.clone()) {
            let body = execute_body(version, READ_ID, &[&key]);
            worker.send(*client, Opcode::Execute, 1, &body);
        }
        worker.exchange();
        for (client, key) in clients.iter().zip(keys) {
            assert_eq!(worker.answer(*client), (Opcode::Result, 1, rows_body(&key)));
        }
    }
}

fn writes(times: usize) {
    let void = 1_i32.to_be_bytes().to_vec();
    let mut worker = Worker::new();
    let client = worker.connect(Version::V5);
    for at in 0..times {
        let body = execute_body(Version::V5, WRITE_ID, &[&at.to_be_bytes(), &[2; 12]]);
        worker.send(client, Opcode::Execute, 1, &body);
        worker.exchange();
        assert_eq!(worker.answer(client), (Opcode::Result, 1, void.clone()));
    }
}
