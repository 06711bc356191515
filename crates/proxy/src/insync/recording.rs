//! Write intents on their way to the catalogue: bits that wait are written together, and what has failed is tried
//! again. Decisions without sockets and without a clock.

use std::collections::BTreeMap;

use helenus_layout::insync::{BitChange, Intents};

/// In one statement.
const BITS_MAX: usize = 128;
/// Bits that are cleared at a time: the intents are locked meanwhile.
const CLEARED_MAX: usize = 64;
/// A bucket in which nothing was written for so long is cleared.
pub(super) const IDLE_US: u64 = 10_000_000;
/// What fails is tried again after this time at first, and after twice as long each time,
const RETRY_US: u64 = 50_000;
/// up to so long.
const RETRY_MAX_US: u64 = 2_000_000;

/// Changes of one member's bits.
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// By bucket: the last change of each.
    waiting: BTreeMap<usize, BitChange>,
    /// What the catalogue was asked for.
    asked: Vec<BitChange>,
    failures: u32,
    not_before_us: u64,
}

impl Recording {
    pub(super) fn add(&mut self, change: BitChange) {
        let last = self.waiting.entry(change.bucket).or_insert(change);
        if last.number < change.number {
            *last = change;
        }
    }

    /// Bits of buckets that are idle are to be cleared.
    pub(super) fn clear_idle(&mut self, intents: &mut Intents, now_us: u64) {
        for _ in 0..CLEARED_MAX {
            let Some(change) = intents.clear(IDLE_US, now_us) else {
                return;
            };
            self.add(change);
        }
    }

    /// What is to be written next, if nothing is on its way: writes wait for bits that are set, so these come first.
    pub(super) fn next(&mut self, now_us: u64) -> Option<&[BitChange]> {
        if !self.asked.is_empty() || self.waiting.is_empty() || now_us < self.not_before_us {
            return None;
        }
        let of = |set: bool| {
            let waiting = self.waiting.values().copied();
            waiting.filter(move |change| change.set == set)
        };
        self.asked = of(true).chain(of(false)).take(BITS_MAX).collect();
        self.waiting
            .retain(|_, change| !self.asked.contains(change));
        Some(&self.asked)
    }

    /// The catalogue has what was asked for.
    pub(super) fn on_recorded(&mut self, intents: &mut Intents) {
        self.failures = 0;
        for change in std::mem::take(&mut self.asked) {
            intents.on_changed(change);
        }
    }

    /// Nobody knows what became of it.
    pub(super) fn on_failed(&mut self, intents: &mut Intents, now_us: u64) {
        for change in std::mem::take(&mut self.asked) {
            if let Some(again) = intents.on_failed(change) {
                self.add(again);
            }
        }
        let pause_us = (RETRY_US << self.failures.min(16)).min(RETRY_MAX_US);
        self.failures = self.failures.saturating_add(1);
        self.not_before_us = now_us.saturating_add(pause_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        intents: Intents,
        recording: Recording,
    }

    impl Scene {
        fn new() -> Scene {
            Scene {
                intents: Intents::new(1_024),
                recording: Recording::default(),
            }
        }

        fn begin(&mut self, buckets: impl IntoIterator<Item = usize>) {
            for bucket in buckets {
                let change = self.intents.begin(bucket);
                change
                    .into_iter()
                    .for_each(|change| self.recording.add(change));
            }
        }

        /// What is written next.
        fn next(&mut self, now_us: u64) -> Vec<(usize, bool)> {
            let changes = self.recording.next(now_us).unwrap_or_default();
            changes.iter().map(|of| (of.bucket, of.set)).collect()
        }

        fn recorded(&mut self) {
            self.recording.on_recorded(&mut self.intents);
        }

        /// Whether the catalogue has this bit.
        fn is_recorded(&mut self, bucket: usize) -> bool {
            self.recorded();
            self.intents.is_recorded(bucket)
        }

        fn is_idle(&self) -> bool {
            self.recording.waiting.is_empty() && self.recording.asked.is_empty()
        }

        fn failed(&mut self, now_us: u64) {
            self.recording.on_failed(&mut self.intents, now_us);
        }
    }

    #[test]
    fn bits_that_wait_are_written_together() {
        let mut scene = Scene::new();
        scene.begin([5]);
        assert_eq!(scene.next(0), [(5, true)]);
        scene.begin([7, 6, 7, 5]);
        assert!(scene.next(0).is_empty(), "one statement at a time");
        assert!(scene.is_recorded(5));
        assert_eq!(scene.next(0), [(6, true), (7, true)]);
        assert!(!scene.intents.is_recorded(6));
        assert!(scene.is_recorded(6));
        assert!(scene.is_idle());
        scene.begin(100..400);
        let mut statements = Vec::new();
        while !scene.is_idle() {
            statements.push(scene.next(0).len());
            scene.recorded();
        }
        assert_eq!(statements, [128, 128, 44]);
    }

    #[test]
    fn what_fails_is_tried_again_after_growing_pauses() {
        let mut scene = Scene::new();
        scene.begin([5]);
        let mut now_us = 0;
        for pause_ms in [50, 100, 200, 400, 800, 1_600, 2_000, 2_000] {
            assert_eq!(scene.next(now_us), [(5, true)]);
            scene.failed(now_us);
            now_us += pause_ms * 1_000;
            assert!(scene.next(now_us - 1).is_empty());
        }
        assert!(!scene.intents.is_recorded(5));
        assert_eq!(scene.next(now_us), [(5, true)]);
        assert!(scene.is_recorded(5));
        scene.begin([6]);
        scene.next(now_us);
        scene.failed(now_us);
        assert_eq!(scene.next(now_us + RETRY_US), [(6, true)], "begun anew");
    }

    #[test]
    fn idle_buckets_are_cleared_after_those_that_writes_wait_for() {
        let mut scene = Scene::new();
        scene.begin([5]);
        scene.next(0);
        scene.recorded();
        let idle = |scene: &mut Scene, now_us| {
            let Scene { intents, recording } = scene;
            recording.clear_idle(intents, now_us);
        };
        idle(&mut scene, 2 * IDLE_US);
        assert!(scene.is_idle(), "its write is pending");
        scene.intents.end(5, 1_000);
        idle(&mut scene, IDLE_US + 999);
        assert!(scene.is_idle());
        idle(&mut scene, IDLE_US + 1_000);
        scene.begin([9]);
        assert_eq!(scene.next(0), [(9, true), (5, false)]);
        // A write begins before the catalogue has answered.
        scene.begin([5]);
        assert!(!scene.is_recorded(5));
        assert_eq!(scene.next(0), [(5, true)]);
        scene.recorded();
        assert!(scene.intents.is_recorded(5));
    }

    #[test]
    fn a_bit_that_is_wanted_again_is_not_cleared_before() {
        let mut scene = Scene::new();
        scene.begin([5]);
        scene.next(0);
        scene.recorded();
        scene.intents.end(5, 0);
        let Scene { intents, recording } = &mut scene;
        recording.clear_idle(intents, IDLE_US);
        scene.begin([5]);
        assert_eq!(scene.next(0), [(5, true)], "only the last change counts");
    }
}
