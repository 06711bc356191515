//! Chooses the replica that is predicted to finish the request first.
//!
//! Formula: the lowest score goes first:
//!
//! finish = slowdown · (work + outstanding work ÷ lanes) + spared
//! score = max(finish, silence) ÷ (1 − 0.9 · failures)
//!
//! where slowdown is what the node's answers took ÷ what this formula predicted for them at slowdown 1,
//! lanes are the node's processors (4 if there are more, or if that is not known: [`LANES`](super::load::LANES)),
//! so that lanes ÷ slowdown is the measured rate, and spared is the time in which a node would have done
//! what it has answered with errors (`load.rs`). Then, in this order:
//!
//! 1. **Ejected** nodes come last (more than 30 % failures; or ten times slower than is typical, and three
//!    times slower than most other nodes are now), for 1 s and twice as long each further time; nodes that
//!    return get a growing share of their requests for 5 s, or for as long as they could not be reached
//!    (30 s at most), nodes that join for 30 s. Never more than half of a request's replicas are left out
//!    for this: those with the fewest failures are let in again.
//! 2. **Hot** nodes are not chosen if there is a cold one: those with more in flight than
//!    the [`HOT_QUANTILE`] of what nodes have in flight when something is sent to them, and
//!    more than [`HOT_MIN`]; and those that would still work on what they have answered with errors.
//! 3. **Primary**: replica `hash of the key mod n` is chosen while its score is at most the lowest ·
//!    (1 + [`MARGIN`]) + [`MARGIN_US`]. So on an idle cluster each page of a table is in the cache of one
//!    replica, not of all, while the keys spread evenly; a hot key's primary is helped by the others as
//!    soon as its queue is worth the margin.
//! 4. **Warming up**: one request in 64 goes to its primary although others are faster, and one in 16 to a
//!    node that is new or was away, until it has answered 256 of them; unless it is silent. A node that is
//!    slow because it is cold would stay cold; and so few do not show in a p99 for long.
//! 5. **Ties**: of others within [`TIE`], the first by rotation, so that several proxies that see the same
//!    do not all choose the same node.
//! 6. **Rack**: replicas of other racks count [`SPILL`] times, if one is preferred.
//!
//! Nodes of other data centres are ejected for failures only, have no bound in flight, and are not warmed up.
//!
//! Evidence: `choice/tests.rs`: a node ten times slower is left within a few answers and found again once
//! it has recovered; a frozen one is left although it reports nothing; `helenus sim assignment` compares
//! 10 proxies that do not know of each other before 100 nodes; `cargo run -p helenus-benches` counts
//! instructions.
//!
//! Limits: what others send to a node is seen in its slowdown only. Cassandra's own replica choice behind
//! the coordinator is not seen; at ONE it is the coordinator if that is a replica.
//!
//! Source: earliest finish time on unrelated machines: L.-C. Canon, A. Dugois, L. Marchal, Euro-Par 2021;
//! hot and cold: B. Wydrowski et al., "Load is not what you should balance: Introducing Prequal" (NSDI
//! 2024), section 4; outlier ejection and slow start as in Envoy.

use super::load::Load;
use super::ranking;
use super::request::{CANDIDATES_MAX, Request};
use crate::ring::NodeIndex;

pub(super) const MARGIN: f32 = 0.25;
const MARGIN_US: f32 = 100.0;
const TIE: f32 = 0.9;
const SPILL: f32 = 2.0;
const HOT_QUANTILE: f32 = 0.84;
const HOT_MIN: f32 = 8.0;
/// How far the quantile moves with each request, as a share of itself.
const HOT_STEP: f32 = 1.0 / 64.0;
/// Weight of an answer in what is typical is 1 ÷ this.
const TYPICAL_MEMORY: f32 = 64.0;
const TYPICAL_JUMP_MAX: f32 = 4.0;
const FAILURE_COST: f32 = 0.9;
/// Of 256 requests, how many go to a slower primary, and to a cold one.
const WARMED: u64 = 4;
const WARMED_COLD: u64 = 16;
/// A node that has been silent for longer gets none of these.
const SILENT_US: f32 = 10_000.0;
/// Added to the score of a node that is left out: it comes behind all others.
const OUT: f32 = 1e12;

/// Statistics of all nodes together.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    typical: f32,
    /// Answers so far, up to those that it remembers.
    answers: f32,
    in_flight_high: f32,
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster {
            typical: 1.0,
            answers: 0.0,
            in_flight_high: 0.0,
        }
    }
}

impl Cluster {
    /// The slowdown of an answer from any node.
    pub(super) fn typical(&self) -> f32 {
        self.typical
    }

    #[inline]
    pub(super) fn on_answer(&mut self, slowdown: f32) {
        // The first answers count more: predictions may all be wrong in the same way.
        let is_known = self.answers >= TYPICAL_MEMORY;
        let jump = if is_known {
            TYPICAL_JUMP_MAX
        } else {
            f32::INFINITY
        };
        let seen = slowdown.min(jump * self.typical);
        self.answers = if is_known {
            TYPICAL_MEMORY
        } else {
            self.answers + 1.0
        };
        self.typical += (seen - self.typical) / self.answers;
    }

    /// Something is sent to a node that has this many in flight.
    #[inline]
    pub(super) fn on_sent(&mut self, in_flight: u32) {
        let step = HOT_STEP * self.in_flight_high.max(1.0);
        let moved = match in_flight as f32 > self.in_flight_high {
            true => HOT_QUANTILE,
            false => HOT_QUANTILE - 1.0,
        };
        self.in_flight_high = (self.in_flight_high + step * moved).max(0.0);
    }

