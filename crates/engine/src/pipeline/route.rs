//! Which nodes a node request goes to, in which order, until one takes it.

use helenus_cql::Kind;
use helenus_policy::choice::{Policy, Request};
use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Locality, NodeTable, Plan, Preference, RouteInput, plan, scattered};
use helenus_policy::schedule::Class;
use helenus_wire::{Opcode, code};

use crate::features;
use crate::keys::NodeRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{NodeRequest, Target};
use crate::pipeline::query::Query;
use crate::pipeline::queue::{Offered, piece_us};
use crate::statement::place::Place;
use crate::stats::add;

const ATTEMPTS_MAX: u8 = 8;
/// Owners of a place, in all data centres, that are candidates.
const OWNERS_MAX: usize = 16;

impl Query {
    /// True if it is always for the same node: rows that are local to a node must not come from
    /// another each time, and with one node for USE, there is one link for it.
    fn is_local(&self) -> bool {
        let uses = |kind: Kind| kind == Kind::Use;
        let statement = self.statement.as_ref();
        self.opcode != Opcode::Prepare
            && (self.class == Class::System || statement.is_some_and(|s| uses(s.facts.kind)))
    }
}

/// As many replicas as there is room for, those of the local data centre first, in ring order. Returns how
/// many these are, and how many there are in all.
fn local_first(
    places: &NodeTable,
    replicas: &[NodeIndex],
    chosen: &mut [NodeIndex],
) -> (usize, usize) {
    let (mut local, mut len) = (0, 0);
    for node in replicas {
        let is_local = places.is_local(*node);
        if len < chosen.len() {
            len += 1;
        } else if !is_local || local == len {
            continue;
        }
        // A local one takes the place of a remote one if there is no other.
        chosen[len - 1] = *node;
        if is_local {
            chosen.swap(local, len - 1);
            local += 1;
        }
    }
    (local, len)
}

/// As many nodes as there is room for, each time from another one on. Returns how many these are.
fn in_turn(nodes: &[NodeIndex], rotation: u64, chosen: &mut [NodeIndex]) -> usize {
    let start = (rotation % nodes.len().max(1) as u64) as usize;
    let (before, after) = nodes.split_at(start);
    let turn = after.iter().chain(before).zip(chosen.iter_mut());
    turn.map(|(node, place)| *place = *node).count()
}

/// Two different nodes, others each time; one if there is no second. Returns how many these are.
fn two_of(nodes: &[NodeIndex], turn: u64, chosen: &mut [NodeIndex; 2]) -> usize {
    let others = nodes.len().saturating_sub(1) as u64;
    let first = turn % nodes.len().max(1) as u64;
    let second = first + 1 + (turn >> 16) % others.max(1);
    let two = [first, second].map(|at| nodes.get(at as usize % nodes.len().max(1)));
    let len = nodes.len().min(2);
    for (node, place) in two.into_iter().flatten().zip(&mut chosen[..len]) {
        *place = *node;
    }
    len
}

impl Engine {
    /// The nodes for a node request, in order.
    pub(crate) fn plan(&mut self, key: NodeRequestKey) -> Option<Plan> {
        self.cx.rotation = self.cx.rotation.wrapping_add(1);
        let request = self.requests.nodes.get(key)?;
        let query = self.requests.query_of(request)?;
        match request.target() {
            Target::Planned(plan) => Some(*plan),
            Target::At(node) => self.plan_at(query, *node),
            Target::Place { place, primary } => {
                self.plan_for(request, query, place.as_ref(), *primary)
            }
        }
    }

