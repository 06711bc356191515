//! When collected bytes leave: at once behind everything that is ready, or after a waiting window.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_policy::window::{Observed, Window};

use crate::config::{Aggregation, AggregationMode};
use crate::engine::{Engine, LinkKey, SessionKey};
use crate::stats::{add, sub};

/// A link with this much to send does not wait for more.
const ENOUGH_BYTES: usize = 64 * 1024;
const ADAPTIVE_STEP_US: u64 = 10;

/// How long links collect queries.
#[derive(Debug)]
pub(crate) enum Pace {
    /// Until everything that has come together has been handed over.
    Timerless,
    /// No longer than one client's packet takes.
    Immediate,
    Fixed(Duration),
    Adaptive(Window),
}

impl Pace {
    pub(crate) fn new(settings: &Aggregation) -> Pace {
        match settings.mode {
            AggregationMode::Timerless => Pace::Timerless,
            AggregationMode::Window if settings.window_us == 0 => Pace::Immediate,
            AggregationMode::Window => Pace::Fixed(Duration::from_micros(settings.window_us)),
            AggregationMode::Adaptive => {
                Pace::Adaptive(Window::new(ADAPTIVE_STEP_US, settings.latency_budget_us))
            }
        }
    }

    /// The window in force.
    pub(crate) fn window(&self) -> Duration {
        match self {
            Pace::Timerless | Pace::Immediate => Duration::ZERO,
            Pace::Fixed(window) => *window,
            Pace::Adaptive(window) => Duration::from_micros(window.us()),
        }
    }
}

/// What a worker has completed, for the adaptive window.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    pub queries: u64,
    pub latency_sum_us: u64,
    pub since: Option<Instant>,
}

impl Engine {
    /// Whether anything waits to be written.
    pub fn has_unsent(&self) -> bool {
        !self.dirty_links.is_empty() || self.clients.has_unsent()
    }

    /// Whether queries wait for others that come a little later.
    pub fn has_window(&self) -> bool {
        !self.pace.window().is_zero()
    }

    /// Whether everything leaves behind one connection's bytes.
    pub fn is_immediate(&self) -> bool {
        matches!(self.pace, Pace::Immediate)
    }

    /// The next link to be written to.
    pub fn next_link_to_write(&mut self) -> Option<LinkKey> {
        self.dirty_links.pop()
    }

    /// The links whose window has passed; also how long the next one must still wait.
    pub fn links_due(&mut self, now: Instant) -> (Vec<LinkKey>, Option<Duration>) {
        let window = self.pace.window();
        let (mut due, mut rest) = (Vec::new(), None);
        self.dirty_links.retain(|&key| {
            let wait = self.links.get(key).and_then(|link| {
                let left = window.checked_sub(now.saturating_duration_since(link.dirty_since));
                left.filter(|left| !left.is_zero() && link.encoder.pending_len() < ENOUGH_BYTES)
            });
            match wait {
                Some(wait) => rest = Some(rest.map_or(wait, |rest: Duration| rest.min(wait))),
                None => due.push(key),
            }
            wait.is_some()
        });
        (due, rest)
    }

    /// The next client to be written to.
    pub fn next_client_to_write(&mut self) -> Option<SessionKey> {
        self.clients.next_to_write()
    }

    /// Shows what only the engine itself knows, once a tick.
    pub(crate) fn publish_gauges(&mut self) {
        let stats = &self.cx.shared.stats;
        let window_us = self.pace.window().as_micros() as u64;
        stats.window_us.store(window_us, Ordering::Relaxed);
        let mut in_flight = vec![0; self.nodes.len()];
        for link in self.links.values() {
            in_flight[link.node.as_usize()] += link.in_flight;
        }
        for (node, in_flight) in self.nodes.iter_mut().zip(in_flight) {
            let before = std::mem::replace(&mut node.in_flight, in_flight);
            add(
                &node.stats.in_flight,
                in_flight.saturating_sub(before) as u64,
            );
            sub(
                &node.stats.in_flight,
                before.saturating_sub(in_flight) as u64,
            );
        }
    }

    /// Adapts the window, once a tick.
    pub(crate) fn adapt_window(&mut self) {
        let now = self.cx.now;
        let done = std::mem::take(&mut self.completed);
        self.completed.since = Some(now);
        let Pace::Adaptive(window) = &mut self.pace else {
            return;
        };
        if let Some(since) = done.since {
            window.observe(Observed {
                queries: done.queries,
                latency_sum_us: done.latency_sum_us,
                interval_us: now.saturating_duration_since(since).as_micros() as u64,
                links: self.links.len() as u64,
            });
        }
    }
}
