//! Bounds of one node's scheduler.

use super::{Class, Variant};

/// The bounds of a [`super::Schedule`]. Workers that share a node have one each: windows and queues
/// are the worker's share, while scan slots (the node's scan permits) are shared through the
/// caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub variant: Variant,
    /// Minimum of the adaptive window: queries in flight other than scans.
    pub window_min: u32,
    /// Lower bound of the adaptive window, even if a share of `window_min` is less. The window of a node that has
    /// joined opens from `window_min` on all the same.
    pub window_floor: u32,
    /// Maximum of the adaptive window, in force while scans are in flight or waiting. In the
    /// presets, the window, scans included. Below 128 Cassandra's own queues stay empty.
    pub window_max: u32,
    /// Maximum of queries in flight while no scan is in flight or waiting.
    pub window_open_max: u32,
    /// Maximum of scan pieces in flight beside other queries, on a node for which [`super::Slots`]
    /// found no more than `scan_slots_idle` to be good. See also [`Settings::of_node`].
    pub scan_slots: u32,
    /// Scan pieces that may always be in flight while there is nothing else.
    pub scan_slots_idle: u32,
    /// Where the search for the best number starts.
    pub scan_slots_start: u32,
    /// Maximum of scan pieces in flight.
    pub scan_slots_max: u32,
    /// Longest wait, in microseconds, per class in [`Class`] order.
    pub wait_max_us: [u64; Class::COUNT],
    /// Longest wait in a queue that stands, in microseconds, per class in [`Class`] order; 0: any.
    pub standing_wait_max_us: [u64; Class::COUNT],
    /// Maximum of waiting items, per class in [`Class`] order.
    pub queue_max: [u32; Class::COUNT],
}

impl Default for Settings {
    fn default() -> Self {
        const S: u64 = 1_000_000;
        Settings {
            variant: Variant::Default,
            window_min: 8,
            window_floor: 0,
            window_max: 64,
            window_open_max: 1024,
            scan_slots: 1,
            scan_slots_idle: 2,
            scan_slots_start: 2,
            scan_slots_max: 32,
            // system, point, multi, slice, write, lwt, scan, other
            wait_max_us: [10 * S, 5 * S, 5 * S, 10 * S, 5 * S, 5 * S, 60 * S, 10 * S],
            standing_wait_max_us: [0; Class::COUNT],
            queue_max: [1024, 16_384, 8192, 4096, 16_384, 4096, 4096, 4096],
        }
    }
}

impl Settings {
    /// For a node with this many processors (0: unknown): half of them may always be busy with
    /// scans, and the search for the best number starts with all.
    pub fn of_node(self, processors: u32) -> Self {
        let half = (processors / 2).min(self.scan_slots_max);
        Settings {
            scan_slots: self.scan_slots.max(half),
            scan_slots_idle: self.scan_slots_idle.max(half),
            scan_slots_start: self
                .scan_slots_start
                .max(processors.min(self.scan_slots_max)),
            ..self
        }
    }

    /// One proxy's share, if this many proxies have the same clients and nodes.
    pub fn shared_by(self, proxies: u32) -> Self {
        let share = |n: u32| n.div_ceil(proxies.max(1));
        Settings {
            window_min: share(self.window_min),
            window_max: share(self.window_max),
            scan_slots: share(self.scan_slots),
            scan_slots_idle: share(self.scan_slots_idle),
            scan_slots_start: share(self.scan_slots_start),
            scan_slots_max: share(self.scan_slots_max),
            ..self
        }
    }

    /// The range in which [`super::Slots`] searches.
    pub fn scan_slots_bounds(&self) -> (u32, u32) {
        let min = self.scan_slots_idle.max(self.scan_slots);
        (min, self.scan_slots_max.max(min))
    }

    /// One of the paper's variants, with this window.
    pub fn preset(variant: Variant, window: u32) -> Self {
        Settings {
            variant,
            window_max: window,
            ..Settings::default()
        }
    }
}
