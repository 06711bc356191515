//! What must hold at any moment, and in the end.

use std::sync::atomic::Ordering;

use super::network::End;
use super::{ANSWERED_AFTER_US, Event, QUIET_FOR_US, World};
use crate::chaos::coverage::{self, Check};
use crate::chaos::proxy::{At, Worker};

/// What a worker may hold without the others' knowing.
const UNTOLD_MAX: usize = 64 * 1024;
/// The largest page, of 60 rows of eight columns.
const ANSWER_MAX: usize = 60 * 8 * 12 + 512;
/// Of so many answers or more at most so many in ten refuse.
const ANSWERED_LEAST: u64 = 40;
const REFUSED_MAX: u64 = 9;
/// What a link's encoder keeps.
const BUFFER_MAX: usize = 16 * 1024;

impl World {
    /// What an engine says of itself is true at any moment.
    pub(super) fn judge_books(&mut self, at: At) {
        let engine = &self.worker(at).engine;
        let (found, is_busy) = (engine.contradictions(), engine.requests_in_flight() > 0);
        self.checked(Check::Books, is_busy);
        if !found.is_empty() {
            self.violate(format!("{at:?}: {}", found.join("; ")));
        }
        self.judge_memory(at.proxy);
    }

    /// Whoever is still connected has had all answers; then everybody leaves.
    pub(super) fn judge_answered(&mut self) {
        for client in 0..self.clients.len() {
            let Some(number) = self.clients[client].connection else {
                continue;
            };
            if let Some((stream, request)) = self.clients[client].in_flight.iter().next() {
                let at = self.connections[number].at;
                let leak_check = self.proxies[at.proxy].workers[at.worker]
                    .engine
                    .leak_check();
                let what = format!(
                    "client {client} has no answer to {request:?} on stream {stream}; {leak_check:?}"
                );
                return self.violate(what);
            }
            self.clients[client].connection = None;
            self.leave(number, End::Peer);
        }
    }

    /// A proxy holds no more than it may, but for what its workers have not told each other yet, what was
    /// asked for while there was room, and the buffers of its links.
    fn judge_memory(&mut self, proxy: usize) {
        let Some(max) = self.memory_max else {
            return;
        };
        let workers = self.proxies[proxy].workers.iter().filter(|w| !w.ended);
        let held: usize = workers.clone().map(|w| w.engine.bytes_held()).sum();
        let slack = |w: &Worker| {
            UNTOLD_MAX + w.engine.requests_in_flight() * ANSWER_MAX + w.links.len() * BUFFER_MAX
        };
        let most = max + workers.map(slack).sum::<usize>();
        if held > most {
            self.violate(format!(
                "proxy {proxy} holds {held} bytes, and may hold {most}"
            ));
        }
    }

    /// Most of what was asked for was not refused, whatever has gone wrong.
    fn judge_served(&mut self) {
        let (answered, refused) = self.answered;
        self.checked(Check::Served, answered >= ANSWERED_LEAST);
        self.covered.count(
            &format!("refused in ten: {}", refused * 10 / answered.max(1)),
            1,
        );
        if answered >= ANSWERED_LEAST && refused * 10 > answered * REFUSED_MAX {
            self.violate(format!("of {answered} requests {refused} were refused"));
        }
    }

    /// Ends the run early where nobody waits for anything any more, or after all clients have been sent
    /// away.
    pub(super) fn look_for_quiet(&mut self) {
        let all_left = self.clients.iter().all(|c| c.connection.is_none());
        let mut workers = self.proxies.iter().flat_map(|proxy| &proxy.workers);
        let is_quiet =
            self.is_calm && all_left && workers.all(|w| w.engine.leak_check().is_empty());
        let is_over = is_quiet || self.now_us() > self.trouble_us + ANSWERED_AFTER_US;
        let is_swept = self.derived.as_ref().is_none_or(|of| of.sweep.is_settled);
        match is_over && is_swept {
            true => self.events.plan(QUIET_FOR_US, Event::Quiet),
            false => self.events.plan(1_000_000, Event::LookForQuiet),
        }
    }

    /// Everything that was taken has been given back.
    pub(super) fn judge_quiet(&mut self) {
        for proxy in 0..self.proxies.len() {
            let counters = self.proxies[proxy].common.stats.global.list();
            for (name, value) in counters.into_iter().filter(|(_, value)| *value > 0) {
                self.covered.count(&format!("counter {name}"), value);
            }
            let nodes = self.proxies[proxy].common.stats.nodes();
            let classes = nodes.iter().flat_map(|node| &node.schedule);
            let shed = classes.map(|of| of.shed.load(Ordering::Relaxed)).sum();
            self.covered.count(coverage::SHED, shed);
        }
        let ledger = &self.cluster.ledger;
        for (what, times) in [
            (coverage::WRITES_COMPARED, ledger.compared),
            (coverage::WRITES_OF_ROLES, ledger.of_roles),
            (coverage::WRITES_LATE, ledger.late),
        ] {
            self.covered.count(what, times);
        }
        self.count_hints();
        let (reads, copied) = (self.cluster.layout_reads, self.cluster.copied);
        self.covered.count(coverage::LAYOUT_READ, reads);
        self.covered.count(coverage::COPIED, copied);
        let mut left = Vec::new();
        for (proxy, of) in self.proxies.iter().enumerate() {
            // Those of workers that have ended, too.
            let logins = of.common.logins.counts();
            if logins != (0, 0) {
                left.push(format!(
                    "proxy {proxy}: {logins:?} logins are judged and wait"
                ));
            }
            for (worker, of) in of.workers.iter().enumerate() {
                let leak_check = of.engine.leak_check();
                if !leak_check.is_empty() {
                    left.push(format!(
                        "{:?}: {}",
                        At { proxy, worker },
                        leak_check.join("; ")
                    ));
                }
            }
        }
        self.checked(Check::Quiet, true);
        if !left.is_empty() {
            self.violate(left.join("\n"));
        }
        self.judge_unserved();
        self.judge_served();
        self.checked(Check::Refused, !self.refused.is_empty());
        self.judge_beside();
        if let Err(what) = self.cluster.once.judge() {
            self.violate(what);
        }
        if self.cluster.altered > self.alters {
            self.violate("a schema change was executed twice".to_owned());
        }
        if self.cluster.uncopied > 0 {
            self.violate("what cannot be copied to layouts was executed".to_owned());
        }
        let cluster = &self.cluster;
        let updated = |id: &&(i64, i64)| cluster.updated.contains(*id);
        if let Some(id) = self.refused_rows.iter().find(updated) {
            self.violate(format!(
                "{id:?} was executed, and its client was told that it was not"
            ));
        }
        self.compare_layouts();
        let cluster = &self.cluster;
        let executed = |id: &&i64| cluster.once.times(**id) > 0 || cluster.applied.contains(*id);
        if let Some(id) = self.refused.iter().find(executed) {
            self.violate(format!(
                "{id} was executed, and its client was told that it was not"
            ));
        }
    }
}
