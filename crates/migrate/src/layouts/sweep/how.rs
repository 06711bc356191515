//! How a sweep does its work.

use std::cell::Cell;
use std::time::{Duration, Instant};

use helenus_catalogue::sweep::Waits;

use super::super::work::Work;

/// Older looks for hints tell nothing.
const LOOKED_MAX: Duration = Duration::from_secs(5);

/// How the work is done.
pub(super) struct How {
    pub work: Work,
    pub no_proxies: bool,
    pub doubts_every: Duration,
    /// How long after it was sent a request may be carried out.
    pub request_max: Duration,
    /// How long after a layout was read the table has all that was written to both before.
    pub settled_after: Duration,
    /// How long hints may be kept before they show.
    pub hints_unseen: Duration,
}

/// How parts are compared.
#[derive(Clone, Copy)]
pub(super) struct Manner<'a> {
    pub work: &'a Work,
    /// As in [`How`].
    pub settled_after: Duration,
    /// When no node had kept hints for as long as they may go unseen.
    pub no_hints: &'a Cell<Option<Instant>>,
}

impl Manner<'_> {
    /// True if no node keeps hints, by a look that is not long ago.
    pub(super) fn has_no_hints(&self) -> bool {
        let looked = self.no_hints.get();
        looked.is_some_and(|at| at.elapsed() < LOOKED_MAX)
    }
}

impl How {
    pub(super) fn waits(&self) -> Waits {
        Waits {
            request_max: self.request_max,
            hints_unseen: self.hints_unseen,
        }
    }
}
