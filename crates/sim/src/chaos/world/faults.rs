//! What goes wrong.

use std::net::SocketAddr;
use std::sync::Arc;

use helenus_engine::shared::WorkerMessage;

use super::network::{Connection, Peer};
use super::setup::config;
use super::{Event, TROUBLE_US, World};
use crate::chaos::cassandra::Health;
use crate::chaos::proxy::{At, snapshot};

impl World {
    pub(super) fn fault(&mut self) {
        if self.now_us() >= TROUBLE_US {
            return self.end_trouble();
        }
        let node = self.dice.below(self.cluster.nodes.len() as u64) as usize;
        let what = match self.dice.below(9) {
            0 => self.reset(true),
            1 => self.reset(false),
            2 if self.cluster.nodes[node].health == Health::Up => {
                let for_us = 200_000 + self.dice.below(6_000_000);
                self.cluster.nodes[node].health = Health::Frozen(self.now_us() + for_us);
                self.events.plan(for_us, Event::Heal(node, false));
                "node frozen"
            }
            3 if self.cluster.nodes[node].health == Health::Up => {
                self.cluster.nodes[node].health = Health::Down;
                self.reset_node(node);
                let for_us = 200_000 + self.dice.below(6_000_000);
                self.events.plan(for_us, Event::Heal(node, true));
                "node crashed"
            }
            4 | 5 => {
                self.cluster.evict(node, &mut self.dice);
                "prepared statement evicted"
            }
            6 => {
                self.cluster.errors_percent = [0, 2, 20][self.dice.below(3) as usize];
                "errors more or less often"
            }
            7 => {
                self.new_snapshot();
                "snapshot"
            }
            8 => {
                self.new_settings();
                "settings"
            }
            _ => "nothing",
        };
        self.count(what);
        self.note(|| format!("fault: {what} ({node})"));
        self.events
            .plan(20_000 + self.dice.below(1_500_000), Event::Fault);
    }

    pub(super) fn end_trouble(&mut self) {
        self.trouble = false;
        self.cluster.errors_percent = 0;
        for node in 0..self.cluster.nodes.len() {
            if self.cluster.nodes[node].health != Health::Up {
                self.cluster.nodes[node].health = Health::Up;
                self.tell_node_up(node);
            }
        }
        for client in 0..self.clients.len() {
            self.events.plan(self.dice.below(1_000), Event::Act(client));
        }
    }

    /// Breaks one connection, of a client or to a node.
    pub(super) fn reset(&mut self, of_client: bool) -> &'static str {
        let is_wanted = |connection: &Connection| {
            connection.peer_has
                && connection.proxy_has
                && matches!(connection.peer, Peer::Client(..)) == of_client
        };
        let open: Vec<usize> = (0..self.connections.len())
            .filter(|number| is_wanted(&self.connections[*number]))
            .collect();
        if open.is_empty() {
            return "nothing";
        }
        let number = open[self.dice.below(open.len() as u64) as usize];
        self.break_off(number);
        match of_client {
            true => "client's connection broken",
            false => "node's connection broken",
        }
    }

    pub(super) fn reset_node(&mut self, node: usize) {
        for number in 0..self.connections.len() {
            let connection = &self.connections[number];
            let of_node = matches!(&connection.peer, Peer::Node(end) if end.node == node);
            if of_node && connection.peer_has && connection.proxy_has {
                self.break_off(number);
            }
        }
    }

    pub(super) fn new_snapshot(&mut self) {
        let nodes = self.cluster.nodes.len();
        let proxy = self.dice.below(self.proxies.len() as u64) as usize;
        let known = &mut self.proxies[proxy].nodes_known;
        *known = nodes.min(*known + self.dice.below(2) as usize);
        let mut new = snapshot(*known, &self.replication, self.version, self.authenticated);
        let common = self.proxies[proxy].common.clone();
        new.epoch = common.snapshot.load().epoch + 1;
        common.store(new);
        self.tell_all(proxy, &WorkerMessage::Snapshot);
    }

    pub(super) fn new_settings(&mut self) {
        let proxy = self.dice.below(self.proxies.len() as u64) as usize;
        let config = Arc::new(config(&mut self.dice));
        let common = self.proxies[proxy].common.clone();
        common.settings.store(config.clone());
        common.turns.adopt(&config.aggregation);
        self.tell_all(proxy, &WorkerMessage::Settings(config));
    }

    pub(super) fn tell_all(&mut self, proxy: usize, message: &WorkerMessage) {
        for worker in 0..self.proxies[proxy].workers.len() {
            let delay = 1 + self.dice.below(1_000);
            let at = At { proxy, worker };
            self.events.plan(delay, Event::Message(at, message.clone()));
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
