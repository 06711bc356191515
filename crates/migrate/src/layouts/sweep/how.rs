//! How a sweep does its work.

use std::time::Duration;

use helenus_catalogue::sweep::Waits;

use super::super::work::Work;

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
}

impl How {
    pub(super) fn waits(&self) -> Waits {
        Waits {
            request_max: self.request_max,
            hints_unseen: self.hints_unseen,
        }
    }
}
