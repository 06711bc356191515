//! The Prometheus text format, version 0.0.4.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use helenus_engine::stats::{BUCKETS, Histogram, PackedStats, bucket_bound_us};
use helenus_wire::Packed;

pub(in crate::admin) const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Smallest and largest exponent of the bounds in microseconds: 32 µs to 17 s, doubling. These are
/// also bounds of the fine buckets, so counts are exact.
const BOUND_EXPONENTS: std::ops::RangeInclusive<u32> = 5..=24;

/// Label names and values.
pub(in crate::admin) type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of metrics.
#[derive(Debug, Default)]
pub(in crate::admin) struct Text {
    out: String,
}

impl Text {
    pub(in crate::admin) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(in crate::admin) fn sample(&mut self, name: &str, labels: Labels, value: impl Display) {
        self.out.push_str(name);
        let mut before = '{';
        for (label, text) in labels {
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.out, "{before}{label}=\"{text}\"");
            before = ',';
        }
        if before == ',' {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    pub(in crate::admin) fn histogram(
        &mut self,
        name: &str,
        labels: Labels,
        histogram: &Histogram,
    ) {
        let sum_seconds = histogram.sum_us() as f64 / 1e6;
        self.buckets(name, labels, &cumulative(&histogram.counts()), sum_seconds);
    }

    pub(in crate::admin) fn packed(&mut self, name: &str, labels: Labels, packed: &PackedStats) {
        let (cumulative, queries) = packed_cumulative(packed);
        self.buckets(name, labels, &cumulative, queries);
    }

    fn buckets(
        &mut self,
        name: &str,
        labels: Labels,
        cumulative: &[(f64, u64)],
        sum: impl Display,
    ) {
        let bucket_name = format!("{name}_bucket");
        for (bound, below) in cumulative {
            let le = match bound.is_finite() {
                true => bound.to_string(),
                false => "+Inf".to_owned(),
            };
            self.sample(&bucket_name, &with_le(labels, &le), below);
        }
        let total = cumulative.last().map_or(0, |(_, below)| *below);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, total);
    }

    pub(in crate::admin) fn finish(self) -> String {
        self.out
    }
}

/// Bounds in seconds, the last of them infinite, and what lies below each.
pub(in crate::admin) fn cumulative(counts: &[u64]) -> Vec<(f64, u64)> {
    let (mut next, mut below) = (0, 0);
    let mut all: Vec<(f64, u64)> = BOUND_EXPONENTS
        .map(|exponent| {
            let bound_us: u64 = 1 << exponent;
            while next < BUCKETS && bucket_bound_us(next) <= bound_us {
                below += counts[next];
                next += 1;
            }
            (bound_us as f64 / 1e6, below)
        })
        .collect();
    all.push((f64::INFINITY, counts.iter().sum()));
    all
}

/// Cumulative counts of queries sent together, by their number; and how many queries there were.
pub(in crate::admin) fn packed_cumulative(packed: &PackedStats) -> (Vec<(f64, u64)>, u64) {
    let mut below = 0;
    let buckets = packed.units.iter().enumerate().map(|(bucket, units)| {
        below += units.load(Ordering::Relaxed);
        let bound = Packed::bound(bucket).map_or(f64::INFINITY, f64::from);
        (bound, below)
    });
    (buckets.collect(), packed.queries.load(Ordering::Relaxed))
}

fn with_le<'a>(labels: Labels<'a>, le: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut all = labels.to_vec();
    all.push(("le", le));
    all
}
