use super::cells::{Kind, add_balance, add_metrics};
use super::*;
use crate::experiments::arms::PROXY_PROCESS;
use crate::measure::{ProcessUse, Recorder};
use crate::report::machine::Machine;
use crate::workload::cas::{Balance, Counters, Learns};
use crate::workload::kv::Table;
use crate::workload::ycsb::UserTable;

fn experiment() -> Aggregation {
    let arm = |name: &str, part, proxy_pid| Contender {
        arm: Arm {
            proxy_pid,
            ..Arm::named(name)
        },
        part,
    };
    Aggregation {
        table: Table {
            keyspace: "k".into(),
            table: "t".into(),
            replication: 1,
            keys: 10,
            value_bytes: 12,
        },
        users: UserTable {
            keyspace: "k".into(),
            replication: 1,
            records: 10,
        },
        counters: Counters {
            keyspace: "k".into(),
            replication: 3,
        },
        arms: vec![
            arm(TOKEN_AWARE, Part::All, None),
            arm(ROUND_ROBIN, Part::Throughput, None),
            arm(HELENUS, Part::All, Some(1)),
            arm("helenus-window-10", Part::Window, Some(2)),
            arm("helenus-sharing-off", Part::HotKey, Some(3)),
            arm("helenus-queue-on", Part::Cas, Some(4)),
            arm("helenus-queue-off", Part::Cas, Some(5)),
        ],
        only: Vec::new(),
        rounds: 2,
        clients: vec![1, 64, 512],
        clients_usual: 256,
        many_clients: 1000,
        warmup: Duration::ZERO,
        cell_warmup: Duration::ZERO,
        cell_time: Duration::from_secs(3),
        until: None,
        watched: Vec::new(),
        seed: 1,
    }
}

fn phase(ops: u64, latency_us: u64, cpu_seconds: f64) -> Phase {
    let mut recorder = Recorder::new(2);
    for _ in 0..ops {
        recorder.record(0, Duration::from_micros(latency_us), Ok(()));
    }
    let mut phase = recorder.into_phase(&crate::workload::cas::KINDS, Duration::from_secs(1), None);
    for (name, share) in [(PROXY_PROCESS, 1.0), ("node 1", 2.0), ("node 2", 3.0)] {
        let used = ProcessUse {
            cpu_seconds: cpu_seconds * share,
            cpu_us_per_op: cpu_seconds * share * 1e6 / ops as f64,
            resident_kib: 0,
        };
        phase.processes.insert(name.into(), used);
    }
    phase
}

/// Operations per second: token-aware 1000 everywhere, round-robin 500; Helenus 2000 in INSERTs,
/// 800 in YCSB B and 1000 otherwise; all other arms 500.
fn compared() -> Report {
    let experiment = experiment();
    let mut report = Report::new("aggregation", String::new(), Machine::default(), 2);
    for _round in 0..2 {
        for cell in &experiment.declared().cells {
            for &arm in &cell.arms {
                let name = experiment.arms[arm].arm.name();
                let (ops, latency_us) = match (name, cell.job.what) {
                    (TOKEN_AWARE, _) => (1000, 100),
                    (HELENUS, What::KeyValue(Kind::Insert)) => (2000, 50),
                    (HELENUS, What::Ycsb(Core::B)) => (800, 100),
                    (HELENUS, _) => (1000, 80),
                    ("helenus-queue-off", _) => (250, 80),
                    _ => (500, 200),
                };
                let mut phase = phase(ops, latency_us, 0.01);
                if matches!(cell.job.what, What::Cas(_)) {
                    let lost = u64::from(name == "helenus-queue-on") * 3;
                    let books = Balance {
                        applied: ops,
                        unknown: 1,
                        value: ops - lost,
                    };
                    add_balance(&mut phase, books);
                }
                report.add(name, &cell.name, phase);
            }
        }
    }
    experiment.finish(&mut report);
    report
}

#[test]
fn the_documented_keys_are_there_and_right() {
    let ratios = compared().ratios;
    for (key, expected) in [
        ("insert_vs_round_robin", 4.0),
        ("insert_vs_token_aware", 2.0),
        ("read_vs_token_aware", 1.0),
        ("worst_cell_vs_token_aware", 0.8),
        ("many_clients_vs_direct", 1.0),
        ("p99_vs_token_aware_same_rate", 0.8),
        ("cas_vs_direct", 1.0),
        ("read_cas_vs_direct", 1.0),
        // Three per round and cell, in one of Helenus's arms.
        ("lost_updates", 6.0),
        ("surplus_updates", 0.0),
        ("unknown_updates", 6.0),
        ("cas_queue_on_vs_off", 2.0),
        ("read_cas_queue_on_vs_off", 2.0),
        ("helenus-window-10.insert_vs_token_aware", 0.5),
        ("helenus-sharing-off.viral_reads_vs_token_aware", 0.5),
        ("helenus-queue-on.cas_vs_direct", 0.5),
        ("direct-round-robin.read_vs_token_aware", 0.5),
    ] {
        let spread = ratios
            .get(key)
            .unwrap_or_else(|| panic!("{key} is missing"));
        // Histograms keep three digits.
        assert!((spread.median - expected).abs() < 0.01, "{key}: {spread:?}");
    }
    // 10 ms over 2000, 2000, 1000, 1000, 1000, 800 and 1000 queries.
    let cpu = [5.0f64, 5.0, 10.0, 10.0, 10.0, 12.5, 10.0];
    let mean = crate::report::spread::geometric_mean(&cpu).unwrap();
    assert!((ratios["cpu_us_per_query"].median - mean).abs() < 0.01);
    assert!(
        !ratios.contains_key("syscalls_per_query"),
        "nobody had metrics"
    );
    assert!(!ratios.contains_key("helenus-window-10.cas_vs_direct"));
    assert!(
        !ratios.contains_key("viral_reads_sharing_on_vs_off"),
        "there is no sharing-on"
    );
}

