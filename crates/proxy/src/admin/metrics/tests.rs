use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use helenus_policy::ring::NodeIndex;

use super::nodes::NODE;
use super::*;

type Series = (String, BTreeMap<String, String>);

/// A strict parser of the text format, independent of the writer.
fn parse(text: &str) -> Vec<(Series, f64)> {
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut current = String::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("name and help");
            assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("name and type");
            assert!(helped.contains(name), "HELP before TYPE: {line}");
            assert!(types.insert(name.into(), kind.into()).is_none(), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            current = name.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("series and value");
            let series = parse_series(series);
            let base = match types[&current].as_str() {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| series.0.strip_suffix(end))
                    .expect("part of a histogram"),
                _ => &series.0,
            };
            assert_eq!(base, current, "families are contiguous: {line}");
            samples.push((series, value.parse().expect("a number")));
        }
    }
    samples
}

fn parse_series(text: &str) -> Series {
    let (name, labels) = text.split_once('{').unwrap_or((text, "}"));
    let ok = |c: char| c.is_ascii_lowercase() || c == '_';
    assert!(name.chars().all(ok), "metric name {name}");
    let mut map = BTreeMap::new();
    let mut rest = labels.strip_suffix('}').expect("closing brace");
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").expect("label=\"");
        assert!(label.chars().all(ok), "label name {label}");
        let (mut value, mut chars) = (String::new(), after.chars());
        loop {
            match chars.next().expect("closing quote") {
                '"' => break,
                '\\' => value.push(match chars.next() {
                    Some('n') => '\n',
                    Some(c @ ('"' | '\\')) => c,
                    other => panic!("escape {other:?} in {text}"),
                }),
                c => value.push(c),
            }
        }
        assert!(map.insert(label.to_owned(), value).is_none(), "{text}");
        rest = chars.as_str();
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    (name.to_owned(), map)
}

fn sample() -> Stats {
    let stats = Stats::default();
    stats.global.requests_batch.store(7, Ordering::Relaxed);
    for us in [0, 31, 32, 900, 16_000_000, 16_777_216, u64::MAX >> 20] {
        stats.latency[Class::Point as usize].record(us);
    }
    let node = stats.node(NodeIndex(1), || "127.0.0.2:9042".to_owned());
    node.in_flight.store(3, Ordering::Relaxed);
    node.latency.record(1500);
    node.waits[Class::Scan as usize].record(20);
    let table = stats.table("odd\"ks\\", "line\nbreak", 10);
    table.reads.store(5, Ordering::Relaxed);
    table.latency.record(70);
    stats
}

fn rendered(stats_of: &Stats) -> String {
    let mut page = Page::default();
    stats(&mut page, stats_of);
    page.into_text()
}

#[test]
fn every_line_parses_and_no_series_appears_twice() {
    let samples = parse(&rendered(&sample()));
    let series: BTreeSet<_> = samples.iter().map(|(s, _)| s).collect();
    assert_eq!(series.len(), samples.len());
    let find = |name: &str, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        let series = (name.to_owned(), labels.collect());
        samples.iter().find(|(s, _)| *s == series).map(|(_, v)| *v)
    };
    assert_eq!(find(REQUESTS, &[("opcode", "batch")]), Some(7.0));
    let odd = [("keyspace", "odd\"ks\\"), ("table", "line\nbreak")];
    assert_eq!(find("helenus_table_reads_total", &odd), Some(5.0));
    let in_flight = "helenus_node_in_flight_requests";
    assert_eq!(find(in_flight, &[("node", "127.0.0.2:9042")]), Some(3.0));
    assert_eq!(find(in_flight, &[("node", "")]), None, "unused slot");
}

#[test]
fn histograms_are_cumulative_and_end_with_their_count() {
    let mut by_series: BTreeMap<Series, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts: BTreeMap<Series, f64> = BTreeMap::new();
    for ((name, mut labels), value) in parse(&rendered(&sample())) {
        if let Some(base) = name.strip_suffix("_bucket") {
            let le = labels.remove("le").expect("le");
            let le = if le == "+Inf" {
                f64::INFINITY
            } else {
                le.parse().expect("a bound")
            };
            by_series
                .entry((base.to_owned(), labels))
                .or_default()
                .push((le, value));
        } else if let Some(base) = name.strip_suffix("_count") {
            counts.insert((base.to_owned(), labels), value);
        }
    }
    assert_eq!(
        by_series.len(),
        Class::COUNT + 1 + 2 + 1 + 1,
        "classes, node, its frames, waits of one class, table"
    );
    for (series, buckets) in &by_series {
        let ordered = buckets
            .windows(2)
            .all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1);
        assert!(ordered, "{series:?} {buckets:?}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, counts[series])));
    }
    let labels = BTreeMap::from([("class".to_owned(), "point".to_owned())]);
    let point = &by_series[&("helenus_request_duration_seconds".to_owned(), labels)];
    let at = |le: f64| point.iter().find(|b| b.0 == le).expect("the bound").1;
    // 0 and 31 µs are below 32 µs, 32 µs is not.
    assert_eq!((at(0.000032), at(0.000064), at(0.001024)), (2.0, 3.0, 4.0));
    assert_eq!((at(16.777216), at(f64::INFINITY)), (5.0, 7.0));
}

#[test]
fn every_counter_is_shown_once() {
    let stats = Stats::default();
    let node = stats.node(NodeIndex(0), || "n".to_owned());
    for (list, shown) in [(stats.global.list(), GLOBAL), (node.counters.list(), NODE)] {
        let mut fields: Vec<_> = list.iter().map(|(name, _)| *name).collect();
        let mut described: Vec<_> = shown.iter().map(|s| s.field).collect();
        fields.sort_unstable();
        described.sort_unstable();
        assert_eq!(fields, described);
    }
}