    /// The owners of a place first.
    fn plan_for(
        &self,
        request: &NodeRequest,
        query: &Query,
        place: Option<&Place>,
        primary: bool,
    ) -> Option<Plan> {
        let nodes = self.cx.snapshot.nodes();
        let pool = self.links.of_role(query.pool)?;
        let now = self.cx.now;
        let (local, pinned) = (query.is_local(), nodes.pinned());
        let mut replicas = match place {
            _ if local => std::slice::from_ref(&pinned),
            Some(place) => place.owners.of_slot(place.slot),
            None => &[],
        };
        let mut by_scans = [NodeIndex(0); Plan::CAPACITY];
        let mut chosen = [NodeIndex(0); OWNERS_MAX];
        let mut two = [NodeIndex(0); 2];
        let mut coordinators: &[NodeIndex] = &[];
        let assignment = match local || primary || query.class == Class::Scan {
            true => Policy::First,
            false => self.queues.assignment(),
        };
        if assignment.is_over_all_nodes() {
            replicas = &[];
        } else if assignment.is_informed() && replicas.len() != 1 {
            let work_us = piece_us(request, query, &self.statements.typical);
            // All replicas have a hot partition in their caches, or soon will.
            let bound = place.filter(|place| query.is_read() && !self.is_hot(place));
            let affinity = bound.and_then(Place::hash);
            let candidates = match replicas.is_empty() {
                false => replicas,
                // Any node coordinates it as well as another: the better one of two, so that a slow one gets less.
                true => {
                    let turn = scattered(self.cx.rotation);
                    let len = two_of(nodes.places().local(), turn, &mut two);
                    &two[..len]
                }
            };
            let ordered = self.choose(candidates, work_us, affinity, &mut chosen);
            match replicas.is_empty() {
                false => replicas = ordered,
                true => coordinators = ordered,
            }
        }
        if !local && !replicas.is_empty() {
            add(&self.cx.shared.stats.global.requests_token_aware, 1);
        }
        if query.class == Class::Scan && replicas.len() > 1 {
            let (_, len) = local_first(nodes.places(), replicas, &mut by_scans);
            replicas = self.by_scans(&mut by_scans[..len], scattered(self.cx.rotation));
        } else if query.class == Class::Scan && replicas.is_empty() && self.is_informed() {
            // Where it begins is not known: whichever node has the least to do coordinates it.
            let turn = scattered(self.cx.rotation);
            let len = in_turn(nodes.places().local(), turn, &mut by_scans);
            replicas = self.by_scans(&mut by_scans[..len], 0);
        }
        if replicas.is_empty() {
            replicas = coordinators;
        }
        let linked = |node: NodeIndex| pool.has_link(node) && !nodes.is_gone(node);
        let healthy = |node: NodeIndex| linked(node) && self.links.is_sound(node, now);
        let mut input = RouteInput {
            replicas,
            nodes: nodes.places(),
            usable: &healthy,
            rotation: self.cx.rotation,
            elsewhere: query.elsewhere(&self.cx.shared.config.cluster),
            preference: match assignment {
                Policy::RoundRobin | Policy::TokenAware => Preference::Spread,
                _ => Preference::Primary,
            },
        };
        let made = plan(&input);
        if !made.is_empty() {
            return Some(made);
        }
        input.usable = &linked;
        Some(plan(&input))
    }

    /// True if a partition alone is a notable part of a node's work.
    #[inline]
    pub(crate) fn is_hot(&self, place: &Place) -> bool {
        place
            .token
            .is_some_and(|token| features::spreads(&self.features, token))
    }

