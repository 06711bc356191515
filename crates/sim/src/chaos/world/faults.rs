//! What goes wrong.

use std::net::SocketAddr;
use std::sync::Arc;

use helenus_engine::features::InSnapshot;
use helenus_engine::shared::WorkerMessage;

use super::derived::behind;
use super::network::{Connection, End, Peer};
use super::setup::config;
use super::strikes::Scope;
use super::{Event, World};
use crate::chaos::bounds::Cause;
use crate::chaos::cassandra::Health;
use crate::chaos::coverage::Fault;
use crate::chaos::proxy::{At, snapshot};
use crate::chaos::wide::LAYOUTS;

/// What strikes by chance, some of it more often.
const CAUSES: [Cause; 19] = [
    Cause::ClientBreak,
    Cause::LinkBreak,
    Cause::Freeze,
    Cause::Crash,
    Cause::Evict,
    Cause::Evict,
    Cause::Errors,
    Cause::Snapshot,
    Cause::Settings,
    Cause::Pause,
    Cause::Pause,
    Cause::Partition,
    Cause::ClientCut,
    Cause::ClientCut,
    Cause::LinkCut,
    Cause::LinkCut,
    Cause::ClientLeave,
    Cause::Drain,
    Cause::DropRole,
];

/// So long after trouble has ended any proxy can read the catalogue.
const CATALOGUE_LOST_MAX_US: u64 = 10_000_000;

impl World {
    pub(super) fn fault_by_time(&mut self) {
        if self.trouble {
            self.strike_now();
            let slower = if self.stays_away() { behind::SLOWER } else { 1 };
            let delay = (20_000 + self.dice.below(600_000)) * slower;
            self.events.plan(delay, Event::Fault);
        }
    }

    /// Something goes wrong, or changes.
    pub(super) fn strike_now(&mut self) {
        let cause = match self.catalogue.is_some() && self.dice.below(40) == 0 {
            true => Cause::Catalogue,
            false if self.stays_away() && self.dice.below(60) == 0 => Cause::Away,
            false if self.derived.is_some() && self.dice.below(40) == 0 => Cause::Kill,
            false => CAUSES[self.dice.below(CAUSES.len() as u64) as usize],
        };
        if !self.may(cause) {
            return;
        }
        let node = self.dice.below(self.cluster.nodes.len() as u64) as usize;
        let what = self.bring_about(cause, node);
        self.count(what);
        self.note(|| format!("fault: {what} ({node})"));
    }

