//! Chooses the replica with the least used resources, as nodes report them.
//!
//! Formula: the lowest score goes first, equal ones in turn. For `resource-v1`
//!
//! score = 1/(1 − CPU) · 1/(1 − memory)
//!
//! and for `resource-v2`
//!
//! score = 1/(1 − CPU) · (1/(1 − memory))ʲ · (1/(1 − disk))ᵏ · 1/(1 − distance)
//!
//! The source has j and k as factors, but factors that are the same for all nodes cannot change which
//! score is lowest: here they are exponents, and 1 means what the source says. Use is cut off at
//! [`USED_MAX`]. If any of the replicas has no report of the last [`REPORT_US_MAX`], all take turns.
//!
//! Evidence: `choice/tests.rs`; `helenus sim assignment`, also with reports that come late, not at all,
//! or are false.
//!
//! Limits: use says little of how long a request will take, and all who see the same report choose the
//! same node until the next one. Kept to repeat the source's experiment.
//!
//! Source: D. Dietrich, T. Yu, Y. Liu, "Resource Based Assignment of Queries in Distributed Databases",
//! sections 3 and 6.2.

use super::load::{Load, Report};
use super::ranking;
use super::request::Request;
use crate::ring::NodeIndex;

/// An older report says nothing any more.
pub(super) const REPORT_US_MAX: u64 = 5_000_000;
/// Something that is used up wholly would make everything else irrelevant.
pub(super) const USED_MAX: f32 = 0.99;

/// What counts how much, as exponents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// j in the source.
    pub memory: f32,
    /// k in the source.
    pub disk: f32,
    pub distance: f32,
}

impl Weights {
    pub(super) const V1: Weights = Weights {
        memory: 1.0,
        disk: 0.0,
        distance: 0.0,
    };
}

impl Default for Weights {
    fn default() -> Self {
        Weights {
            memory: 1.0,
            disk: 1.0,
            distance: 1.0,
        }
    }
}

pub(super) fn order(loads: &[Load], weights: Weights, request: &Request, nodes: &mut [NodeIndex]) {
    let report = |node: NodeIndex| {
        let report = loads.get(node.as_usize())?.report()?;
        let age_us = request.now_us.saturating_sub(report.at_us);
        (age_us <= REPORT_US_MAX).then_some(report)
    };
    if !nodes.iter().all(|node| report(*node).is_some()) {
        return ranking::in_turn(nodes, request.rotation);
    }
    ranking::by_score(nodes, request.rotation, |node| {
        report(node).map_or(0.0, |report| score(&report, weights))
    });
}

fn score(report: &Report, weights: Weights) -> f32 {
    let of = |used: f32| 1.0 / (1.0 - used.clamp(0.0, USED_MAX));
    let raised = |used: f32, weight: f32| match weight {
        0.0 => 1.0,
        1.0 => of(used),
        _ => of(used).powf(weight),
    };
    of(report.cpu)
        * raised(report.memory, weights.memory)
        * raised(report.disk, weights.disk)
        * raised(report.distance, weights.distance)
}
