//! Bounds of the scheduler of one node.

use super::{Class, Variant};

/// What a [`super::Schedule`] is allowed. Several workers that share a node each
/// have one; windows and queues are a worker's share, scan slots are the node's
/// and kept by the caller's permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub variant: Variant,
    /// Fewest queries other than scans in flight that the adaptive window allows.
    pub window_min: u32,
    /// Most of them while scans are in flight or wait. The window of the presets,
    /// scans included. Below 128 Cassandra's own queues stay empty.
    pub window_max: u32,
    /// Most queries in flight while no scan is in flight or waits.
    pub window_open_max: u32,
    /// Scan pieces in flight beside other queries on a node that can do no more than
    /// `scan_slots_idle` at a time; [`super::Slots`] finds how many it can. See also
    /// [`Settings::of_node`].
    pub scan_slots: u32,
    /// Scan pieces in flight while there is nothing else, at least.
    pub scan_slots_idle: u32,
    /// Most scan pieces in flight.
    pub scan_slots_max: u32,
    /// Longest wait, in microseconds, for each class in [`Class`] order.
    pub wait_max_us: [u64; Class::COUNT],
    /// Most that may wait, for each class in [`Class`] order.
    pub queue_max: [u32; Class::COUNT],
}

impl Default for Settings {
    fn default() -> Self {
        const S: u64 = 1_000_000;
        Settings {
            variant: Variant::Default,
            window_min: 8,
            window_max: 64,
            window_open_max: 1024,
            scan_slots: 1,
            scan_slots_idle: 2,
            scan_slots_max: 32,
            // system, point, multi, slice, write, lwt, scan, other
            wait_max_us: [10 * S, 5 * S, 5 * S, 10 * S, 5 * S, 5 * S, 60 * S, 10 * S],
            queue_max: [1024, 16_384, 8192, 4096, 16_384, 4096, 4096, 4096],
        }
    }
}

impl Settings {
    /// For a node of so many processors, 0 if that is not known: half of them may always be
    /// busy with scans, and the search for more begins there.
    pub fn of_node(self, processors: u32) -> Self {
        let half = (processors / 2).min(self.scan_slots_max);
        Settings {
            scan_slots: self.scan_slots.max(half),
            scan_slots_idle: self.scan_slots_idle.max(half),
            ..self
        }
    }

    /// One proxy's share, if so many have the same clients and nodes.
    pub fn shared_by(self, proxies: u32) -> Self {
        let share = |n: u32| n.div_ceil(proxies.max(1));
        Settings {
            window_min: share(self.window_min),
            window_max: share(self.window_max),
            scan_slots: share(self.scan_slots),
            scan_slots_idle: share(self.scan_slots_idle),
            scan_slots_max: share(self.scan_slots_max),
            ..self
        }
    }

    /// Between which numbers [`super::Slots`] looks; the least is where it begins.
    pub fn scan_slots_bounds(&self) -> (u32, u32) {
        let least = self.scan_slots_idle.max(self.scan_slots);
        (least, self.scan_slots_max.max(least))
    }

    /// One of the paper's variants with a window of its own.
    pub fn preset(variant: Variant, window: u32) -> Self {
        Settings {
            variant,
            window_max: window,
            ..Settings::default()
        }
    }
}
