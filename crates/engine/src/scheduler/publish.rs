//! A worker's view of a node's queue, published once a tick for metrics and for the other workers.

use std::sync::atomic::Ordering;

use helenus_policy::choice::{Cause, View};
use helenus_policy::schedule::{Class, Counters};

use crate::scheduler::Queue;
use crate::stats::{add, sub};

impl Queue {
    /// Tells what the choice of replicas makes of the node now.
    pub(super) fn publish_choice(&mut self, now: View) {
        let before = std::mem::replace(&mut self.chosen, now);
        let stats = &self.stats;
        let milli = |value: f32| (value * 1_000.0) as u64;
        for (gauge, value) in [
            (&stats.score_us, now.score_us),
            (&stats.slowdown_milli, milli(now.slowdown)),
            (&stats.failures_milli, milli(now.failures)),
            (&stats.outstanding_us, now.outstanding_us),
        ] {
            gauge.store(value, Ordering::Relaxed);
        }
        self.reports
            .note_contradicted(before.is_contradicted, now.is_contradicted);
        match (before.is_ejected, now.is_ejected) {
            (false, true) => {
                let (failures, slower) = match now.cause {
                    Some(Cause::Failures(share)) => (milli(share), 0),
                    Some(Cause::Slow(times)) => (0, milli(times)),
                    None => (0, 0),
                };
                let (of_failures, of_slower) =
                    (&stats.ejected_failures_milli, &stats.ejected_slower_milli);
                of_failures.store(failures, Ordering::Relaxed);
                of_slower.store(slower, Ordering::Relaxed);
                add(&stats.ejected, 1);
            }
            (true, false) => sub(&stats.ejected, 1),
            _ => {}
        }
        let new = now.ejections - before.ejections;
        add(&stats.counters.ejections, new);
    }

    /// Adds what has been counted since the last time to the node's statistics.
    pub(super) fn publish(&mut self, now_us: u64) {
        let now = *self.schedule.counters();
        let before: Counters = std::mem::replace(&mut self.published, now);
        for class in Class::ALL {
            let at = class as usize;
            let stats = &self.stats.schedule[at];
            add(
                &stats.dispatched,
                now.dispatched[at] - before.dispatched[at],
            );
            add(&stats.aged, now.aged[at] - before.aged[at]);
            add(&stats.refused, now.refused[at] - before.refused[at]);
            add(&stats.expired, now.expired[at] - before.expired[at]);
            add(&stats.shed, now.shed[at] - before.shed[at]);
        }
        let others = Class::ALL
            .iter()
            .filter(|class| class.is_quick() && **class != Class::System)
            .map(|class| &self.stats.schedule[*class as usize].dispatched)
            .map(|sent| sent.load(Ordering::Relaxed))
            .sum();
        if std::mem::replace(&mut self.others, others) != others {
            self.others_at_us = now_us;
        }
        let window = u64::from(self.schedule.window());
        self.stats.window.store(window, Ordering::Relaxed);
        let taken = u64::from(self.shared.scans());
        self.stats.scan_slots_taken.store(taken, Ordering::Relaxed);
        self.schedule.set_scan_slots(self.shared.permits());
        let slots = u64::from(self.schedule.scan_slots());
        self.stats.scan_slots.store(slots, Ordering::Relaxed);
    }
}
