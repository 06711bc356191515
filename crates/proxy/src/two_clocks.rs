//! Leases by two clocks. The control side counts those of the lists of copies and proxies by a clock that also runs
//! while the machine sleeps ([`crate::boot_time`]); workers are handed [`Instant`]s, whose clock then stands still. A
//! machine that has slept must not rely on a lease for longer than others wait for it. So:
//!
//! - Lists are published with their times by the workers' clock ([`helenus_layout::insync::Known::behind`]), and each
//!   lease is shorter by [`SLEPT_MAX_US`].
//! - Who judges by the lists compares the clocks first: if the machine has slept for longer than that since they were
//!   published, their leases are taken away until the control side has read the lists again.
//!
//! What remains: a worker that stands still, or whose machine sleeps, between two instructions of one turn sends what it
//! was about to send. Such a write is acknowledged by nobody; that it may arrive late is assumption of the protocol.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use helenus_engine::copies::{InSync, Lists};

use crate::boot_time;

/// Sleep that is not noticed, in microseconds: by so much leases are shorter.
const SLEPT_MAX_US: u64 = 10_000;
/// A thread may be stopped between two readings: then they are taken again, so often at most,
const READINGS_MAX: usize = 8;
/// until they are no further apart than this, in microseconds.
const APART_US: u64 = 100;

/// How far the clock of the workers is behind the one that also runs during sleep, in microseconds: between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    least_us: u64,
    most_us: u64,
}

impl Behind {
    /// As it is now.
    pub(crate) fn read(in_sync: &InSync) -> Behind {
        let mut best = Behind::read_once(in_sync);
        for _ in 1..READINGS_MAX {
            if best.most_us - best.least_us <= APART_US {
                break;
            }
            let again = Behind::read_once(in_sync);
            if again.most_us - again.least_us < best.most_us - best.least_us {
                best = again;
            }
        }
        best
    }

    fn read_once(in_sync: &InSync) -> Behind {
        let before_us = in_sync.us(Instant::now());
        let boot_us = boot_time::now_us();
        let after_us = in_sync.us(Instant::now());
        // The workers' clock was started later.
        let most_us = boot_us.saturating_sub(before_us);
        Behind {
            least_us: boot_us.saturating_sub(after_us).min(most_us),
            most_us,
        }
    }

    /// For [`helenus_layout::insync::Known::behind`].
    pub(crate) fn bounds_us(self) -> (u64, u64) {
        (self.least_us, self.most_us + SLEPT_MAX_US)
    }
}

/// Notices that the machine has slept since lists were published.
#[derive(Debug)]
pub(crate) struct Wakefulness {
    /// The workers' clock is no further behind; `u64::MAX` while nothing is published.
    behind_us: AtomicU64,
}

impl Default for Wakefulness {
    fn default() -> Wakefulness {
        Wakefulness {
            behind_us: AtomicU64::new(u64::MAX),
        }
    }
}

impl Wakefulness {
    /// Publishes lists whose times were converted by that.
    pub(crate) fn publish(&self, in_sync: &InSync, lists: Lists, behind: Behind) {
        let most_us = behind.least_us + SLEPT_MAX_US;
        // Before the first lists, but after others: these must not be taken for ones that were published after a sleep.
        let _ =
            self.behind_us
                .compare_exchange(u64::MAX, most_us, Ordering::AcqRel, Ordering::Acquire);
        in_sync.publish(lists);
        self.behind_us.store(most_us, Ordering::Release);
    }

    /// Publishes that there are none.
    pub(crate) fn withdraw(&self, in_sync: &InSync) {
        in_sync.publish(Lists::default());
        self.behind_us.store(u64::MAX, Ordering::Release);
    }

    /// The time by which lists may be judged. If the machine has slept, they have no lease by then.
    pub(crate) fn now(&self, in_sync: &InSync) -> Instant {
        match self.behind_us.load(Ordering::Acquire) {
            u64::MAX => Instant::now(),
            _ => self.now_by(in_sync, || (Instant::now(), boot_time::now_us())),
        }
    }

