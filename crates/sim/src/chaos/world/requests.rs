//! What clients ask for.

use super::answers::name;
use super::{Event, World};
use crate::chaos::bounds::Cause;
use crate::chaos::client::{Batch, Purpose, TEXTS, role_name};
use crate::chaos::cql;
use crate::chaos::lists;
use crate::chaos::wide::texts;
use crate::dice::Dice;

fn bytes(value: i64) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

impl World {
    pub(super) fn begin_request(&mut self, number: usize) {
        // One key is hot, so that clients ask for the same at a time.
        let key = match self.dice.below(3) {
            0 => 0,
            _ => self.dice.below(self.keys as u64) as i64,
        };
        let least = self.cluster.nodes.iter().map(|node| node.schema).min();
        let may_alter = self.may(Cause::Alter);
        let begun = match self.dice.below(29) {
            _ if self.merges && self.dice.below(4) == 0 => return self.begin_writes(number, least),
            _ if self.catalogue.is_some() && self.dice.below(2) == 0 => self.begin_rows(number),
            _ if self.has_lists && self.dice.below(5) == 0 => Some(self.begin_list(number)),
            _ if may_alter && self.dice.below(250) == 0 => {
                self.alters += 1;
                Some(self.ask(number, cql::ALTER, &[], Purpose::Alter))
            }
            which @ 6..=13 => self.begin_write(number, which, key),
            23 => {
                let texts = self.texts();
                let text = texts[self.dice.below(texts.len() as u64) as usize];
                let now_us = self.now_us();
                return self.clients[number].prepare(now_us, text);
            }
            27 | 28 => self.begin_batch(number),
            which => Some(self.begin_read(number, which, key)),
        };
        if let Some(stream) = begun {
            self.note_begun(number, stream, least);
        }
    }

    /// Several writes at once, which may share a batch.
    fn begin_writes(&mut self, number: usize, least: Option<usize>) {
        for _ in 0..2 + self.dice.below(12) {
            let key = self.dice.below(self.keys as u64) as i64;
            if let Some(stream) = self.begin_write(number, 6, key) {
                self.note_begun(number, stream, least);
            }
        }
    }

    pub(super) fn note_begun(&mut self, number: usize, stream: i16, least: Option<usize>) {
        if let Some(request) = self.clients[number].in_flight.get_mut(&stream) {
            request.schema = least.unwrap_or(0);
        }
        self.note_request(number, stream);
        self.strike_in_write(number, stream);
        if self.dice.below(30) == 0 {
            // Where something is under way.
            self.events.plan(self.dice.below(5_000), Event::Strike);
        }
        let now_us = self.now_us();
        if let Some(connection) = self.clients[number].connection {
            let patience = 2_000_000 + self.dice.below(20_000_000);
            let give_up = Event::GiveUp(number, connection, stream, now_us);
            self.events.plan(patience, give_up);
        }
    }

    /// Where layouts are derived, proxies are killed in the middle of writes.
    fn strike_in_write(&mut self, number: usize, stream: i16) {
        let client = &self.clients[number];
        let request = client.in_flight.get(&stream).map(|of| &of.purpose);
        let is_write = matches!(request, Some(Purpose::RowWrite(_)));
        let Some(connection) = client.connection.filter(|_| is_write) else {
            return;
        };
        if self.derived.is_some() && self.dice.below(60) == 0 {
            let proxy = self.connections[connection].at.proxy;
            self.events.plan(self.dice.below(4_000), Event::Kill(proxy));
        }
    }

