use super::*;
use crate::measure::{Phase, ProcessUse, Recorder};
use crate::report::machine::Machine;
use crate::storage::{Device, Figures, Storage};
use std::time::Duration;

/// Of a second, with so many queries of this latency.
fn phase(ops: u64, latency_us: u64, failed: u64) -> Phase {
    let mut recorder = Recorder::new(1);
    recorder.record_times(0, Duration::from_micros(latency_us), ops);
    recorder.record_failed(0, "overloaded", failed);
    recorder.into_phase(&["read"], Duration::from_secs(1), None)
}

fn report(rounds: &[(u64, u64)]) -> Report {
    let mut report = Report::new(
        "overhead",
        "helenus bench overhead".into(),
        Machine::default(),
        1,
    );
    for &(ops, latency_us) in rounds {
        report.add("helenus", "64 clients", phase(ops, latency_us, 0));
    }
    let values: Vec<f64> = rounds.iter().map(|&(ops, _)| ops as f64 / 1000.0).collect();
    report.set_ratio("throughput_vs_token_aware", &values);
    report
}

fn row<'a>(comparison: &'a Comparison, quantity: &str) -> &'a Row {
    let mut rows = comparison.rows.iter();
    rows.find(|row| row.quantity == quantity).unwrap()
}

#[test]
fn a_clear_loss_is_worse_and_what_varies_as_much_is_unclear() {
    let a = report(&[(1000, 500), (1010, 650), (990, 380)]);
    let b = report(&[(800, 520), (810, 400), (795, 690)]);
    let comparison = Comparison::of(&a, &b).unwrap();
    assert_eq!(comparison.tests, 3, "throughput, p50, p99");
    let throughput = row(&comparison, "queries/s");
    assert_eq!(throughput.verdict, Verdict::Worse);
    assert!(
        (throughput.percent().unwrap() + 19.8).abs() < 0.1,
        "{throughput:?}"
    );
    let (low, high) = (
        throughput.ratio_low.unwrap(),
        throughput.ratio_high.unwrap(),
    );
    assert!(low < 0.802 && high > 0.802 && high < 0.9, "{throughput:?}");
    assert!(throughput.p_corrected >= throughput.p);
    assert_eq!(row(&comparison, "p50 µs").verdict, Verdict::Unclear);
    let worse = comparison.worse(10.0);
    assert_eq!(worse.len(), 1, "{worse:?}");
    assert!(
        worse[0].contains("64 clients, helenus: queries/s 1000 → 802"),
        "{worse:?}"
    );
    assert!(comparison.worse(25.0).is_empty(), "not by so much");
    let back = Comparison::of(&b, &a).unwrap();
    assert_eq!(row(&back, "queries/s").verdict, Verdict::Better);
    assert!(back.worse(0.0).is_empty());
}

#[test]
fn two_rounds_are_too_few_to_tell() {
    let (a, b) = (
        report(&[(1000, 5), (1010, 6)]),
        report(&[(10, 500), (11, 510), (12, 500)]),
    );
    let comparison = Comparison::of(&a, &b).unwrap();
    assert_eq!(comparison.tests, 0);
    assert_eq!(
        comparison.count(Verdict::TooFewRounds),
        comparison.rows.len()
    );
    assert!(comparison.worse(1.0).is_empty());
    assert!(
        row(&comparison, "p99 µs").percent().unwrap() > 8_000.0,
        "it is shown"
    );
}

#[test]
fn more_failures_are_worse_with_any_number_of_rounds() {
    let a = report(&[(1000, 500)]);
    let mut b = report(&[]);
    b.add("helenus", "64 clients", phase(1000, 500, 100));
    let comparison = Comparison::of(&a, &b).unwrap();
    let worse = comparison.worse(50.0);
    assert!(worse[0].contains("failed 0.00 % → 9.09 %"), "{worse:?}");
    assert!(Comparison::of(&b, &a).unwrap().worse(0.0).is_empty());
}

#[test]
fn a_round_in_which_nothing_succeeded_has_no_value() {
    let a = report(&[(1000, 500), (1000, 500), (1001, 500)]);
    let b = report(&[(1000, 500), (0, 500), (1001, 500)]);
    let comparison = Comparison::of(&a, &b).unwrap();
    assert_eq!(row(&comparison, "queries/s").verdict, Verdict::NoValue);
}

