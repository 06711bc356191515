//! Decides whether a node gets a query now, later or not at all.
//!
//! Picture: the door of a small bakery that holds `window` customers. Whoever
//! comes while there is room walks in. Otherwise there are five short queues
//! outside, the most urgent served first; a queue that is full turns people away,
//! and someone who was passed over 32 times is served next, however urgent the
//! others are.
//!
//! Formula: dispatch while in flight < window. Of the classes that wait, serve
//! the lowest-ranked one that has been passed over [`PASSES_MAX`] times, else the
//! first in [`Class`] order; within a class, first come first served. A class is
//! passed over when it waits and another is served. So the head of a queue waits
//! for at most `PASSES_MAX` dispatches plus one for each other starved class.
//!
//! Source: strict priority with ageing by count, a starvation bound as in
//! A. Silberschatz et al., Operating System Concepts, section 5.3; keeping the
//! queue outside the server as in B. Schroeder et al., "How to determine a
//! good multi-programming level for external scheduling" (ICDE 2006).

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// What a query is to the scheduler, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The proxy's own: topology, schema, preparing.
    System,
    /// Reads of one partition.
    Point,
    Write,
    /// Reads of many partitions.
    Scan,
    /// What the proxy does not understand.
    Other,
}

impl Class {
    pub const COUNT: usize = 5;
    pub const ALL: [Class; Class::COUNT] = [
        Class::System,
        Class::Point,
        Class::Write,
        Class::Scan,
        Class::Other,
    ];
}

/// How often a waiting class may be passed over before it is served next.
pub const PASSES_MAX: u32 = 32;

/// What became of an offered item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a dispatched or refused item is handed back and must be dealt with"]
pub enum Offer<T> {
    /// Send it now; it counts as in flight until [`Admission::on_done`].
    Dispatch(T),
    /// Kept; it comes out of `on_done`, `set_window` or `drain` later.
    Queued,
    /// Its queue is full.
    Refused(T),
}

/// The door of one node. There is never room and a queue at the same time.
#[derive(Debug)]
pub struct Admission<T> {
    window: usize,
    lanes: [Lane<T>; Class::COUNT],
    dispatched: u64,
    done: u64,
}

#[derive(Debug)]
struct Lane<T> {
    items: VecDeque<T>,
    items_max: usize,
    passes: u32,
}

impl<T> Admission<T> {
    /// `window`: most items in flight at a time; 0 holds everything back.
    /// `items_max`: most items that may wait, for each class in [`Class`] order.
    pub fn new(window: usize, items_max: [usize; Class::COUNT]) -> Self {
        Admission {
            window,
            lanes: items_max.map(|items_max| Lane {
                items: VecDeque::new(),
                items_max,
                passes: 0,
            }),
            dispatched: 0,
            done: 0,
        }
    }

    pub fn offer(&mut self, item: T, class: Class) -> Offer<T> {
        if self.has_room() {
            debug_assert_eq!(self.queued(), 0, "nothing waits while there is room");
            self.dispatched += 1;
            return Offer::Dispatch(item);
        }
        let lane = &mut self.lanes[class as usize];
        if lane.items.len() >= lane.items_max {
            return Offer::Refused(item);
        }
        lane.items.push_back(item);
        Offer::Queued
    }

    /// One item in flight was answered or given up. Returns the item to send in
    /// its place, which is then in flight.
    ///
    /// # Panics
    /// If nothing is in flight: the caller has counted one item twice.
    #[must_use = "the item returned is in flight and must be sent"]
    pub fn on_done(&mut self) -> Option<T> {
        assert!(self.in_flight() > 0, "done without anything in flight");
        self.done += 1;
        self.poll_dispatch()
    }

    /// Changes the window and returns what may be sent now that it is wider. A
    /// narrower one takes effect as items in flight are done.
    #[must_use = "the items returned are in flight and must be sent"]
    pub fn set_window(&mut self, window: usize) -> Vec<T> {
        self.window = window;
        std::iter::from_fn(|| self.poll_dispatch()).collect()
    }

    /// Takes out everything that waits, in [`Class`] order, for instance because
    /// the node is gone. What is in flight stays so until it is done.
    #[must_use = "the items returned are forgotten here"]
    pub fn drain(&mut self) -> Vec<T> {
        let lanes = self.lanes.iter_mut();
        lanes
            .flat_map(|lane| {
                lane.passes = 0;
                lane.items.drain(..)
            })
            .collect()
    }

    pub fn window(&self) -> usize {
        self.window
    }

    /// Dispatched and not yet done. More than the window only after it was narrowed.
    pub fn in_flight(&self) -> usize {
        (self.dispatched - self.done) as usize
    }

    /// Waiting, in all classes.
    pub fn queued(&self) -> usize {
        self.lanes.iter().map(|lane| lane.items.len()).sum()
    }

    pub fn queued_in(&self, class: Class) -> usize {
        self.lanes[class as usize].items.len()
    }

    /// Dispatched since the start, for metrics.
    pub fn dispatched(&self) -> u64 {
        self.dispatched
    }

    fn has_room(&self) -> bool {
        self.in_flight() < self.window
    }

    fn poll_dispatch(&mut self) -> Option<T> {
        if !self.has_room() {
            return None;
        }
        let served = self.next_lane()?;
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if at == served || lane.items.is_empty() {
                lane.passes = 0;
            } else {
                lane.passes += 1;
            }
        }
        let item = self.lanes[served].items.pop_front();
        debug_assert!(item.is_some(), "a lane without items was chosen");
        self.dispatched += 1;
        item
    }

    fn next_lane(&self) -> Option<usize> {
        let starved = self.lanes.iter().rposition(|l| l.passes >= PASSES_MAX);
        starved.or_else(|| self.lanes.iter().position(|l| !l.items.is_empty()))
    }
}
