//! A write whose table has lost its copies meanwhile: it is one of the table alone.

use helenus_layout::insync::{Members, TABLE};

use super::{CopiedWrite, End, Steps, Why};

impl CopiedWrite {
    /// Its table has no copies any more.
    pub(crate) fn note_copies_gone(&mut self) {
        self.is_of_table = true;
    }

    pub(crate) fn is_of_table(&self) -> bool {
        self.is_of_table
    }

    /// As an ordinary write, which has a timestamp and so may be sent again.
    pub(super) fn advance_on_table(&mut self, may_send: bool, now_us: u64) -> Steps {
        let of = &self.copies[TABLE];
        let is_due = may_send && of.flying.is_none() && of.not_before_us <= now_us;
        let end = match of.boot {
            Some(_) => Some(End::Complete),
            None if self.has_come_to_nothing() => Some(End::Refused),
            None if self.is_too_old(now_us) => Some(End::GivenUp(Why::Old)),
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
