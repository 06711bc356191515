//! Nodes that join, leave, and take the place of dead ones, while everything goes on.
//!
//! In about a fifth of the runs, which have no layouts. In a third of these nothing else goes wrong: then no
//! client may hear that replicas are missing, although nodes take the newcomer for dead again and again.

use helenus_policy::ring::Replication;

use super::{Event, World, aggressors};
use crate::chaos::cassandra::{Health, Owners};
use crate::dice::Dice;

/// How a ring changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Join,
    Leave,
    Replace,
}

/// How far a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nodes hear that it has begun.
    Announced,
    /// The new owners have all data; nodes hear of the new ring.
    Streamed,
    /// All nodes see the new ring, and some still write to the old owners.
    Settled,
}

/// The change that is under way.
#[derive(Clone)]
pub(super) struct Growth {
    change: Change,
    /// The node that joins, and the one that goes.
    joins: Option<usize>,
    goes: Option<usize>,
    step: Step,
    view: usize,
    old: Owners,
    new: Owners,
}

/// Whether rings change in a run; and whether nothing else does.
pub(super) fn grows(seed: u64) -> Option<bool> {
    let mut dice = Dice::of(seed, 4, 0);
    let grows = dice.below(4) == 0 && aggressors::kind_of(seed).is_none();
    grows.then(|| dice.below(3) == 0)
}

/// Nodes that may join in a run.
pub(super) const NEWCOMERS: usize = 2;
/// How often it is looked how far a change is.
const LOOK_US: u64 = 100_000;
/// A node takes a newcomer for dead for no longer than this.
const DOUBT_US: u64 = 1_500_000;
/// A node that has left goes on to serve for so long: Cassandra's ring delay.
const LEAVES_AFTER_US: u64 = 5_000_000;

impl World {
    pub(super) fn begin_growth(&mut self) {
        if self.grows.is_some() {
            self.events
                .plan(500_000 + self.dice.below(3_000_000), Event::Grow);
        }
    }

    /// A change begins, or goes on.
    pub(super) fn grow(&mut self) {
        let Some(growth) = self.growth.clone() else {
            return self.begin_ring_change();
        };
        let has_served = growth
            .joins
            .is_none_or(|node| !self.cluster.nodes[node].closed);
        if self.cluster.all_have_heard(growth.view) && (growth.step != Step::Settled || has_served)
        {
            return self.go_on(growth);
        }
        self.events.plan(LOOK_US, Event::Grow);
    }

    fn begin_ring_change(&mut self) {
        if !self.trouble {
            return;
        }
        let old = self.cluster.owners().clone();
        let spare = (0..self.cluster.nodes.len()).find(|node| self.cluster.nodes[*node].is_new);
        let members = old.members.clone();
        let at = self.dice.below(members.len() as u64) as usize;
        let rf = match self.replication {
            Replication::Simple { rf } => rf,
            _ => members.len(),
        };
        // A dead node is replaced where others have its data, and not where that alone must not fail anything.
        let may_die = members.len() > rf && rf > 1 && self.grows == Some(false);
        let change = match self.dice.below(4) {
            0 if may_die && spare.is_some() => Change::Replace,
            0 | 1 if members.len() > rf => Change::Leave,
            _ if spare.is_some() => Change::Join,
            _ => return self.events.plan(1_000_000, Event::Grow),
        };
        let mut now = members.clone();
        let (joins, goes) = match change {
            Change::Join => (spare, None),
            Change::Leave => (None, Some(now.remove(at))),
            Change::Replace => (spare, Some(members[at])),
        };
        match (change, joins) {
            (Change::Join, Some(node)) => now.push(node),
            (Change::Replace, Some(node)) => now[at] = node,
            _ => {}
        }
        if let (Change::Replace, Some(dead)) = (change, goes) {
            self.cluster.nodes[dead].is_lost = true;
            self.cluster.nodes[dead].health = Health::Down;
            self.reset_node(dead);
        }
        if let Some(node) = joins {
            let node = &mut self.cluster.nodes[node];
            (node.is_new, node.closed, node.health) = (false, true, Health::Up);
        }
        let new = Owners::new(now, &self.replication);
        let view = self.cluster.change_view(old.clone(), Some(new.clone()));
        self.note(|| format!("ring: {change:?}, {joins:?} joins and {goes:?} goes"));
        self.count(match change {
            Change::Join => "node joins",
            Change::Leave => "node leaves",
            Change::Replace => "node is replaced",
        });
        self.growth = Some(Growth {
            change,
            joins,
            goes,
            step: Step::Announced,
            view,
            old,
            new,
        });
        self.tell_of_view(view, joins.or(goes));
        if let Some(node) = joins {
            self.doubt_for_a_while(node);
        }
        self.events.plan(LOOK_US, Event::Grow);
    }

