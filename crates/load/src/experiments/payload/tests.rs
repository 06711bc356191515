use super::cells::{DATA_SHARE, figures, reads, writes};
use super::*;
use crate::experiments::arms::{HELENUS, PROXY_PROCESS};
use crate::measure::{ProcessUse, Recorder};
use crate::report::machine::Machine;

/// `SHAPE` is smaller, `ZSTD` is faster.
const SHAPE: &str = "helenus-shape";
const ZSTD: &str = "helenus-zstd";
const SMILE: &str = "direct-smile";

fn payload() -> Payload {
    let contender = |name: &str, stored| Contender {
        arm: Arm::named(name),
        stored,
    };
    let file = Collection::of_documents("file", vec!["[1,2]".into(); 80], 100);
    Payload {
        collections: vec![
            Arc::new(Collection::profiles(10, 10, 1)),
            Arc::new(file.unwrap()),
        ],
        arms: vec![
            contender(TOKEN_AWARE, Stored::Plain),
            contender(SMILE, Stored::ByClient(Vec::new())),
            contender(SHAPE, Stored::ByProxy("shape".into())),
            contender(ZSTD, Stored::ByProxy("zstd".into())),
        ],
        replication: 1,
        rounds: 2,
        clients: 4,
        warmup: Duration::ZERO,
        cell_warmup: Duration::ZERO,
        cell_time: Duration::from_secs(4),
        slices: 2,
        until: None,
        watched: Vec::new(),
        seed: 1,
    }
}

fn report() -> Report {
    Report::new("payload", String::new(), Machine::default(), 2)
}

/// So many operations in a second, each of which takes the nodes some CPU time.
fn phase(ops: u64, node_us: f64) -> Phase {
    let mut recorder = Recorder::new(2);
    recorder.record_times(0, Duration::from_micros(1_000_000 / ops), ops);
    let mut phase = recorder.into_phase(&["read", "write"], Duration::from_secs(1), None);
    for (name, cpu_us_per_op) in [
        ("node 1", node_us / 4.0),
        ("node 2", node_us * 3.0 / 4.0),
        (PROXY_PROCESS, 20.0),
    ] {
        let used = ProcessUse {
            cpu_seconds: 0.0,
            cpu_us_per_op,
            resident_kib: 0,
        };
        phase.processes.insert(name.into(), used);
    }
    phase
}

fn add_sizes(report: &mut Report, collection: &str, sizes: [f64; 4]) {
    for (arm, bytes) in [TOKEN_AWARE, SMILE, SHAPE, ZSTD].into_iter().zip(sizes) {
        let of = figures([(DATA_BYTES, bytes), (VALUE_BYTES, bytes * 2.0)]);
        report.add(arm, &size(collection), of);
    }
}

#[test]
fn unnamed_keys_are_all_of_the_codec_that_takes_least_disk() {
    let mut report = report();
    add_sizes(&mut report, "profiles", [1_000.0, 900.0, 300.0, 400.0]);
    for (arm, written, read) in [
        (TOKEN_AWARE, [100, 100], [200, 400]),
        (SMILE, [110, 110], [220, 440]),
        (SHAPE, [150, 200], [240, 800]),
        (ZSTD, [300, 300], [600, 900]),
    ] {
        for round in 0..2 {
            report.add(arm, &writes("profiles"), phase(written[round], 100.0));
            report.add(arm, &reads("profiles"), phase(read[round], 50.0));
        }
    }
    for (codec, encode_us, decode_us) in [("shape", 7.0, 3.0), ("zstd", 2.0, 2.5)] {
        let times = [(ENCODE_US, encode_us), (DECODE_US, decode_us)];
        report.add(&codec_arm(codec), &codecs("profiles"), figures(times));
    }
    payload().finish(&mut report);
    let of = |key: &str| {
        let spread = report.ratios.get(key);
        *spread.unwrap_or_else(|| panic!("{key} is missing: {:?}", report.ratios.keys()))
    };
    assert_eq!(of("disk_vs_json").median, 0.3);
    assert_eq!(of("helenus-zstd.disk_vs_json").median, 0.4);
    assert_eq!(of("direct-smile.disk_vs_json").median, 0.9);
    assert_eq!(of("values_vs_json").median, 0.3);
    let written = of("write_throughput_vs_json");
    assert_eq!((written.min, written.max), (1.5, 2.0));
    let read = of("read_throughput_vs_json");
    assert_eq!((read.min, read.max), (1.2, 2.0));
    // The geometric mean of writes and reads, round by round.
    let both = of("throughput_vs_json");
    assert!((both.min - (1.5f64 * 1.2).sqrt()).abs() < 1e-9, "{both:?}");
    assert!((both.max - 2.0).abs() < 1e-9, "{both:?}");
    assert_eq!(of("helenus-zstd.write_throughput_vs_json").median, 3.0);
    assert_eq!(of("codec_us_per_kib").median, 7.0);
    assert_eq!(of("zstd.codec_us_per_kib").median, 2.5);
    assert_eq!(of("write_node_cpu_vs_json").median, 1.0);
    assert!(
        !report
            .ratios
            .contains_key("helenus-zstd.write_node_cpu_vs_json")
    );
    assert_eq!(of("read_proxy_cpu_us").median, 20.0);
    assert!(of("write_p99_vs_json").max < 0.7);
    assert!(report.settings["best codec of profiles"].starts_with("shape"));
    assert!(!report.ratios.keys().any(|key| key.starts_with("file.")));
    assert!(
        !report
            .ratios
            .keys()
            .any(|key| key.starts_with(&format!("{TOKEN_AWARE}."))),
        "plain JSON is not compared with itself"
    );
}

