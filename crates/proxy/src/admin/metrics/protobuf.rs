//! The Prometheus exposition in Protobuf, with native histograms.
//!
//! Messages are those of `io/prometheus/client/metrics.proto`, each behind its length. A histogram has its usual
//! buckets, as in text, and sparse ones beside them: eight a power of two, as many as are counted here, so that
//! quantiles from them are right to about 15 % over all magnitudes. What is counted lies between bounds of
//! microseconds, and is put whole into the sparse bucket (schema 3: bounds 2^(i/8) seconds) that has the middle
//! of these; always into the same one, so that counts never fall.

use std::collections::BTreeMap;
use std::fmt::Display;

use helenus_engine::stats::{Histogram, PackedStats, bucket_bound_us};
use prost::Message;

use super::text::{self, Labels};

pub(in crate::admin) const TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Eight buckets a power of two.
const SCHEMA: i32 = 3;
const PER_POWER: f64 = 8.0;
/// Times below this many seconds are counted as zero.
const ZERO_S: f64 = 1e-6;
/// So many empty buckets are written as such rather than as a gap.
const GAP_MAX: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(enumeration = "Kind", tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum Kind {
    Counter = 0,
    Gauge = 1,
    Untyped = 3,
    Histogram = 4,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "5")]
    untyped: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Buckets>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Buckets {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(double, tag = "2")]
    sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Bucket {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

/// Buckets in a row: how far from the row before, and how many.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// A page of metrics.
#[derive(Debug, Default)]
pub(in crate::admin) struct Protobuf {
    out: Vec<u8>,
    /// The last one that was begun.
    family: MetricFamily,
}

impl Protobuf {
    pub(in crate::admin) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.end_family();
        let kind = match kind {
            "counter" => Kind::Counter,
            "gauge" => Kind::Gauge,
            "histogram" => Kind::Histogram,
            _ => Kind::Untyped,
        };
        self.family = MetricFamily {
            name: name.to_owned(),
            help: help.to_owned(),
            kind: kind.into(),
            metric: Vec::new(),
        };
    }

    /// Families without samples say nothing and are left out.
    fn end_family(&mut self) {
        let ended = std::mem::take(&mut self.family);
        if !ended.metric.is_empty() {
            self.out.append(&mut ended.encode_length_delimited_to_vec());
        }
    }

    pub(in crate::admin) fn sample(&mut self, labels: Labels, value: &impl Display) {
        // Values in text are numbers.
        let value = value.to_string().parse().unwrap_or(f64::NAN);
        let number = Some(Number { value });
        let mut metric = labelled(labels);
        match self.family.kind() {
            Kind::Counter => metric.counter = number,
            Kind::Gauge => metric.gauge = number,
            Kind::Untyped | Kind::Histogram => metric.untyped = number,
        }
        self.family.metric.push(metric);
    }

    pub(in crate::admin) fn histogram(&mut self, labels: Labels, histogram: &Histogram) {
        let counts = histogram.counts();
        let (zero_count, sparse) = sparse(&counts);
        let (positive_span, positive_delta) = spans(&sparse);
        self.push_buckets(
            labels,
            Buckets {
                sample_count: counts.iter().sum(),
                sample_sum: histogram.sum_us() as f64 / 1e6,
                bucket: buckets(text::cumulative(&counts)),
                schema: SCHEMA,
                zero_threshold: ZERO_S,
                zero_count,
                positive_span,
                positive_delta,
            },
        );
    }

    /// Their buckets are few and say all.
    pub(in crate::admin) fn packed(&mut self, labels: Labels, packed: &PackedStats) {
        let (cumulative, queries) = text::packed_cumulative(packed);
        self.push_buckets(
            labels,
            Buckets {
                sample_count: cumulative.last().map_or(0, |(_, count)| *count),
                sample_sum: queries as f64,
                bucket: buckets(cumulative),
                ..Buckets::default()
            },
        );
    }

    fn push_buckets(&mut self, labels: Labels, buckets: Buckets) {
        let mut metric = labelled(labels);
        metric.histogram = Some(buckets);
        self.family.metric.push(metric);
    }

    pub(in crate::admin) fn finish(mut self) -> Vec<u8> {
        self.end_family();
        self.out
    }
}

fn labelled(labels: Labels) -> Metric {
    let label = labels.iter().map(|(name, value)| Label {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    });
    Metric {
        label: label.collect(),
        ..Metric::default()
    }
}

fn buckets(cumulative: Vec<(f64, u64)>) -> Vec<Bucket> {
    let bucket = |(upper_bound, cumulative_count)| Bucket {
        cumulative_count,
        upper_bound,
    };
    cumulative.into_iter().map(bucket).collect()
}

/// Sparse buckets by number, and what counts as zero.
fn sparse(counts: &[u64]) -> (u64, BTreeMap<i32, i64>) {
    let mut sparse = BTreeMap::new();
    for (at, count) in counts.iter().enumerate().skip(1) {
        if *count > 0 {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            *sparse.entry(sparse_bucket(at)).or_insert(0) += count;
        }
    }
    (counts[0], sparse)
}

/// The sparse bucket that has the middle of one that is counted.
fn sparse_bucket(at: usize) -> i32 {
    let above_us = at.checked_sub(1).map_or(0, bucket_bound_us);
    let middle_s = (above_us + bucket_bound_us(at)) as f64 / 2e6;
    (middle_s.log2() * PER_POWER).ceil() as i32
}

