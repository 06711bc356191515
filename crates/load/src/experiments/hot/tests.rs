use super::*;
use crate::experiments::arms::{Arm, HELENUS};
use crate::measure::{Phase, Recorder};
use crate::report::machine::Machine;
use crate::workload::kv::Table;
use std::path::Path;

fn hot(rounds: usize) -> Hot {
    Hot {
        table: Table {
            keyspace: "k".into(),
            table: "t".into(),
            replication: 3,
            keys: 10,
            value_bytes: 8,
        },
        arms: [FIRST_REPLICA, TOKEN_AWARE, HELENUS]
            .map(Arm::named)
            .to_vec(),
        clients: vec![8, 32],
        hot_share: 0.8,
        rate: Rate::Share(0.5),
        rounds,
        cell_time: Duration::from_secs(1),
        slices: 1,
        warmup: Duration::ZERO,
        watched: Vec::new(),
        seed: 1,
    }
}

/// One second with so many reads, the other keys' of this latency.
fn phase(reads: u64, others_ms: u64) -> Phase {
    let mut recorder = Recorder::new(2);
    for read in 0..reads {
        let is_other = read % 5 == 0;
        let ms = if is_other { others_ms } else { 1 };
        recorder.record(usize::from(is_other), Duration::from_millis(ms), Ok(()));
    }
    recorder.into_phase(&reads::KINDS, Duration::from_secs(1), None)
}

fn report() -> Report {
    let machine = Machine::here(Path::new("/"));
    Report::new("hot", "test".into(), machine, 1)
}

#[test]
fn throughput_is_compared_beside_the_hot_key_and_latency_at_the_same_rate() {
    let hot = hot(1);
    let mut report = report();
    let experiment = hot.declared();
    for cell in &experiment.cells {
        for (arm, reads, others_ms) in [
            (FIRST_REPLICA, 100, 40),
            (TOKEN_AWARE, 200, 20),
            (
                HELENUS,
                if cell.job.clients == Some(8) {
                    200
                } else {
                    800
                },
                10,
            ),
        ] {
            let (reads, others_ms) = match cell.job.is_hot {
                true => (reads, others_ms),
                // Without the hot key, nothing is as slow.
                false => (1_000, 5),
            };
            report.add(arm, &cell.name, phase(reads, others_ms));
        }
    }
    experiment.finish(&mut report);
    let median = |key: &str| report.ratios[key].median;
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.02;
    assert!(
        near(median("hot_key_vs_direct"), 4.0),
        "the mean of 2 and 8"
    );
    assert!(near(median("hot_key_vs_token_aware"), 2.0));
    assert!(near(median("hot_other_keys_p99"), 2.0));
    assert!(near(median("direct-first-replica.hot_other_keys_p99"), 8.0));
    assert!(near(median("hot_other_keys_p99_vs_token_aware"), 0.5));
    assert!((median("client_errors")).abs() < 1e-9);
    assert!(!report.ratios.contains_key("hot_key_vs_round_robin"));
    assert_eq!(report.charts.len(), 3);
    let helenus = report.ratios.keys().filter(|key| !key.contains('.'));
    assert!(
        helenus
            .into_iter()
            .all(|key| HOT_KEYS.contains(&key.as_str()))
    );
}

#[test]
fn cells_come_in_pairs_with_and_without_the_hot_key() {
    let cells = hot(1).declared().cells.into_iter();
    let names: Vec<String> = cells.map(|cell| cell.name).collect();
    assert_eq!(
        names,
        [
            "even, 8 clients",
            "hot, 8 clients",
            "even, 32 clients",
            "hot, 32 clients",
            "even, open loop",
            "hot, open loop"
        ]
    );
}
