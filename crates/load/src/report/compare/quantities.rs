//! The quantities of a cell that are compared.

use crate::measure::{Kind, Phase};

/// One number of a phase.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Quantity {
    Throughput,
    Latency(Percentile),
    /// Of one kind of query, where a cell has several: percentiles of a mixture say little.
    OfKind(String, Percentile),
    /// Microseconds per query.
    ProxyCpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Percentile {
    P50,
    P99,
}

impl Quantity {
    /// Those that the phases have.
    pub(super) fn all(phases: &[Phase]) -> Vec<Self> {
        let percentiles = [Percentile::P50, Percentile::P99];
        let used = |kind: &Kind| kind.ops + kind.failed > 0;
        let mut kinds: Vec<&String> = phases
            .iter()
            .flat_map(|phase| phase.by_kind.iter().filter(|(_, kind)| used(kind)))
            .map(|(name, _)| name)
            .collect();
        kinds.sort();
        kinds.dedup();
        let mut all = vec![Self::Throughput];
        match kinds.len() {
            0 | 1 => all.extend(percentiles.map(Self::Latency)),
            _ => all.extend(kinds.into_iter().flat_map(|kind| {
                percentiles.map(|percentile| Self::OfKind(kind.clone(), percentile))
            })),
        }
        if phases
            .iter()
            .any(|phase| phase.processes.contains_key("proxy"))
        {
            all.push(Self::ProxyCpu);
        }
        all
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Throughput => "queries/s".into(),
            Self::Latency(percentile) => format!("{} µs", percentile.name()),
            Self::OfKind(kind, percentile) => format!("{kind}: {} µs", percentile.name()),
            Self::ProxyCpu => "proxy CPU µs/query".into(),
        }
    }

    pub(super) fn is_better_if_higher(&self) -> bool {
        *self == Self::Throughput
    }

    pub(super) fn of(&self, phase: &Phase) -> Option<f64> {
        match self {
            Self::Throughput => Some(phase.ops_per_second),
            Self::Latency(percentile) => Some(percentile.of(&phase.latency)),
            Self::OfKind(kind, percentile) => {
                let kind = phase.by_kind.get(kind)?;
                // A query that is given up has waited, too.
                let latency = kind.with_failures.as_ref().unwrap_or(&kind.latency);
                Some(percentile.of(latency))
            }
            Self::ProxyCpu => Some(phase.processes.get("proxy")?.cpu_us_per_op),
        }
    }
}

impl Percentile {
    fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
        }
    }

    fn of(self, latency: &crate::measure::Latency) -> f64 {
        match self {
            Self::P50 => latency.us_p50 as f64,
            Self::P99 => latency.us_p99 as f64,
        }
    }
}
