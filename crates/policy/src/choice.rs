//! Decides which replica a request goes to.
//!
//! Each policy orders the replicas of one request, the first to be tried first:
//!
//! - [`Policy::First`]: ring order.
//! - [`Policy::RoundRobin`]: all nodes in turn, owners or not.
//! - [`Policy::TokenAware`]: the replicas in turn, as drivers do.
//! - [`Policy::ResourceV1`], [`Policy::ResourceV2`]: the lowest use of CPU, memory and disk, as nodes
//!   report it (`choice/resource.rs`).
//! - [`Policy::C3`]: response time plus a penalty for the queue (`choice/c3.rs`).
//! - [`Policy::EarliestFinish`], the default: predicted finish (`choice/earliest_finish.rs`).
//!
//! Their loads are kept per node (`choice/load.rs`) by one owner, a worker of a proxy, from its own
//! requests alone. Nothing here is random: ties follow a counter that the caller passes in, which
//! several owners start at different values, so that they do not all choose the same node.
//!
//! Evidence: `choice/tests.rs`; `helenus sim assignment` compares all of them.
//!
//! Limits: at most [`CANDIDATES_MAX`] replicas are ordered, further ones stay behind them.
//!
//! Source: see each policy.

use crate::ring::NodeIndex;

mod belief;
mod c3;
mod earliest_finish;
mod load;
mod name;
mod ranking;
mod request;
mod resource;

#[cfg(test)]
mod tests;

pub use load::{Cause, Report, Sent};
pub use name::{Policy, UnknownPolicy};
pub use request::{CANDIDATES_MAX, Request};
pub use resource::Weights;

use earliest_finish::Cluster;
use load::Load;

/// A slow node is ejected if more than half of the others are now this many times faster.
const ALONE_SLOWER: f32 = 3.0;

/// The settings of a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub policy: Policy,
    /// How many owners like this one send to the same nodes; for [`Policy::C3`].
    pub clients: u16,
    /// For [`Policy::ResourceV2`].
    pub weights: Weights,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: Policy::default(),
            clients: 1,
            weights: Weights::default(),
        }
    }
}

/// The choice of replicas, with what one owner knows of all nodes.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    settings: Settings,
    loads: Vec<Load>,
    cluster: Cluster,
}

/// A node's load, for people to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct View {
    /// When a request of a millisecond of predicted work would be finished, in microseconds.
    pub score_us: u64,
    /// Of what that is made: how much longer answers take than predicted, the predicted work that is
    /// outstanding, and the share of requests that fail.
    pub slowdown: f32,
    pub outstanding_us: u64,
    pub failures: f32,
    /// The node's last report contradicts what is seen of it.
    pub is_contradicted: bool,
    pub is_ejected: bool,
    /// How often it was ejected so far.
    pub ejections: u64,
    /// Why it was ejected the last time.
    pub cause: Option<Cause>,
}

impl Choice {
    pub fn new(settings: Settings) -> Choice {
        Choice {
            settings,
            ..Choice::default()
        }
    }

    pub fn policy(&self) -> Policy {
        self.settings.policy
    }

    /// Puts other settings in force; what is known of the nodes stays.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Makes room for this many nodes.
    pub fn grow_to(&mut self, nodes: usize) {
        if self.loads.len() < nodes {
            self.loads.resize(nodes, Load::default());
        }
    }

