//! One owner's knowledge of one node.
//!
//! - **Outstanding work**: predicted work that waits for the node or is in flight there.
//! - **Slowdown**: the mean of service time ÷ predicted, where predicted = work + work in flight before
//!   it ÷ [`LANES`]. One answer counts as at most [`JUMP_MAX`] times the mean so far: a single late
//!   one proves little.
//! - **Silence**: how long the node has said nothing while requests were in flight. One that has taken
//!   so long already will hardly be finished sooner than that.
//!   A request that another node has answered in the meantime counts as in flight for [`OWES_US`] more:
//!   that nobody waits for it any longer does not make the node any faster.
//! - **Failures**: the mean of 1 for each failure and 0 for each answer.
//! - **Spared work**: what was answered with an error counts for as long as a typical node would have
//!   worked on it. Or a node that fails everything at once would seem the fastest and the least busy.
//!
//! Slowdown and failures count fully for [`FRESH_US`] after the last answer, then less and less, until
//! they say nothing at [`STALE_US`]: a node that nobody asks cannot show that it has recovered.

/// Requests that a node is taken to serve at a time without slowing down: as many as it has processors, if
/// that is known, up to this.
const LANES: f32 = 4.0;
/// Weight of an answer in the means is 1 ÷ this.
const MEMORY: f32 = 8.0;
/// Weight of the first answer after so long that all others are forgotten.
const AFRESH: f32 = 0.5;
const JUMP_MAX: f32 = 4.0;
const SLOWDOWN_MIN: f32 = 1.0 / 64.0;
const SLOWDOWN_MAX: f32 = 1_000.0;
const FRESH_US: u64 = 1_000_000;
pub(super) const STALE_US: u64 = 4_000_000;
/// Weight of an outcome in the share of failures is 1 ÷ this.
const OUTCOMES: f32 = 16.0;
/// A node that fails more often is ejected.
pub(super) const FAILURES_MAX: f32 = 0.3;
/// The mean of its failures when it returns: a few more eject it again.
const FAILURES_AFTER: f32 = 0.15;
/// A node that is slower than is typical by more than this factor is ejected.
const SLOWER_MAX: f32 = 10.0;
/// Answers before a node can be called slow.
const SAMPLES_MIN: u32 = 16;
/// The first ejection; each further one doubles it.
pub(super) const EJECTION_US: u64 = 1_000_000;
const DOUBLED_MAX: u32 = 4;
/// After so long without one, the next ejection is the first again.
const FORGIVEN_US: u64 = 30_000_000;
/// One error counts for no longer than this, however much work it was predicted to be, and all of them for
/// no longer than that.
const SPARED_EACH_MAX_US: u64 = 10_000;
const SPARED_MAX_US: u64 = 1_000_000;
const OWES_US: u64 = 1_000_000;
/// A node that has answered less is cold.
const COLD_ANSWERS: u32 = 256;
/// Beyond one of these, long work rather goes elsewhere.
const LAGS_FAILURES: f32 = 0.1;
const LAGS_SLOWER: f32 = 3.0;
const LAGS_SILENT_US: f32 = 200_000.0;
const LAGS_SILENT: f32 = 3.0;
/// An older report says nothing any more.
const REPORT_US_MAX: u64 = 5_000_000;
/// A node that returns gets all of its requests after this time, or after as long as it was away if that is
/// longer; at most after [`JOIN_START_US`], as a node that has joined: its process is cold.
pub(super) const SLOW_START_US: u64 = 5_000_000;
pub(super) const JOIN_START_US: u64 = 30_000_000;
/// The least share of its requests that such a node gets, of 256: or nothing would be learned of it.
const SHARE_256_MIN: u64 = 16;
/// Long work sees it as at most this many times slower than it is.
const SHARE_OF_LONG_MIN: f32 = 0.25;

/// A request at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    work_us: u32,
    /// When it was predicted to be answered, at a slowdown of 1.
    expected_us: u32,
}

/// A node's report on itself; shares are 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    pub at_us: u64,
    pub cpu: f32,
    pub memory: f32,
    pub disk: f32,
    pub distance: f32,
    /// Mean queue length.
    pub queue: f32,
    /// Mean service time, in microseconds; 0 if it is not known.
    pub service_us: f32,
}

/// Why a node was ejected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    /// This share of its requests, 0 to 1, failed.
    Failures(f32),
    /// Its answers took this many times as long as is typical.
    Slow(f32),
}