    fn bring_about(&mut self, cause: Cause, node: usize) -> &'static str {
        let up = self.cluster.nodes[node].health == Health::Up;
        match cause {
            Cause::ClientBreak => self.reset(true),
            Cause::LinkBreak => self.reset(false),
            Cause::Freeze if up => {
                let for_us = 200_000 + self.dice.below(5_000_000);
                self.freeze(Fault::NodeFreezes, node, for_us)
            }
            Cause::Pause if up => {
                let for_us = 20_000 + self.dice.below(400_000);
                self.freeze(Fault::NodePauses, node, for_us)
            }
            Cause::Crash if up && self.others_are_there() => self.crash(node),
            Cause::Away if up => self.stay_away(node),
            Cause::Kill => self.kill_any(),
            Cause::Evict => {
                self.cluster.evict(node, &mut self.dice);
                "prepared statement evicted"
            }
            Cause::Errors => {
                self.cluster.errors_percent = [0, 2, 20][self.dice.below(3) as usize];
                "errors more or less often"
            }
            Cause::Snapshot => self.new_snapshot(),
            Cause::Settings => self.new_settings(),
            Cause::Partition => self.part(node),
            Cause::ClientCut => self.arm_cut(true),
            Cause::LinkCut => self.arm_cut(false),
            Cause::ClientLeave => self.leave_early(),
            Cause::Drain => self.begin_drain(),
            Cause::DropRole => self.drop_role(),
            Cause::Catalogue => match self.any_proxy() {
                Some(proxy) => self.lose_catalogue(proxy),
                None => "nothing",
            },
            _ => "nothing",
        }
    }

    fn freeze(&mut self, fault: Fault, node: usize, for_us: u64) -> &'static str {
        self.strike(fault, Scope::node(node));
        self.note_silent(for_us);
        self.cluster.nodes[node].health = Health::Frozen(self.now_us() + for_us);
        self.events.plan(for_us, Event::Heal(node, false));
        "node frozen"
    }

    fn crash(&mut self, node: usize) -> &'static str {
        self.strike(Fault::NodeCrashes, Scope::node(node));
        self.cluster.nodes[node].health = Health::Down;
        self.note_down(node);
        self.reset_node(node);
        let for_us = 200_000 + self.dice.below(6_000_000);
        self.note_silent(for_us);
        self.events.plan(for_us, Event::Heal(node, true));
        "node crashed"
    }

    /// For a while nothing gets through between a proxy and a node, at least in one direction.
    fn part(&mut self, node: usize) -> &'static str {
        let Some(proxy) = self.any_proxy() else {
            return "nothing";
        };
        let scope = Scope {
            node: Some(node),
            ..Scope::proxy(proxy)
        };
        self.strike(Fault::Partition, scope);
        let until_us = self.now_us() + 100_000 + self.dice.below(6_000_000);
        self.note_silent(until_us - self.now_us());
        self.partitions.insert((proxy, node), until_us);
        let (requests, answers) =
            [(true, true), (true, false), (false, true)][self.dice.below(3) as usize];
        for connection in &mut self.connections {
            let of_node = matches!(&connection.peer, Peer::Node(end) if end.node == node);
            if of_node && connection.at.proxy == proxy {
                if requests {
                    connection.to_peer.hold(until_us);
                }
                if answers {
                    connection.to_proxy.hold(until_us);
                }
            }
        }
        "partition"
    }

    pub(super) fn is_partitioned(&self, proxy: usize, node: usize) -> bool {
        let until_us = self.partitions.get(&(proxy, node));
        until_us.is_some_and(|until_us| *until_us > self.now_us())
    }

    /// A connection, of a client or to a node, that breaks in the middle of what is sent next.
    fn arm_cut(&mut self, of_client: bool) -> &'static str {
        let Some(number) = self.any_open(of_client) else {
            return "nothing";
        };
        let end = [End::Proxy, End::Peer][self.dice.below(2) as usize];
        self.connections[number].cut = Some(end);
        "connection to be cut"
    }

    pub(super) fn end_trouble(&mut self) {
        self.trouble = false;
        self.cluster.errors_percent = 0;
        // What was to break with the next bytes does not any more.
        for connection in &mut self.connections {
            connection.cut = None;
        }
        let found_us = self.now_us() + CATALOGUE_LOST_MAX_US;
        for proxy in &mut self.proxies {
            let (catalogue, flags) = (
                &mut proxy.catalogue_lost_until_us,
                &mut proxy.flags_lost_until_us,
            );
            (*catalogue, *flags) = ((*catalogue).min(found_us), (*flags).min(found_us));
        }
        for node in 0..self.cluster.nodes.len() {
            let of = &self.cluster.nodes[node];
            if of.health != Health::Up && !of.is_lost && !of.is_new {
                self.cluster.restart_after_trouble(node);
                self.tell_node_up(node);
            }
        }
        for client in 0..self.clients.len() {
            self.events.plan(self.dice.below(1_000), Event::Act(client));
        }
    }

    /// One of the connections of clients, or to nodes.
    fn any_open(&mut self, of_client: bool) -> Option<usize> {
        let is_wanted = |connection: &Connection| {
            connection.is_open() && matches!(connection.peer, Peer::Client(..)) == of_client
        };
        let open: Vec<usize> = (0..self.connections.len())
            .filter(|number| is_wanted(&self.connections[*number]))
            .collect();
        let at = self.dice.below(open.len() as u64) as usize;
        open.get(at).copied()
    }

    /// Breaks one connection, of a client or to a node.
    fn reset(&mut self, of_client: bool) -> &'static str {
        let Some(number) = self.any_open(of_client) else {
            return "nothing";
        };
        let (fault, what) = match of_client {
            true => (Fault::ClientBreaks, "client's connection broken"),
            false => (Fault::LinkBreaks, "node's connection broken"),
        };
        let scope = Scope::of(&self.connections[number]);
        self.strike(fault, scope);
        self.break_off(number);
        what
    }

    pub(super) fn reset_node(&mut self, node: usize) {
        if let Some(load) = self.loads.get_mut(node) {
            load.restart();
        }
        for number in 0..self.connections.len() {
            let connection = &self.connections[number];
            let of_node = matches!(&connection.peer, Peer::Node(end) if end.node == node);
            if of_node && connection.is_open() {
                self.break_off(number);
            }
        }
    }

    /// A proxy that runs, and whether there is one.
    fn any_proxy(&mut self) -> Option<usize> {
        let running = self.proxies_running();
        let at = self.dice.below(running.len() as u64) as usize;
        running.get(at).copied()
    }

    fn new_snapshot(&mut self) -> &'static str {
        let Some(proxy) = self.any_proxy() else {
            return "nothing";
        };
        self.strike(Fault::Snapshot, Scope::proxy(proxy));
        let mut known = self.proxies[proxy].members.clone();
        let one_more = self.dice.below(2) == 1;
        if one_more && self.grows.is_none() && known.len() < self.cluster.nodes.len() {
            known.push(known.len());
        }
        self.store_snapshot(proxy, known);
        "snapshot"
    }

    /// A proxy sees the cluster anew.
    pub(super) fn store_snapshot(&mut self, proxy: usize, members: Vec<usize>) {
        let joining = self.proxies[proxy].joining;
        let joining = joining.filter(|node| !members.contains(node));
        let (version, authenticated) = (self.version, self.authenticated);
        let read = snapshot(&members, joining, &self.replication, version, authenticated);
        self.proxies[proxy].members = members;
        let replication = self.proxies[proxy].layouts_replication.as_ref();
        let owners = replication.zip(read.nodes().ring());
        let owners = owners.map(|(of, ring)| Arc::new(ring.replica_sets(of)));
        let mut nodes = read.nodes().all().to_vec();
        let mut new = read.edit();
        if self.catalogue.is_some() {
            new = new.features(InSnapshot {
                layouts: self.layouts_of(proxy),
                ..InSnapshot::default()
            });
        }
        if let Some(owners) = owners {
            new = new.keyspace(LAYOUTS, owners);
        }
        let common = self.proxies[proxy].common.clone();
        let old = common.snapshot.load_full();
        // Indexes stay, also those of nodes that are gone.
        for left in old.nodes().all().iter().skip(nodes.len()) {
            let mut left = left.clone();
            left.set_gone(true);
            nodes.push(left);
        }
        common.store(new.nodes(nodes).epoch(old.epoch() + 1).build());
        self.tell_all(proxy, &WorkerMessage::Snapshot);
    }

    fn new_settings(&mut self) -> &'static str {
        let Some(proxy) = self.any_proxy() else {
            return "nothing";
        };
        self.strike(Fault::Settings, Scope::proxy(proxy));
        let config = config(&mut self.dice, self.memory_max, self.catalogue.is_some());
        let config = Arc::new(config);
        let now_us = self.now_us();
        self.proxies[proxy].terms.adopt(now_us, &config);
        let common = self.proxies[proxy].common.clone();
        common.adopt_settings(config.clone(), self.now());
        self.tell_all(proxy, &WorkerMessage::Settings(config));
        "settings"
    }

    pub(super) fn tell_all(&mut self, proxy: usize, message: &WorkerMessage) {
        let now_us = self.now_us();
        for (worker, of) in self.proxies[proxy].workers.iter_mut().enumerate() {
            // What it is told comes in the order in which it was said.
            let at_us = now_us + 1 + self.dice.below(1_000);
            of.told_us = of.told_us.max(at_us);
            let at = At { proxy, worker };
            self.events
                .plan(of.told_us - now_us, Event::Message(at, message.clone()));
        }
    }

    pub(super) fn tell_node_up(&mut self, node: usize) {
        for proxy in 0..self.proxies.len() {
            for worker in 0..self.proxies[proxy].workers.len() {
                let address = SocketAddr::from(([10, 0, 0, node as u8 + 1], 9042));
                let message = WorkerMessage::NodeUp(address);
                let delay = self.dice.below(500_000);
                self.events
                    .plan(delay, Event::Message(At { proxy, worker }, message));
            }
        }
    }
}
