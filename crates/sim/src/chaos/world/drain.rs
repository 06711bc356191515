//! Proxies that are stopped, as the shell does it on SIGTERM, and started anew.

use std::time::Duration;

use helenus_engine::session::drain::{TICK, Timetable};

use super::network::End;
use super::setup::config;
use super::strikes::Scope;
use super::{Event, World};
use crate::chaos::bounds::Cause;
use crate::chaos::coverage::Fault;
use crate::chaos::proxy::{At, Proxy, snapshot};

impl World {
    /// The proxies that have not ended.
    pub(super) fn proxies_running(&self) -> Vec<usize> {
        let running = |proxy: &usize| self.proxies[*proxy].workers.iter().any(|w| !w.ended);
        (0..self.proxies.len()).filter(running).collect()
    }

    /// Those that may end now: none is ending already, and where nodes stay away the first one lives as long as the run.
    fn proxies_to_end(&self) -> Vec<usize> {
        let mut running = self.proxies_running();
        let mut workers = running
            .iter()
            .flat_map(|proxy| &self.proxies[*proxy].workers);
        if workers.any(|w| w.timetable.is_some()) {
            return Vec::new();
        }
        let stays = self.stays_away();
        running.retain(|proxy| *proxy > 0 || !stays);
        running
    }

    fn any_to_end(&mut self) -> Option<usize> {
        let running = self.proxies_to_end();
        let at = self.dice.below(running.len() as u64) as usize;
        running.get(at).copied()
    }

    /// Has a proxy stopped, unless one is being stopped already.
    pub(super) fn begin_drain(&mut self) -> &'static str {
        let Some(proxy) = self.any_to_end() else {
            return "nothing";
        };
        let mut up_to = |most_ms: u64| Duration::from_millis(self.dice.below(most_ms));
        let (grace, whole) = (up_to(2_000), up_to(8_000));
        let timetable = Timetable::new(self.now(), grace, whole);
        for worker in 0..self.proxies[proxy].workers.len() {
            let at = At { proxy, worker };
            self.worker(at).timetable = Some(timetable);
            self.events
                .plan(self.dice.below(20_000), Event::DrainTick(at));
        }
        "proxy drained"
    }

    pub(super) fn drain(&mut self, at: At) {
        let now = self.now();
        let worker = self.worker(at);
        let Some(timetable) = worker.timetable else {
            return;
        };
        if now >= timetable.grace_ends || worker.engine.is_drained() {
            worker.accepts = false;
        }
        if now >= timetable.grace_ends {
            worker.engine.close_quiet_sessions(now, &timetable);
            self.after(at);
        }
        if now >= timetable.deadline || self.worker(at).engine.is_drained() {
            return self.end_worker(at);
        }
        let tick_us = TICK.as_micros() as u64;
        self.events.plan(tick_us, Event::DrainTick(at));
    }

    pub(super) fn kill_any(&mut self) -> &'static str {
        match self.any_to_end() {
            Some(proxy) => self.kill(proxy),
            None => "nothing",
        }
    }

    /// A proxy is killed that has just been asked for a write.
    pub(super) fn kill_in_write(&mut self, proxy: usize) {
        if self.may(Cause::Kill) && self.proxies_to_end().contains(&proxy) {
            let what = self.kill(proxy);
            self.count(what);
        }
    }

    /// A proxy is killed: it tells nobody what it doubts, and what it has sent may be lost on any of its connections.
    fn kill(&mut self, proxy: usize) -> &'static str {
        self.strike(Fault::WorkerEnds, Scope::proxy(proxy));
        self.note_cut_short(proxy);
        for number in 0..self.connections.len() {
            let connection = &self.connections[number];
            if connection.at.proxy == proxy && connection.is_open() && self.dice.below(2) == 0 {
                self.break_off(number);
            }
        }
        for worker in 0..self.proxies[proxy].workers.len() {
            let at = At { proxy, worker };
            if !self.worker(at).ended {
                self.give_up_worker(at);
            }
        }
        self.forget_told(proxy);
        let delay = 100_000 + self.dice.below(1_000_000);
        self.events.plan(delay, Event::Restart);
        "proxy killed"
    }

    fn give_up_worker(&mut self, at: At) {
        self.note(|| format!("{at:?} ends"));
        let now = self.now();
        self.worker(at).end(at.worker, now);
        self.proxies[at.proxy].common.on_worker_ended(at.worker);
        for number in 0..self.connections.len() {
            if self.connections[number].at == at {
                self.leave(number, End::Proxy);
            }
        }
    }

    fn end_worker(&mut self, at: At) {
        self.strike(Fault::WorkerEnds, Scope::worker(at));
        self.give_up_worker(at);
        if self.proxies[at.proxy].workers.iter().all(|w| w.ended) {
            self.end_doubts(at.proxy);
            let delay = 100_000 + self.dice.below(1_000_000);
            self.events.plan(delay, Event::Restart);
        }
    }

    /// A new process takes the place of one that has ended.
    pub(super) fn restart_proxy(&mut self) {
        let number = self.proxies.len();
        let workers = 1 + self.dice.below(3) as usize;
        // As the node sees it that it asks: before a change is over, as it was before.
        let members = self.members_now();
        let (version, authenticated) = (self.version, self.authenticated);
        let snapshot = snapshot(&members, None, &self.replication, version, authenticated);
        let config = config(&mut self.dice, self.memory_max, self.catalogue.is_some());
        let (seed, now) = (self.dice.draw(), self.now());
        self.proxies
            .push(Proxy::new(config, snapshot, workers, seed, now));
        self.proxies[number].begun_us = self.now_us();
        if self.derived.is_some() {
            let of = self.proxies[0].layouts_replication.clone();
            self.proxies[number].layouts_replication = of;
            let known = self.proxies[number].members.clone();
            self.store_snapshot(number, known);
        }
        self.note(|| format!("proxy {number} begins"));
        if self.catalogue.is_some() {
            self.events
                .plan(self.dice.below(500_000), Event::ReadCatalogue(number));
        }
        self.begin_proxy(number);
    }
}
