//! What a fault strikes: where requests are in the proxies that it concerns.

use std::collections::BTreeSet;

use super::World;
use super::network::{Connection, Peer};
use crate::chaos::cassandra::Stage;
use crate::chaos::coverage::{Fault, Station};
use crate::chaos::proxy::At;

/// Which workers a fault concerns, and which node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scope {
    pub proxy: Option<usize>,
    pub worker: Option<usize>,
    pub node: Option<usize>,
}

impl Scope {
    pub(super) fn node(node: usize) -> Scope {
        Scope {
            node: Some(node),
            ..Scope::default()
        }
    }

    pub(super) fn proxy(proxy: usize) -> Scope {
        Scope {
            proxy: Some(proxy),
            ..Scope::default()
        }
    }

    pub(super) fn worker(at: At) -> Scope {
        Scope {
            worker: Some(at.worker),
            ..Scope::proxy(at.proxy)
        }
    }

    /// Whether it concerns a connection to a node that is being set up.
    fn has_greeting(&self, connection: &Connection) -> bool {
        let Peer::Node(end) = &connection.peer else {
            return false;
        };
        let At { proxy, worker } = connection.at;
        connection.is_open()
            && matches!(end.peer.stage, Stage::Fresh | Stage::Asked)
            && self.proxy.is_none_or(|concerned| concerned == proxy)
            && self.worker.is_none_or(|concerned| concerned == worker)
            && self.node.is_none_or(|concerned| concerned == end.node)
    }

    pub(super) fn of(connection: &Connection) -> Scope {
        let node = match &connection.peer {
            Peer::Client(..) => None,
            Peer::Node(end) => Some(end.node),
        };
        Scope {
            node,
            ..Scope::worker(connection.at)
        }
    }
}

impl World {
    /// Counts a fault for each station where it finds requests.
    pub(super) fn strike(&mut self, fault: Fault, scope: Scope) {
        let node = scope.node.map(|node| format!(" 10.0.0.{}:9042", node + 1));
        let mut struck = BTreeSet::new();
        for (proxy, of) in self.proxies.iter().enumerate() {
            for (worker, of) in of.workers.iter().enumerate() {
                let concerned = scope.proxy.is_none_or(|concerned| concerned == proxy)
                    && scope.worker.is_none_or(|concerned| concerned == worker);
                if !concerned || of.ended {
                    continue;
                }
                if of.agreeing > 0 {
                    struck.insert(Station::Agreement);
                }
                let leak_check = of.engine.leak_check();
                let stations = leak_check
                    .iter()
                    .filter_map(|line| Station::of_residue(line, node.as_deref()));
                struck.extend(stations);
            }
        }
        if self.connections.iter().any(|c| scope.has_greeting(c)) {
            struck.insert(Station::Greeting);
        }
        self.covered.count(fault.name(), 1);
        for station in struck {
            self.covered.strike(fault, station);
        }
    }
}