/// One node.
#[derive(Clone, Debug)]
pub(super) struct Load {
    waiting_us: u64,
    sent_us: u64,
    in_flight: u32,
    samples: u32,
    /// Since it is there, or is back.
    answers: u32,
    slowdown: f32,
    failures: f32,
    /// Of the last answer, or of the first request in flight after a time without any.
    heard_us: u64,
    /// Until when answers count as missing that nobody waits for any more.
    owes_until_us: u64,
    /// Until when it would have worked on what it has answered with errors.
    spared_until_us: u64,
    /// When it comes or came back from its last ejection.
    returns_us: u64,
    /// Until when it does not get all of its requests, and for how long that is in all.
    starts_until_us: u64,
    starts_for_us: u64,
    doubled: u32,
    ejections: u32,
    /// Of the last one.
    cause: Option<Cause>,
    response_us: f32,
    /// Of the last answer.
    answered_us: u64,
    report: Option<Report>,
    /// 1 ÷ requests that it serves at a time.
    per_lane: f32,
    is_remote: bool,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            waiting_us: 0,
            sent_us: 0,
            in_flight: 0,
            samples: 0,
            answers: 0,
            slowdown: 1.0,
            failures: 0.0,
            heard_us: 0,
            owes_until_us: 0,
            spared_until_us: 0,
            returns_us: 0,
            starts_until_us: 0,
            starts_for_us: SLOW_START_US,
            doubled: 0,
            ejections: 0,
            cause: None,
            response_us: 0.0,
            answered_us: 0,
            report: None,
            per_lane: 1.0 / LANES,
            is_remote: false,
        }
    }
}

impl Load {
    pub(super) fn set_processors(&mut self, processors: Option<u32>) {
        let lanes = processors.map_or(LANES, |number| (number as f32).clamp(1.0, LANES));
        self.per_lane = 1.0 / lanes;
    }

    pub(super) fn set_remote(&mut self, is_remote: bool) {
        self.is_remote = is_remote;
    }

    #[inline]
    pub(super) fn is_remote(&self) -> bool {
        self.is_remote
    }

    pub(super) fn on_waits(&mut self, work_us: u32) {
        self.waiting_us += u64::from(work_us);
    }

    pub(super) fn on_left(&mut self, work_us: u32) {
        debug_assert!(
            self.waiting_us >= u64::from(work_us),
            "more work has left than has waited"
        );
        self.waiting_us = self.waiting_us.saturating_sub(u64::from(work_us));
    }

    #[inline]
    pub(super) fn on_sent(&mut self, now_us: u64, work_us: u32) -> Sent {
        let expected_us = work_us as f32 + self.sent_us as i64 as f32 * self.per_lane;
        if self.in_flight == 0 && now_us >= self.owes_until_us {
            self.heard_us = now_us;
        }
        self.in_flight += 1;
        self.sent_us += u64::from(work_us);
        Sent {
            work_us,
            expected_us: expected_us as u32,
        }
    }

    pub(super) fn on_gone(&mut self, sent: Sent) {
        debug_assert!(
            self.in_flight > 0 && self.sent_us >= u64::from(sent.work_us),
            "more work has ended than was sent"
        );
        self.in_flight = self.in_flight.saturating_sub(1);
        self.sent_us = self.sent_us.saturating_sub(u64::from(sent.work_us));
    }

    /// The node has answered with an error. `typical`: the slowdown of all nodes.
    pub(super) fn on_error(&mut self, now_us: u64, sent: Sent, typical: f32) {
        self.on_gone(sent);
        self.on_heard(now_us);
        let spared_us = (typical * sent.work_us as f32 * self.per_lane) as u64;
        let until_us = self.spared_until_us.max(now_us) + spared_us.min(SPARED_EACH_MAX_US);
        self.spared_until_us = until_us.min(now_us + SPARED_MAX_US);
    }

