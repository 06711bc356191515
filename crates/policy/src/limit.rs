//! Decides whether one more request a second, one more in flight, or more bytes may pass a limit.
//!
//! Formula, of the rate: requests are planned evenly, 1 ÷ rate apart. Each that passes moves the time planned
//! for the next one by that much, from now on if the plan lies in the past. A request passes if the plan is
//! at most `burst` ahead of now. So in any time `t` at most `rate · t + rate · burst + 1` pass, and whoever
//! stays below the rate by more than the burst is never refused (the generic cell rate algorithm of ATM, a
//! token bucket that counts time in place of tokens).
//!
//! Bytes of answers are known only afterwards. So of bytes the same is planned, with the time that they take at
//! the rate, and a request passes if the plan is at most `burst` ahead of now, whatever it will take: the bytes
//! may go into debt, and nothing more passes until that is paid. So in the long run the rate holds; at once, as
//! much is exceeded as the requests take that are under way.
//!
//! Each is one atomic number, which all workers share: the bounds hold over all of them together. Time
//! is the callers': workers whose clocks differ by less than the burst cannot exceed it by more than that.
//!
//! Evidence: the tests below.
//!
//! Limits: the rate counts requests, not their work. A refused request costs nothing of it. A debt has no
//! bound but what is under way at a time.
//!
//! Source: ITU-T I.371, annex A.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How far ahead of its plan a rate may be used at once, as a time.
const BURST_US: u64 = 100_000;

/// At most so many requests per second.
#[derive(Debug)]
pub struct Rate {
    /// Between two requests.
    gap_ns: u64,
    burst_ns: u64,
    /// When the next request is planned.
    planned_ns: AtomicU64,
}

impl Rate {
    /// `per_second`: from one in a thousand seconds to 10⁹.
    pub fn new(per_second: f64) -> Rate {
        let per_second = if per_second.is_nan() { 1e9 } else { per_second };
        let gap_ns = (1e9 / per_second.clamp(1e-3, 1e9)).round() as u64;
        Rate {
            gap_ns,
            burst_ns: BURST_US * 1_000,
            planned_ns: AtomicU64::new(0),
        }
    }

    /// True if a request may pass now. `now_ns`: by one clock for all that share it.
    pub fn takes(&self, now_ns: u64) -> bool {
        let mut planned_ns = self.planned_ns.load(Ordering::Relaxed);
        loop {
            if planned_ns > now_ns.saturating_add(self.burst_ns) {
                return false;
            }
            let next_ns = planned_ns.max(now_ns).saturating_add(self.gap_ns);
            let replaced = self.planned_ns.compare_exchange_weak(
                planned_ns,
                next_ns,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match replaced {
                Ok(_) => return true,
                Err(newer_ns) => planned_ns = newer_ns,
            }
        }
    }

    /// A request that has passed does not go on: as if it had never been asked for.
    pub fn give_back(&self) {
        self.planned_ns.fetch_sub(self.gap_ns, Ordering::Relaxed);
    }
}

/// At most so many bytes per second in the long run.
#[derive(Debug)]
pub struct ByteRate {
    byte_ns: f64,
    burst_ns: u64,
    /// When what has been taken is paid for.
    paid_ns: AtomicU64,
}

impl ByteRate {
    /// `per_second`: at least 1.
    pub fn new(per_second: u64) -> ByteRate {
        ByteRate {
            byte_ns: 1e9 / per_second.max(1) as f64,
            burst_ns: BURST_US * 1_000,
            paid_ns: AtomicU64::new(0),
        }
    }

    /// True if a request may pass now. `now_ns`: by one clock for all that share it.
    pub fn is_open(&self, now_ns: u64) -> bool {
        self.paid_ns.load(Ordering::Relaxed) <= now_ns.saturating_add(self.burst_ns)
    }

