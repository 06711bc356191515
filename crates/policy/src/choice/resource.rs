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
//! [`USED_MAX`]. If any of the replicas has no report of the last five seconds, all take turns. A report that
//! contradicts what is seen of the node is corrected (`choice/belief.rs`).
//!
//! Evidence: `choice/tests.rs`; `helenus sim assignment`, also with reports that come late, not at all,
//! or are false.
//!
//! Limits: use says little of how long a request will take, and all who see the same report choose the
//! same node until the next one. Kept to repeat the source's experiment.
//!
//! Source: D. Dietrich, T. Yu, Y. Liu, "Resource Based Assignment of Queries in Distributed Databases",
//! sections 3 and 6.2.

use super::belief;
use super::earliest_finish::Cluster;
use super::load::{Load, Report};
use super::ranking;
use super::request::Request;
use crate::ring::NodeIndex;

/// Something that is used up wholly would make everything else irrelevant.
const USED_MAX: f32 = 0.99;

/// Weights of the resources, as exponents.
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

pub(super) fn order(
    loads: &[Load],
    cluster: &Cluster,
    weights: Weights,
    request: &Request,
    nodes: &mut [NodeIndex],
) {
    let now_us = request.now_us;
    let load = |node: NodeIndex| loads.get(node.as_usize());
    let seen = |node: &NodeIndex| belief::seen_us(load(*node)?, cluster, now_us);
    let soonest_us = nodes.iter().filter_map(seen).fold(f32::INFINITY, f32::min);
    let report = |node| Some(belief::report(load(node)?, cluster, now_us, soonest_us)?.0);
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
