//! The experiment as data: what is told of its cells.
//!
//! Each arm has keys for disk and throughput with its name before them, each codec its CPU times. The keys without
//! a name, of which there are more, are those of the *best codec*: of the arms encoded by Helenus, the one that
//! takes the least disk space. It is chosen once, so all keys without a name are of the same codec.

use super::cells::{
    DATA_BYTES, DATA_SHARE, DECODE_US, ENCODE_US, Task, VALUE_BYTES, codec_arm, codecs, reads,
    size, writes,
};
use super::documents::Collection;
use super::experiment::{Payload, Stored};
use crate::experiments::arms::{Arm, TOKEN_AWARE};
use crate::experiments::experiment::Experiment;
use crate::report::Report;
use crate::report::chart::{Chart, spread};
use crate::report::figures::{Figure, NODE_CPU_US, PROXY_CPU_US};
use crate::report::ratios::{Ratios, Side, Value};

/// Of phases in which something was answered.
const PER_SECOND: Figure = Figure::Of(|phase| (phase.ops > 0).then_some(phase.ops_per_second));
const P99_MS: Figure =
    Figure::Of(|phase| (phase.ops > 0).then_some(phase.latency.us_p99 as f64 / 1000.0));
const DATA: Figure = Figure::Extra(DATA_BYTES);
const VALUES: Figure = Figure::Extra(VALUE_BYTES);
const ENCODE: Figure = Figure::Extra(ENCODE_US);
const DECODE: Figure = Figure::Extra(DECODE_US);
/// The CPU time to encode and verify, or to decode, whichever is greater.
const SLOWER: Figure = Figure::Of(|phase| Some(ENCODE.of(phase)?.max(DECODE.of(phase)?)));

impl Payload {
    /// What is compared depends on what was measured.
    pub(super) fn declared(&self, report: &Report) -> Experiment<Task> {
        Experiment {
            arms: self.arms().cloned().collect(),
            rounds: self.rounds,
            // Cells are shortened, and it is not the same for the first round.
            until: None,
            watched: self.watched.clone(),
            cells: self.cells(),
            ratios: self.ratios(report),
            charts: self.charts(report),
        }
    }

    pub(super) fn finish(&self, report: &mut Report) {
        for Collection { name, .. } in self.collections.iter().map(|of| &**of) {
            if let Some((arm, codec)) = self.best(report, name) {
                let text = format!("{codec} (keys without an arm's name are those of {arm})");
                let setting = format!("best codec of {name}");
                report.settings.insert(setting, text);
            }
        }
        self.share_sizes(report);
        self.declared(report).finish(report);
    }

    fn ratios(&self, report: &Report) -> Ratios {
        let mut ratios = Ratios::default();
        for (number, collection) in self.collections.iter().enumerate() {
            let prefix = match number {
                0 => String::new(),
                _ => format!("{}.", collection.name),
            };
            let name = &*collection.name;
            let best = self.best(report, name);
            for arm in self.arms().map(Arm::name) {
                if arm != TOKEN_AWARE {
                    compare_arm(&mut ratios, name, arm, &format!("{prefix}{arm}."));
                }
                if best.as_ref().is_some_and(|(best, _)| best == arm) {
                    compare_arm(&mut ratios, name, arm, &prefix);
                    compare_further(&mut ratios, name, arm, &prefix);
                }
            }
            for codec in &codecs_of(report, name) {
                compare_codec(&mut ratios, name, codec, &format!("{prefix}{codec}."));
            }
            if let Some((_, codec)) = best {
                compare_codec(&mut ratios, name, &codec, &prefix);
            }
        }
        ratios
    }

    fn charts(&self, report: &Report) -> Vec<Chart> {
        let cells = |name: fn(&str) -> String| -> Vec<String> {
            let collections = self.collections.iter();
            collections
                .map(|collection| name(&collection.name))
                .collect()
        };
        let title = "Size on disk after compression";
        let share = Figure::Extra(DATA_SHARE);
        let mut charts = vec![Chart::bars(title, "of plain JSON", &cells(size), share)];
        for (what, cells) in [("Writes", cells(writes)), ("Reads", cells(reads))] {
            for (title, axis, of) in [
                ("throughput", "per second", PER_SECOND),
                ("99th percentile", "ms", P99_MS),
                ("CPU time of the nodes", "µs each", NODE_CPU_US),
                ("CPU time of the proxy", "µs each", PROXY_CPU_US),
            ] {
                let title = format!("{what}: {title}");
                charts.push(Chart::bars(&title, axis, &cells, of));
            }
        }
        let names = report.arms.keys().map(String::as_str);
        let codec_arms: Vec<&str> = names
            .filter(|name| name.starts_with(&codec_arm("")))
            .collect();
        for (title, of) in [
            ("Codecs: encoding, with verification", ENCODE),
            ("Codecs: decoding", DECODE),
        ] {
            let chart = Chart::bars(title, "µs of CPU time per KiB", &cells(codecs), of);
            charts.push(chart.of_arms(&codec_arms));
        }
        charts
    }

