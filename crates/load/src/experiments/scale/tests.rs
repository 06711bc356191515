use super::declared::join_cell;
use super::join::describe;
use super::*;
use crate::experiments::arms::Arm;
use crate::measure::{Phase, Recorder};
use crate::progress::IntervalStats;
use crate::ramp::search::Policy as SearchPolicy;
use crate::report::machine::Machine;
use crate::workload::kv::Table;
use std::time::Duration;

fn scale() -> Scale {
    Scale {
        table: Table {
            keyspace: "k".into(),
            table: "t".into(),
            replication: 1,
            keys: 10,
            value_bytes: 12,
        },
        arms: [TOKEN_AWARE, HELENUS].map(Arm::named).to_vec(),
        clients: vec![10, 40],
        rounds: 2,
        cell_time: Duration::from_secs(1),
        slices: 1,
        warmup_max: Duration::ZERO,
        join_clients: 1,
        steady: Duration::ZERO,
        settling: Duration::ZERO,
        grid: vec![1, 8, 64],
        window: Duration::from_secs(1),
        seed: 1,
    }
}

fn phase(ops: u64, failed: u64) -> Phase {
    let mut recorder = Recorder::new(1);
    recorder.record_times(0, Duration::from_millis(1), ops);
    recorder.record_failed(0, "overloaded", failed);
    recorder.into_phase(&["x"], Duration::from_secs(1), None)
}

fn second(p99: u64, ops_per_second: f64, errors_per_second: f64) -> IntervalStats {
    IntervalStats {
        ops_per_second,
        errors_per_second,
        latency_us_p99: p99,
        ..IntervalStats::default()
    }
}

fn report() -> Report {
    Report::new("scale", String::new(), Machine::default(), 2)
}

#[test]
fn growth_is_of_the_best_number_of_clients_in_each_round() {
    let mut report = report();
    for (cell, rounds) in [
        ("1 node, 10 clients", [100, 90]),
        ("1 node, 40 clients", [80, 100]),
        ("4 nodes, 10 clients", [150, 150]),
        ("4 nodes, 40 clients", [350, 300]),
    ] {
        for ops in rounds {
            report.add(HELENUS, cell, phase(ops, 0));
            report.add(TOKEN_AWARE, cell, phase(ops * 2, 0));
        }
    }
    scale().finish(&mut report, 4, None);
    let ratio = report.ratios["four_nodes_vs_one"];
    assert_eq!((ratio.min, ratio.max), (3.0, 3.5));
    assert!(
        report
            .ratios
            .contains_key("direct-token-aware.four_nodes_vs_one")
    );
    assert!(
        !report.ratios.contains_key("three_nodes_vs_one"),
        "not measured"
    );
    assert!(
        !report.ratios.contains_key("client_errors"),
        "no node has joined"
    );
    assert_eq!(report.charts.len(), 2);
}

#[test]
fn joins_count_errors_and_compare_their_worst_second() {
    let mut report = report();
    for (node, failed, worst) in [(2, 0, 30_000), (3, 4, 50_000)] {
        let mut phase = phase(1_000, failed);
        let steady = [
            second(9_000, 90.0, 0.0),
            second(10_000, 90.0, 0.0),
            second(11_000, 90.0, 0.0),
        ];
        let during = [
            second(8_000, 90.0, 2.0),
            second(worst, 5.0, 0.0),
            second(0, 0.0, 0.0),
        ];
        describe(&mut phase, &steady, &during, 60.0);
        assert_eq!(phase.extra["seconds_without_answer"], 1.0);
        assert_eq!(phase.extra["seconds_with_errors"], 1.0);
        assert_eq!(phase.extra["steady_p99_us_worst"], 11_000.0);
        report.add(HELENUS, &join_cell(node), phase);
    }
    scale().finish(&mut report, 3, None);
    assert_eq!(report.ratios["client_errors"].median, 4.0);
    let raise = report.ratios["join_p99_vs_steady"];
    assert_eq!((raise.min, raise.max), (3.0, 5.0));
}

#[test]
fn a_join_without_a_steady_state_has_no_ratio() {
    let mut report = report();
    let mut phase = phase(10, 0);
    describe(&mut phase, &[], &[second(5, 1.0, 0.0)], 1.0);
    report.add(HELENUS, &join_cell(2), phase);
    scale().finish(&mut report, 2, None);
    assert!(!report.ratios.contains_key("join_p99_vs_steady"));
    assert_eq!(report.ratios["client_errors"].median, 0.0);
}

#[test]
fn the_knee_is_compared_with_the_best_of_the_grid() {
    let limits = Limits {
        latency_us_p99_max: None,
        error_share_max: 0.001,
        achieved_share_min: None,
    };
    let mut search = Search::new(SearchPolicy::new(1, 64, limits));
    while let Some(load) = search.poll_load() {
        search.on_window(load, Window::of(&phase(100 * load.min(9), 0)));
    }
    let capacity = Capacity::of(&search, Unit::Clients, &UsesByLoad::new(), Some(1), None);
    assert_eq!(capacity.knee.as_ref().map(|knee| knee.load), Some(9));
    let mut report = report();
    for (clients, ops) in [(1, 100), (8, 800), (64, 1_000), (9, 5_000)] {
        report.add(HELENUS, &grid_cell(clients), phase(ops, 0));
    }
    scale().finish(&mut report, 1, Some(&capacity));
    let error = report.ratios["knee_error"].median;
    assert!(
        (error - 0.1).abs() < 1e-9,
        "{error}: the knee's own cell is not of the grid"
    );
}

#[tokio::test]
async fn a_join_that_fails_is_an_error_with_what_was_measured() {
    let mut report = report();
    let mut scale = scale();
    scale.arms.clear();
    let join = async { anyhow::bail!("no room") as Result<()> };
    let said = &mut |_| {};
    let failed = scale.join(&[], 2, join, &mut report, said).await;
    assert!(failed.unwrap_err().to_string().contains("no room"));
}
