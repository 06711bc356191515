use super::cells::{IDLE, mixed_name};
use super::figures::{latency, mean_ms};
use super::further::FurtherCell;
use super::further::queries::{FurtherPattern, FurtherQuery, draw as draw_further};
use super::further::wide::WideIndex;
use super::queries::{Query, draw};
use super::tables::{Index, Order};
use super::*;
use crate::measure::{Phase, Recorder};
use crate::report::machine::Machine;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

const EVEN: Mix = Mix {
    points: 5,
    scans: 5,
};
const MOSTLY_POINTS: Mix = Mix {
    points: 9,
    scans: 1,
};
const TIME_OUT: Duration = Duration::from_secs(10);

fn experiment() -> Scheduling {
    let mixed = |mix, clients| Mixed {
        mix,
        clients,
        queries: 100,
    };
    Scheduling {
        tables: Tables {
            keyspace: "k".into(),
            count: 2,
            rows: 10,
            row_bytes: 100,
            replication: 1,
            scan_rows_max: 5,
        },
        arms: [TOKEN_AWARE, ROUND_ROBIN, HELENUS, "helenus-off"]
            .map(Arm::named)
            .to_vec(),
        rounds: 2,
        mixed: vec![
            mixed(EVEN, 8),
            mixed(EVEN, 250),
            mixed(EVEN, 1000),
            mixed(MOSTLY_POINTS, 250),
            mixed(MOSTLY_POINTS, 1000),
        ],
        cell_time: None,
        storm: Some(Storm {
            scan_clients: 300,
            points_per_second: 100.0,
            time: Duration::from_secs(1),
            short: false,
        }),
        plain: None,
        further: Some(further()),
        kinds: CellKind::ALL.to_vec(),
        sessions: 1,
        time_out: TIME_OUT,
        warmup: Duration::ZERO,
        settle_max: Duration::ZERO,
        drop_caches: false,
        until: None,
        watched: Vec::new(),
        seed: 1,
    }
}

/// Those of a round.
fn cells(experiment: &Scheduling, round: usize) -> Vec<Cell<Job>> {
    let cells = experiment.declared().cells.into_iter();
    cells.filter(|cell| round < cell.rounds).collect()
}

/// Point reads and scans of the given latencies in milliseconds, and failures of each kind.
fn phase(points_ms: u64, scans_ms: u64, failed: [usize; 2], seconds: u64) -> Phase {
    let mut recorder = Recorder::new(2);
    for (kind, latency_ms) in [points_ms, scans_ms].into_iter().enumerate() {
        for _ in 0..if latency_ms > 0 { 100 } else { 0 } {
            recorder.record(kind, Duration::from_millis(latency_ms), Ok(()));
        }
        for _ in 0..failed[kind] {
            recorder.record(kind, Duration::ZERO, Err("overloaded"));
        }
    }
    recorder.into_phase(&KINDS, Duration::from_secs(seconds), Some(TIME_OUT))
}

fn further() -> Further {
    Further {
        wide: Wide {
            keyspace: "k".into(),
            replication: 1,
            partitions: 3,
            rows: 4,
            row_bytes: 100,
        },
        indexed: Indexed {
            keyspace: "k".into(),
            replication: 1,
            rows: 40,
        },
        readers: 16,
        scanners: 32,
        points_per_second: 100.0,
        look_ups_per_second: 20.0,
        wide_clients: vec![1, 8],
        open_mixes: vec![EVEN, MOSTLY_POINTS],
        open_share: 0.7,
        capacity_clients: 32,
        capacity_time: Duration::from_secs(1),
        time: Duration::from_secs(1),
        short: false,
    }
}

