//! How a counter is exported.

use crate::admin::metrics::text::Labels;

/// A counter and its metric.
pub(super) struct Shown {
    /// Its field.
    pub(super) field: &'static str,
    pub(super) metric: &'static str,
    pub(super) labels: Labels<'static>,
    pub(super) help: &'static str,
}

pub(super) const fn shown(
    field: &'static str,
    metric: &'static str,
    labels: Labels<'static>,
    help: &'static str,
) -> Shown {
    Shown {
        field,
        metric,
        labels,
        help,
    }
}

/// The counter of this field; 0 if there is none.
pub(super) fn value(values: &[(&str, u64)], field: &str) -> u64 {
    values
        .iter()
        .find(|(name, _)| *name == field)
        .map_or(0, |(_, value)| *value)
}
