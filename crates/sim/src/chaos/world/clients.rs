//! What clients do: connect, ask, and leave.

use std::net::SocketAddr;

use super::answers::name;
use super::network::{Connection, End, Peer};
use super::strikes::Scope;
use super::{Event, World};
use crate::chaos::bounds::Cause;
use crate::chaos::client::{Batch, Client, Purpose, TEXTS};
use crate::chaos::coverage::Fault;
use crate::chaos::cql;
use crate::chaos::proxy::At;
use crate::dice::Dice;

impl World {
    pub(super) fn act(&mut self, client: usize) {
        if self.clients[client].connection.is_none() {
            if self.trouble && self.clients[client].left > 0 {
                self.connect(client);
            }
            return;
        }
        if !self.clients[client].ready {
            return;
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
                let think = 100 + self.dice.below(300_000);
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
        let (now, now_us) = (self.now(), self.now_us());
        let Some(permit) = self.proxies[proxy].common.admit_client() else {
            return;
        };
        let number = self.connections.len();
        let peer = SocketAddr::from(([192, 168, 0, client as u8], 1024 + number as u16 % 60_000));
        let of = self.worker(at);
        of.engine.set_now(now);
        let key = of.engine.open_session(peer, now, permit);
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

    pub(super) fn begin_request(&mut self, number: usize) {
        let now_us = self.now_us();
        let count = self.clients.len() as i64;
        // One key is hot, so that clients ask for the same at a time.
        let any_key = match self.dice.below(3) {
            0 => 0,
            _ => self.dice.below(self.keys as u64) as i64,
        };
        let keys = self.keys;
        let may_alter = self.may(Cause::Alter);
        let client = &mut self.clients[number];
        let dice = &mut self.dice;
        let unique = |client: &mut Client| client.unique(number);
        let bytes = |value: i64| value.to_be_bytes().to_vec();
        let one = (100, None);
        let least = self.cluster.nodes.iter().map(|node| node.schema).min();
        let stream = match dice.below(29) {
            _ if may_alter && dice.below(250) == 0 => {
                self.alters += 1;
                client.statement(now_us, cql::ALTER, &[], one, Purpose::Alter, dice)
            }
            27 | 28 => match self.begin_batch(number) {
                Some(stream) => stream,
                None => return,
            },
            24 | 25 => {
                let values = [bytes(any_key)];
                let purpose = Purpose::Read(any_key);
                client.statement(now_us, cql::READ_ALL, &values, one, purpose, dice)
            }
            26 => {
                let size = page_size(dice);
                let purpose = Purpose::Scan(cql::SCAN_ALL, Default::default());
                client.statement(now_us, cql::SCAN_ALL, &[], (size, None), purpose, dice)
            }
            0..=5 => {
                let values = [bytes(any_key)];
                client.statement(
                    now_us,
                    cql::READ,
                    &values,
                    one,
                    Purpose::Read(any_key),
                    dice,
                )
            }
            6..=9 => {
                let own = any_key - any_key.rem_euclid(count) + number as i64;
                if own >= keys || !client.writing.insert(own) {
                    return;
                }
                let value = unique(client);
                self.registers.begin(own, value, now_us);
                let values = [bytes(own), bytes(value)];
                let purpose = Purpose::Write(own, value);
                client.statement(now_us, cql::WRITE, &values, one, purpose, dice)
            }
            10 | 11 => {
                let id = unique(client);
                let values = [bytes(id), bytes(any_key)];
                client.statement(now_us, cql::ADD, &values, one, Purpose::Add(id), dice)
            }
            12 | 13 => {
                let key = any_key % 2;
                let value = unique(client);
                let expected = self.cluster.conditional.get(&key).copied().unwrap_or(0);
                let values = [bytes(value), bytes(key), bytes(expected)];
                let purpose = Purpose::Cas(key, value, expected);
                client.statement(now_us, cql::CAS, &values, one, purpose, dice)
            }
            14 => {
                let values = [bytes(any_key)];
                let purpose = Purpose::ReadCas(any_key);
                client.statement(now_us, cql::READ_CAS, &values, one, purpose, dice)
            }
            15 | 20 | 21 => {
                let size = page_size(dice);
                let text = [cql::SCAN, cql::SCAN, cql::SCAN_SOME][dice.below(3) as usize];
                let purpose = Purpose::Scan(text, Default::default());
                client.statement(now_us, text, &[], (size, None), purpose, dice)
            }
            16 => client.statement(now_us, cql::COUNT, &[], one, Purpose::Count, dice),
            17 | 22 => {
                let mut some: Vec<i64> = (0..1 + dice.below(6))
                    .map(|_| dice.below(keys as u64) as i64)
                    .collect();
                some.dedup();
                let values = [cql::list(&some)];
                let text = [cql::MANY, cql::MANY_ALL][dice.below(2) as usize];
                client.statement(now_us, text, &values, one, Purpose::Many(some), dice)
            }
            19 if client.in_keyspace => {
                let values = [bytes(any_key)];
                let purpose = Purpose::Read(any_key);
                client.statement(now_us, cql::READ_HERE, &values, one, purpose, dice)
            }
            19 => client.statement(now_us, cql::USE, &[], one, Purpose::Use, dice),
            18 => client.statement(now_us, cql::WHO, &[bytes(1)], one, Purpose::Who, dice),
            _ => {
                let text = TEXTS[dice.below(TEXTS.len() as u64) as usize];
                return client.prepare(now_us, text);
            }
        };
        if let Some(request) = self.clients[number].in_flight.get_mut(&stream) {
            request.schema = least.unwrap_or(0);
        }
        self.note_request(number, stream);
        if self.dice.below(30) == 0 {
            // Where something is under way.
            self.events.plan(self.dice.below(5_000), Event::Strike);
        }
        let client = &self.clients[number];
        if let Some(connection) = client.connection {
            let patience = 2_000_000 + self.dice.below(20_000_000);
            let give_up = Event::GiveUp(number, connection, stream, now_us);
            self.events.plan(patience, give_up);
        }
    }

    fn note_request(&mut self, number: usize, stream: i16) {
        let Some(request) = self.clients[number].in_flight.get(&stream) else {
            return;
        };
        let (name, skipped) = (name(&request.purpose), request.skipped.clone());
        self.note(|| match skipped {
            Some(known) => format!("client {number}, stream {stream}: {name}, known as {known:?}"),
            None => format!("client {number}, stream {stream}: {name}"),
        });
    }

    /// Up to four statements at once: writes of keys that are the client's own, or additions.
    fn begin_batch(&mut self, number: usize) -> Option<i16> {
        let now_us = self.now_us();
        let count = self.clients.len() as i64;
        let client = &mut self.clients[number];
        let dice = &mut self.dice;
        let bytes = |value: i64| value.to_be_bytes().to_vec();
        let mut batch = Batch::default();
        let mut children = Vec::new();
        let counters = dice.below(3) == 0;
        for _ in 0..1 + dice.below(4) {
            let key = dice.below(self.keys as u64) as i64;
            let own = key - key.rem_euclid(count) + number as i64;
            if counters {
                let id = client.unique(number);
                batch.adds.push(id);
                children.push((cql::ADD, vec![bytes(id), bytes(key)]));
            } else if own < self.keys && client.writing.insert(own) {
                let value = client.unique(number);
                self.registers.begin(own, value, now_us);
                batch.writes.push((own, value));
                children.push((cql::WRITE, vec![bytes(own), bytes(value)]));
            }
        }
        let kind = if counters { 2 } else { dice.below(2) as u8 };
        (!children.is_empty()).then(|| client.batch(now_us, kind, &children, batch, dice))
    }
}

/// What a client asks for: a few rows, as many as parts of the ring may happen to have, or all.
pub(super) fn page_size(dice: &mut Dice) -> i32 {
    match dice.below(4) {
        0 => 3,
        1 => 100,
        _ => 8 + dice.below(40) as i32,
    }
}