#[test]
fn kinds_of_a_mixture_and_the_proxys_cpu_are_compared() {
    let mixed = |scan_us: u64| {
        let mut recorder = Recorder::new(2);
        recorder.record_times(0, Duration::from_micros(100), 50);
        recorder.record_times(1, Duration::from_micros(scan_us), 50);
        let minute = Some(Duration::from_secs(60));
        let mut phase = recorder.into_phase(&["point", "scan"], Duration::from_secs(1), minute);
        let used = ProcessUse {
            cpu_seconds: 1.0,
            cpu_us_per_op: 9.0,
            resident_kib: 5,
        };
        phase.processes.insert("proxy".into(), used);
        phase
    };
    let of = |scan_us| {
        let mut report = report(&[]);
        for _ in 0..3 {
            report.add("helenus", "mix", mixed(scan_us));
        }
        report
    };
    let comparison = Comparison::of(&of(10_000), &of(12_000)).unwrap();
    let names: Vec<&str> = comparison.rows.iter().map(|row| &*row.quantity).collect();
    let expected = [
        "queries/s",
        "point: p50 µs",
        "point: p99 µs",
        "scan: p50 µs",
        "scan: p99 µs",
        "proxy CPU µs/query",
    ];
    assert_eq!(names, expected);
    assert_eq!(row(&comparison, "point: p99 µs").verdict, Verdict::Unclear);
    assert_eq!(row(&comparison, "scan: p99 µs").verdict, Verdict::Worse);
}

#[test]
fn other_experiments_and_other_cells_are_refused() {
    let a = report(&[(1, 1)]);
    let mut other = a.clone();
    other.experiment = "scale".into();
    let error = Comparison::of(&a, &other).unwrap_err().to_string();
    assert!(
        error.contains("`overhead`") && error.contains("`scale`"),
        "{error}"
    );
    let mut b = report(&[]);
    b.add("helenus", "256 clients", phase(1, 1, 0));
    let error = Comparison::of(&a, &b).unwrap_err().to_string();
    assert!(error.contains("`64 clients, helenus`"), "{error}");
}

#[test]
fn cells_of_one_report_are_named_and_ratios_stand_beside_each_other() {
    let (mut a, b) = (
        report(&[(1000, 5), (1100, 5)]),
        report(&[(1050, 5), (1200, 5)]),
    );
    a.add("direct", "64 clients", phase(1, 1, 0));
    let comparison = Comparison::of(&a, &b).unwrap();
    assert_eq!(comparison.only_in_a, ["64 clients, direct"]);
    assert!(comparison.only_in_b.is_empty());
    let ratio = &comparison.ratios[0];
    assert_eq!(
        (&*ratio.key, ratio.overlap),
        ("throughput_vs_token_aware", true)
    );
    let apart = Comparison::of(&a, &report(&[(1101, 5)])).unwrap();
    assert!(!apart.ratios[0].overlap);
}

#[test]
fn what_else_differs_is_said() {
    let a = report(&[(1, 1)]);
    assert!(Comparison::of(&a, &a).unwrap().warnings.is_empty());
    let mut b = a.clone();
    b.machine.cores = 9;
    b.machine
        .versions
        .insert("cassandra".into(), "4.1.10".into());
    b.settings.insert("seed".into(), "2".into());
    b.command = "helenus bench overhead --quick".into();
    b.machine.storage_profile = Some(storage(100.0));
    let warnings = Comparison::of(&a, &b).unwrap().warnings.join("\n");
    for part in [
        "cores differs: `0` and `9`",
        "version of cassandra differs: none and `4.1.10`",
        "seed differs",
        "command differs",
        "Only one of the reports has figures",
    ] {
        assert!(warnings.contains(part), "no {part:?} in {warnings}");
    }
    let mut c = b.clone();
    c.machine.storage_profile = Some(storage(150.0));
    assert!(Comparison::of(&b, &c).unwrap().warnings.is_empty());
    c.machine.storage_profile = Some(storage(900.0));
    let warnings = Comparison::of(&b, &c).unwrap().warnings;
    assert_eq!(
        warnings,
        ["The storage differs: fdatasync, by a factor of 9.0."]
    );
}

fn storage(append_sync_us_p50: f64) -> Storage {
    Storage {
        device: Device::default(),
        figures: Some(Figures {
            measured_unix_s: 1,
            append_sync_us_p50,
            append_sync_us_p99: 1.0,
            append_syncs_per_second: 1.0,
            write_mib_per_second: 1.0,
            read_mib_per_second: 1.0,
            random_read_us_p50: 1.0,
            random_read_us_p99: 1.0,
            random_reads_per_second: 1.0,
            file_mib: 1,
            is_direct: true,
        }),
        not_measured: None,
    }
}