/// Helenus takes an eighth beside large reads, a sixteenth in an index, half on wide partitions, and a
/// quarter (points) and as long (scans) in open loops.
fn further_phase(job: Job, helenus: bool) -> Phase {
    let Job::Further(cell) = job else {
        panic!("{job:?}");
    };
    match cell {
        _ if !helenus => phase(160, 1000, [0, 0], 1),
        FurtherCell::LargeReads => phase(20, 0, [0, 0], 1),
        FurtherCell::LookUps => phase(10, 0, [0, 0], 1),
        FurtherCell::WideScans(_) => phase(0, 500, [0, 0], 1),
        FurtherCell::OpenLoop(_) => phase(40, 1000, [0, 0], 1),
    }
}

/// Direct: points 100 ms, scans 1000 ms. Helenus: points 10 ms and scans 500 ms, but 110 ms and
/// 1000 ms with 8 clients. All other arms are as fast as direct.
fn compared() -> Report {
    let experiment = experiment();
    let mut report = Report::new("scheduling", String::new(), Machine::default(), 2);
    for round in 0..2 {
        for cell in cells(&experiment, round) {
            for arm in cell.arms {
                let name = &*experiment.arms[arm].endpoint.name;
                let helenus = name == HELENUS;
                let measured = match cell.job {
                    Job::Mixed(mixed) if mixed.clients == 8 && helenus => {
                        phase(110, 1000, [0, 0], 1)
                    }
                    Job::Mixed(_) if helenus => phase(10, 500, [0, 0], 1),
                    Job::Mixed(_) => phase(100, 1000, [0, 0], 1),
                    Job::IdleScan => phase(0, if helenus { 100 } else { 300 }, [0, 0], 1),
                    Job::IdleAggregates => phase(0, if helenus { 50 } else { 100 }, [0, 0], 1),
                    Job::Several(_) => phase(0, if helenus { 100 } else { 400 }, [0, 0], 1),
                    Job::Unloaded(_) => phase(5, 0, [0, 0], 1),
                    Job::Storm(_) => phase(if helenus { 10 } else { 1000 }, 0, [0, 0], 1),
                    Job::Further(_) => further_phase(cell.job, helenus),
                    Job::Plain(_) => continue,
                };
                report.add(name, &cell.name, measured);
            }
        }
    }
    experiment.finish(&mut report);
    report
}

#[test]
fn the_documented_keys_are_there_and_right() {
    let ratios = compared().ratios;
    let expected = [
        0.1, 0.1, 0.5, 0.5, 0.1, 0.1, 1.1, 3.0, 2.0, 4.0, 2.0, 0.125, 0.0625, 0.5, 0.25, 0.25, 1.0,
        1.0,
    ];
    assert_eq!(SCHEDULING_KEYS.len(), expected.len());
    for (key, expected) in SCHEDULING_KEYS.into_iter().zip(expected) {
        let spread = ratios
            .get(key)
            .unwrap_or_else(|| panic!("{key} is missing"));
        for value in [spread.median, spread.min, spread.max] {
            // Histograms keep three digits.
            assert!((value / expected - 1.0).abs() < 0.01, "{key}: {spread:?}");
        }
    }
    let of_off = |key: &str| ratios[&format!("helenus-off.{key}")].median;
    assert!((of_off("point_mean_vs_direct_5050") - 1.0).abs() < 0.01);
    let storm = ratios["direct-token-aware.storm_point_p99_vs_unloaded"];
    assert!((storm.median / 200.0 - 1.0).abs() < 0.01, "{storm:?}");
    assert!(!ratios.contains_key("direct-token-aware.worst_cell_vs_direct"));
}

#[test]
fn loaded_cells_stand_behind_the_ratios() {
    let (even, mostly_points) = experiment().compared();
    assert_eq!(even, ["5:5, 250 clients", "5:5, 1000 clients"]);
    assert_eq!(mostly_points, ["9:1, 1000 clients"]);
    let mut quick = experiment();
    quick.mixed.pop();
    assert_eq!(quick.compared().1, ["9:1, 250 clients"]);
    // Few clients put no load on the nodes.
    quick.mixed.pop();
    quick.mixed.push(Mixed {
        mix: MOSTLY_POINTS,
        clients: 32,
        queries: 100,
    });
    assert!(quick.compared().1.is_empty());
}