    /// `read` reads the workers' clock and then the other one.
    fn now_by(&self, in_sync: &InSync, mut read: impl FnMut() -> (Instant, u64)) -> Instant {
        let most_us = self.behind_us.load(Ordering::Acquire);
        let (mut now, mut boot_us) = read();
        for _ in 1..READINGS_MAX {
            if boot_us.saturating_sub(in_sync.us(now)) <= most_us {
                return now;
            }
            (now, boot_us) = read();
        }
        in_sync.end_leases();
        now
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helenus_engine::copies::{Member, Membership};
    use helenus_layout::insync::{Known, Members, PROXIES_MAX, Proxies, Timing};

    use super::*;
    use crate::config::Config;
    use crate::testing::process;

    const SECOND: u64 = 1_000_000;
    const TIMING: Timing = Timing {
        lease_us: SECOND,
        drift_ppm: 0,
        late_us: 0,
        patience_us: 0,
    };

    fn lists(behind: Behind, sent_us: u64) -> Lists {
        let mut known = Known::new(TIMING);
        let list = Proxies::new(Members::first(1), [0; PROXIES_MAX]);
        known.adopt(list, sent_us, sent_us);
        let (least_us, most_us) = behind.bounds_us();
        Lists {
            membership: Some(Membership {
                member: Arc::new(Member::new(0)),
                proxies: known.behind(least_us, most_us),
            }),
            ..Lists::default()
        }
    }

    fn lease_until_us(in_sync: &InSync) -> Option<u64> {
        let lists = in_sync.lists();
        let membership = lists.membership.as_ref()?;
        Some(membership.proxies.lease_until_us())
    }

    #[test]
    fn clocks_are_read_between_each_other() {
        let process = process(Config::default());
        let behind = Behind::read(&process.copies);
        assert!(behind.least_us <= behind.most_us, "{behind:?}");
        // Nobody has slept.
        let lists = lists(behind, boot_time::now_us());
        process.awake.publish(&process.copies, lists, behind);
        let now = process.awake.now(&process.copies);
        let until_us = lease_until_us(&process.copies).expect("published");
        assert!(until_us > 0 && until_us < process.copies.us(now) + SECOND);
    }

    #[test]
    fn a_lease_does_not_outlast_the_machines_sleep() {
        let process = process(Config::default());
        let (in_sync, awake) = (&process.copies, &process.awake);
        let behind = Behind {
            least_us: 90 * SECOND,
            most_us: 90 * SECOND + 40,
        };
        // Read when the workers' clock was at 10 seconds.
        awake.publish(in_sync, lists(behind, 100 * SECOND), behind);
        let until_us = 11 * SECOND - 40 - SLEPT_MAX_US;
        assert_eq!(lease_until_us(in_sync), Some(until_us));
        let check = |slept_us| {
            let now = Instant::now();
            let boot_us = in_sync.us(now) + 90 * SECOND + slept_us;
            assert_eq!(awake.now_by(in_sync, || (now, boot_us)), now);
            lease_until_us(in_sync)
        };
        assert_eq!(check(0), Some(until_us));
        assert_eq!(
            check(SLEPT_MAX_US),
            Some(until_us),
            "the lease is shorter by that"
        );
        // A thread that stands still between two readings has not slept.
        let now = Instant::now();
        let mut late_us = vec![0, SECOND];
        awake.now_by(in_sync, || {
            let boot_us = in_sync.us(now) + 90 * SECOND;
            (now, boot_us + late_us.pop().unwrap_or_default())
        });
        assert_eq!(lease_until_us(in_sync), Some(until_us));
        assert_eq!(check(SLEPT_MAX_US + 1), Some(0));
        let member = in_sync
            .lists()
            .membership
            .as_ref()
            .map(|of| of.member.number);
        assert_eq!(member, Some(0), "its writes are not given up");
    }

    #[test]
    fn nothing_is_looked_at_while_nothing_is_published() {
        let process = process(Config::default());
        process.awake.withdraw(&process.copies);
        assert_eq!(process.awake.behind_us.load(Ordering::Acquire), u64::MAX);
        assert!(process.copies.lists().membership.is_none());
    }
}