    /// The arm encoded by Helenus that takes the least disk space, and its codec. Where disks cannot be
    /// looked at, the one with the shortest values.
    fn best(&self, report: &Report, collection: &str) -> Option<(String, String)> {
        let sizes = self.arms.iter().filter_map(|contender| {
            let Stored::ByProxy(codec) = &contender.stored else {
                return None;
            };
            let name = &contender.arm.endpoint.name;
            let phase = report.phases(name, &size(collection)).last()?;
            let bytes = DATA.of(phase).or_else(|| VALUES.of(phase))?;
            Some((bytes, name, codec))
        });
        let least = sizes.min_by(|one, other| one.0.total_cmp(&other.0));
        least.map(|(_, name, codec)| (name.clone(), codec.clone()))
    }

    /// Adds to each size its share of that of plain JSON, for the plots.
    fn share_sizes(&self, report: &mut Report) {
        for collection in &self.collections {
            let cell = size(&collection.name);
            let Some(plain) = spread(report.phases(TOKEN_AWARE, &cell), DATA) else {
                continue;
            };
            for cells in report.arms.values_mut() {
                for phase in cells.get_mut(&cell).into_iter().flatten() {
                    if let Some(bytes) = phase.extra.get(DATA_BYTES).copied() {
                        let share = bytes / plain.median.max(1.0);
                        phase.extra.insert(DATA_SHARE.into(), share);
                    }
                }
            }
        }
    }
}

fn compare_arm(ratios: &mut Ratios, collection: &str, arm: &str, prefix: &str) {
    let (size, both) = ([size(collection)], [writes(collection), reads(collection)]);
    let all: [(&str, &[String], Figure); 5] = [
        ("disk_vs_json", &size, DATA),
        ("values_vs_json", &size, VALUES),
        ("write_throughput_vs_json", &both[..1], PER_SECOND),
        ("read_throughput_vs_json", &both[1..], PER_SECOND),
        ("throughput_vs_json", &both, PER_SECOND),
    ];
    for (key, cells, of) in all {
        ratios.over(format!("{prefix}{key}"), arm, TOKEN_AWARE, cells, of);
    }
}

fn compare_further(ratios: &mut Ratios, collection: &str, arm: &str, prefix: &str) {
    for (kind, cell) in [("write", writes(collection)), ("read", reads(collection))] {
        let (key, cells) = (|key: &str| format!("{prefix}{kind}_{key}"), [cell]);
        ratios.over(key("p99_vs_json"), arm, TOKEN_AWARE, &cells, P99_MS);
        let of = key("node_cpu_vs_json");
        ratios.over(of, arm, TOKEN_AWARE, &cells, NODE_CPU_US);
        let cpu = Value::Mean(Side::new(arm, &cells, PROXY_CPU_US));
        ratios.add(key("proxy_cpu_us"), cpu);
    }
}

fn compare_codec(ratios: &mut Ratios, collection: &str, codec: &str, prefix: &str) {
    let (arm, cells) = (codec_arm(codec), [codecs(collection)]);
    for (key, of) in [
        ("codec_us_per_kib", SLOWER),
        (ENCODE_US, ENCODE),
        (DECODE_US, DECODE),
    ] {
        let value = Value::Mean(Side::new(&arm, &cells, of));
        ratios.add(format!("{prefix}{key}"), value);
    }
}

/// Those that were measured.
fn codecs_of(report: &Report, collection: &str) -> Vec<String> {
    let arms = report.arms.iter();
    let measured = arms.filter(|(_, cells)| cells.contains_key(&codecs(collection)));
    let names = measured.filter_map(|(arm, _)| arm.strip_prefix(&codec_arm("")));
    names.map(str::to_owned).collect()
}