    /// Returns the slowdown of this answer. `typical`: that of all nodes.
    #[inline]
    pub(super) fn on_answer(
        &mut self,
        now_us: u64,
        sent: Sent,
        service_us: u32,
        typical: f32,
    ) -> f32 {
        self.on_gone(sent);
        let fresh = self.freshness(now_us);
        // An answer that is as late as those before it proves more than one that comes late for once.
        let before = self.slowdown;
        self.slowdown = typical + fresh * (self.slowdown - typical);
        self.on_heard(now_us);
        self.answered_us = now_us;
        let seen = service_us as f32 / sent.expected_us.max(1) as f32;
        let seen = seen.clamp(SLOWDOWN_MIN, SLOWDOWN_MAX);
        let gain = match self.samples < MEMORY as u32 {
            true => 1.0 / (self.samples + 1) as f32,
            false => 1.0 / MEMORY + (1.0 - fresh) * (AFRESH - 1.0 / MEMORY),
        };
        let most = JUMP_MAX * self.slowdown.max(before);
        self.slowdown += gain * (seen.min(most) - self.slowdown);
        self.response_us += gain * (service_us as f32 - self.response_us);
        self.failures -= self.failures / OUTCOMES;
        self.samples = self.samples.saturating_add(1);
        self.answers = self.answers.saturating_add(1);
        seen
    }

    #[inline]
    fn on_heard(&mut self, now_us: u64) {
        self.heard_us = now_us;
        self.owes_until_us = 0;
    }

    /// Another node has answered first a request that this one has had for so long. True if it has said
    /// nothing at all since.
    pub(super) fn on_overtaken(&mut self, now_us: u64, waited_us: u32) -> bool {
        let is_silent = self.heard_us.saturating_add(waited_us.into()) <= now_us;
        if is_silent {
            self.owes_until_us = now_us + OWES_US;
            self.on_failure(now_us);
        }
        is_silent
    }

    pub(super) fn on_failure(&mut self, now_us: u64) {
        self.answered_us = now_us;
        self.failures += (1.0 - self.failures) / OUTCOMES;
        if self.failures > FAILURES_MAX {
            self.eject(now_us, Cause::Failures(self.failures));
            self.failures = FAILURES_AFTER;
        }
    }

    #[inline]
    pub(super) fn is_far_slower(&self, typical: f32) -> bool {
        self.slowdown > SLOWER_MAX * typical && self.samples >= SAMPLES_MIN
    }

    pub(super) fn eject_as_slow(&mut self, now_us: u64, typical: f32) {
        self.eject(now_us, Cause::Slow(self.slowdown / typical));
        self.samples = 0;
    }

    #[cold]
    fn eject(&mut self, now_us: u64, cause: Cause) {
        if self.is_ejected(now_us) {
            return;
        }
        let since_last_us = now_us.saturating_sub(self.returns_us);
        self.doubled = match self.ejections > 0 && since_last_us < FORGIVEN_US {
            true => (self.doubled + 1).min(DOUBLED_MAX),
            false => 0,
        };
        self.ejections += 1;
        self.cause = Some(cause);
        // The rest of a longer start is not cut short.
        let left_us = self.starts_until_us.saturating_sub(now_us);
        self.on_return(now_us + (EJECTION_US << self.doubled), left_us);
    }

    fn on_return(&mut self, at_us: u64, start_us: u64) {
        self.returns_us = self.returns_us.max(at_us);
        self.starts_for_us = start_us.clamp(SLOW_START_US, JOIN_START_US);
        self.starts_until_us = self.returns_us + self.starts_for_us;
    }

    /// It was away for so long, and begins anew.
    pub(super) fn on_back(&mut self, now_us: u64, away_us: u64) {
        self.answers = 0;
        self.on_return(now_us, away_us);
    }

    /// It has joined: whatever else was at its index is forgotten.
    pub(super) fn on_join(&mut self, now_us: u64) {
        self.on_back(now_us, JOIN_START_US);
    }

    pub(super) fn is_cold(&self) -> bool {
        self.answers < COLD_ANSWERS
    }