#[test]
fn each_arm_takes_part_in_its_cells_only() {
    let experiment = experiment();
    let cells = experiment.declared().cells;
    let names_in = |wanted: What| -> Vec<&str> {
        let cell = cells.iter().find(|cell| cell.job.what == wanted).unwrap();
        let arms = cell.arms.iter();
        arms.map(|&arm| experiment.arms[arm].arm.name()).collect()
    };
    assert_eq!(names_in(What::KeyValue(Kind::Read)).len(), 4);
    assert_eq!(
        names_in(What::SameRate(Kind::Read)),
        [TOKEN_AWARE, ROUND_ROBIN, HELENUS]
    );
    assert_eq!(
        names_in(What::ManyClients(Kind::Read)),
        [TOKEN_AWARE, HELENUS]
    );
    assert_eq!(
        names_in(What::HotViral),
        [TOKEN_AWARE, HELENUS, "helenus-sharing-off"]
    );
    assert_eq!(
        names_in(What::Cas(Learns::ByReading)),
        [
            TOKEN_AWARE,
            HELENUS,
            "helenus-queue-on",
            "helenus-queue-off"
        ]
    );
    let names: std::collections::BTreeSet<String> =
        cells.iter().map(|cell| cell.name.clone()).collect();
    assert_eq!(names.len(), cells.len(), "two cells have the same name");
}

#[test]
fn the_offered_rate_is_a_share_of_token_aware_saturation() {
    let report = compared();
    let rate = experiment().same_rate(&report, Kind::Insert);
    assert!((rate - 700.0).abs() < 1e-6, "{rate}");
    let empty = Report::new("aggregation", String::new(), Machine::default(), 2);
    assert_eq!(experiment().same_rate(&empty, Kind::Read), 1.0);
}

#[test]
fn cells_shrink_to_the_time_that_is_left_but_not_to_nothing() {
    let mut experiment = experiment();
    assert_eq!(experiment.fitting_cell_time(1000), Duration::from_secs(3));
    experiment.until = Some(Instant::now() + Duration::from_secs(100));
    let fitting = experiment.fitting_cell_time(100);
    let right = Duration::from_millis(800)..Duration::from_secs(1);
    assert!(right.contains(&fitting), "{fitting:?}");
    assert_eq!(experiment.fitting_cell_time(1), Duration::from_secs(3));
    experiment.until = Some(Instant::now());
    assert_eq!(experiment.fitting_cell_time(9), Duration::from_millis(300));
}

#[test]
fn metrics_become_figures_per_query_and_missing_ones_are_left_out() {
    let page = "helenus_requests_total{opcode=\"execute\"} 100\n\
        helenus_client_socket_reads_total 50\nhelenus_client_socket_writes_total 40\n\
        helenus_node_socket_reads_total{node=\"a\"} 6\nhelenus_node_socket_writes_total{node=\"a\"} 4\n\
        helenus_node_requests_total{node=\"a\"} 90\nhelenus_node_sent_frames_total{node=\"a\"} 30\n\
        helenus_node_queries_per_frame_bucket{node=\"a\",le=\"1\"} 10\n\
        helenus_node_queries_per_frame_bucket{node=\"a\",le=\"16\"} 30\n\
        helenus_node_queries_per_frame_bucket{node=\"a\",le=\"+Inf\"} 40\n";
    let mut with = phase(10, 1, 0.0);
    add_metrics(&mut with, &Metrics::parse(page));
    assert_eq!(with.extra["syscalls_per_query"], 1.0);
    assert_eq!(with.extra["queries_per_frame"], 3.0);
    assert_eq!(with.extra["share_of_frames_up_to_00016"], 0.5);
    assert_eq!(with.extra["share_of_frames_up_to_more"], 0.25);
    let mut without = phase(10, 1, 0.0);
    add_metrics(&mut without, &Metrics::parse("helenus_requests_total 5\n"));
    assert!(without.extra.is_empty(), "{:?}", without.extra);
}

#[test]
fn the_first_arms_are_the_direct_ones() {
    let mut experiment = experiment();
    let first = [TOKEN_AWARE, ROUND_ROBIN];
    assert!(check(experiment.arms(), &first).is_ok());
    experiment.arms.swap(1, 2);
    assert!(check(experiment.arms(), &first).is_err());
}

#[test]
fn the_page_has_the_plots_and_every_arm() {
    let page = crate::report::html::page(&compared());
    for text in [
        "INSERTs: throughput",
        "YCSB",
        "Compare-and-set on one row",
        "helenus-window-10",
        "helenus-queue-on",
        "lost_updates",
        "Further figures",
        "cas_final_value",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
}

#[test]
fn cells_are_chosen_by_their_kinds() {
    let of = |only: &[&str]| Aggregation {
        only: only.iter().map(|&kind| kind.to_owned()).collect(),
        ..experiment()
    };
    let all = experiment().jobs();
    let by_kind: Vec<Job> = CELL_KINDS
        .iter()
        .flat_map(|&kind| of(&[kind]).jobs())
        .collect();
    assert_eq!(by_kind.len(), all.len());
    assert!(all.iter().all(|job| by_kind.contains(job)));
    assert!(of(&["same-rate"]).check_cells().is_err());
    assert!(of(&["same-rate", "insert", "read"]).check_cells().is_ok());
}