#[test]
fn the_worst_cell_looks_at_throughput_and_failures_too() {
    let worst = |helenus: Phase| {
        let mut experiment = experiment();
        experiment.mixed.truncate(1);
        experiment.rounds = 1;
        let mut report = Report::new("scheduling", String::new(), Machine::default(), 1);
        let cell = mixed_name(EVEN, 8);
        report.add(TOKEN_AWARE, &cell, phase(100, 1000, [0, 0], 10));
        report.add(HELENUS, &cell, helenus);
        experiment.finish(&mut report);
        report.ratios["worst_cell_vs_direct"].median
    };
    // Latencies as before, but a third more time for the same number of queries.
    assert!((worst(phase(100, 1000, [0, 0], 12)) - 1.2).abs() < 0.01);
    // (100 × 1 s + 25 × 10 s) / 125 = 2.8 s
    assert!((worst(phase(100, 1000, [0, 25], 10)) - 2.8).abs() < 0.02);
    // Everything failed: the mean is the time-out.
    assert!(worst(phase(0, 1000, [3, 0], 10)) > 99.0);
}

#[test]
fn failures_pool_with_their_kind() {
    let measured = phase(100, 1000, [100, 0], 1);
    let of = |kind| latency(&measured.by_kind[kind]);
    assert!((of("point").us_mean / 5_050_000.0 - 1.0).abs() < 0.01);
    assert!(of("point").us_p99 >= 9_990_000);
    assert!((of("scan").us_mean / 1_000_000.0 - 1.0).abs() < 0.01);
    assert_eq!(measured.by_kind["point"].failed, 100);
    let mean = |phase: Phase| mean_ms("point").of(&phase);
    assert!(mean(phase(0, 5, [0, 0], 1)).is_none());
    assert!(mean(phase(0, 5, [1, 0], 1)).is_some());
}

#[test]
fn a_short_storm_spares_the_second_reference_and_later_rounds() {
    let mut experiment = experiment();
    let storms = |experiment: &Scheduling, round| {
        let cells = cells(experiment, round).into_iter();
        let storms = cells.filter(|cell| matches!(cell.job, Job::Storm(_)));
        let arms = storms.map(|cell| cell.arms);
        arms.collect::<Vec<Vec<usize>>>()
    };
    assert_eq!(storms(&experiment, 1), [[0, 1, 2, 3]]);
    if let Some(storm) = &mut experiment.storm {
        storm.short = true;
    }
    assert_eq!(storms(&experiment, 0), [[0, 2, 3]]);
    assert!(storms(&experiment, 1).is_empty());
    let cells = cells(&experiment, 0);
    let names: BTreeSet<String> = cells.iter().map(|cell| cell.name.clone()).collect();
    assert_eq!(names.len(), cells.len());
    assert!(names.contains(IDLE));
}

fn index(order: Order) -> Index {
    let table = |shift: i64| (0..10).map(move |key| ((7 * key % 10 + shift) * 100, key));
    Index::new(order, vec![table(0).collect(), table(-5).collect()])
}

#[test]
fn a_scan_returns_what_stands_after_its_start() {
    let index = index(Order::Tokens);
    let keys = |start, limit| -> Vec<i64> {
        let rows = index.after(0, start, limit);
        rows.iter().map(|&(_, key)| key).collect()
    };
    // Key 3 has token 100, key 6 token 200, and so on.
    assert_eq!(keys(0, 2), [3, 6]);
    assert_eq!(keys(-1, 1), [0]);
    assert_eq!(keys(99, 1), [3]);
    assert_eq!(keys(100, 1), [6]);
    assert_eq!(keys(700, 100), [4, 7]);
    assert!(keys(900, 5).is_empty() && keys(i64::MAX, 5).is_empty());
    assert_eq!(keys(i64::MIN, usize::MAX).len(), 10);
}