    pub(super) fn on_report(&mut self, report: Report) {
        self.report = Some(report);
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(super) fn response_us(&self) -> f32 {
        self.response_us
    }

    /// The node's report on itself, if that is recent enough.
    pub(super) fn recent_report(&self, now_us: u64) -> Option<Report> {
        let age_us = now_us.saturating_sub(self.report?.at_us);
        self.report.filter(|_| age_us <= REPORT_US_MAX)
    }

    /// True if enough has been seen of it, not long ago.
    pub(super) fn is_known(&self, now_us: u64) -> bool {
        let has_answered = self.samples >= SAMPLES_MIN && now_us <= self.answered_us + STALE_US;
        has_answered || self.is_ejected(now_us)
    }

    pub(super) fn outstanding(&self) -> (u64, u64, u32) {
        (self.waiting_us, self.sent_us, self.in_flight)
    }

    /// Work outstanding for each of the lanes, in microseconds. Processors convert signed numbers faster.
    #[inline]
    pub(super) fn ahead_us(&self) -> f32 {
        (self.waiting_us + self.sent_us) as i64 as f32 * self.per_lane
    }

    /// How long the node would still work on what it has answered with errors, in microseconds.
    #[inline]
    pub(super) fn spared_us(&self, now_us: u64) -> u64 {
        self.spared_until_us.saturating_sub(now_us)
    }

    /// How long the node has said nothing while something was in flight.
    #[inline]
    pub(super) fn silent_us(&self, now_us: u64) -> f32 {
        if self.in_flight == 0 && now_us >= self.owes_until_us {
            return 0.0;
        }
        now_us.saturating_sub(self.heard_us) as i64 as f32
    }

    /// How much its slowdown and failures still count, 0 to 1.
    #[inline]
    fn freshness(&self, now_us: u64) -> f32 {
        if self.answered_us + FRESH_US >= now_us {
            return 1.0;
        }
        let age_us = now_us - self.answered_us;
        let left_us = STALE_US.saturating_sub(age_us);
        left_us as f32 / (STALE_US - FRESH_US) as f32
    }

    /// Slowdown and share of failures; where nothing is known any more, what is typical, and none.
    #[inline]
    pub(super) fn measured(&self, now_us: u64, typical: f32) -> (f32, f32) {
        if self.answered_us + FRESH_US >= now_us {
            return (self.slowdown, self.failures);
        }
        self.faded(now_us, typical)
    }

    #[cold]
    fn faded(&self, now_us: u64, typical: f32) -> (f32, f32) {
        let fresh = self.freshness(now_us);
        let slowdown = typical + fresh * (self.slowdown - typical);
        (slowdown, fresh * self.failures)
    }

    pub(super) fn failures(&self) -> f32 {
        self.failures
    }

    pub(super) fn is_ejected(&self, now_us: u64) -> bool {
        now_us < self.returns_us
    }

    /// See [`super::Choice::lagging`]. `best`: the lowest slowdown of those that it is compared with.
    pub(super) fn lags(&self, now_us: u64, typical: f32, best: f32) -> bool {
        let (slowdown, failures) = self.measured(now_us, typical);
        let silent_us = self.silent_us(now_us);
        let is_slow = |slowdown: f32| slowdown > LAGS_SLOWER * best && !self.is_cold();
        // Of one of those in flight: some take seconds.
        let in_flight_us = slowdown * self.sent_us as i64 as f32 / self.in_flight.max(1) as f32;
        self.is_ejected(now_us)
            || failures > LAGS_FAILURES
            || is_slow(slowdown)
            // It was slow when last heard. One request at a time will tell whether it still is.
            || (self.in_flight > 0 && is_slow(self.slowdown))
            || silent_us > LAGS_SILENT_US + LAGS_SILENT * self.response_us.max(in_flight_us)
    }

    pub(super) fn ejections(&self) -> u64 {
        self.ejections.into()
    }

    pub(super) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// True if this request should not go there: it is ejected, or has returned not long ago and gets only a share
    /// of its requests.
    #[inline]
    pub(super) fn is_out(&self, now_us: u64, rotation: u64) -> bool {
        now_us < self.starts_until_us && self.is_held_back(now_us, rotation)
    }

    #[cold]
    fn is_held_back(&self, now_us: u64, rotation: u64) -> bool {
        if self.is_ejected(now_us) {
            return true;
        }
        // Fibonacci hashing: neighbouring counts give shares that are spread evenly.
        (rotation.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) >= self.share_256(now_us)
    }

    /// The share of its requests that it gets, of 256.
    fn share_256(&self, now_us: u64) -> u64 {
        let back_us = now_us.saturating_sub(self.returns_us);
        (256 * back_us / self.starts_for_us).clamp(SHARE_256_MIN, 256)
    }

    /// How many times slower long work takes it for because it has returned or joined not long ago.
    pub(super) fn starts_slower(&self, now_us: u64) -> f32 {
        if now_us >= self.starts_until_us {
            return 1.0;
        }
        let share = self.share_256(now_us) as f32 / 256.0;
        1.0 / share.max(SHARE_OF_LONG_MIN)
    }
}
