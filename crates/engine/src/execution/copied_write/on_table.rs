//! A write whose table has lost its copies meanwhile: it is one of the table alone.

use helenus_layout::insync::{Members, TABLE};

use super::{CopiedWrite, End, Steps, Why};

/// For how long one goes on that nobody waits for: far less than it takes until the table may have copies again.
const LIFE_MAX_US: u64 = 10_000_000;

impl CopiedWrite {
    /// Whether its table has copies, by the catalogue. Returns whether it had none before, and has some again.
    pub(crate) fn note_copies(&mut self, has_some: bool, now_us: u64) -> bool {
        match has_some {
            true => self.of_table_since_us.take().is_some(),
            false => {
                self.of_table_since_us.get_or_insert(now_us);
                false
            }
        }
    }

    pub(crate) fn is_of_table(&self) -> bool {
        self.of_table_since_us.is_some()
    }

    /// As an ordinary write, which has a timestamp and so may be sent again.
    pub(super) fn advance_on_table(&mut self, since_us: u64, may_send: bool, now_us: u64) -> Steps {
        let age_us = now_us.saturating_sub(since_us);
        let is_old = self.waits.is_none() && age_us >= LIFE_MAX_US;
        let of = &self.copies[TABLE];
        let is_due = may_send && of.flying.is_none() && of.not_before_us <= now_us;
        let end = match of.boot {
            Some(_) => Some(End::Complete),
            None if self.has_come_to_nothing() => Some(End::Refused),
            None if is_old => Some(End::GivenUp(Why::Old)),
            None => None,
        };
        let send = match is_due && end.is_none() {
            true => Members::of(TABLE),
            false => Members::EMPTY,
        };
        Steps {
            send,
            evict: None,
            end,
        }
    }
}
