use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::*;

/// Reads an answer, and writes it again.
fn again<T: Serialize + DeserializeOwned>(answer: &str) -> String {
    let read: T = serde_json::from_str(answer).expect("an answer");
    serde_json::to_string(&read).expect("JSON")
}

const HISTOGRAM: &str = r#"{"count":2,"sum_us":70,"buckets":[[3,1],[5,1]]}"#;
const KEYS: &str = r#"{"keys_shown":true,"work_us_per_s":9.5,"floor_us_per_s":1.0,"reads_per_s":2.0,"writes_per_s":0.0,"keys":[{"keyspace":"shop","table":"orders","role":null,"role_number":0,"token":"-7","key":"'a'","share":0.75,"work_us_per_s":7.0,"error_us_per_s":0.5,"shared_us_per_s":0.0,"reads_per_s":2.0,"writes_per_s":0.0,"bytes_per_s":80.0,"spread":false}]}"#;
const RESOURCES: &str = r#"{"cpu":0.1,"cpu_process":null,"cpu_machine":0.5,"disk":null,"collecting":0.0,"disk_queue":1.5,"cores":4.0,"heap_used":1,"heap_max":2,"collected_ms":3,"read_pending":4,"read_active":5,"read_max":6,"mutation_pending":7,"mutation_active":8,"mutation_max":9,"compactions_pending":10}"#;
const LAYOUTS: &str = r#"{"lease_held":true,"problems":["one"],"layouts":[{"keyspace":"shop","table":"orders","physical":"orders_1","clustering":["day","id"],"is_read":true,"reads":3}]}"#;
const ENCODINGS: &str = r#"{"lease_held":true,"problems":[],"columns":[{"keyspace":"shop","table":"users","column":"bio","state":"text","codec":"smile","dictionary":null}]}"#;

fn node() -> String {
    let report = format!(
        r#"{{"connected":true,"received":5,"rejected":0,"contradicted":1,"age_ms":40,"memory":0.5,"resources":{RESOURCES}}}"#
    );
    format!(
        r#"{{"address":"10.0.0.1:9042","number":0,"dc":"dc1","rack":"r1","release_version":"5.0.5","processors":null,"state":"up","links_up":1,"in_flight":2,"queued":3,"scan_slots_taken":1,"scan_slots":4,"score_us":900,"slowdown":1.25,"failures":0.0,"outstanding_us":7,"ejected":0,"window":64,"report":{report},"counters":{{"errors":1,"requests":9}},"latency":{HISTOGRAM},"packed_out":{{"queries":9,"frames":[1,2]}},"packed_in":{{"queries":8,"frames":[]}}}}"#
    )
}

fn snapshot() -> String {
    let class = format!(
        r#"{{"class":"point","latency":{HISTOGRAM},"queued":1,"dispatched":2,"aged":0,"refused":0,"waits":{HISTOGRAM}}}"#
    );
    let table = format!(
        r#"{{"keyspace":"shop","table":"orders","reads":1,"writes":2,"errors":3,"latency":{HISTOGRAM}}}"#
    );
    let client = r#"{"driver":"Java","driver_version":"4","application":"shop","application_version":"1","clients":7}"#;
    let node = node();
    format!(
        r#"{{"version":"0.1.0","started_unix_ms":1,"now_unix_ms":2,"cluster":"c","protocol":5,"local_dc":"dc1","epoch":3,"ready":false,"ready_reason":"why","clients":7,"clients_max":9,"clients_by_name":[{client}],"prepared":4,"resident_bytes":null,"cpu_seconds":0.5,"window_us":0,"totals":{{"sent":1}},"packed_bounds":[1,2],"bounds_us":[1,2,4],"classes":[{class}],"nodes":[{node}],"tables":[{table}],"hot":{KEYS},"layouts":{LAYOUTS},"encodings":{ENCODINGS}}}"#
    )
}

#[test]
fn a_snapshot_is_written_in_the_order_in_which_it_is_documented() {
    assert_eq!(again::<Snapshot>(&snapshot()), snapshot());
    let off = r#""layouts":null,"encodings":null}"#;
    let written = serde_json::to_string(&Snapshot::default()).expect("JSON");
    assert!(written.ends_with(off), "{written}");
}

const HISTORY: &str = r#"{"started_unix_ms":1,"now_unix_ms":2,"zero_unix_ms":3,"counters":["sent"],"bounds_us":[1],"packed_bounds":[1],"fine":{"step_ms":1000,"steps_max":600,"next":2,"steps":[{"seq":1,"end_ms":2,"ms":3,"counters":[0,7],"classes":{"point":{"latency":[3,1],"latency_sum_us":9,"waits":[],"waits_sum_us":0,"dispatched":1,"aged":0,"refused":0}},"cpu_us":4,"link_calls":5,"sent":{"queries":6,"frames":[0,6]},"received":{"queries":7,"frames":[]},"gauges":{"clients":1,"links":2,"nodes":3,"nodes_up":3,"nodes_down":0,"nodes_ejected":0,"nodes_out":0,"in_flight":4,"queued":5,"queued_by_class":[0,5],"resident_bytes":6,"window_us":7}}]},"events":{"next":2,"events":[{"at_ms":5,"seq":1,"kind":"ready","severity":"good","text":"ready"}]}}"#;

