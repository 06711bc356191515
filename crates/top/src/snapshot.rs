//! A proxy's counters, and its activity between two looks at them.

use std::collections::BTreeMap;

use helenus_admin_api::{self as api, Layout, Node, Snapshot};
use serde_json::{Value, json};

/// Times by bucket, of one proxy or several together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Histogram {
    /// Index and count of the buckets that are not empty, in order.
    buckets: Vec<(usize, u64)>,
}

impl From<&api::Histogram> for Histogram {
    fn from(of: &api::Histogram) -> Histogram {
        Histogram {
            buckets: of.buckets.clone(),
        }
    }
}

impl Histogram {
    /// Of index and count, one after the other.
    pub(super) fn of_pairs(pairs: &[u64]) -> Histogram {
        let (pairs, _) = pairs.as_chunks::<2>();
        let buckets = pairs.iter().map(|[index, count]| (*index as usize, *count));
        Histogram {
            buckets: buckets.collect(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        let counts = self.buckets.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    fn since(&self, before: Option<&Histogram>) -> Histogram {
        let old: BTreeMap<usize, u64> = before.iter().flat_map(|of| of.buckets.clone()).collect();
        let new = self.buckets.iter().map(|(index, count)| {
            let old = old.get(index).copied().unwrap_or(0);
            (*index, count.saturating_sub(old))
        });
        Histogram {
            buckets: new.filter(|(_, count)| *count > 0).collect(),
        }
    }

    pub(super) fn add(&mut self, other: &Histogram) {
        let mut sum: BTreeMap<usize, u64> = self.buckets.iter().copied().collect();
        for (index, count) in &other.buckets {
            let sum = sum.entry(*index).or_insert(0_u64);
            *sum = sum.saturating_add(*count);
        }
        self.buckets = sum.into_iter().collect();
    }

    /// In microseconds; values are taken to be spread evenly within their bucket, which is about 12 % wide.
    pub(super) fn quantile_us(&self, share: f64, bounds_us: &[u64]) -> Option<f64> {
        let mut wanted = share * self.count() as f64;
        for (index, count) in &self.buckets {
            let count = *count as f64;
            if wanted <= count {
                let bound = |index: usize| bounds_us.get(index).map(|bound| *bound as f64);
                let low = index.checked_sub(1).and_then(bound).unwrap_or(0.0);
                let high = bound(*index).unwrap_or(low);
                return Some(low + (high - low) * wanted / count);
            }
            wanted -= count;
        }
        None
    }
}

/// Activity between two looks at one proxy, or at several together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Moment {
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    /// Answers that were errors; None where nobody has counted.
    pub errors_per_s: Option<f64>,
    pub point: Histogram,
    pub scan: Histogram,
    pub waiting: u64,
    pub in_flight: u64,
    pub clients: u64,
    pub cpu_cores: f64,
    pub resident_bytes: u64,
}

impl Moment {
    /// None if the snapshots are not of one run of the proxy, or no time lies between them.
    pub(super) fn between(
        before: &Snapshot,
        after: &Snapshot,
        errors_per_s: Option<f64>,
    ) -> Option<Moment> {
        let seconds = seconds_between(before, after)?;
        let class = |of: &Snapshot, name: &str| {
            let found = of.classes.iter().find(|class| class.class == name);
            found.map_or_else(Histogram::default, |class| (&class.latency).into())
        };
        let since = |name: &str| class(after, name).since(Some(&class(before, name)));
        let rate = |names: &[&str]| {
            let counts = names.iter().map(|name| since(name).count());
            counts.sum::<u64>() as f64 / seconds
        };
        let cpu = after.cpu_seconds.unwrap_or(0.0) - before.cpu_seconds.unwrap_or(0.0);
        Some(Moment {
            reads_per_s: rate(&["point", "multi", "slice", "scan"]),
            writes_per_s: rate(&["write", "lwt"]),
            errors_per_s,
            point: since("point"),
            scan: since("scan"),
            waiting: after.classes.iter().map(|class| class.queued).sum(),
            in_flight: after.nodes.iter().map(|node| node.in_flight).sum(),
            clients: after.clients as u64,
            cpu_cores: cpu.max(0.0) / seconds,
            resident_bytes: after.resident_bytes.unwrap_or(0),
        })
    }

    pub(super) fn add(&mut self, other: &Moment) {
        self.reads_per_s += other.reads_per_s;
        self.writes_per_s += other.writes_per_s;
        self.errors_per_s = match (self.errors_per_s, other.errors_per_s) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.point.add(&other.point);
        self.scan.add(&other.scan);
        self.waiting += other.waiting;
        self.in_flight += other.in_flight;
        self.clients += other.clients;
        self.cpu_cores += other.cpu_cores;
        self.resident_bytes += other.resident_bytes;
    }

    /// For programs.
    pub(super) fn json(&self, bounds_us: &[u64]) -> Value {
        let quantile = |of: &Histogram, share| of.quantile_us(share, bounds_us).map(f64::round);
        json!({
            "reads_per_s": tenth(self.reads_per_s),
            "writes_per_s": tenth(self.writes_per_s),
            "errors_per_s": self.errors_per_s.map(tenth),
            "point_us_p50": quantile(&self.point, 0.5),
            "point_us_p99": quantile(&self.point, 0.99),
            "scan_us_p50": quantile(&self.scan, 0.5),
            "scan_us_p99": quantile(&self.scan, 0.99),
            "waiting": self.waiting,
            "in_flight": self.in_flight,
            "clients": self.clients,
            "cpu_cores": (self.cpu_cores * 1e3).round() / 1e3,
            "resident_bytes": self.resident_bytes,
        })
    }
}

fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn seconds_between(before: &Snapshot, after: &Snapshot) -> Option<f64> {
    let passed_ms = after.now_unix_ms.saturating_sub(before.now_unix_ms);
    let is_one_run = before.started_unix_ms == after.started_unix_ms;
    (is_one_run && passed_ms > 0).then(|| passed_ms as f64 / 1e3)
}

/// The nodes of a proxy, as its answer has them, with rates and quantiles since the look before.
pub(super) fn node_rows(before: Option<&Snapshot>, after: &Snapshot, answer: &Value) -> Vec<Value> {
    let before = before.and_then(|before| Some((before, seconds_between(before, after)?)));
    let row = |(at, (node, row)): (usize, (&Node, &Value))| {
        let mut row = row.clone();
        let Some((before, seconds)) = before else {
            return row;
        };
        // Each has its place in one run of the proxy. One that has left may share its address with its successor.
        let old = before.nodes.get(at);
        let old = old.filter(|old| old.address == node.address);
        let rate = |name: &str| {
            let of = |node: &Node| node.counters.get(name).copied().unwrap_or(0);
            let new = of(node).saturating_sub(old.map_or(0, of));
            tenth(new as f64 / seconds)
        };
        let histogram = |of: &Node| Histogram::from(&of.latency);
        let latency = histogram(node).since(old.map(histogram).as_ref());
        for name in ["requests", "errors", "timeouts"] {
            row[format!("{name}_per_s")] = json!(rate(name));
        }
        for (name, share) in [("us_p50", 0.5), ("us_p99", 0.99)] {
            row[name] = json!(latency.quantile_us(share, &after.bounds_us));
        }
        row
    };
    let rows = rows(answer, "/nodes");
    after.nodes.iter().zip(rows).enumerate().map(row).collect()
}

/// Layouts of a proxy, as its answer has them, with their rates since the look before.
pub(super) fn layout_rows(
    before: Option<&Snapshot>,
    after: &Snapshot,
    answer: &Value,
) -> Vec<Value> {
    let before = before.and_then(|before| Some((before, seconds_between(before, after)?)));
    let row = |(layout, row): (&Layout, &Value)| {
        let mut row = row.clone();
        if let Some((before, seconds)) = before {
            let name = |of: &Layout| (of.keyspace.clone(), of.physical.clone());
            let old = layouts(before).iter().find(|old| name(old) == name(layout));
            let new = layout.reads.saturating_sub(old.map_or(0, |old| old.reads));
            row["reads_per_s"] = json!(tenth(new as f64 / seconds));
        }
        row
    };
    let rows = rows(answer, "/layouts/layouts");
    layouts(after).iter().zip(rows).map(row).collect()
}

fn layouts(of: &Snapshot) -> &[Layout] {
    of.layouts.as_ref().map_or(&[], |of| &of.layouts)
}

fn rows<'a>(answer: &'a Value, place: &str) -> &'a [Value] {
    let rows = answer.pointer(place).and_then(Value::as_array);
    rows.map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(now_ms: u64, points: &[(usize, u64)], requests: u64) -> Snapshot {
        let buckets = |points: &[(usize, u64)]| json!({"count": 0, "sum_us": 0, "buckets": points});
        let value = json!({
            "started_unix_ms": 1, "now_unix_ms": now_ms, "something": "new", "clients": 7,
            "bounds_us": [1, 2, 4, 8], "cpu_seconds": now_ms as f64 / 2e3, "resident_bytes": null,
            "classes": [
                {"class": "point", "latency": buckets(points), "queued": 2, "dispatched": 0},
                {"class": "write", "latency": buckets(&[]), "queued": 1, "dispatched": 0},
            ],
            "nodes": [{
                "address": "a", "in_flight": 3, "counters": {"requests": requests},
                "latency": buckets(points)
            }],
            "layouts": null,
        });
        serde_json::from_value(value).expect("a snapshot")
    }

