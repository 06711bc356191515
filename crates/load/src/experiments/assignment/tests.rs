use super::*;
use crate::experiments::arms::{Arm, HELENUS, ROUND_ROBIN};
use crate::measure::Recorder;
use crate::report::machine::Machine;
use crate::workload::ycsb::UserTable;
use scylla::statement::Consistency;
use std::collections::BTreeSet;

const TIME_OUT: Duration = Duration::from_secs(10);
const READ: usize = 0;

fn experiment() -> Assignment {
    let arm = |name: &str| Arm {
        admin: name
            .starts_with(HELENUS)
            .then(|| ([127, 0, 0, 1], 1).into()),
        ..Arm::named(name)
    };
    Assignment {
        users: UserTable {
            keyspace: "k".into(),
            replication: 3,
            records: 10,
        },
        arms: [TOKEN_AWARE, ROUND_ROBIN, HELENUS, "helenus-first"]
            .map(arm)
            .to_vec(),
        java: None,
        rounds: 2,
        scenarios: vec![
            Scenario::Idle,
            Scenario::Stressed,
            Scenario::Frozen,
            Scenario::Stalling,
            Scenario::Compacting,
            Scenario::SlowNetwork,
            Scenario::SlowDisk,
        ],
        levels: vec![Consistency::One, Consistency::Quorum],
        clients: vec![5, 20],
        scan_clients: 20,
        scan_rows_max: 1000,
        rate_per_second: 500.0,
        freeze: Duration::from_secs(5),
        around_freeze: Duration::from_secs(5),
        fault_levels: 2,
        warmup: Duration::ZERO,
        cell_warmup: Duration::ZERO,
        cell_time: Duration::from_secs(1),
        time_out: TIME_OUT,
        settle_max: Duration::ZERO,
        until: None,
        watched: Vec::new(),
        seed: 1,
    }
}

/// So many reads in a second, each of this latency, and failed ones.
fn phase(ops: u64, latency_ms: u64, failed: u64) -> Phase {
    let mut recorder = Recorder::new(KINDS.len());
    for _ in 0..ops {
        recorder.record(READ, Duration::from_millis(latency_ms), Ok(()));
    }
    for _ in 0..failed {
        recorder.record(READ, Duration::ZERO, Err("read timeout"));
    }
    recorder.into_phase(&KINDS, Duration::from_secs(1), Some(TIME_OUT))
}

/// One request in a hundred is a second attempt, and one in ten if a node has a fault.
fn add_figures(phase: &mut Phase, scenario: Scenario) {
    let second = if scenario == Scenario::Idle {
        10.0
    } else {
        100.0
    };
    for (figure, value) in [
        (figures::RANK_CORRELATION, 0.8),
        (figures::SECOND_ATTEMPTS, second),
        (figures::SENT_TO_NODES, 1000.0),
    ] {
        phase.extra.insert(figure.into(), value);
    }
}

/// Throughput: round-robin half of token-aware, but twice under stress; Helenus as token-aware, but
/// three times under stress, with a third of the latency. One request in a hundred fails there
/// directly.
fn compared() -> Report {
    let experiment = experiment().declared();
    let mut report = Report::new("assignment", String::new(), Machine::default(), 2);
    for _round in 0..2 {
        for Cell {
            name, job, arms, ..
        } in &experiment.cells
        {
            let (scenario, load) = (job.scenario, job.load);
            for arm in arms.iter().map(|&arm| &experiment.arms[arm]) {
                let mut measured = match (scenario, load, arm.name()) {
                    (Scenario::Idle, _, ROUND_ROBIN) => phase(500, 20, 0),
                    (Scenario::Idle, _, _) => phase(1000, 10, 0),
                    (Scenario::Stressed, _, TOKEN_AWARE) => phase(100, 90, 0),
                    (Scenario::Stressed, _, ROUND_ROBIN) => phase(200, 60, 0),
                    (Scenario::Stressed, _, HELENUS) => phase(600, 20, 0),
                    (Scenario::Stressed, _, _) => phase(100, 90, 3),
                    (_, Load::Steady, _) => phase(500, 4, 0),
                    (Scenario::SlowNetwork, _, HELENUS) => phase(500, 6, 0),
                    (Scenario::SlowNetwork, _, _) => phase(500, 24, 0),
                    (Scenario::SlowDisk, _, HELENUS) => phase(500, 8, 0),
                    (Scenario::SlowDisk, _, _) => phase(500, 40, 0),
                    (Scenario::Stalling, _, HELENUS) => phase(500, 7, 0),
                    (Scenario::Compacting, _, HELENUS) => phase(500, 5, 0),
                    (_, _, HELENUS) => phase(500, 10 + 10 * job.level as u64, 0),
                    _ => phase(500, 4, 50),
                };
                if arm.admin.is_some() {
                    add_figures(&mut measured, scenario);
                }
                report.add(arm.name(), name, measured);
            }
        }
    }
    experiment.finish(&mut report);
    report
}