#[test]
fn query_n_is_the_same_whoever_asks_and_the_mix_is_kept() {
    let index = index(Order::Tokens);
    let mixed = QueryPattern::Mixed(MOSTLY_POINTS);
    let (mut scans, mut tables) = (0, [0; 2]);
    for number in 0..10_000 {
        let query = draw(mixed, &index, 5, 3, number);
        assert_eq!(query, draw(mixed, &index, 5, 3, number));
        match query {
            Query::Scan { table, rows, .. } => {
                assert!((1..=5).contains(&rows));
                scans += 1;
                tables[table] += 1;
            }
            Query::Point { table, key } => {
                assert!((0..10).contains(&key));
                tables[table] += 1;
            }
            other => panic!("nobody asked for {other:?}"),
        }
    }
    // Six standard deviations.
    assert!((820..=1180).contains(&scans), "seed 3: {scans} scans");
    assert!((4700..=5300).contains(&tables[0]), "seed 3: {tables:?}");
    let other_seed =
        (0..100).filter(|&n| draw(mixed, &index, 5, 4, n) == draw(mixed, &index, 5, 3, n));
    assert!(other_seed.count() < 60);
    assert_eq!(
        draw(QueryPattern::WholeTable, &index, 5, 3, 3),
        Query::WholeTable { table: 1 }
    );
    assert_eq!(
        draw(QueryPattern::Aggregates, &index, 5, 3, 2),
        Query::Aggregates { table: 0 }
    );
    let several = draw(QueryPattern::Several, &index, 5, 3, 7);
    assert_eq!(several, draw(QueryPattern::Several, &index, 5, 3, 7));
    let Query::Several { keys, .. } = several else {
        panic!("{several:?}");
    };
    assert!(keys.len() == 100 && keys.iter().all(|key| (0..10).contains(key)));
}

