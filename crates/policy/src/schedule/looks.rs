//! How a schedule stands, for whoever asks.

use crate::schedule::{Class, Counters, Job, Schedule, Settings};

impl<T: Copy> Schedule<T> {
    /// When [`Schedule::poll_expired`] next returns something.
    pub fn next_expiry_us(&self) -> Option<u64> {
        let oldest = Class::ALL.into_iter().filter_map(|class| {
            let (_, waiting) = self.queues[class as usize].oldest()?;
            Some(self.deadline_us(class, waiting.arrived_us))
        });
        oldest.min()
    }

    /// True if a scan is waiting for nothing but the node's permit.
    pub fn wants_scan(&self) -> bool {
        !self.settings.variant.is_preset()
            && !self.queues[Class::Scan as usize].is_empty()
            && self.scans_in_flight < self.scan_slots()
    }

    /// True if a scan has waited for so long that it goes before those of tenants with less.
    pub fn has_due_scan(&self, now_us: u64) -> bool {
        let oldest = self.queues[Class::Scan as usize].oldest();
        let half_us = self.settings.wait_max_us[Class::Scan as usize] / 2;
        oldest.is_some_and(|(_, waiting)| now_us.saturating_sub(waiting.arrived_us) >= half_us)
    }

    pub fn scans_in_flight(&self) -> usize {
        self.scans_in_flight as usize
    }

    pub fn queued_in(&self, class: Class) -> usize {
        self.queues[class as usize].len()
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// True if an item that has to wait would be let in, as of the last time that the schedule was told.
    pub fn would_queue(&self, class: Class, job: &Job) -> bool {
        self.refusal(class, job).is_none()
    }
}