    /// How many processors a node has, if that is known.
    pub fn set_processors(&mut self, node: NodeIndex, processors: Option<u32>) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.set_processors(processors);
        }
    }

    /// Tells that a node is in another data centre, or not. Its answers travel: they say nothing of what is usual here, and it
    /// is not ejected for being slower than nodes here.
    pub fn set_remote(&mut self, node: NodeIndex, is_remote: bool) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.set_remote(is_remote);
        }
    }

    /// Orders nodes, which come in ring order. Never allocates.
    ///
    /// For [`Policy::RoundRobin`] these should be all usable nodes, for the other policies the replicas.
    pub fn order(&self, request: &Request, nodes: &mut [NodeIndex]) {
        match self.settings.policy {
            Policy::First => {}
            Policy::RoundRobin | Policy::TokenAware => ranking::in_turn(nodes, request.rotation),
            Policy::ResourceV1 => {
                resource::order(&self.loads, &self.cluster, Weights::V1, request, nodes);
            }
            Policy::ResourceV2 => {
                let weights = self.settings.weights;
                resource::order(&self.loads, &self.cluster, weights, request, nodes);
            }
            Policy::C3 => c3::order(&self.loads, self.settings.clients, request, nodes),
            Policy::EarliestFinish => {
                earliest_finish::order(&self.loads, &self.cluster, request, nodes);
            }
        }
    }

    /// A request waits at the proxy for a node.
    pub fn on_waits(&mut self, node: NodeIndex, work_us: u32) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.on_waits(work_us);
        }
    }

    /// A request waits no longer, whatever becomes of it.
    pub fn on_left(&mut self, node: NodeIndex, work_us: u32) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.on_left(work_us);
        }
    }

    /// A request of this predicted work is sent to a node. The returned value belongs to
    /// [`Choice::on_answer`] or [`Choice::on_gone`].
    #[inline]
    pub fn on_sent(&mut self, now_us: u64, node: NodeIndex, work_us: u32) -> Sent {
        match self.loads.get_mut(node.as_usize()) {
            Some(load) => {
                if !load.is_remote() {
                    self.cluster.on_sent(load.in_flight());
                }
                load.on_sent(now_us, work_us)
            }
            None => Sent::default(),
        }
    }

    /// A node has answered in time, after so long.
    #[inline]
    pub fn on_answer(&mut self, now_us: u64, node: NodeIndex, sent: Sent, service_us: u32) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            let slowdown = load.on_answer(now_us, sent, service_us, self.cluster.typical());
            if load.is_remote() {
                return;
            }
            self.cluster.on_answer(slowdown);
            if load.is_far_slower(self.cluster.typical()) {
                self.eject_if_alone(now_us, node);
            }
        }
    }

    /// Ejects a node unless others are as slow. The typical slowdown was learned from answers of a while ago: where
    /// all nodes have become slow since, it is not this one's fault.
    #[cold]
    fn eject_if_alone(&mut self, now_us: u64, node: NodeIndex) {
        let at = node.as_usize();
        let typical = self.cluster.typical();
        let slowdown = self.loads[at].measured(now_us, typical).0;
        let others = self
            .loads
            .iter()
            .enumerate()
            .filter(|(other, load)| *other != at && !load.is_remote());
        let (mut known, mut faster) = (0, 0);
        for (_, other) in others.filter(|(_, load)| load.is_known(now_us)) {
            known += 1;
            faster += u32::from(other.measured(now_us, typical).0 * ALONE_SLOWER < slowdown);
        }
        if known == 0 || 2 * faster > known {
            self.loads[at].eject_as_slow(now_us, typical);
        }
    }

    /// A request ends without an answer.
    pub fn on_gone(&mut self, node: NodeIndex, sent: Sent) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.on_gone(sent);
        }
    }

    /// A node has answered with an error: that says nothing of how long requests take.
    pub fn on_error(&mut self, now_us: u64, node: NodeIndex, sent: Sent) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.on_error(now_us, sent, self.cluster.typical());
        }
    }

    /// A node has not answered in time, or with an error that is its own fault. Called besides
    /// [`Choice::on_gone`] or [`Choice::on_error`].
    pub fn on_failure(&mut self, now_us: u64, node: NodeIndex) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.on_failure(now_us);
        }
    }

    /// Another node has answered first what this one has had for so long; it is [`Choice::on_gone`] as
    /// well, unless this one has said something since, and the time is known as an answer's. True if it
    /// has not.
    pub fn on_overtaken(&mut self, now_us: u64, node: NodeIndex, waited_us: u32) -> bool {
        let load = self.loads.get_mut(node.as_usize());
        load.is_some_and(|load| load.on_overtaken(now_us, waited_us))
    }

    /// A node can be reached again, after so long: it gets a growing share of its requests.
    pub fn on_return(&mut self, now_us: u64, node: NodeIndex, away_us: u64) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.on_back(now_us, away_us);
        }
    }

    /// A node has joined the cluster: the same, and for longer, because it has never served anything.
    pub fn on_join(&mut self, now_us: u64, node: NodeIndex) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.on_join(now_us);
        }
    }

    /// Takes a node's report on itself.
    pub fn on_report(&mut self, node: NodeIndex, report: Report) {
        if let Some(load) = self.loads.get_mut(node.as_usize()) {
            load.on_report(report);
        }
    }

    /// Those of these nodes that long work should rather not go to, a bit for each: they are ejected,
    /// fail often, are much slower than the best of them, or have said nothing for long.
    pub fn lagging(&self, now_us: u64, nodes: &[NodeIndex]) -> u32 {
        let typical = self.cluster.typical();
        let loads = nodes.iter().map(|node| self.loads.get(node.as_usize()));
        let slowdowns = loads
            .clone()
            .flatten()
            .map(|of| of.measured(now_us, typical).0);
        let best = slowdowns.fold(f32::INFINITY, f32::min);
        let lagging = loads.map(|load| load.is_some_and(|load| load.lags(now_us, typical, best)));
        let numbered = lagging.zip(0u32..).take(CANDIDATES_MAX);
        numbered.fold(0, |bits, (lags, at)| bits | u32::from(lags) << at)
    }

    /// How many times slower these nodes are than the best of them, for long work; what differs by no more
    /// than a quarter is the same. A node that has joined or returned not long ago counts as slower. In the order of `nodes`, the first [`CANDIDATES_MAX`] of them.
    pub fn slower(&self, now_us: u64, nodes: &[NodeIndex]) -> [f32; CANDIDATES_MAX] {
        let typical = self.cluster.typical();
        let mut slower = [1.0; CANDIDATES_MAX];
        let mut best = f32::INFINITY;
        for (node, of) in nodes.iter().zip(&mut slower) {
            let load = self.loads.get(node.as_usize());
            *of = load.map_or(typical, |load| {
                load.measured(now_us, typical).0 * load.starts_slower(now_us)
            });
            best = best.min(*of);
        }
        slower.map(|of| (of / best / (1.0 + earliest_finish::MARGIN)).max(1.0))
    }

    /// When the node that is best off would finish a millisecond of work, for [`Choice::view`].
    pub fn soonest_us(&self, now_us: u64) -> f32 {
        let seen = |load| belief::seen_us(load, &self.cluster, now_us);
        let all = self.loads.iter().filter_map(seen);
        all.fold(f32::INFINITY, f32::min)
    }

    /// A node's load as it is known. `soonest_us`: [`Choice::soonest_us`].
    pub fn view(&self, now_us: u64, node: NodeIndex, soonest_us: f32) -> View {
        let Some(load) = self.loads.get(node.as_usize()) else {
            return View::default();
        };
        let typical = self.cluster.typical();
        let (slowdown, failures) = load.measured(now_us, typical);
        let (waiting_us, sent_us, _) = load.outstanding();
        let report = belief::report(load, &self.cluster, now_us, soonest_us);
        View {
            score_us: self.cluster.finish_us(load, now_us, 1_000.0) as u64,
            slowdown,
            outstanding_us: waiting_us + sent_us,
            failures,
            is_contradicted: report.is_some_and(|(_, is_contradicted)| is_contradicted),
            is_ejected: load.is_ejected(now_us),
            ejections: load.ejections(),
            cause: load.cause(),
        }
    }

    /// Predicted work that waits for a node and that it has, in microseconds, and requests it has.
    pub fn outstanding(&self, node: NodeIndex) -> (u64, u64, u32) {
        let load = self.loads.get(node.as_usize());
        load.map_or((0, 0, 0), Load::outstanding)
    }
}
