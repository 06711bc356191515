//! What clients do: connect, ask, and leave.

use std::net::SocketAddr;

use super::network::{Connection, End, Peer};
use super::strikes::Scope;
use super::{Event, World};
use crate::chaos::coverage::Fault;
use crate::chaos::proxy::At;

impl World {
    pub(super) fn act(&mut self, client: usize) {
        if self.is_paced(client) {
            return self.act_at_pace(client);
        }
        if self.clients[client].connection.is_none() {
            if self.trouble && self.clients[client].left > 0 {
                self.connect(client);
            }
            return;
        }
        if !self.clients[client].ready {
            return;
        }
        if self.clients[client].asks_left.is_some() {
            return self.ask_after_trouble(client);
        }
        let most = 1 + self.dice.below(6) as usize;
        while self.trouble
            && self.clients[client].left > 0
            && self.clients[client].in_flight.len() < most
        {
            self.clients[client].left -= 1;
            self.begin_request(client);
        }
        self.write_of_client(client);
        let done = self.clients[client].left == 0 || !self.trouble;
        match (done, self.clients[client].connection) {
            (true, Some(number)) if self.clients[client].in_flight.is_empty() => {
                self.clients[client].connection = None;
                self.leave(number, End::Peer);
            }
            (true, _) => {}
            _ => {
                let think = 100 + self.dice.below(300_000 * self.slowness());
                self.events.plan(think, Event::Act(client));
            }
        }
    }

    pub(super) fn connect(&mut self, client: usize) {
        let running = self.proxies_running();
        let proxy = self.dice.below(running.len() as u64) as usize;
        let Some(proxy) = running.get(proxy).copied() else {
            return self.connect_later(client);
        };
        let worker = self.dice.below(self.proxies[proxy].workers.len() as u64) as usize;
        let at = At { proxy, worker };
        let of = self.worker(at);
        if of.ended || !of.accepts {
            return self.connect_later(client);
        }
        self.connect_to(client, at);
    }

    pub(super) fn connect_to(&mut self, client: usize, at: At) {
        let proxy = at.proxy;
        let (now, now_us) = (self.now(), self.now_us());
        let Some(permit) = self.proxies[proxy].common.admit_client() else {
            return;
        };
        let number = self.connections.len();
        let peer = SocketAddr::from(([192, 168, 0, client as u8], 1024 + number as u16 % 60_000));
        let of = self.worker(at);
        let key = of.engine.open_session(now, peer, now, permit);
        of.clients.insert(key, number);
        self.connections
            .push(Connection::new(at, Peer::Client(client, key)));
        self.count("client connected");
        let version = self.clients[client].version;
        self.note(|| format!("client {client} connects to {at:?} in {version:?}"));
        self.clients[client].connect(number);
        self.clients[client].start(now_us);
        self.write_of_client(client);
    }

    fn connect_later(&mut self, client: usize) {
        self.covered.count("client turned away", 1);
        let delay = 20_000 + self.dice.below(500_000);
        self.events.plan(delay, Event::Act(client));
    }

    /// A client that waits for something closes its connection and comes back.
    pub(super) fn leave_early(&mut self) -> &'static str {
        let waits = |client: &usize| {
            let client = &self.clients[*client];
            client.connection.is_some() && !client.in_flight.is_empty()
        };
        let waiting: Vec<usize> = (0..self.clients.len()).filter(waits).collect();
        let at = self.dice.below(waiting.len() as u64) as usize;
        let Some(client) = waiting.get(at).copied() else {
            return "nothing";
        };
        if let Some(number) = self.clients[client].connection.take() {
            let scope = Scope::of(&self.connections[number]);
            self.strike(Fault::ClientLeaves, scope);
            self.clients[client].ready = false;
            self.leave(number, End::Peer);
        }
        self.connect_later(client);
        "client left"
    }

    pub(super) fn write_of_client(&mut self, client: usize) {
        let bytes = self.clients[client].take_bytes();
        if let Some(number) = self.clients[client].connection {
            self.send(number, End::Proxy, &bytes);
        }
    }
}
