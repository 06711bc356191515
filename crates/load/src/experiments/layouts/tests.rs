use super::cells::{DISK, DISK_BYTES, SYNTHETIC, WRITES};
use super::*;
use crate::client::endpoint::{Endpoint, Policy};
use crate::experiments::arms::{Arm, HELENUS, ROUND_ROBIN};
use crate::measure::{Phase, Recorder};
use crate::report::machine::Machine;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

mod recovery;

const TIME_OUT: Duration = Duration::from_secs(10);

fn experiment() -> Layouts {
    let contender = |name: &str, copies: usize, writes: bool| Contender {
        arm: Arm {
            endpoint: Endpoint::new(name, vec!["127.0.0.1:1".into()], Policy::TokenAware),
            proxy_pid: None,
            admin: None,
        },
        copies,
        writes,
        with_paused_node: name == HELENUS,
    };
    let copies = |form| Copies {
        keyspace: format!("{form:?}"),
        form,
        orders: vec![vec![0, 1, 2, 3], vec![2, 1, 0, 3]],
        reads: [0, 0],
        derived: None,
    };
    let orders = Orders::generate(0.001, 2).unwrap();
    let mut synthetic = Synthetic::draw(2, 50, 4, 1);
    synthetic.layouts = vec![vec![0, 1]];
    Layouts {
        instances: Arc::new(Instances::draw(&orders, 5, 1)),
        orders: Arc::new(orders),
        copies: [
            Form::Plain,
            Form::Layouts,
            Form::Indexed,
            Form::Views,
            Form::HandCopied,
        ]
        .map(copies)
        .to_vec(),
        arms: vec![
            contender(TOKEN_AWARE, 0, true),
            contender(ROUND_ROBIN, 0, false),
            contender(HELENUS, 1, true),
            contender(SAI, 2, true),
            contender(VIEWS, 3, true),
            contender(HAND_COPIED, 4, true),
        ],
        synthetic: vec![synthetic],
        replication: 3,
        rounds: 2,
        levels: vec![Consistency::One, Consistency::Quorum],
        clients: 4,
        writing_clients: 4,
        measured_rows: 100,
        repetitions: 1,
        warmup: Duration::ZERO,
        cell_warmup: Duration::ZERO,
        cell_time: Duration::from_secs(1),
        time_out: TIME_OUT,
        settle_max: Duration::ZERO,
        check_time: Duration::ZERO,
        compacts: false,
        until: None,
        watched: Vec::new(),
        seed: 1,
    }
}

fn reads(kind: Kind, latency_us: u64, failed: u64) -> Phase {
    let mut recorder = Recorder::new(2);
    for _ in 0..100 {
        recorder.record(kind as usize, Duration::from_micros(latency_us), Ok(()));
    }
    for _ in 0..failed {
        recorder.record(kind as usize, Duration::ZERO, Err("read timeout"));
    }
    recorder.into_phase(&KINDS, Duration::from_secs(1), Some(TIME_OUT))
}

fn compared() -> Report {
    let experiment = experiment();
    let mut report = Report::new("layouts", "x".into(), Machine::here("/".as_ref()), 2);
    // Means of Q1 and Q2, orders per second, bytes.
    let arms = [
        (TOKEN_AWARE, [400, 1600], 1000, 10.0),
        (ROUND_ROBIN, [400, 1600], 0, 0.0),
        (HELENUS, [300, 700], 500, 20.0),
        (SAI, [1000, 3000], 250, 13.0),
        (VIEWS, [500, 1000], 200, 20.0),
        (HAND_COPIED, [300, 500], 600, 20.0),
    ];
    for _ in 0..experiment.rounds {
        for (arm, latencies, written, bytes) in arms {
            for cell in experiment.reads(false) {
                let times = if cell.level == Consistency::Quorum {
                    2
                } else {
                    1
                };
                let latency = latencies[cell.kind as usize] * times;
                report.add(arm, &cell.name(), reads(cell.kind, latency, 0));
            }
            if written > 0 {
                let mut phase = reads(Kind::Q1, 1, 0);
                phase.ops_per_second = f64::from(written);
                report.add(arm, WRITES, phase);
                let mut phase = Recorder::new(1).into_phase(&["x"], Duration::ZERO, None);
                phase.extra.insert(DISK_BYTES.into(), bytes);
                report.add(arm, DISK, phase);
            }
        }
        for cell in experiment.reads(true) {
            report.add(HELENUS, &cell.name(), reads(cell.kind, 900, 1));
        }
        let mut phase = reads(Kind::Q1, 1, 0);
        let figure = synthetic::RANK_CORRELATION.to_owned();
        phase.extra.insert(figure, 0.97);
        report.add(SYNTHETIC, &experiment.synthetic[0].cell(), phase);
    }
    experiment.declared(true).finish(&mut report);
    experiment.correlate(&mut report);
    report
}