    /// What clients prepare.
    pub(super) fn texts(&self) -> Vec<&'static str> {
        let of_rows = self.catalogue.iter().flat_map(|_| texts::ALL);
        let of_lists = lists::TEXTS.into_iter().filter(|_| self.has_lists);
        TEXTS.into_iter().chain(of_rows).chain(of_lists).collect()
    }

    /// A client is about to write this.
    pub(super) fn note_made(&mut self, number: usize, value: i64) {
        let client = &self.clients[number];
        let (role, level) = (role_name(client.role), client.level);
        let now_us = self.now_us() as i64;
        self.cluster.ledger.note(value, role, now_us, level);
    }

    /// Sends a statement; returns its stream.
    pub(super) fn ask(
        &mut self,
        number: usize,
        text: &'static str,
        values: &[Vec<u8>],
        purpose: Purpose,
    ) -> i16 {
        let now_us = self.now_us();
        let page = (100, None);
        self.clients[number].statement(now_us, text, values, page, purpose, &mut self.dice)
    }

    pub(super) fn ask_page(&mut self, number: usize, text: &'static str, size: i32) -> i16 {
        let now_us = self.now_us();
        let (page, purpose) = ((size, None), Purpose::Scan(text, Default::default()));
        self.clients[number].statement(now_us, text, &[], page, purpose, &mut self.dice)
    }

    /// `None` if the key that it would write is another's, or is being written.
    pub(super) fn begin_write(&mut self, number: usize, which: u64, key: i64) -> Option<i16> {
        let (now_us, count) = (self.now_us(), self.clients.len() as i64);
        let client = &mut self.clients[number];
        Some(match which {
            6..=9 => {
                let own = key - key.rem_euclid(count) + number as i64;
                if own >= self.keys || !client.writing.insert(own) {
                    return None;
                }
                let value = client.unique(number);
                self.registers.begin(own, value, now_us);
                self.note_made(number, value);
                let values = [bytes(own), bytes(value)];
                self.ask(number, cql::WRITE, &values, Purpose::Write(own, value))
            }
            10 | 11 => {
                let id = client.unique(number);
                self.note_made(number, id);
                let values = [bytes(id), bytes(key)];
                self.ask(number, cql::ADD, &values, Purpose::Add(id))
            }
            _ => {
                let key = key % 2;
                let value = client.unique(number);
                self.note_made(number, value);
                let expected = self.cluster.conditional.get(&key).copied().unwrap_or(0);
                let values = [bytes(value), bytes(key), bytes(expected)];
                let purpose = Purpose::Cas(key, value, expected);
                self.ask(number, cql::CAS, &values, purpose)
            }
        })
    }

    pub(super) fn begin_read(&mut self, number: usize, which: u64, key: i64) -> i16 {
        let of_key = [bytes(key)];
        match which {
            24 | 25 => self.ask(number, cql::READ_ALL, &of_key, Purpose::Read(key)),
            26 => {
                let size = page_size(&mut self.dice);
                self.ask_page(number, cql::SCAN_ALL, size)
            }
            14 => self.ask(number, cql::READ_CAS, &of_key, Purpose::ReadCas(key)),
            15 | 20 | 21 => {
                let size = page_size(&mut self.dice);
                let texts = [
                    cql::SCAN,
                    cql::SCAN,
                    cql::SCAN_SOME,
                    cql::FILTER,
                    cql::FILTER_SOME,
                ];
                let text = texts[self.dice.below(texts.len() as u64) as usize];
                self.ask_page(number, text, size)
            }
            16 => self.ask(number, cql::COUNT, &[], Purpose::Count),
            17 | 22 => {
                let mut some: Vec<i64> = (0..1 + self.dice.below(6))
                    .map(|_| self.dice.below(self.keys as u64) as i64)
                    .collect();
                some.dedup();
                let values = [cql::list(&some)];
                let text = [cql::MANY, cql::MANY_ALL][self.dice.below(2) as usize];
                self.ask(number, text, &values, Purpose::Many(some))
            }
            18 => self.ask(number, cql::WHO, &[bytes(1)], Purpose::Who),
            19 if self.clients[number].in_keyspace => {
                self.ask(number, cql::READ_HERE, &of_key, Purpose::Read(key))
            }
            19 => self.ask(number, cql::USE, &[], Purpose::Use),
            _ => self.ask(number, cql::READ, &of_key, Purpose::Read(key)),
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
        let written = batch.writes.iter().map(|(_, value)| value);
        let values: Vec<i64> = written.chain(&batch.adds).copied().collect();
        values
            .iter()
            .for_each(|value| self.note_made(number, *value));
        let (client, dice) = (&mut self.clients[number], &mut self.dice);
        let kind = if counters { 2 } else { dice.below(2) as u8 };
        (!children.is_empty())
            .then(|| client.batch(now_us, kind, &children, Purpose::Batch(batch), dice))
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