/// Rows of buckets, and each count less the one before.
fn spans(sparse: &BTreeMap<i32, i64>) -> (Vec<Span>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<Span>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for (&at, &count) in sparse {
        let gap = at - next;
        match spans.last_mut() {
            Some(span) if gap <= GAP_MAX => {
                span.length += gap as u32 + 1;
                for _ in 0..gap {
                    deltas.push(-before);
                    before = 0;
                }
            }
            _ => spans.push(Span {
                offset: gap,
                length: 1,
            }),
        }
        deltas.push(count - before);
        (next, before) = (at + 1, count);
    }
    if spans.is_empty() {
        // It says that there are sparse buckets, although none has anything.
        spans.push(Span {
            offset: 0,
            length: 0,
        });
    }
    (spans, deltas)
}

/// True if an Accept header prefers Protobuf.
pub(in crate::admin) fn is_preferred(accept: &str) -> bool {
    let mut liked = [0.0_f32; 2];
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let (mut quality, mut is_family, mut is_delimited) = (1.0, false, true);
        for part in parts {
            match part
                .split_once('=')
                .map(|(name, value)| (name.trim(), value.trim()))
            {
                Some(("q", value)) => quality = value.parse().unwrap_or(0.0),
                Some(("proto", value)) => is_family = value == "io.prometheus.client.MetricFamily",
                Some(("encoding", value)) => is_delimited = value == "delimited",
                _ => {}
            }
        }
        let at = match kind {
            "application/vnd.google.protobuf" if is_family && is_delimited => 0,
            "text/plain" | "application/openmetrics-text" => 1,
            _ => continue,
        };
        liked[at] = liked[at].max(quality);
    }
    liked[0] > 0.0 && liked[0] >= liked[1]
}

#[cfg(test)]
mod tests {
    use helenus_engine::stats::BUCKETS;

    use super::*;

    /// Accept headers of Prometheus 2.55 with its feature flag for native histograms, and without it.
    const WITH: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
        encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,\
        application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    const WITHOUT: &str = "application/openmetrics-text;version=1.0.0;q=0.5,\
        application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

    #[test]
    fn protobuf_is_for_those_who_like_it_best() {
        assert!(is_preferred(WITH));
        assert!(!is_preferred(WITHOUT));
        for accept in [
            "",
            "*/*",
            "application/vnd.google.protobuf",
            "application/vnd.google.protobuf;proto=other;encoding=delimited",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
            &WITH.replace("q=0.6", "q=0"),
            &WITH.replace("q=0.6", "q=0.1"),
        ] {
            assert!(!is_preferred(accept), "{accept}");
        }
    }

    #[test]
    fn what_is_counted_lies_near_its_sparse_bucket() {
        let mut before = i32::MIN;
        for at in 1..BUCKETS {
            let number = sparse_bucket(at);
            assert!(number >= before, "never back");
            before = number;
            let bound = |number: i32| (f64::from(number) / PER_POWER).exp2() * 1e6;
            let (from, to) = (bound(number - 1), bound(number));
            let (above, up_to) = (bucket_bound_us(at - 1) as f64, bucket_bound_us(at) as f64);
            // They overlap, and so do their neighbourhoods.
            assert!(
                from < up_to && above < to,
                "{above}..{up_to} in {from}..{to}"
            );
        }
    }

    #[test]
    fn rows_of_buckets_are_those_of_the_format() {
        let sparse = [(-3, 5), (-2, 7), (1, 4), (10, 1)].into();
        let (spans, deltas) = spans(&sparse);
        let span = |offset, length| Span { offset, length };
        // From -3 to 1, with two empty ones; then eight are left out.
        assert_eq!(spans, [span(-3, 5), span(8, 1)]);
        assert_eq!(deltas, [5, 2, -7, 0, 4, -3]);
        let (spans, deltas) = super::spans(&BTreeMap::new());
        assert_eq!((spans, deltas), (vec![span(0, 0)], vec![]));
    }

    #[test]
    fn counts_are_the_same_in_both_kinds_of_buckets() {
        let histogram = Histogram::default();
        let times = [0, 1, 1, 90, 1_000, 1_000_000, 500_000_000];
        times.iter().for_each(|us| histogram.record(*us));
        let mut page = Protobuf::default();
        page.family("empty", "gauge", "Nothing.");
        page.family("took_seconds", "histogram", "How long.");
        page.histogram(&[("class", "point")], &histogram);
        page.family("n_total", "counter", "How many.");
        page.sample(&[], &7_u64);
        let page = page.finish();
        let mut rest = &page[..];
        let family = MetricFamily::decode_length_delimited(&mut rest).expect("a family");
        assert_eq!(
            (family.name.as_str(), family.kind()),
            ("took_seconds", Kind::Histogram)
        );
        let metric = &family.metric[0];
        assert_eq!(
            (
                metric.label[0].name.as_str(),
                metric.label[0].value.as_str()
            ),
            ("class", "point")
        );
        let buckets = metric.histogram.as_ref().expect("a histogram");
        assert_eq!(
            (buckets.sample_count, buckets.zero_count, buckets.schema),
            (7, 1, 3)
        );
        let last = buckets.bucket.last().expect("a bucket");
        assert_eq!(
            (last.upper_bound, last.cumulative_count),
            (f64::INFINITY, 7)
        );
        let mut count = 0;
        let sparse: i64 = buckets
            .positive_delta
            .iter()
            .map(|delta| {
                count += delta;
                count
            })
            .sum();
        assert_eq!(sparse, 6);
        let length: u32 = buckets.positive_span.iter().map(|span| span.length).sum();
        assert_eq!(length as usize, buckets.positive_delta.len());
        let family = MetricFamily::decode_length_delimited(&mut rest).expect("a family");
        assert_eq!(family.metric[0].counter, Some(Number { value: 7.0 }));
        assert!(rest.is_empty());
    }
}
