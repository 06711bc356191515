//! What goes wrong.

use super::super::super::list::{State, TABLE};
use super::super::catalogue::Request;
use super::super::{Faults, SECOND};
use super::{Event, World};

impl World {
    /// The last copy in sync has lost its last writes: that is not for the protocol. Somebody finds its disk.
    pub(super) fn operate(&mut self) {
        let list = *self.catalogue.copies();
        for (copy, node) in self.nodes.iter_mut().enumerate() {
            let last = list.state(copy) == State::InSync && list.in_sync().len() == 1;
            if last && node.up && node.boot != list.boot(copy) {
                node.restore(list.boot(copy));
            }
        }
    }

    /// None if it is lost.
    pub(super) fn delay_to_copy(&mut self, host: usize, copy: usize) -> Option<u64> {
        if self.lost == Some(copy) {
            return None;
        }
        if !self.is_faulty() {
            return Some(self.between(200, 2_000));
        }
        if self.hosts[host].cut_off_from_copy[copy] > self.now || self.chance(150) {
            return None;
        }
        if self.hosts[host].bad_until > self.now && self.chance(2) {
            let late = self.between(2_000, self.setup.timing.late_us);
            return (!self.chance(2)).then_some(late);
        }
        Some(match self.rng.below(40) {
            0 => self.between(2_000, self.setup.timing.late_us),
            1..=3 => self.between(2_000, 100_000),
            _ => self.between(200, 2_000),
        })
    }

    /// How long a request takes, and whether it is answered; None if it gets lost.
    pub(super) fn way_to_catalogue(&mut self) -> Option<(u64, bool)> {
        let delay = self.between(300, 3_000);
        if !self.is_faulty() {
            return Some((delay, true));
        }
        Some(match self.rng.below(12) {
            // It never happens.
            0 => return None,
            // It happens, and nobody is told.
            1 => (delay, false),
            // It happens when nobody expects it any more.
            2 => (self.between(1_000, 5 * SECOND), false),
            3 => (self.between(3_000, 900_000), true),
            _ => (delay, true),
        })
    }

    pub(super) fn ask_catalogue(&mut self, from: (usize, usize), token: u64, request: Request) {
        let is_cut_off = self.hosts[from.0].cut_off_from_catalogue > self.now;
        let hears_nothing = self.hosts[from.0].hears_nothing_until > self.now;
        if self.is_faulty() && is_cut_off || hears_nothing {
            // As many dice as before.
            self.between(300, 3_000);
            return;
        }
        let Some((delay, answered)) = self.way_to_catalogue() else {
            return;
        };
        let event = Event::AtCatalogue {
            from,
            token,
            request,
            answered,
        };
        self.plan(delay, event);
    }

    pub(super) fn fail(&mut self) {
        if self.setup.faults == Faults::OneNodeLost {
            if self.now > 4 * SECOND {
                self.lost = Some(self.nodes.len() - 1);
            }
            return;
        }
        let host = self.rng.below(self.hosts.len());
        let copy = self.rng.below(self.nodes.len());
        let short = self.now + self.between(20_000, 600_000);
        let long = self.now + self.between(500_000, 7 * SECOND);
        let until = if self.chance(2) { short } else { long };
        let kind = self.rng.below(match self.setup.task {
            Some(_) => 14,
            None => 11,
        });
        match kind {
            0 | 1 => self.hosts[host].paused_until = until,
            2 => {
                // What it sends last is often late or lost.
                self.hosts[host].bad_until = self.now + 60_000;
                self.plan(50_000, Event::Kill(host));
                self.plan(until - self.now + 50_000, Event::Start(host));
            }
            3 | 4 => self.frozen_until[copy] = until,
            5 if self.nodes[copy].up => {
                let kept = self.nodes[copy].unsynced();
                let kept = self.rng.below(kept + 1);
                self.nodes[copy].crash(kept);
                self.plan(until - self.now, Event::RestartNode(copy));
            }
            6 | 7 => self.hosts[host].cut_off_from_copy[copy] = until,
            8 => self.hosts[host].cut_off_from_catalogue = until,
            9 => self.hosts[host].cut_off_from_others = until,
            10 => self.hosts[host].bad_until = until,
            11 => self.hosts[host].cut_off_from_copy[TABLE] = until,
            12 => self.table.lose(self.now as usize, until),
            13 => self.command.kill(until),
            _ => {}
        }
        let until = until - self.now;
        self.note(|| format!("fault {kind} of host {host}, node {copy}, for {until}"));
    }
}