#[test]
fn a_history_is_written_without_what_was_not_asked_for() {
    assert_eq!(again::<history::History>(HISTORY), HISTORY);
    let events =
        r#"{"events":[{"at_unix_ms":5,"seq":1,"kind":"ready","severity":"good","text":"ready"}]}"#;
    assert_eq!(again::<history::Events>(events), events);
}

const SUMMARY: &str = r#"{"from_ms":1,"to_ms":2,"ms":3,"zero_unix_ms":4,"classes":{"point":{"per_s":0.5,"mean_us":1.0,"p50_us":1.0,"p99_us":2.0,"p999_us":null}},"nodes":[{"address":"a","number":0,"gone":false,"requests_per_s":1.5,"reads_per_s":1.0,"errors_per_s":0.0,"timeouts_per_s":0.0,"bytes_in_per_s":9.0,"bytes_out_per_s":8.0,"requests_per_frame":null,"down_s":0.0,"ejected_s":0.0,"mean_us":null,"p50_us":null,"p99_us":null,"p999_us":null,"points":[null,0.5]}],"tables":[{"keyspace":"shop","table":"orders","reads_per_s":1.0,"writes_per_s":0.0,"errors_per_s":0.0,"mean_us":7.0,"p50_us":6.0,"p99_us":9.0,"p999_us":9.0}],"layouts":[{"keyspace":"shop","physical":"orders_1","reads_per_s":0.25}]}"#;

#[test]
fn a_summary_is_written_with_latencies_beside_rates() {
    assert_eq!(again::<summary::Summary>(SUMMARY), SUMMARY);
}

#[test]
fn answers_of_older_and_later_proxies_are_read() {
    let read: Snapshot = serde_json::from_str("{}").expect("an answer");
    assert_eq!(read, Snapshot::default());
    let later = r#"{"clients":7,"nodes":[{"state":"asleep","dreams":[1]}],"layouts":null,"x":{}}"#;
    let read: Snapshot = serde_json::from_str(later).expect("an answer");
    assert_eq!((read.clients, &*read.nodes[0].state), (7, "asleep"));
    let read: history::History =
        serde_json::from_str(r#"{"fine":{"steps":[{}]}}"#).expect("an answer");
    assert_eq!(read.fine.map(|fine| fine.steps.len()), Some(1));
}

/// The fields of each interface of a TypeScript file: lines indented once, up to a colon.
fn interfaces(source: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut inside = None;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("export interface ") {
            inside = rest.split_whitespace().next();
        } else if line.starts_with('}') {
            inside = None;
        }
        let (Some(interface), Some(line)) = (inside, line.strip_prefix("  ")) else {
            continue;
        };
        if let Some((field, _)) = line.split_once(':')
            && line.starts_with(|first: char| first.is_ascii_lowercase())
        {
            let fields = found.entry(interface).or_default();
            fields.insert(field.trim_end_matches('?'));
        }
    }
    found
}

#[test]
fn fields_that_the_dashboard_reads_are_written() {
    let snapshot: Value = serde_json::from_str(&snapshot()).expect("JSON");
    let history: Value = serde_json::from_str(HISTORY).expect("JSON");
    let summary: Value = serde_json::from_str(SUMMARY).expect("JSON");
    let places = [
        (
            include_str!("../../../dashboard/src/snapshot.ts"),
            &snapshot,
            [
                ("Snapshot", ""),
                ("Class", "/classes/0"),
                ("Histogram", "/classes/0/waits"),
                ("Node", "/nodes/0"),
                ("Report", "/nodes/0/report"),
                ("Resources", "/nodes/0/report/resources"),
                ("Packed", "/nodes/0/packed_in"),
                ("Table", "/tables/0"),
                ("Hot", "/hot"),
                ("HotPartition", "/hot/keys/0"),
                ("Layouts", "/layouts"),
                ("Layout", "/layouts/layouts/0"),
            ]
            .as_slice(),
        ),
        (
            include_str!("../../../dashboard/src/history.ts"),
            &history,
            &[
                ("SeriesAnswer", "/fine"),
                ("StepAnswer", "/fine/steps/0"),
                ("ClassAnswer", "/fine/steps/0/classes/point"),
                ("FramesAnswer", "/fine/steps/0/sent"),
                ("Gauges", "/fine/steps/0/gauges"),
                ("EventAnswer", "/events/events/0"),
            ],
        ),
        (
            include_str!("../../../dashboard/src/summary.ts"),
            &summary,
            &[
                ("Summary", ""),
                ("Latency", "/nodes/0"),
                ("Latency", "/tables/0"),
                ("NodeSummary", "/nodes/0"),
                ("TableSummary", "/tables/0"),
                ("LayoutSummary", "/layouts/0"),
            ],
        ),
    ];
    for (source, answer, places) in places {
        let interfaces = interfaces(source);
        for (interface, place) in places {
            let fields = &interfaces[interface];
            assert!(fields.len() > 1, "{interface}: {fields:?}");
            for field in fields {
                let written = answer.pointer(place).and_then(|of| of.get(field));
                assert!(written.is_some(), "{interface}.{field} is not written");
            }
        }
    }
}
