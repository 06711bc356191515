//! A timer finer than the runtime's.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Times up to this are waited out by polling: setting a kernel timer would take longer.
const SPIN_MAX: Duration = Duration::from_micros(50);

/// A timer finer than the runtime's millisecond.
#[derive(Default)]
pub(crate) struct FineTimer {
    /// Created on first use.
    fd: Option<AsyncFd<OwnedFd>>,
    /// When it expires.
    due: Option<Instant>,
}

impl FineTimer {
    /// Wakes the task of `cx` after `wait`; at once if the wait is too short for a timer.
    pub(crate) fn arm(&mut self, wait: Duration, cx: &mut Context<'_>) {
        let now = Instant::now();
        let due = now + wait;
        let armed = match &self.fd {
            // Every query wakes the flusher, so the timer is set only if it would otherwise expire
            // too late.
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

    /// Registers the task. An expiration not consumed yet only wakes it once more.
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
    // `AsyncFd::new` is deprecated only because of descriptors closed elsewhere. This one is owned
    // here, and the replacement is `unsafe`.
    #[allow(deprecated)]
    AsyncFd::new(fd)
}
