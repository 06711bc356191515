//! What nodes and the catalogue answer to proxies.

use super::super::super::list::TABLE;
use super::super::catalogue::Request;
use super::super::proxy::Ask;
use super::{Event, World};

impl World {
    pub(super) fn at_copy(
        &mut self,
        from: (usize, usize),
        copy: usize,
        token: u64,
        ask: Ask,
        sent: u64,
    ) {
        if copy == TABLE {
            return self.at_table(from, token, ask, sent);
        }
        if self.lost == Some(copy) || !self.nodes[copy].up {
            return;
        }
        if self.frozen_until[copy] > self.now {
            let delay = self.frozen_until[copy] - self.now;
            let event = Event::AtCopy {
                from,
                copy,
                token,
                ask,
                sent,
            };
            self.plan(delay, event);
            return;
        }
        if self.now - sent > self.setup.timing.late_us {
            return;
        }
        let node = &mut self.nodes[copy];
        let boot = node.boot;
        let cell = match ask {
            Ask::Read(key) | Ask::ReadAll(key) => node.read(key),
            Ask::Write(key, cell) | Ask::WriteAll(key, cell) => {
                node.write(key, cell);
                cell
            }
        };
        self.note(|| format!("node {copy} for {}: {ask:?} {cell:?}", from.1));
        if let Some(delay) = self.delay_to_copy(from.0, copy) {
            let event = Event::FromCopy {
                to: from,
                token,
                boot,
                cell,
            };
            self.plan(delay, event);
        }
    }

    pub(super) fn at_catalogue(
        &mut self,
        from: (usize, usize),
        token: u64,
        request: Request,
        answered: bool,
    ) {
        let before = *self.catalogue.copies();
        let answer = self.catalogue.carry_out(request);
        if answer.changed {
            self.note(|| format!("proxy {} changes: {request:?}", from.1));
            let counts = &mut self.checks.counts;
            counts.evicted += u64::from(before.listed().len() > answer.copies.listed().len());
            let grown = answer.copies.in_sync().len() > before.in_sync().len();
            counts.promoted += u64::from(grown);
        }
        if answered {
            let mut delay = self.between(300, 3_000);
            if self.is_faulty() && self.chance(8) {
                delay = self.between(3_000, 900_000);
            }
            let answer = Box::new(answer);
            self.plan(
                delay,
                Event::FromCatalogue {
                    to: from,
                    token,
                    answer,
                },
            );
        }
    }
}
