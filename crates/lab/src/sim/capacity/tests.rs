use super::*;
use clap::Parser;
use helenus_load::ramp::capacity::{Capacity, Unit, UsesByLoad};
use helenus_load::ramp::evidence::{Kind, Use};
use helenus_load::ramp::page;
use helenus_load::ramp::search::{Policy as SearchPolicy, Search};
use helenus_load::ramp::steps::{Limits, Window};
use helenus_load::report::Report;
use helenus_load::report::machine::Machine;
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: CapacityArgs,
}

fn args(line: &str) -> Result<CapacityArgs> {
    let words = std::iter::once("x").chain(line.split_whitespace());
    Ok(Line::try_parse_from(words)?.args)
}

/// A ramp over a node that queues for its CPU, in a file.
fn ramp(folder: &Path, unit: Unit, nodes: Option<usize>, busy: Kind) -> PathBuf {
    let limits = Limits {
        latency_us_p99_max: None,
        error_share_max: 0.001,
        achieved_share_min: None,
    };
    let mut search = Search::new(SearchPolicy::new(1, 256, limits));
    let mut uses = UsesByLoad::new();
    while let Some(load) = search.poll_load() {
        let n = load as f64;
        let ops_per_second = 500.0 * n / (1.0 + 0.1 * (n - 1.0));
        let latency_us_p50 = 0.9 * n / ops_per_second * 1e6;
        let window = Window {
            ops_per_second,
            latency_us_p50,
            latency_us_p99: 3.0 * latency_us_p50,
            error_share: 0.0,
        };
        search.on_window(load, window);
        let used = Use {
            kind: busy,
            name: "node 1".into(),
            used: 0.5,
            capacity: Some(0.5),
            waiting: None,
        };
        uses.entry(load).or_default().push(vec![used]);
    }
    let capacity = Capacity::of(&search, unit, &uses, nodes, None);
    let report = Report::new("load ramp", String::new(), Machine::default(), 1);
    let path = folder.join("ramp.json");
    page::write_json(&report, &capacity, &path).unwrap();
    path
}

#[test]
fn a_ramps_report_becomes_a_model_of_a_hundred_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let path = ramp(folder.path(), Unit::Clients, Some(1), Kind::NodeCpu);
    let measured = Measured::read(&path, None).unwrap();
    assert!(measured.doubts().is_empty());
    let peak = measured.curve.peak();
    assert!((4_500.0..=5_000.0).contains(&peak), "{peak}");
    let cpu_us = measured.node_cpu_us.unwrap();
    assert!(
        (95.0..=115.0).contains(&cpu_us),
        "half a core over about 4,800/s: {cpu_us}"
    );
    let setup = args("--from f").unwrap().setup(&measured).unwrap();
    assert_eq!((setup.nodes, setup.replicas, setup.proxies), (100, 3, 10));
    assert!((setup.bound() - 100.0 * peak).abs() < 1.0);
    let errors = Errors::of(&sweep::repeat(&measured.curve, 1));
    assert!(errors.ops_per_second < 0.02, "{errors:?}");
}

#[test]
fn a_small_sweep_has_a_knee_and_figures_for_each_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = ramp(folder.path(), Unit::Clients, Some(2), Kind::ClientCpu);
    let json = folder.path().join("out.json");
    let line = format!(
        "--from {} --nodes 6 --proxies 2 --queries 2000 --keys 1000 --rate 1000,9000 --policies \
         token-aware,earliest-finish --json {}",
        path.display(),
        json.display()
    );
    capacity(&args(&line).unwrap()).unwrap();
    let text = std::fs::read_to_string(&json).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["measured"]["nodes"], 2);
    assert!(
        value["measured"]["doubts"][0]
            .as_str()
            .unwrap()
            .contains("client's machine")
    );
    for policy in ["token-aware", "earliest-finish"] {
        let policy = &value["policies"][policy];
        let knee = policy["knee"]["answers_per_second"].as_f64().unwrap();
        let bound = value["bound_ops_per_second"].as_f64().unwrap();
        assert!(
            knee > 0.8 * bound && knee <= 1.02 * bound,
            "{knee} of {bound}"
        );
        let offered = policy["by_offered_load"].as_array().unwrap();
        assert_eq!(offered.len(), 2);
        assert!(offered[0]["p99_us"].as_u64() > offered[0]["p50_us"].as_u64());
    }
    // One seed gives one file.
    capacity(&args(&line).unwrap()).unwrap();
    assert_eq!(std::fs::read_to_string(&json).unwrap(), text);
}

#[test]
fn what_is_no_model_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |unit, nodes| {
        let path = ramp(folder.path(), unit, nodes, Kind::NodeCpu);
        format!("{:#}", Measured::read(&path, None).err().unwrap())
    };
    let text = refused(Unit::OpsPerSecond, Some(1));
    assert!(text.contains("without --open-loop"), "{text}");
    let text = refused(Unit::Clients, None);
    assert!(text.contains("--measured-nodes"), "{text}");
    let report = Report::new("load", String::new(), Machine::default(), 1);
    let path = folder.path().join("load.json");
    report.write_json(&path).unwrap();
    let text = format!("{:#}", Measured::read(&path, None).err().unwrap());
    assert!(text.contains("not of a ramp"), "{text}");
    for line in [
        "",
        "--from f --nodes 0",
        "--from f --writes 2",
        "--from f --zipf -1",
        "--from f --rate 0",
    ] {
        assert!(args(line).is_err(), "{line}");
    }
    let path = ramp(folder.path(), Unit::Clients, Some(1), Kind::NodeCpu);
    let measured = Measured::read(&path, None).unwrap();
    let many = args("--from f --nodes 2 --replicas 3").unwrap();
    assert!(many.setup(&measured).is_err());
}