#[test]
fn the_documented_keys_are_there_and_right() {
    let ratios = compared().ratios;
    let expected = [2.0, 4.0, 1.5, 1.25, 2.0, 2.0, 2.0, 2.5, 0.97, 2.0, 4.0];
    let documented = LAYOUTS_KEYS.into_iter().zip(expected);
    let others = [
        ("hr_speedup_vs_sai.Q1", 1000.0 / 300.0),
        ("hr_speedup_vs_tr.Q2", 1600.0 / 700.0),
    ];
    for (key, expected) in documented.chain(others) {
        let spread = ratios.get(key);
        let spread = spread.unwrap_or_else(|| panic!("{key} is missing"));
        assert!(
            (spread.median - expected).abs() < expected * 0.002,
            "{key}: {spread:?}"
        );
    }
    assert!(!ratios.contains_key("hr_speedup_vs_declared"));
}

#[test]
fn without_an_arm_with_layouts_nothing_is_compared_with_it() {
    let mut experiment = experiment();
    let mut report = compared();
    report.ratios.clear();
    experiment.copies[1].form = Form::Plain;
    experiment.arms[2].with_paused_node = false;
    experiment.declared(true).finish(&mut report);
    experiment.correlate(&mut report);
    let keys: Vec<&String> = report.ratios.keys().collect();
    assert_eq!(keys, ["cost_rank_correlation"]);
}

#[test]
fn each_cell_has_a_name_of_its_own_and_a_node_is_paused_for_some_arms_last() {
    let experiment = experiment();
    let cells = experiment.declared(true).cells;
    let names: BTreeSet<String> = cells.iter().map(|cell| cell.name.clone()).collect();
    assert_eq!((cells.len(), names.len()), (9, 9));
    assert_eq!(cells[0].arms, [0, 1, 2, 3, 4, 5]);
    assert_eq!(cells[4].arms, [0; 0], "of no arm");
    assert_eq!(cells[5].arms, [2]);
    assert_eq!(experiment.declared(false).cells.len(), 5);
    assert!(names.contains("Q2 at QUORUM"));
    assert!(names.contains("Q1 at ONE, a node paused"));
}

#[test]
fn each_way_of_holding_the_orders_has_one_writer() {
    let mut experiment = experiment();
    experiment.check().unwrap();
    experiment.arms[3].writes = false;
    assert!(experiment.check().is_err());
    experiment.arms[3].writes = true;
    experiment.arms[1].writes = true;
    assert!(experiment.check().is_err());
    experiment.arms[1].writes = false;
    experiment.arms.swap(0, 1);
    assert!(experiment.check().is_err());
    experiment.arms.swap(0, 1);
    experiment.measured_rows = 750;
    let error = experiment.check().unwrap_err().to_string();
    assert!(error.contains("--scale"), "{error}");
}

#[test]
fn the_page_has_all_plots() {
    let page = crate::report::html::page(&compared());
    for text in [
        "Mean latency",
        "99th percentile",
        "While a node is paused",
        "orders/s",
        "Size on disk",
        HAND_COPIED,
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
}
