//! Figures by which arms are compared.

use super::experiment::KINDS;
use crate::measure::{Kind, Latency};
use crate::report::figures::Figure;

/// Including failures.
pub(super) fn latency(kind: &Kind) -> Latency {
    kind.with_failures.unwrap_or(kind.latency)
}

pub(super) fn mean_ms(kind: &'static str) -> Figure {
    Figure::OfKind(kind, |kind| Some(latency(kind).us_mean / 1000.0))
}

pub(super) fn p99_ms(kind: &'static str) -> Figure {
    Figure::OfKind(kind, |kind| Some(latency(kind).us_p99 as f64 / 1000.0))
}

/// Each kind of query with each statistic by which arms are compared.
pub(super) fn times() -> impl Iterator<Item = (&'static str, &'static str, Figure)> {
    let of_kind = |kind| [(kind, "mean", mean_ms(kind)), (kind, "p99", p99_ms(kind))];
    KINDS.into_iter().flat_map(of_kind)
}