#[test]
fn the_documented_keys_are_there_and_right() {
    let ratios = compared().ratios;
    let errors = 3.0 * 5.0;
    let expected = [
        1.0,
        3.0,
        1.0 / 3.0,
        0.0,
        16.0,
        3.0,
        1.0,
        1.5,
        2.0,
        0.8,
        0.01,
        0.1,
    ];
    let documented = ASSIGNMENT_KEYS.into_iter().zip(expected);
    let others = [
        ("helenus-first.stressed_throughput_vs_best_direct", 0.5),
        ("helenus-first.stressed_client_errors", errors),
        // A failed read counts with the time-out.
        ("direct-token-aware.frozen_node_p99_raise_ms", 9_996.0),
        ("direct-token-aware.stressed_client_errors", 0.0),
        ("direct-round-robin.slow_node_p99_vs_healthy", 6.0),
        ("direct-round-robin.slow_disk_p99_vs_healthy", 10.0),
        ("helenus-first.client_errors", errors + 6.0 * 50.0),
        ("client_errors", 0.0),
    ];
    for (key, expected) in documented.chain(others) {
        let spread = ratios.get(key);
        let spread = spread.unwrap_or_else(|| panic!("{key} is missing"));
        // Histograms keep three digits.
        let slack = 0.01f64.max(expected * 0.002);
        assert!(
            (spread.median - expected).abs() < slack,
            "{key}: {spread:?}"
        );
    }
    for key in [
        "idle_vs_best_arm",
        "prediction_rank_correlation",
        "hedge_extra_load",
    ] {
        let key = format!("direct-round-robin.{key}");
        assert!(!ratios.contains_key(&key), "{key}");
    }
}

#[test]
fn scenarios_that_are_left_out_have_no_keys() {
    let experiment = Assignment {
        scenarios: vec![Scenario::Idle],
        ..experiment()
    };
    let mut report = compared();
    report.ratios.clear();
    experiment.declared().finish(&mut report);
    assert!(report.ratios.contains_key("idle_vs_best_arm"));
    assert!(report.ratios.contains_key("client_errors"));
    let of_idle = [
        "idle_vs_best_arm",
        "prediction_rank_correlation",
        "hedge_extra_load",
    ];
    for key in ASSIGNMENT_KEYS {
        let is_there = report.ratios.contains_key(key);
        assert_eq!(is_there, of_idle.contains(&key), "{key}");
    }
}

#[test]
fn each_cell_has_a_name_of_its_own() {
    let cells = experiment().declared().cells;
    assert_eq!(cells.len(), 6 + 5 + 5 * 4);
    let names: BTreeSet<String> = cells.iter().map(|cell| cell.name.clone()).collect();
    assert_eq!(names.len(), cells.len());
    assert!(names.contains("stressed, reads at QUORUM, 20 clients"));
    assert!(names.contains("idle, scans at ONE, 20 clients"));
    assert!(names.contains("frozen, reads at ONE, 500/s, one node"));
    assert!(names.contains("slow disk, reads at QUORUM, 500/s, before"));
}

#[test]
fn the_first_arm_is_the_baseline_and_names_differ() {
    let arms = |names: [&str; 3]| {
        let mut arms = experiment().arms;
        for (arm, name) in arms.iter_mut().zip(names) {
            arm.endpoint.name = name.into();
        }
        check(arms[..3].iter(), &[TOKEN_AWARE])
    };
    assert!(arms([TOKEN_AWARE, ROUND_ROBIN, HELENUS]).is_ok());
    assert!(arms([ROUND_ROBIN, TOKEN_AWARE, HELENUS]).is_err());
    assert!(arms([TOKEN_AWARE, HELENUS, HELENUS]).is_err());
}

#[test]
fn the_page_has_plots_of_all_scenarios() {
    let page = crate::report::html::page(&compared());
    for text in [
        "Idle: reads at Quorum",
        "Stressed: reads at One, 99th percentile",
        "A node stands still",
        "A node stands still again and again",
        "A node compacts",
        "The network to a node is slow",
        "The disk of a node is slow",
        "helenus-first",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
}
