//! The Prometheus text format, version 0.0.4.

use std::fmt::{Display, Write};

use std::sync::atomic::Ordering;

use helenus_wire::Packed;

use helenus_engine::stats::{BUCKETS, Histogram, PackedStats, bucket_bound_us};

/// Smallest and largest exponent of the bounds in microseconds: 32 µs to 17 s, doubling. These are
/// also bounds of the fine buckets, so counts are exact.
const BOUND_EXPONENTS: std::ops::RangeInclusive<u32> = 5..=24;

/// Label names and values.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of metrics.
#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
}

impl Text {
    /// Starts a family; its samples must follow before the next one starts.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn sample(&mut self, name: &str, labels: Labels, value: impl Display) {
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

    /// A gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// A counter without labels.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    /// The samples of one histogram, in seconds.
    pub(super) fn histogram(&mut self, name: &str, labels: Labels, histogram: &Histogram) {
        let counts = histogram.counts();
        let total: u64 = counts.iter().sum();
        let bucket_name = format!("{name}_bucket");
        let (mut next, mut below) = (0, 0);
        for exponent in BOUND_EXPONENTS {
            let bound_us = 1 << exponent;
            while next < BUCKETS && bucket_bound_us(next) <= bound_us {
                below += counts[next];
                next += 1;
            }
            let le = (bound_us as f64 / 1e6).to_string();
            self.sample(&bucket_name, &with_le(labels, &le), below);
        }
        self.sample(&bucket_name, &with_le(labels, "+Inf"), total);
        let sum_seconds = histogram.sum_us() as f64 / 1e6;
        self.sample(&format!("{name}_sum"), labels, sum_seconds);
        self.sample(&format!("{name}_count"), labels, total);
    }

    /// The samples of one histogram of queries sent together.
    pub(super) fn packed(&mut self, name: &str, labels: Labels, packed: &PackedStats) {
        let bucket_name = format!("{name}_bucket");
        let mut below = 0;
        for (bucket, units) in packed.units.iter().enumerate() {
            below += units.load(Ordering::Relaxed);
            let le = Packed::bound(bucket).map_or("+Inf".to_owned(), |b| b.to_string());
            self.sample(&bucket_name, &with_le(labels, &le), below);
        }
        let queries = packed.queries.load(Ordering::Relaxed);
        self.sample(&format!("{name}_sum"), labels, queries);
        self.sample(&format!("{name}_count"), labels, below);
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

fn with_le<'a>(labels: Labels<'a>, le: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut all = labels.to_vec();
    all.push(("le", le));
    all
}