    /// A request has taken so many bytes.
    pub fn charge(&self, bytes: usize, now_ns: u64) {
        let takes_ns = self.takes_ns(bytes);
        let more = |paid_ns: u64| paid_ns.max(now_ns).saturating_add(takes_ns);
        self.paid_ns
            .update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// A request that was charged does not go on: as if it had never been asked for.
    pub fn give_back(&self, bytes: usize) {
        let takes_ns = self.takes_ns(bytes);
        let less = |paid_ns: u64| paid_ns.saturating_sub(takes_ns);
        self.paid_ns
            .update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn takes_ns(&self, bytes: usize) -> u64 {
        // From floating point, larger values become the largest.
        (bytes as f64 * self.byte_ns).ceil() as u64
    }
}

/// Requests at a time.
#[derive(Debug, Default)]
pub struct InFlight {
    now: AtomicU32,
}

impl InFlight {
    /// Takes a place of so many, which is to be given back; false if there is none.
    #[must_use = "a place that was taken is to be given back"]
    pub fn try_take(&self, max: u32) -> bool {
        let more = |now: u32| (now < max).then(|| now + 1);
        self.now
            .try_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    pub fn give_back(&self) {
        let before = self.now.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a place is given back that nobody has taken");
    }

    /// Places taken.
    pub fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }
}

/// Seconds that [`Lately`] remembers; the one that is not over is left out.
const SECONDS: u64 = 8;

/// How many there were per second in the last few seconds, for people: who counts while a second begins may
/// be missing.
#[derive(Debug, Default)]
pub struct Lately {
    /// The second, as 32 bits, and how many there were in it.
    seconds: [AtomicU64; SECONDS as usize],
}

impl Lately {
    /// Counts one. `now_ns`: the same for all that share it.
    pub fn note(&self, now_ns: u64) {
        let (second, place) = self.place(now_ns / 1_000_000_000);
        if place.load(Ordering::Relaxed) >> 32 == second {
            place.fetch_add(1, Ordering::Relaxed);
        } else {
            place.store(second << 32 | 1, Ordering::Relaxed);
        }
    }

    /// Per second, on average of the last whole seconds.
    pub fn per_second(&self, now_ns: u64) -> f64 {
        let now = now_ns / 1_000_000_000;
        let past = now.saturating_sub(SECONDS - 1)..now;
        let seconds = past.end - past.start;
        let of = |second: u64| {
            let (second, place) = self.place(second);
            let counted = place.load(Ordering::Relaxed);
            match counted >> 32 == second {
                true => counted & u64::from(u32::MAX),
                false => 0,
            }
        };
        let all: u64 = past.map(of).sum();
        all as f64 / seconds.max(1) as f64
    }

    fn place(&self, second: u64) -> (u64, &AtomicU64) {
        let at = (second % SECONDS) as usize;
        (second & u64::from(u32::MAX), &self.seconds[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rng::for_seeds;

    #[test]
    fn no_span_of_time_gets_more_than_rate_and_burst() {
        for_seeds(100, |seed, rng| {
            let per_second = 1 + rng.below(5_000) as u64;
            let rate = Rate::new(per_second as f64);
            let mut passed_ns: Vec<u64> = Vec::new();
            let mut now_ns = rng.below(1 << 30) as u64;
            for _ in 0..3_000 {
                // Now storms, now pauses.
                now_ns += match rng.below(20) {
                    0 => rng.below(200_000_000) as u64,
                    _ => rng.below(300_000) as u64,
                };
                if rate.takes(now_ns) {
                    passed_ns.push(now_ns);
                }
            }
            for (at, begin) in passed_ns.iter().enumerate().step_by(7) {
                for (count, end) in passed_ns[at..].iter().enumerate().step_by(5) {
                    let span_s = (end - begin) as f64 / 1e9;
                    let most = per_second as f64 * (span_s + BURST_US as f64 / 1e6) + 2.0;
                    let count = count as f64 + 1.0;
                    assert!(count <= most + 1e-6, "seed {seed}: {count} in {span_s} s");
                }
            }
        });
    }

    #[test]
    fn who_stays_below_the_rate_is_never_refused_whatever_happened_before() {
        for_seeds(50, |seed, rng| {
            let rate = Rate::new(1_000.0);
            let mut now_ns = 0;
            for _ in 0..rng.below(500) {
                rate.takes(now_ns);
            }
            now_ns += 1_200_000_000;
            for _ in 0..2_000 {
                now_ns += 1_000_000 + rng.below(1_000) as u64;
                assert!(rate.takes(now_ns), "seed {seed}");
            }
        });
    }

    #[test]
    fn a_storm_gets_the_rate_in_the_long_run() {
        let rate = Rate::new(500.0);
        let passed = (0..10_000_000_u64)
            .step_by(100)
            .filter(|us| rate.takes(us * 1_000))
            .count();
        assert!((5_000..=5_052).contains(&passed), "{passed} in ten seconds");
    }

    #[test]
    fn several_threads_share_one_rate() {
        let rate = Rate::new(1_000.0);
        let passed = AtomicU64::new(0);
        #[allow(clippy::disallowed_methods)]
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for us in 0..1_000_000_u64 / 50 {
                        let takes = rate.takes(us * 50_000);
                        passed.fetch_add(u64::from(takes), Ordering::Relaxed);
                    }
                });
            }
        });
        let passed = passed.into_inner();
        assert!((1_000..=1_102).contains(&passed), "{passed} in one second");
    }

