//! Results of a simulation.

use helenus_sim::queueing::{Outcome, Policy};

/// One policy's runs.
pub(super) struct Results {
    pub(super) policy: Policy,
    /// By clients of a closed loop.
    pub(super) closed: Vec<(usize, Outcome)>,
    /// By offered rate.
    pub(super) open: Vec<(f64, Outcome)>,
}