#[test]
fn each_collection_has_a_best_codec_of_its_own() {
    let mut report = report();
    add_sizes(&mut report, "profiles", [1_000.0, 900.0, 300.0, 400.0]);
    add_sizes(&mut report, "file", [100.0, 100.0, 90.0, 80.0]);
    let payload = payload();
    payload.finish(&mut report);
    assert_eq!(report.ratios["disk_vs_json"].median, 0.3);
    assert_eq!(report.ratios["file.disk_vs_json"].median, 0.8);
    assert_eq!(report.ratios["file.helenus-shape.disk_vs_json"].median, 0.9);
    assert!(!report.ratios.contains_key("throughput_vs_json"));
    let share = report.phases(ZSTD, &size("file"))[0].extra[DATA_SHARE];
    assert!((share - 0.8).abs() < 1e-9);
    assert_eq!(report.charts.len(), 1, "only sizes were measured");
}

#[test]
fn without_disks_the_shortest_values_are_best() {
    let mut report = report();
    for (arm, bytes) in [(TOKEN_AWARE, 100.0), (SHAPE, 60.0), (ZSTD, 50.0)] {
        report.add(arm, &size("profiles"), figures([(VALUE_BYTES, bytes)]));
    }
    let payload = payload();
    payload.finish(&mut report);
    assert_eq!(report.ratios["values_vs_json"].median, 0.5);
    assert!(!report.ratios.contains_key("disk_vs_json"));
}

#[test]
fn without_an_arm_of_helenus_no_key_is_unnamed() {
    let mut report = report();
    let mut payload = payload();
    add_sizes(&mut report, "profiles", [1_000.0, 900.0, 300.0, 400.0]);
    payload.arms.truncate(2);
    payload.finish(&mut report);
    assert!(report.ratios.contains_key("direct-smile.disk_vs_json"));
    assert!(!report.ratios.contains_key("disk_vs_json"));
}

#[test]
fn a_wrong_answer_ends_the_run_and_a_failure_does_not() {
    for (error, ends) in [(WRONG, true), (MISSING, true), ("overloaded", false)] {
        let mut recorder = Recorder::new(2);
        recorder.record_failed(0, error, 3);
        let phase = recorder.into_phase(&["read", "write"], Duration::from_secs(1), None);
        assert_eq!(refuse_wrong_answers(&phase).is_err(), ends, "{error}");
    }
}

#[test]
fn cells_are_shortened_to_what_is_left() {
    let mut payload = payload();
    assert_eq!(payload.fitting_time(8), Duration::from_secs(4));
    payload.until = Some(Instant::now() + Duration::from_secs(3600));
    assert_eq!(payload.fitting_time(8), Duration::from_secs(4));
    // Four arms, eight cells: half a second for each arm and cell, less what slices take besides.
    payload.until = Some(Instant::now() + Duration::from_secs(16));
    let time = payload.fitting_time(8);
    assert!(time <= Duration::from_millis(460), "{time:?}");
    assert!(time >= 2 * SLICE_MIN, "{time:?}");
    payload.until = Some(Instant::now());
    assert_eq!(payload.fitting_time(8), 2 * SLICE_MIN);
}

#[test]
fn tables_that_would_be_shared_are_refused() {
    let mut payload = payload();
    payload.check().unwrap();
    let mut twice = payload.clone();
    twice.arms.push(twice.arms[3].clone());
    let error = twice.check().unwrap_err().to_string();
    assert!(error.contains("profiles_helenus_zstd"), "{error}");
    payload.arms.swap(0, 1);
    assert!(payload.check().is_err());
    assert!(
        payload
            .arms
            .iter()
            .all(|arm| arm.arm.endpoint.name != HELENUS)
    );
}

#[test]
fn writes_of_a_round_come_before_its_reads() {
    let cells = payload().cells().into_iter();
    let names: Vec<String> = cells.map(|cell| cell.name).collect();
    assert_eq!(
        names,
        [
            "codecs",
            "profiles: writes",
            "profiles: reads",
            "file: writes",
            "file: reads"
        ]
    );
}