    #[test]
    fn odd_rates_are_bounded() {
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE] {
            let rate = Rate::new(odd);
            assert!(rate.takes(u64::MAX / 2));
            rate.takes(u64::MAX);
        }
    }

    #[test]
    fn places_come_back() {
        let places = InFlight::default();
        assert!(places.try_take(2) && places.try_take(2) && !places.try_take(2));
        places.give_back();
        assert!(places.try_take(2));
        assert_eq!(places.now(), 2);
        assert!(!InFlight::default().try_take(0));
    }

    #[test]
    fn bytes_go_into_debt_and_keep_their_rate_in_the_long_run() {
        for_seeds(50, |seed, rng| {
            let per_second = 1_000 + rng.below(1_000_000) as u64;
            let rate = ByteRate::new(per_second);
            let mut largest = 0;
            let mut taken = 0_u64;
            let end_ns = 60_000_000_000;
            let mut now_ns = 0;
            while now_ns < end_ns {
                now_ns += rng.below(20_000_000) as u64;
                if rate.is_open(now_ns) {
                    let bytes = rng.below(per_second as usize * 3);
                    rate.charge(bytes, now_ns);
                    taken += bytes as u64;
                    largest = largest.max(bytes as u64);
                }
            }
            let allowed = per_second as f64 * 60.2;
            let most = allowed + largest as f64;
            assert!(taken as f64 <= most, "seed {seed}: {taken} of {most}");
            // It is kept busy: what is left unused is a pause of 20 ms after each debt.
            assert!(taken as f64 >= 0.8 * allowed, "seed {seed}: {taken}");
        });
    }

    #[test]
    fn odd_numbers_of_bytes_are_bounded() {
        let rate = ByteRate::new(0);
        rate.charge(usize::MAX, u64::MAX / 2);
        rate.charge(usize::MAX, u64::MAX);
        assert!(!rate.is_open(0));
        let fast = ByteRate::new(u64::MAX);
        fast.charge(1 << 30, 0);
        assert!(fast.is_open(1));
    }

    #[test]
    fn what_was_lately_is_an_average_of_whole_seconds() {
        const S: u64 = 1_000_000_000;
        let lately = Lately::default();
        assert_eq!(lately.per_second(0), 0.0);
        for at in 0..70 {
            lately.note(at * S / 10);
        }
        assert_eq!(lately.per_second(7 * S + S / 2), 10.0);
        assert_eq!(lately.per_second(9 * S), 50.0 / 7.0);
        assert_eq!(lately.per_second(100 * S), 0.0);
        // A place is used again.
        lately.note(8 * S);
        assert_eq!(lately.per_second(9 * S), 51.0 / 7.0);
    }
}
