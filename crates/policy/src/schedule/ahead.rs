//! Decides whether an item is refused at once, because too much is served before it.
//!
//! Formula: the work served before a new item is the smaller of two sums over what waits and shares its
//! service rate.
//! - By order: all that is of its rank or of less, but for one of the largest items. One prediction may be
//!   wrong, and a single item is no backlog.
//! - By shares: of its class, what its tenant has waiting, and of each other tenant what that is served
//!   until both have been served alike ([`super::shares`]); of the other classes what goes before it by
//!   order, but no more than its class's floor leaves them ([`super::floors`]).
//!
//! That work ÷ the measured rate ([`super::service_rate`]) is how long it would wait.
//!
//! Evidence: `schedule/tests/refusals.rs`; beside a client that has thousands of reads in flight, others'
//! writes were refused for what it had waiting, although they take turns (`sim chaos`, one in ten
//! thousand seeds).
//!
//! Limits: shares are those over all queues for the node, what waits is only this one's. Of what is due
//! and so goes first, whoever it is of, nothing is known here. A scan counts with all that is left of it,
//! although its next piece comes behind others' first ones: so fewer are begun than would time out
//! together. Refusing takes a look at each tenant that waits.

use super::choose::rank_of;
use super::fair_queue::FairQueue;
use super::floors::Floors;
use super::service_rate::{Backlog, ServiceRate, rate_group};
use super::{Class, Job, Refusal, Settings};

/// Nothing is refused on predictions alone: something must have waited for the bound divided by this.
const EVIDENCE_SHARE: u64 = 16;

/// The state of the queues that a new item finds.
pub(super) struct Ahead<'a, T> {
    pub settings: &'a Settings,
    pub queues: &'a [FairQueue<T>; Class::COUNT],
    pub backlogs: &'a [Backlog; Class::COUNT],
    pub service_rates: &'a [ServiceRate; 2],
    pub now_us: u64,
}

impl<T: Copy> Ahead<'_, T> {
    pub(super) fn too_late(&self, class: Class, job: &Job) -> Option<Refusal> {
        if self.settings.variant.is_preset() || class == Class::System {
            return None;
        }
        let margin = match class {
            Class::Scan | Class::Other => 1,
            Class::Write | Class::Lwt if job.idempotent => 2,
            Class::Write | Class::Lwt => 3,
            _ => 4,
        };
        let bound_us = self.settings.wait_max_us[class as usize].saturating_mul(margin);
        let rate = &self.service_rates[rate_group(class)];
        let too_late = |ahead_us| {
            let wait_us = rate.wait_us(self.now_us, ahead_us)?;
            (wait_us > bound_us).then_some(wait_us)
        };
        let by_order_us = self.by_order_us(class, job);
        too_late(by_order_us)?;
        if !self.is_slow(class) {
            return None;
        }
        let wait_us = too_late(by_order_us.min(self.by_shares_us(class, job)))?;
        Some(Refusal::TooLate { wait_us })
    }

    fn by_order_us(&self, class: Class, job: &Job) -> u64 {
        let rank = rank_of(self.settings.variant, class, job);
        let backlogs = || with_rate_of(class).map(|of| &self.backlogs[of as usize]);
        let all_us: u64 = backlogs().map(|of| of.up_to(rank)).sum();
        let largest_us = backlogs().map(|of| of.largest_up_to(rank)).max();
        all_us - largest_us.unwrap_or(0)
    }

    fn by_shares_us(&self, class: Class, job: &Job) -> u64 {
        let rank = rank_of(self.settings.variant, class, job);
        let of_class_us = self.queues[class as usize].ahead_us(job.tenant, rank, job.piece_us);
        let others = with_rate_of(class).filter(|of| *of != class);
        let others_us: u64 = others
            .map(|of| self.backlogs[of as usize].up_to(rank))
            .sum();
        let served_us = of_class_us.saturating_add(u64::from(job.piece_us));
        of_class_us.saturating_add(others_us.min(Floors::others_us(served_us)))
    }

    /// True if something that shares its service rate with this class has waited for a while.
    fn is_slow(&self, class: Class) -> bool {
        let threshold_us = self.settings.wait_max_us[class as usize] / EVIDENCE_SHARE;
        with_rate_of(class).any(|other| {
            let oldest = self.queues[other as usize].oldest();
            oldest.is_some_and(|(_, waiting)| {
                self.now_us.saturating_sub(waiting.arrived_us) >= threshold_us
            })
        })
    }
}

/// The classes that share a service rate with this one, itself among them.
fn with_rate_of(class: Class) -> impl Iterator<Item = Class> {
    let all = Class::ALL.into_iter();
    all.filter(move |other| rate_group(*other) == rate_group(class))
}