    /// When a request would be finished, in microseconds from now.
    #[inline]
    pub(super) fn finish_us(&self, load: &Load, now_us: u64, work_us: f32) -> f32 {
        let (slowdown, failures) = load.measured(now_us, self.typical);
        let spared_us = load.spared_us(now_us) as i64 as f32;
        let finish_us = slowdown * (work_us + load.ahead_us()) + spared_us;
        let silent_us = load.silent_us(now_us);
        // One instruction, where `max` would look for NaN first.
        let at_least_us = if finish_us > silent_us {
            finish_us
        } else {
            silent_us
        };
        at_least_us / (1.0 - FAILURE_COST * failures)
    }
}

pub(super) fn order(loads: &[Load], cluster: &Cluster, request: &Request, nodes: &mut [NodeIndex]) {
    let len = nodes.len().min(CANDIDATES_MAX);
    let nodes = &mut nodes[..len];
    if len < 2 {
        return;
    }
    let Request { now_us, near, .. } = *request;
    let work_us = request.work_us as f32;
    let hot_above = cluster.in_flight_high.max(HOT_MIN) as u32;
    let mut scores = [OUT; CANDIDATES_MAX];
    let (mut out, mut hot) = (0u32, 0u32);
    for ((node, score), at) in nodes.iter().zip(&mut scores).zip(0u32..) {
        let Some(load) = loads.get(node.as_usize()) else {
            continue;
        };
        *score = cluster.finish_us(load, now_us, work_us);
        if near != 0 && near >> at & 1 == 0 {
            *score *= SPILL;
        }
        let is_full = load.in_flight() > hot_above && !load.is_remote();
        let is_hot = is_full || load.spared_us(now_us) > 0;
        hot |= u32::from(is_hot) << at;
        out |= u32::from(load.is_out(now_us, request.rotation)) << at;
    }
    if out != 0 {
        out = without_the_best(loads, nodes, out);
        for (at, score) in scores.iter_mut().enumerate() {
            *score += if out >> at & 1 == 1 { OUT } else { 0.0 };
        }
    }
    let all = (1u32 << len) - 1;
    let cold = all & !out & !hot;
    let may = if cold == 0 { all & !out } else { cold };
    let scores = &mut scores[..len];
    let chosen = primary(scores, may, request)
        .or_else(|| warmed(loads, nodes, may, request))
        .unwrap_or_else(|| best(scores, may, request));
    nodes.swap(0, chosen);
    scores.swap(0, chosen);
    ranking::sort(&mut nodes[1..], &mut scores[1..]);
}

/// The key's own replica, if it may be chosen and is not much worse than the others.
#[inline]
fn primary(scores: &[f32], may: u32, request: &Request) -> Option<usize> {
    let len = scores.len() as u32;
    let mut primary = request.affinity? % len;
    if request.near != 0 && request.near >> primary & 1 == 0 {
        primary = request.near.trailing_zeros().min(len - 1);
    }
    let mut lowest = f32::INFINITY;
    for (score, at) in scores.iter().zip(0u32..) {
        let is_lower = may >> at & 1 == 1 && *score < lowest;
        lowest = if is_lower { *score } else { lowest };
    }
    let is_near_enough = scores[primary as usize] <= lowest * (1.0 + MARGIN) + MARGIN_US;
    (is_near_enough && may >> primary & 1 == 1).then_some(primary as usize)
}

/// The key's own replica, or any in its turn, now and then.
#[inline]
fn warmed(loads: &[Load], nodes: &[NodeIndex], may: u32, request: &Request) -> Option<usize> {
    // Fibonacci hashing: neighbouring counts give shares that are spread evenly.
    let dice = request.rotation.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let share_256 = dice >> 56;
    if share_256 >= WARMED_COLD {
        return None;
    }
    let len = nodes.len() as u32;
    let at = request.affinity.unwrap_or((dice >> 20) as u32) % len;
    let load = loads.get(nodes[at as usize].as_usize())?;
    let is_near = !load.is_remote() && (request.near == 0 || request.near >> at & 1 == 1);
    let may_be = is_near && may >> at & 1 == 1 && load.silent_us(request.now_us) < SILENT_US;
    let is_due = share_256 < WARMED || load.is_cold();
    (may_be && is_due).then_some(at as usize)
}

/// The one with the lowest score of those that may be chosen; of equals the first by rotation.
fn best(scores: &[f32], may: u32, request: &Request) -> usize {
    let len = scores.len();
    let start = (request.rotation % len as u64) as usize;
    let turn = (start..len).chain(0..start);
    let fits = turn.filter(|at| may >> at & 1 == 1);
    let better = |best: usize, at: usize| match scores[at] < TIE * scores[best] {
        true => at,
        false => best,
    };
    fits.reduce(better).unwrap_or(start)
}

/// Lets nodes in again until no more than half of them are left out.
#[cold]
fn without_the_best(loads: &[Load], nodes: &[NodeIndex], mut out: u32) -> u32 {
    let failures = |at: usize| loads.get(nodes[at].as_usize()).map_or(0.0, Load::failures);
    while out.count_ones() as usize > nodes.len() / 2 {
        let left = (0..nodes.len()).filter(|at| out >> at & 1 == 1);
        let Some(best) = left.min_by(|a, b| failures(*a).total_cmp(&failures(*b))) else {
            return out;
        };
        out &= !(1 << best);
    }
    out
}
