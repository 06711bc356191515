//! What a request that has passed a rule has of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::rules::Rule;

/// What a request has of a rule until it ends: its place, the bytes that its answer takes, the time that it may
/// take. Dropped, it gives the place back.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(super) rule: Arc<Rule>,
    pub(super) has_place: bool,
    pub(super) is_timed: bool,
}

impl Permit {
    /// The request is answered with so many bytes.
    pub(crate) fn note_answer(&self, bytes: usize, now: Instant) {
        self.rule.note_answer(bytes, now);
    }

    /// How long the request may take, and the rule's name.
    pub(crate) fn time_max(&self) -> Option<(Duration, &str)> {
        let settings = &self.rule.settings;
        let ms = settings.timeout_ms.filter(|_| self.is_timed)?;
        Some((Duration::from_millis(ms), &settings.name))
    }

    /// The request is given up because it has had its time.
    pub(crate) fn note_timed_out(&self) {
        self.rule.note_timed_out();
    }

    fn give_back(&mut self) {
        if std::mem::take(&mut self.has_place) {
            self.rule.give_place_back();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Whether a request has a time of its own.
#[inline]
pub(crate) fn is_timed(permits: &[Permit]) -> bool {
    permits.iter().any(|permit| permit.is_timed)
}

/// What is left of permits when a read gets the answer of another: it takes no place, and pays for its bytes.
pub(crate) fn of_joined(mut permits: Vec<Permit>) -> Vec<Permit> {
    permits.retain_mut(|permit| {
        permit.give_back();
        permit.rule.limits_bytes()
    });
    permits
}