    /// Orders the replicas of the local data centre by the assignment policy, before the others; these, if there is none.
    fn choose<'a>(
        &self,
        replicas: &[NodeIndex],
        work_us: u32,
        affinity: Option<u32>,
        chosen: &'a mut [NodeIndex; OWNERS_MAX],
    ) -> &'a [NodeIndex] {
        let places = self.cx.snapshot.nodes().places();
        let (local, len) = local_first(places, replicas, chosen);
        let ordered = if local == 0 { len } else { local };
        let is_near = |node: &NodeIndex| places.locality(*node) == Some(Locality::LocalRack);
        let near = chosen[..ordered].iter().zip(0u32..);
        let near = near.fold(0, |near, (node, at)| near | u32::from(is_near(node)) << at);
        let request = Request {
            now_us: self.cx.now_us(),
            work_us,
            rotation: self.cx.rotation,
            affinity,
            near,
        };
        self.queues.order(&request, &mut chosen[..ordered]);
        &chosen[..len]
    }

    /// True if what is known of nodes decides where requests go.
    fn is_informed(&self) -> bool {
        self.queues.assignment().is_informed()
    }

    /// Orders owners by when their scans would be done, equal ones from one of them on; those that are not
    /// well come last.
    fn by_scans<'a>(&self, owners: &'a mut [NodeIndex], from: u64) -> &'a [NodeIndex] {
        let lagging = match self.is_informed() {
            true => self.queues.lagging(&self.cx, owners),
            false => 0,
        };
        let after = self.queues.after_scans(&self.cx, owners);
        let mut numbered = [(false, f32::INFINITY, NodeIndex(0)); Plan::CAPACITY];
        let numbered = &mut numbered[..owners.len().min(Plan::CAPACITY)];
        for ((at, owner), of) in owners.iter().enumerate().zip(numbered.iter_mut()) {
            *of = (lagging >> at & 1 == 1, after[at], *owner);
        }
        let start = from % numbered.len().max(1) as u64;
        numbered.rotate_left(start as usize);
        numbered.sort_by(|(lags, after, _), (lags_too, after_too, _)| {
            lags.cmp(lags_too).then(after.total_cmp(after_too))
        });
        for (owner, (_, _, of)) in owners.iter_mut().zip(numbered) {
            *owner = *of;
        }
        owners
    }

    /// One node first, and others of its data centre behind it.
    fn plan_at(&self, query: &Query, node: NodeIndex) -> Option<Plan> {
        let pool = self.links.of_role(query.pool)?;
        let linked = |node| pool.has_link(node) && !self.cx.snapshot.nodes().is_gone(node);
        add(&self.cx.shared.stats.global.requests_token_aware, 1);
        Some(plan(&RouteInput {
            replicas: &[node],
            nodes: self.cx.snapshot.nodes().places(),
            usable: &linked,
            rotation: self.cx.rotation,
            elsewhere: query.elsewhere(&self.cx.shared.config.cluster),
            preference: Preference::Primary,
        }))
    }

    /// The next node to try.
    fn next_node(&mut self, key: NodeRequestKey) -> Option<NodeIndex> {
        let request = self.requests.nodes.get_mut(key)?;
        if let Some(next) = request.next_planned() {
            return next;
        }
        let mut plan = self.plan(key)?;
        let next = plan.next();
        if let Some(request) = self.requests.nodes.get_mut(key) {
            request.set_target(Target::Planned(plan));
        }
        next
    }

    /// Sends a node request to its next candidate, or lets it wait, or fails it.
    pub(crate) fn route_now(&mut self, key: NodeRequestKey) {
        loop {
            let Some(query) = self.requests.query(key) else {
                return;
            };
            let pool = query.pool;
            let Some(request) = self.requests.nodes.get_mut(key) else {
                return;
            };
            if request.is_queued() || request.is_in_flight() {
                debug_assert!(false, "routed while it is at a node");
                return;
            }
            let attempts = request.begin_attempt();
            let next = match attempts > ATTEMPTS_MAX {
                true => None,
                false => self.next_node(key),
            };
            let Some(node) = next else {
                if attempts <= 1 && self.wait_for_any_link(key) {
                    return;
                }
                return self.fail_unavailable(key);
            };
            if !self.links.has_link(pool, node) {
                continue;
            }
            match self.offer(key, node) {
                Offered::Go => {
                    if self.send_as_known(key, node) {
                        return;
                    }
                    self.leave_queue(key, None);
                }
                Offered::Waits => return,
                Offered::Refused(why) => {
                    add(&self.cx.shared.stats.global.requests_overloaded, 1);
                    return self.fail_untried(key, code::OVERLOADED, &why, &[]);
                }
            }
        }
    }

    /// Lets a node request that no node could take wait for a link that is being opened; false if none
    /// is.
    fn wait_for_any_link(&mut self, key: NodeRequestKey) -> bool {
        self.links.try_again(&mut self.cx);
        let pool = self.requests.query(key).map(|query| query.pool);
        if !pool.is_some_and(|pool| self.links.wait_for_link(pool, key)) {
            return false;
        }
        if let Some(request) = self.requests.nodes.get_mut(key) {
            request.forget_attempts();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nodes_are_different_and_all_come_alike() {
        for nodes in 0..6u16 {
            let nodes: Vec<NodeIndex> = (0..nodes).map(NodeIndex).collect();
            let mut count = vec![0; nodes.len()];
            for turn in 0..6_000 {
                let mut two = [NodeIndex(99); 2];
                let len = two_of(&nodes, scattered(turn), &mut two);
                assert_eq!(len, nodes.len().min(2));
                assert!(len < 2 || two[0] != two[1], "{two:?}");
                for node in &two[..len] {
                    count[node.as_usize()] += 1;
                }
            }
            let even = 6_000 * nodes.len().min(2) / nodes.len().max(1);
            let is_even = |&count: &usize| count.abs_diff(even) <= even / 10;
            assert!(count.iter().all(is_even), "{count:?}, not {even} each");
        }
    }

    #[test]
    fn nodes_take_turns_and_come_once_each() {
        let nodes = [4, 5, 6].map(NodeIndex);
        let turn = |rotation| {
            let mut chosen = [NodeIndex(9); 4];
            let len = in_turn(&nodes, rotation, &mut chosen);
            chosen[..len].iter().map(|node| node.0).collect::<Vec<_>>()
        };
        assert_eq!(
            [turn(0), turn(1), turn(5)],
            [[4, 5, 6], [5, 6, 4], [6, 4, 5]]
        );
        let mut chosen = [NodeIndex(9); 2];
        assert_eq!(in_turn(&nodes, 2, &mut chosen), 2);
        assert_eq!(chosen, [6, 4].map(NodeIndex));
        assert_eq!(in_turn(&[], 7, &mut chosen), 0);
    }

    #[test]
    fn no_local_replica_is_left_out_for_remote_ones() {
        let is_local = |node: u16| node % 3 == 2;
        let places = NodeTable::from_localities((0..20).map(|node| match is_local(node) {
            true => Locality::LocalDc,
            false => Locality::Remote,
        }));
        for of in 0..20 {
            let replicas: Vec<NodeIndex> = (0..of).map(NodeIndex).collect();
            let mut chosen = [NodeIndex(99); 8];
            let (local, len) = local_first(&places, &replicas, &mut chosen);
            assert_eq!(len, replicas.len().min(8));
            let locals: Vec<NodeIndex> = (0..of).filter(|n| is_local(*n)).map(NodeIndex).collect();
            assert_eq!(chosen[..local], locals, "of {of}");
            let mut others = chosen[local..len].to_vec();
            others.sort_unstable();
            others.dedup();
            assert_eq!(others.len(), len - local);
            assert!(others.iter().all(|node| !is_local(node.0)));
        }
    }
}
