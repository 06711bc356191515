//! When collected bytes leave: at once behind everything that is ready, or after a waiting window.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use helenus_policy::window::{Observed, Window};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::config::{Aggregation, AggregationMode};
use crate::stats::{add, sub};
use crate::worker::State;

/// Windows up to this are waited out by polling: a timer of the kernel would take longer to start.
const SPIN_MAX: Duration = Duration::from_micros(50);
/// A link with this much to send does not wait for more.
const ENOUGH_BYTES: usize = 64 * 1024;
const ADAPTIVE_STEP_US: u64 = 10;

/// How long links collect queries.
#[derive(Debug)]
pub(crate) enum Pace {
    /// Until all tasks that are ready have run.
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

impl State {
    /// Writes what may leave now. Returns how long the rest must still wait.
    pub(crate) fn flush_dirty(&mut self) -> Option<Duration> {
        let window = self.pace.window();
        let mut rest = None;
        if window.is_zero() {
            while let Some(key) = self.dirty_links.pop() {
                self.flush_link(key);
            }
        } else {
            let now = Instant::now();
            let mut at = 0;
            while let Some(&key) = self.dirty_links.get(at) {
                let wait = self.links.get(key).and_then(|link| {
                    let left = window.checked_sub(now.saturating_duration_since(link.dirty_since));
                    left.filter(|left| !left.is_zero() && link.encoder.pending_len() < ENOUGH_BYTES)
                });
                match wait {
                    Some(wait) => {
                        rest = Some(rest.map_or(wait, |r: Duration| r.min(wait)));
                        at += 1;
                    }
                    None => {
                        self.dirty_links.swap_remove(at);
                        self.flush_link(key);
                    }
                }
            }
        }
        while let Some(key) = self.dirty_sessions.pop() {
            self.flush_session(key);
        }
        rest
    }

    /// Behind one socket's bytes, in the mode that collects nothing beyond them.
    pub(crate) fn flush_if_immediate(&mut self) {
        if matches!(self.pace, Pace::Immediate) {
            self.flush_dirty();
        }
    }

    /// Shows what only the worker itself knows, once a tick.
    pub(crate) fn publish_gauges(&mut self) {
        let stats = &self.shared.stats;
        let window_us = self.pace.window().as_micros() as u64;
        stats.window_us.store(window_us, Ordering::Relaxed);
        let sleeps = tokio::runtime::Handle::current()
            .metrics()
            .worker_park_count(0);
        add(&stats.global.worker_sleeps, sleeps - self.sleeps_counted);
        self.sleeps_counted = sleeps;
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
        let now = self.now;
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

/// A timer finer than the runtime's millisecond.
#[derive(Default)]
pub(crate) struct FineTimer {
    /// Made on first use.
    fd: Option<AsyncFd<OwnedFd>>,
    /// When it is set to expire.
    due: Option<Instant>,
}

impl FineTimer {
    /// Has the task of `cx` woken after `wait`; at once for waits not worth a timer.
    pub(crate) fn arm(&mut self, wait: Duration, cx: &mut Context<'_>) {
        let now = Instant::now();
        let due = now + wait;
        let armed = match &self.fd {
            // Every query wakes the flusher; the timer is set only if it would be late.
            Some(_) if wait > SPIN_MAX && self.due.is_some_and(|at| at > now && at <= due) => {
                self.is_pending(cx)
            }
            _ if wait > SPIN_MAX => {
                self.due = self.set(wait).is_ok().then_some(due);
                self.due.is_some() && self.is_pending(cx)
            }
            _ => false,
        };
        if !armed {
            self.due = None;
            cx.waker().wake_by_ref();
        }
    }

    fn set(&mut self, wait: Duration) -> io::Result<()> {
        let fd = match &self.fd {
            Some(fd) => fd,
            None => self.fd.insert(timer()?),
        };
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let at = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_nsec: wait.subsec_nanos().into(),
                ..zero
            },
        };
        timerfd_settime(fd.get_ref(), TimerfdTimerFlags::empty(), &at)?;
        Ok(())
    }

    /// Registers the task. An expiration that has not been looked at only wakes it once more.
    fn is_pending(&self, cx: &mut Context<'_>) -> bool {
        let Some(fd) = &self.fd else { return false };
        loop {
            match fd.poll_read_ready(cx) {
                Poll::Pending => return true,
                Poll::Ready(Ok(mut guard)) => guard.clear_ready(),
                Poll::Ready(Err(_)) => return false,
            }
        }
    }
}

fn timer() -> io::Result<AsyncFd<OwnedFd>> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    // The descriptor is owned and nobody else closes it, which is all that the deprecation of
    // `AsyncFd::new` is about; its successor is `unsafe`.
    #[allow(deprecated)]
    AsyncFd::new(fd)
}
