//! Decides whether a queue stands: whether what is in it waits because more comes than is served, and
//! not because much came at once.
//!
//! Formula: of each interval, the bound divided by [`INTERVALS`], the shortest wait of what was served
//! in it counts. A queue stands if in two of them, one after the other, that was at least the bound
//! divided by [`TARGETS`], the queue was never empty, and no more was served than came, give or take one
//! in [`DRAINING`]. While it stands, what has waited for longer than the bound is shed: its client is
//! about to leave, and serving it would only make the next one wait as long. In a queue that does not
//! stand nothing is shed. One interval would not do: in the one in which a second burst comes, more
//! comes than is served, even if the node works off both.
//!
//! Evidence: `schedule/tests.rs`: with twice as many requests as a node can serve and clients that wait
//! for two seconds, nearly all that is served is served in time, instead of nearly nothing; a burst
//! that takes three times the bound to serve loses nothing, and neither does a second one meanwhile.
//!
//! Limits: a queue from which nothing is served is not judged: its node pauses, which the bound on waits
//! and the failure detector deal with. If nothing of the class was for the bound divided by [`PAUSES`],
//! its queues are judged anew from there on ([`is_pause`]); so where less is served than that, nothing is
//! shed. A burst that comes where nearly as much comes anyway as is served drains so slowly that it
//! stands. So does a queue of clients that ask again when they are answered, if there are enough of
//! them. The queue is that of one tenant and class; small work that passes large work within it makes the
//! shortest wait short, so nothing is shed then. And one may stand because lighter work of another class
//! goes first, as far as its floor lets it ([`super::floors`]).
//!
//! Source: the minimum over an interval from CoDel (K. Nichols et al., RFC 8289, section 3); bounds on
//! waits that depend on whether a queue stands from B. Maurer, "Fail at Scale" (ACM Queue, 2015).

const INTERVALS: u64 = 3;
const TARGETS: u64 = 4;
const DRAINING: u64 = 8;
const PAUSES: u64 = 8;

/// True if the node has paused, if nothing was served for so long. Arrivals meanwhile would count, and not what
/// would have been served: queues that drain would seem to stand.
pub(super) fn is_pause(unserved_us: u64, bound_us: u64) -> bool {
    bound_us > 0 && unserved_us > bound_us / PAUSES
}

/// The history of a queue since it was last empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Start of the current interval.
    since_us: u64,
    /// The shortest wait of what was served in it.
    least_us: Option<u64>,
    arrived: u64,
    served: u64,
    /// Waits were long in the interval before, and did not get shorter.
    was_slow: bool,
    stands: bool,
}

impl Standing {
    /// A queue that was empty until now.
    pub(super) fn new(now_us: u64) -> Self {
        Standing {
            since_us: now_us,
            least_us: None,
            arrived: 0,
            served: 0,
            was_slow: false,
            stands: false,
        }
    }

    /// Something has come. `bound_us`: the longest wait in a queue that stands; 0: none stands.
    pub(super) fn on_arrival(&mut self, now_us: u64, bound_us: u64) {
        self.advance(now_us, bound_us);
        self.arrived += 1;
    }

    /// Something was served that had waited for so long.
    pub(super) fn on_served(&mut self, now_us: u64, waited_us: u64, bound_us: u64) {
        self.advance(now_us, bound_us);
        self.served += 1;
        self.least_us = Some(self.least_us.map_or(waited_us, |us| us.min(waited_us)));
    }

    /// True if it has stood for two intervals.
    pub(super) fn stands(&mut self, now_us: u64, bound_us: u64) -> bool {
        self.advance(now_us, bound_us);
        self.stands
    }

    fn advance(&mut self, now_us: u64, bound_us: u64) {
        let passed_us = now_us.saturating_sub(self.since_us);
        if passed_us < bound_us / INTERVALS {
            return;
        }
        let waits = self.least_us.is_some_and(|us| us >= bound_us / TARGETS);
        let is_draining = self.served > self.arrived + self.arrived / DRAINING;
        let is_slow = bound_us > 0 && waits && !is_draining;
        *self = Standing {
            was_slow: is_slow,
            stands: is_slow && self.was_slow,
            ..Standing::new(now_us)
        };
    }
}
