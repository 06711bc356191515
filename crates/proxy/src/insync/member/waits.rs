//! What has failed waits, each by itself.

use std::collections::BTreeMap;

use crate::insync::asked::{Action, ListName, TableName};

/// What fails is tried again after this time at first, and after twice as long each time.
const RETRY_US: u64 = 250_000;
/// A list that cannot be read or believed is read again after so long at most.
const READ_RETRY_MAX_US: u64 = 2_000_000;
/// A change that fails, as where rights are missing, is tried again after so long at most.
const CHANGE_RETRY_MAX_US: u64 = 30_000_000;

/// What may fail by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Attempt {
    Read(ListName),
    Intents,
    Change,
    ChangeCopies(TableName),
}

#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    failures: u32,
    until_us: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Waits {
    /// Proxies that have failed together try again one after the other, by this.
    spread: u8,
    waits: BTreeMap<Attempt, Wait>,
}

impl Waits {
    pub(super) fn new(spread: u8) -> Waits {
        let waits = BTreeMap::new();
        Waits { spread, waits }
    }

    /// There are no other lists any more.
    pub(super) fn keep(&mut self, is_wanted: impl Fn(&ListName) -> bool) {
        self.waits.retain(|attempt, _| match attempt {
            Attempt::Read(list) => is_wanted(list),
            Attempt::ChangeCopies(table) => is_wanted(&ListName::Copies(table.clone())),
            Attempt::Intents | Attempt::Change => true,
        });
    }

    pub(super) fn are_over(&self, action: &Action, now_us: u64) -> bool {
        Attempt::of(action).is_none_or(|attempt| self.is_over(&attempt, now_us))
    }

    pub(super) fn is_over(&self, attempt: &Attempt, now_us: u64) -> bool {
        let wait = self.waits.get(attempt);
        wait.is_none_or(|wait| now_us >= wait.until_us)
    }

    pub(super) fn on_success(&mut self, attempt: &Attempt) {
        self.waits.remove(attempt);
    }

    pub(super) fn put_off(&mut self, attempt: Attempt, now_us: u64) {
        let max_us = match attempt {
            Attempt::Change => CHANGE_RETRY_MAX_US,
            // Writes wait for it.
            Attempt::Read(_) | Attempt::Intents | Attempt::ChangeCopies(_) => READ_RETRY_MAX_US,
        };
        let wait = self.waits.entry(attempt).or_default();
        let time_us = (RETRY_US << wait.failures.min(16)).min(max_us);
        wait.failures = wait.failures.saturating_add(1);
        // Up to half as long again.
        let spread_us = time_us / 2 * u64::from(self.spread) / 255;
        wait.until_us = now_us.saturating_add(time_us + spread_us);
    }
}

impl Attempt {
    /// None if it cannot fail.
    pub(super) fn of(action: &Action) -> Option<Attempt> {
        match action {
            Action::Read(list) => Some(Attempt::Read(list.clone())),
            Action::ReadIntents => Some(Attempt::Intents),
            Action::Change(_) => Some(Attempt::Change),
            Action::ChangeCopies(change) => Some(Attempt::ChangeCopies(change.table.clone())),
            Action::StartAnew => None,
        }
    }
}