    fn json(of: &Snapshot) -> Value {
        serde_json::to_value(of).expect("JSON")
    }

    #[test]
    fn a_moment_is_the_difference_of_two_snapshots() {
        let (before, after) = (
            snapshot(10_000, &[(1, 100), (3, 5)], 40),
            snapshot(12_000, &[(1, 102), (2, 2), (3, 5)], 100),
        );
        let moment = Moment::between(&before, &after, Some(3.0)).expect("a moment");
        assert_eq!((moment.reads_per_s, moment.writes_per_s), (2.0, 0.0));
        assert_eq!((moment.errors_per_s, moment.cpu_cores), (Some(3.0), 0.5));
        assert_eq!(
            (moment.waiting, moment.in_flight, moment.clients),
            (3, 3, 7)
        );
        // Two from 1 to 2 µs, two from 2 to 4 µs.
        let bounds = &after.bounds_us;
        assert_eq!(moment.point.quantile_us(0.25, bounds), Some(1.5));
        assert_eq!(moment.point.quantile_us(1.0, bounds), Some(4.0));
        assert_eq!(moment.scan.quantile_us(0.5, bounds), None);
        let rows = node_rows(Some(&before), &after, &json(&after));
        assert_eq!(rows[0]["requests_per_s"], 30.0);
        assert_eq!(rows[0]["us_p50"], 2.0);
        assert_eq!(
            node_rows(None, &after, &json(&after))[0]["us_p50"],
            Value::Null
        );
    }

