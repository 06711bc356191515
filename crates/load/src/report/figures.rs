//! Figures of a phase, by which arms are compared: ratios, charts and tables are made of them.

use crate::measure::{Kind, Latency, Phase};

/// The name under which a proxy's own process appears in a phase.
pub(crate) const PROXY_PROCESS: &str = "proxy";

/// A phase may be without it.
#[derive(Clone, Copy, Debug)]
pub enum Figure {
    Of(fn(&Phase) -> Option<f64>),
    /// Of the operations of one kind, if there were any.
    OfKind(&'static str, fn(&Kind) -> Option<f64>),
    /// One of the further figures, by its name.
    Extra(&'static str),
}

impl Figure {
    pub fn of(self, phase: &Phase) -> Option<f64> {
        match self {
            Self::Of(of) => of(phase),
            Self::OfKind(kind, of) => {
                let measured = phase.by_kind.get(kind)?;
                (measured.ops + measured.failed > 0)
                    .then(|| of(measured))
                    .flatten()
            }
            Self::Extra(name) => phase.extra.get(name).copied(),
        }
    }
}

pub const PER_SECOND: Figure = Figure::Of(|phase| Some(phase.ops_per_second));
pub const P99_US: Figure = Figure::Of(|phase| Some(phase.latency.us_p99 as f64));
pub const P99_MS: Figure = Figure::Of(|phase| Some(phase.latency.us_p99 as f64 / 1000.0));
pub const ERRORS: Figure = Figure::Of(|phase| Some(phase.errors_total() as f64));

/// CPU time of all nodes per query.
pub const NODE_CPU_US: Figure = Figure::Of(|phase| {
    let nodes = phase.processes.iter();
    let nodes = nodes.filter(|(name, _)| name.starts_with("node"));
    nodes
        .map(|(_, used)| used.cpu_us_per_op)
        .reduce(|sum, each| sum + each)
});

/// CPU time of the proxy per query.
pub const PROXY_CPU_US: Figure =
    Figure::Of(|phase| Some(phase.processes.get(PROXY_PROCESS)?.cpu_us_per_op));

/// Times in milliseconds of phases that are all of one kind; a failure counts with what it costs.
pub mod at_cost {
    use super::{Figure, Latency, Phase};

    pub const MEAN_MS: Figure = Figure::Of(|phase| Some(latency(phase)?.us_mean / 1000.0));
    pub const P50_MS: Figure = Figure::Of(|phase| Some(ms(latency(phase)?.us_p50)));
    pub const P95_MS: Figure = Figure::Of(|phase| Some(ms(latency(phase)?.us_p95)));
    pub const P99_MS: Figure = Figure::Of(|phase| Some(ms(latency(phase)?.us_p99)));
    pub const P999_MS: Figure = Figure::Of(|phase| Some(ms(latency(phase)?.us_p999)));

    fn ms(us: u64) -> f64 {
        us as f64 / 1000.0
    }

    /// Of the first kind that there are operations of.
    fn latency(phase: &Phase) -> Option<Latency> {
        let mut kinds = phase.by_kind.values();
        let used = kinds.find(|kind| kind.ops + kind.failed > 0)?;
        used.with_failures
    }
}
