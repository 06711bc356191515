use super::*;
use crate::measure::{Phase, ProcessUse, Recorder};
use crate::report::machine::Machine;
use std::collections::BTreeMap;

fn experiment() -> Overhead {
    let arm = |name: &str, proxy_pid| Arm {
        proxy_pid,
        ..Arm::named(name)
    };
    Overhead {
        table: Table {
            keyspace: "k".into(),
            table: "t".into(),
            replication: 1,
            keys: 10,
            value_bytes: 8,
        },
        arms: vec![
            arm(TOKEN_AWARE, None),
            arm(ROUND_ROBIN, None),
            arm(HELENUS, Some(1)),
            arm("other", None),
        ],
        rounds: 2,
        warmup: Duration::ZERO,
        cell_time: Duration::ZERO,
        slices: 1,
        low_rate_per_second: 200.0,
        saturation_clients: vec![64, 256],
        idle_clients: 0,
        watched: Vec::new(),
        seed: 1,
    }
}

fn phase(latency_us: u64, ops: u64, proxy_cpu_seconds: Option<f64>) -> Phase {
    let mut recorder = Recorder::new(1);
    for _ in 0..ops {
        recorder.record(0, Duration::from_micros(latency_us), Ok(()));
    }
    let mut phase = recorder.into_phase(&["read"], Duration::from_secs(1), None);
    phase.processes = proxy_cpu_seconds.map_or_else(BTreeMap::new, |cpu_seconds| {
        let using = ProcessUse {
            cpu_seconds,
            cpu_us_per_op: 0.0,
            resident_kib: 0,
        };
        BTreeMap::from([(PROXY_PROCESS.into(), using)])
    });
    phase
}

fn compared() -> Report {
    let experiment = experiment().declared();
    let mut report = Report::new("overhead", String::new(), Machine::default(), 2);
    for round in 0..2 {
        for Cell { name, job, .. } in &experiment.cells {
            report.add(TOKEN_AWARE, name, phase(100, 1000, None));
            report.add(ROUND_ROBIN, name, phase(110, 500, None));
            let ops = if job.clients == 64 { 2000 } else { 500 };
            report.add(HELENUS, name, phase(130 + 10 * round, ops, Some(0.005)));
            report.add("other", name, phase(200, 250, None));
        }
    }
    experiment.finish(&mut report);
    report
}

#[test]
fn the_documented_keys_are_there_and_right() {
    let ratios = compared().ratios;
    let latency = ratios["added_latency_us_p50"];
    assert_eq!(
        (latency.min, latency.median, latency.max),
        (30.0, 35.0, 40.0)
    );
    // Twice as fast in one half of the cells, half as fast in the other: even.
    assert!((ratios["throughput_vs_token_aware"].median - 1.0).abs() < 1e-9);
    assert!((ratios["throughput_vs_round_robin"].median - 2.0).abs() < 1e-9);
    assert!((ratios["throughput_vs_token_aware_read_64"].median - 2.0).abs() < 1e-9);
    // 4 cells of 5 ms over 2 × (2000 + 500) queries.
    assert!((ratios["cpu_us_per_query"].median - 4.0).abs() < 1e-9);
}

#[test]
fn other_arms_have_their_own_keys_and_no_process_no_cpu_figure() {
    let ratios = compared().ratios;
    assert_eq!(ratios["other.added_latency_us_p50"].median, 100.0);
    assert!((ratios["other.throughput_vs_token_aware"].median - 0.25).abs() < 1e-9);
    assert!(!ratios.contains_key("other.cpu_us_per_query"));
    assert!(!ratios.contains_key("direct-round-robin.throughput_vs_round_robin"));
}

#[test]
fn each_kind_has_low_and_saturated_cells() {
    let cells = experiment().declared().cells.into_iter();
    let names: Vec<String> = cells.map(|cell| cell.name).collect();
    assert_eq!(names.len(), 8);
    assert_eq!(names[0], "read, 1 clients");
    assert_eq!(names[5], "write, 200/s");
}

#[test]
fn the_page_shows_every_arm_and_ratio() {
    let page = crate::report::html::page(&compared());
    for text in [
        TOKEN_AWARE,
        HELENUS,
        "other",
        "added_latency_us_p50",
        "queries/s",
        "<svg",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
}