#[test]
fn a_scan_starts_at_a_key_where_keys_are_in_order() {
    let index = index(Order::Keys);
    for number in 0..1000 {
        match draw(QueryPattern::Mixed(Mix::SCANS), &index, 5, 3, number) {
            Query::Scan { start, .. } => assert!((0..10).contains(&start), "{start}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn mixes_are_written_as_proportions() {
    let mix: Mix = "9:1".parse().unwrap();
    assert_eq!(
        (mix, &*mix.to_string(), &*mix.key()),
        (MOSTLY_POINTS, "9:1", "9010")
    );
    assert_eq!("1:1".parse::<Mix>().unwrap().key(), EVEN.key());
    for wrong in ["", "9", "0:1", "1:0", "x:1", "1:-1"] {
        assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
    }
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    assert!((0..100).all(|_| Mix::SCANS.draws_scan(&mut rng)));
    assert!((0..100).all(|_| !Mix::POINTS.draws_scan(&mut rng)));
}

#[test]
fn warm_means_that_throughput_no_longer_changes() {
    assert!(settle::is_steady(100.0, 109.0) && settle::is_steady(100.0, 91.0));
    assert!(!settle::is_steady(100.0, 111.0) && !settle::is_steady(100.0, 89.0));
    assert!(!settle::is_steady(0.0, 0.0));
}

#[test]
fn the_page_has_plots_and_both_kinds() {
    let page = crate::report::html::page(&compared());
    for text in [
        "9:1: mean of the point reads",
        "5:5: mean of the scans",
        "One client reads a whole table",
        "Point reads in a storm of scans",
        "helenus-off",
        "By kind of query",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
}

fn with_plain(short: bool) -> Scheduling {
    let plain = Plain {
        tables: experiment().tables,
        connections: 3,
        mixes: vec![EVEN, MOSTLY_POINTS],
        clients: vec![8, 50],
        queries: 100,
        cell_time: None,
        short,
    };
    Scheduling {
        plain: Some(plain),
        ..experiment()
    }
}

#[test]
fn the_plain_client_is_compared_by_clients_and_by_whose_connections_points_use() {
    let experiment = with_plain(false);
    let mut report = Report::new("scheduling", String::new(), Machine::default(), 2);
    for round in 0..2 {
        for cell in cells(&experiment, round) {
            let Job::Plain(plain) = cell.job else {
                continue;
            };
            let arms = cell.arms;
            assert_eq!(arms, [0, 2, 3], "round-robin is a policy of drivers");
            for arm in arms {
                let name = &*experiment.arms[arm].endpoint.name;
                let measured = match (name, plain.apart) {
                    (HELENUS, false) => phase(50, 500, [0, 0], 1),
                    (HELENUS, true) if plain.mix == EVEN => phase(25, 500, [0, 0], 2),
                    _ => phase(100, 1000, [0, 0], 1),
                };
                report.add(name, &cell.name, measured);
            }
        }
    }
    experiment.finish(&mut report);
    for (key, expected) in [
        ("plain_point_mean_vs_direct_8", 0.5),
        ("plain_point_p99_vs_direct_50", 0.5),
        ("plain_scan_mean_vs_direct_50", 0.5),
        ("plain_throughput_vs_direct_50", 1.0),
        // The geometric mean over the mixes: a quarter and the same.
        ("plain_apart_point_mean_vs_direct_50", 0.5),
        ("plain_apart_throughput_vs_direct_8", 0.5f64.sqrt()),
        ("helenus-off.plain_scan_p99_vs_direct_8", 1.0),
    ] {
        let spread = report.ratios.get(key);
        let spread = spread.unwrap_or_else(|| panic!("{key} is missing"));
        // Histograms keep three digits.
        assert!(
            (spread.median / expected - 1.0).abs() < 0.01,
            "{key}: {spread:?}"
        );
    }
    assert!(crate::report::html::page(&report).contains("Plain client: point reads"));
}

#[test]
fn a_short_run_of_the_plain_client_compares_two_arms() {
    let experiment = with_plain(true);
    let cells = cells(&experiment, 0);
    let plain = cells.iter();
    let plain = plain.filter(|cell| matches!(cell.job, Job::Plain(_)));
    assert_eq!(plain.clone().count(), 2 * 2 * 2);
    assert!(plain.into_iter().all(|cell| cell.arms == [0, 2]));
    let names: BTreeSet<String> = cells.iter().map(|cell| cell.name.clone()).collect();
    assert_eq!(names.len(), cells.len());
}

#[test]
fn each_order_of_magnitude_of_rows_is_equally_likely() {
    let index = index(Order::Tokens);
    let mut by_digits = [0; 5];
    for number in 0..8_000 {
        let pattern = QueryPattern::LogUniform(Mix::SCANS);
        match draw(pattern, &index, 10_000, 3, number) {
            Query::Scan { rows, .. } => {
                assert!((1..=10_000).contains(&rows));
                by_digits[rows.to_string().len() - 1] += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    // Six standard deviations of a binomial are 232; rounding moves the bounds a little.
    for count in &by_digits[..4] {
        assert!((1700..=2300).contains(count), "seed 3: {by_digits:?}");
    }
    let none = draw(QueryPattern::LogUniform(Mix::SCANS), &index, 0, 3, 1);
    assert!(matches!(none, Query::Scan { rows: 1, .. }), "{none:?}");
}

#[test]
fn only_the_chosen_kinds_are_measured() {
    let mut experiment = with_plain(false);
    experiment.kinds = vec![CellKind::Wide, CellKind::Storm];
    let kinds = cells(&experiment, 0).into_iter();
    let kinds: Vec<CellKind> = kinds.map(|cell| cell.job.kind()).collect();
    let (wide, storm) = (CellKind::Wide, CellKind::Storm);
    assert_eq!(kinds, [wide, wide, storm, storm]);
    assert!(experiment.plain().is_none() && experiment.with_own_tables().is_some());
    experiment.kinds = vec![CellKind::OpenLoop];
    assert_eq!(cells(&experiment, 0).len(), 2);
    assert!(experiment.with_own_tables().is_none());
}

#[test]
fn a_short_run_of_the_further_cells_compares_two_arms_once() {
    let mut experiment = experiment();
    if let Some(further) = &mut experiment.further {
        further.short = true;
    }
    let further = |round| {
        let cells = cells(&experiment, round).into_iter();
        let further = cells.filter(|cell| matches!(cell.job, Job::Further(_)));
        let arms = further.map(|cell| cell.arms);
        arms.collect::<Vec<Vec<usize>>>()
    };
    assert_eq!(further(0), vec![vec![0, 2]; 6]);
    assert!(further(1).is_empty());
}

#[test]
fn wide_partitions_come_in_the_order_of_the_ring() {
    let wide = WideIndex::new(vec![(50, 0), (-50, 1), (0, 2)], &further().wide);
    let rows = |start, limit| wide.after(start, limit).collect::<Vec<(i64, i64)>>();
    assert_eq!(
        rows(-50, 6),
        [(2, 0), (2, 1), (2, 2), (2, 3), (0, 0), (0, 1)]
    );
    assert_eq!(rows(i64::MIN, 100).len(), 12);
    assert!(rows(50, 9).is_empty() && rows(-60, 0).is_empty());
    assert_eq!(
        wide.partition(7).collect::<Vec<_>>(),
        [(7, 0), (7, 1), (7, 2), (7, 3)]
    );
}

#[test]
fn further_query_n_is_the_same_whoever_asks() {
    let index = index(Order::Tokens);
    let contents = Contents {
        wide: WideIndex::new(vec![(50, 0), (-50, 1), (0, 2)], &further().wide),
        values: 10,
        scan_rows_max: 7,
    };
    let draw = |pattern, number| draw_further(pattern, &index, &contents, 3, number);
    let mut partitions = 0;
    for number in 0..400 {
        for pattern in [
            FurtherPattern::LargeReads,
            FurtherPattern::WideScans,
            FurtherPattern::LookUps,
        ] {
            let query = draw(pattern, number);
            assert_eq!(query, draw(pattern, number));
            match query {
                FurtherQuery::Partition { key } => {
                    assert!((0..3).contains(&key));
                    partitions += 1;
                }
                FurtherQuery::Keys { table, keys } => {
                    assert!(table < 2 && keys.len() == 1000);
                    assert!(keys.iter().all(|key| (0..10).contains(key)));
                }
                FurtherQuery::WideScan { rows, .. } => assert!((1..=7).contains(&rows)),
                FurtherQuery::LookUp { value } => assert!((0..10).contains(&value)),
            }
        }
    }
    // Six standard deviations.
    assert!((140..=260).contains(&partitions), "seed 3: {partitions}");
}

#[test]
fn the_paper_figures_are_drawn_from_its_variants() {
    let mut experiment = experiment();
    experiment.arms[3].endpoint.name = "helenus-P+RaS".into();
    let mut report = Report::new("scheduling", String::new(), Machine::default(), 2);
    for mixed in &experiment.mixed {
        let cell = mixed_name(mixed.mix, mixed.clients);
        report.add("helenus-P+RaS", &cell, phase(10, 100, [0, 0], 1));
    }
    experiment.finish(&mut report);
    let page = crate::report::html::page(&report);
    for title in [
        "Single queries, 9:1: the paper's variants",
        "Range queries, 5:5: the paper's variants",
    ] {
        assert!(page.contains(title), "{title} is missing");
    }
    assert!(!crate::report::html::page(&compared()).contains("the paper's variants"));
}