    #[test]
    fn a_node_is_not_taken_for_the_one_that_had_its_address_before() {
        let both = |now_ms, requests| {
            let mut of = snapshot(now_ms, &[], 1_000_000);
            of.nodes.extend(snapshot(now_ms, &[], requests).nodes);
            of
        };
        let after = both(12_000, 100);
        let rows = node_rows(Some(&both(10_000, 40)), &after, &json(&after));
        let rates = rows.iter().map(|row| row["requests_per_s"].as_f64());
        assert_eq!(rates.collect::<Vec<_>>(), [Some(0.0), Some(30.0)]);
    }

    #[test]
    fn rows_keep_fields_that_only_a_later_proxy_has() {
        let answer = |now_ms: u64, reads: u64| {
            json!({
                "now_unix_ms": now_ms,
                "nodes": [{"address": "a", "mood": "good"}],
                "layouts": {"layouts": [{"keyspace": "k", "physical": "p", "reads": reads, "mood": 1}]},
            })
        };
        let read = |of: &Value| serde_json::from_value(of.clone()).expect("a snapshot");
        let (before, after): (Snapshot, Value) = (read(&answer(1_000, 5)), answer(3_000, 9));
        let nodes = node_rows(Some(&before), &read(&after), &after);
        assert_eq!(
            (&nodes[0]["mood"], &nodes[0]["dc"]),
            (&json!("good"), &Value::Null)
        );
        let layouts = layout_rows(Some(&before), &read(&after), &after);
        let expected =
            json!({"keyspace": "k", "physical": "p", "reads": 9, "mood": 1, "reads_per_s": 2.0});
        assert_eq!(layouts, [expected]);
    }

    #[test]
    fn a_restart_is_no_moment() {
        let before = snapshot(10_000, &[(1, 100)], 4);
        let mut after = snapshot(12_000, &[(1, 1)], 0);
        after.started_unix_ms = 11_000;
        assert_eq!(Moment::between(&before, &after, None), None);
        assert_eq!(Moment::between(&before, &before, None), None);
    }

    #[test]
    fn moments_of_several_proxies_add_up() {
        let of = |points: &[(usize, u64)]| {
            let (before, after) = (snapshot(10_000, &[], 0), snapshot(11_000, points, 1));
            Moment::between(&before, &after, Some(3.0)).expect("a moment")
        };
        let mut sum = of(&[(1, 2)]);
        sum.add(&of(&[(1, 1), (2, 1)]));
        assert_eq!(
            (sum.reads_per_s, sum.errors_per_s, sum.clients),
            (4.0, Some(6.0), 14)
        );
        let three_quarters = sum.point.quantile_us(0.75, &[1, 2, 4, 8]);
        assert_eq!(three_quarters, Some(2.0));
    }
}