    fn go_on(&mut self, mut growth: Growth) {
        let (old, new) = (growth.old.clone(), growth.new.clone());
        match growth.step {
            Step::Announced => {
                self.cluster.stream(&new);
                growth.view = self.cluster.change_view(new, Some(old));
                growth.step = Step::Streamed;
                self.tell_of_view(growth.view, growth.joins.or(growth.goes));
                if let Some(node) = growth.joins {
                    let delay = 1 + self.dice.below(2_000_000);
                    self.events.plan(delay, Event::Open(node));
                    self.list(node);
                }
                self.growth = Some(growth);
            }
            Step::Streamed => {
                growth.view = self.cluster.change_view(new, None);
                growth.step = Step::Settled;
                self.tell_of_view(growth.view, None);
                self.growth = Some(growth);
            }
            Step::Settled => {
                self.adopt_members(&growth);
                if let Some(node) = growth.joins {
                    self.doubt_for_a_while(node);
                }
                if let (Change::Leave, Some(node)) = (growth.change, growth.goes) {
                    self.events.plan(LEAVES_AFTER_US, Event::Leave(node));
                }
                self.note(|| "ring: settled".to_owned());
                self.growth = None;
            }
        }
        let delay = match self.growth {
            Some(_) => LOOK_US,
            None => 1_000_000 + self.dice.below(3_000_000),
        };
        self.events.plan(delay, Event::Grow);
    }

    /// Nodes hear of a view, one after the other; whom it is about first.
    fn tell_of_view(&mut self, view: usize, first: Option<usize>) {
        for node in 0..self.cluster.nodes.len() {
            let delay = match first == Some(node) {
                true => 0,
                false => self.dice.below(1_500_000),
            };
            self.events.plan(delay, Event::Hear(node, view));
        }
    }

    /// A node hears of a view; one that stands still when it goes on.
    pub(super) fn hear(&mut self, node: usize, view: usize) {
        match self.cluster.nodes[node].health {
            Health::Frozen(until_us) => {
                let wait_us = until_us.saturating_sub(self.now_us()) + 1;
                self.events.plan(wait_us, Event::Hear(node, view));
            }
            Health::Up | Health::Down => self.cluster.hear_of(node, view),
        }
    }

    /// Proxies hear of a node that joins, which they do not use yet.
    fn list(&mut self, joining: usize) {
        for proxy in 0..self.proxies.len() {
            self.proxies[proxy].joining = Some(joining);
            let known = self.proxies[proxy].members.clone();
            self.store_snapshot(proxy, known);
        }
    }

    /// Proxies hear of the members after a change, each at its own time.
    fn adopt_members(&mut self, growth: &Growth) {
        for proxy in 0..self.proxies.len() {
            let delay = self.dice.below(1_000_000);
            let members = growth.new.members.clone();
            self.events.plan(delay, Event::Members(proxy, members));
        }
    }

    /// A proxy reads who the members are.
    pub(super) fn read_members(&mut self, proxy: usize, members: Vec<usize>) {
        if !self.proxies[proxy]
            .workers
            .iter()
            .all(|worker| worker.ended)
        {
            self.proxies[proxy].joining = None;
            self.store_snapshot(proxy, members);
        }
    }

    /// A node that joins takes clients.
    pub(super) fn open_node(&mut self, node: usize) {
        self.note(|| format!("node {node} takes clients"));
        self.cluster.nodes[node].closed = false;
    }

    /// A node that has left ends.
    pub(super) fn close_node(&mut self, node: usize) {
        self.note(|| format!("node {node} is gone"));
        let of = &mut self.cluster.nodes[node];
        (of.closed, of.is_lost, of.health) = (true, true, Health::Down);
        self.reset_node(node);
    }

    /// Others take a node for dead, again and again: it has little CPU.
    fn doubt_for_a_while(&mut self, node: usize) {
        for _ in 0..6 {
            let delay = self.dice.below(8_000_000);
            self.events.plan(delay, Event::Doubt(node));
        }
    }

    pub(super) fn doubt_node(&mut self, node: usize) {
        let coordinator = self.dice.below(self.cluster.nodes.len() as u64) as usize;
        let until_us = self.now_us() + self.dice.below(DOUBT_US);
        if coordinator != node && self.trouble {
            self.note(|| format!("node {coordinator} takes {node} for dead until {until_us}"));
            self.cluster.doubt(coordinator, node, until_us);
            self.count("newcomer taken for dead");
        }
    }

    /// Whether nothing goes wrong in a run but that rings change.
    pub(super) fn only_grows(&self) -> bool {
        self.grows == Some(true)
    }

    /// The members as a proxy reads them that has just begun.
    pub(super) fn members_now(&self) -> Vec<usize> {
        match &self.growth {
            Some(growth) => growth.old.members.clone(),
            None => self.cluster.owners().members.clone(),
        }
    }
}
