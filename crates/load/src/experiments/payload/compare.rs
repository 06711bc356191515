//! Ratios of the experiment.
//!
//! Each arm has keys for disk and throughput with its name before them, each codec its CPU times. The keys without
//! a name, of which there are more, are those of the *best codec*: of the arms encoded by Helenus, the one that
//! takes the least disk space. It is chosen once, so all keys without a name are of the same codec.

use super::cells::{
    DATA_BYTES, DATA_SHARE, DECODE_US, ENCODE_US, VALUE_BYTES, codec_arm, codecs, reads, size,
    writes,
};
use super::experiment::{Payload, Stored};
use crate::experiments::arms::{PROXY_PROCESS, TOKEN_AWARE};
use crate::measure::Phase;
use crate::report::Report;
use crate::report::spread::{Spread, geometric_mean};

type Quantity<'a> = &'a dyn Fn(&Phase) -> Option<f64>;

pub(super) fn extra(name: &'static str) -> impl Fn(&Phase) -> Option<f64> {
    move |phase| phase.extra.get(name).copied()
}

fn throughput(phase: &Phase) -> Option<f64> {
    (phase.ops > 0).then_some(phase.ops_per_second)
}

fn p99(phase: &Phase) -> Option<f64> {
    (phase.ops > 0).then_some(phase.latency.us_p99 as f64)
}

/// CPU time of all nodes per query.
pub fn node_cpu_us(phase: &Phase) -> Option<f64> {
    let nodes = phase.processes.iter();
    let nodes = nodes.filter(|(name, _)| name.starts_with("node"));
    nodes
        .map(|(_, used)| used.cpu_us_per_op)
        .reduce(|sum, each| sum + each)
}

/// CPU time of the proxy per query.
pub fn proxy_cpu_us(phase: &Phase) -> Option<f64> {
    Some(phase.processes.get(PROXY_PROCESS)?.cpu_us_per_op)
}

impl Payload {
    pub(super) fn compare(&self, report: &mut Report) {
        for (number, collection) in self.collections.iter().enumerate() {
            let prefix = match number {
                0 => String::new(),
                _ => format!("{}.", collection.name),
            };
            let name = &*collection.name;
            let best = self.best(report, name);
            for contender in &self.arms {
                let arm = &*contender.arm.endpoint.name;
                if arm != TOKEN_AWARE {
                    self.compare_arm(report, name, arm, &format!("{prefix}{arm}."));
                }
                if best.as_ref().is_some_and(|(best, _)| best == arm) {
                    self.compare_arm(report, name, arm, &prefix);
                    self.compare_further(report, name, arm, &prefix);
                }
            }
            for codec in &codecs_of(report, name) {
                compare_codec(report, name, codec, &format!("{prefix}{codec}."));
            }
            if let Some((arm, codec)) = best {
                compare_codec(report, name, &codec, &prefix);
                let text = format!("{codec} (keys without an arm's name are those of {arm})");
                let setting = format!("best codec of {name}");
                report.settings.insert(setting, text);
            }
        }
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
            let bytes = extra(DATA_BYTES)(phase).or_else(|| extra(VALUE_BYTES)(phase))?;
            Some((bytes, name, codec))
        });
        let least = sizes.min_by(|one, other| one.0.total_cmp(&other.0));
        least.map(|(_, name, codec)| (name.clone(), codec.clone()))
    }

    fn compare_arm(&self, report: &mut Report, collection: &str, arm: &str, prefix: &str) {
        let mut set = |key: &str, cell: &str, of: Quantity| -> Vec<f64> {
            let values = ratios(report, arm, cell, of);
            report.set_ratio(format!("{prefix}{key}"), &values);
            values
        };
        let (size, written, read) = (size(collection), writes(collection), reads(collection));
        set("disk_vs_json", &size, &extra(DATA_BYTES));
        set("values_vs_json", &size, &extra(VALUE_BYTES));
        let both = [
            set("write_throughput_vs_json", &written, &throughput),
            set("read_throughput_vs_json", &read, &throughput),
        ];
        let rounds = both[0].iter().zip(&both[1]);
        let means: Vec<f64> = rounds
            .filter_map(|(&write, &read)| geometric_mean(&[write, read]))
            .collect();
        report.set_ratio(format!("{prefix}throughput_vs_json"), &means);
    }

    fn compare_further(&self, report: &mut Report, collection: &str, arm: &str, prefix: &str) {
        for (kind, cell) in [("write", writes(collection)), ("read", reads(collection))] {
            let values = ratios(report, arm, &cell, &p99);
            report.set_ratio(format!("{prefix}{kind}_p99_vs_json"), &values);
            let values = ratios(report, arm, &cell, &node_cpu_us);
            report.set_ratio(format!("{prefix}{kind}_node_cpu_vs_json"), &values);
            let phases = report.phases(arm, &cell).iter();
            let values: Vec<f64> = phases.filter_map(proxy_cpu_us).collect();
            report.set_ratio(format!("{prefix}{kind}_proxy_cpu_us"), &values);
        }
    }

    /// Adds to each size its share of that of plain JSON, for the plots.
    pub(super) fn share_sizes(&self, report: &mut Report) {
        for collection in &self.collections {
            let cell = size(&collection.name);
            let of_phases = |arm: &str, report: &Report| {
                let phases = report.phases(arm, &cell).iter();
                Spread::of(&phases.filter_map(extra(DATA_BYTES)).collect::<Vec<f64>>())
            };
            let Some(plain) = of_phases(TOKEN_AWARE, report) else {
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

/// Those that were measured.
fn codecs_of(report: &Report, collection: &str) -> Vec<String> {
    let arms = report.arms.iter();
    let measured = arms.filter(|(_, cells)| cells.contains_key(&codecs(collection)));
    let names = measured.filter_map(|(arm, _)| arm.strip_prefix(&codec_arm("")));
    names.map(str::to_owned).collect()
}

/// `codec_us_per_kib` is the CPU time to encode and verify, or to decode, whichever is greater.
fn compare_codec(report: &mut Report, collection: &str, codec: &str, prefix: &str) {
    let phases = report
        .phases(&codec_arm(codec), &codecs(collection))
        .to_vec();
    let values = |name| -> Vec<f64> { phases.iter().filter_map(extra(name)).collect() };
    let (encode, decode) = (values(ENCODE_US), values(DECODE_US));
    let pairs = encode.iter().zip(&decode);
    let slower: Vec<f64> = pairs.map(|(encode, decode)| encode.max(*decode)).collect();
    for (key, values) in [
        ("codec_us_per_kib", slower),
        (ENCODE_US, encode),
        (DECODE_US, decode),
    ] {
        report.set_ratio(format!("{prefix}{key}"), &values);
    }
}

/// Over plain JSON stored directly, for each round in which both have a value.
fn ratios(report: &Report, arm: &str, cell: &str, of: Quantity) -> Vec<f64> {
    let pairs = report.phases(arm, cell).iter();
    let pairs = pairs.zip(report.phases(TOKEN_AWARE, cell));
    let values = pairs.filter_map(|(over, under)| Some(of(over)? / of(under)?));
    values.collect()
}
