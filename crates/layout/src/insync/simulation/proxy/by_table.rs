//! What a proxy does where a command changes hands: it goes by the lists, or knows the table only.

use super::super::super::list::TABLE;
use super::super::catalogue::Request;
use super::super::handover::{STAGE_LEASE_US, STAGE_RENEWAL_US, Stage};
use super::super::{Bug, Cell};
use super::{Ask, Out, Proxy, Purpose};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Lists,
    /// As if there were no copies.
    Table,
}

impl Proxy {
    /// None if it does not know.
    pub(super) fn way(&self, now_us: u64) -> Option<Way> {
        if !self.has_command {
            return Some(Way::Lists);
        }
        let is_held = now_us < self.stage_until_us || self.has(Bug::StageLeaseIgnored);
        let stage = self.stage.filter(|_| is_held)?;
        Some(match stage.is_by_lists() {
            true => Way::Lists,
            false => Way::Table,
        })
    }

    pub(in super::super) fn knows_the_table_only(&self, now_us: u64) -> bool {
        self.way(now_us) == Some(Way::Table)
    }

    pub(super) fn lets_copies_join(&self, now_us: u64) -> bool {
        let may_join = self.stage.is_some_and(Stage::lets_copies_join);
        !self.has_command || may_join && now_us < self.stage_until_us
    }

    /// The time at which a read is judged, of this copy or of any.
    pub(super) fn read_at_us(&self, copy: Option<usize>, now_us: u64) -> u64 {
        let by_table = copy.is_none_or(|copy| copy == TABLE);
        match self.has(Bug::TableReadWithoutLease) && by_table {
            true => now_us.min(self.lease_until_us.saturating_sub(1)),
            false => now_us,
        }
    }

    pub(super) fn look_after_stage(&mut self, now_us: u64) {
        let is_due = self.has_command && now_us >= self.stage_asked_us + STAGE_RENEWAL_US;
        if is_due && !self.is_waiting(|purpose| matches!(purpose, Purpose::Stage)) {
            self.stage_asked_us = now_us;
            self.catalogue(Request::ReadStage, Purpose::Stage, now_us);
        }
    }

    pub(super) fn adopt_stage(&mut self, stage: Stage, sent_us: u64, now_us: u64) {
        let until_us = sent_us + STAGE_LEASE_US;
        if until_us <= self.stage_until_us {
            return;
        }
        (self.stage, self.stage_until_us) = (Some(stage), until_us);
        if stage == Stage::Dropped {
            // Nobody can acknowledge by lists any more.
            let ids: Vec<u64> = self.writes.keys().copied().collect();
            ids.into_iter().for_each(|id| self.end(id, false, now_us));
            self.merges.clear();
            self.comparing.clear();
        }
    }

    pub(super) fn read_by_table(&mut self, client: u64, key: usize, now_us: u64) {
        let asked = |purpose: &Purpose| matches!(purpose, Purpose::ReadByTable { client: of } if *of == client);
        if !self.is_waiting(asked) {
            self.ask(
                TABLE,
                Ask::Read(key),
                Purpose::ReadByTable { client },
                now_us,
            );
        }
    }

    pub(super) fn on_read_by_table(&mut self, client: u64, cell: Cell) {
        // Since when it is in sync only the world knows.
        if self.reads.remove(&client).is_some() {
            let by = (TABLE, 0);
            self.out.push(Out::Answered { client, cell, by });
        }
    }
}
