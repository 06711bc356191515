//! What becomes of each attempt to send a write to one of its copies.

use helenus_layout::insync::Members;

use super::{CopiedWrite, OfCopy, PAUSE_DOUBLINGS_MAX, PAUSE_US};
use crate::execution::outcome::Told;
use crate::execution::write_ends::Failure;
use crate::keys::NodeRequestKey;

impl CopiedWrite {
    /// A copy is being asked.
    pub(crate) fn note_sent(&mut self, copy: usize, key: NodeRequestKey) {
        self.copies[copy].flying = Some(key);
    }

    /// A copy may have it, whatever comes of this node request.
    pub(crate) fn note_may_have(&mut self, copy: usize, key: NodeRequestKey) {
        let of = self.copies.get_mut(copy);
        if let Some(of) = of.filter(|of| of.flying == Some(key)) {
            of.may_have = true;
        }
    }

    /// The copy that this node request was for, if it is still awaited; it is no longer.
    fn land(&mut self, copy: usize, key: NodeRequestKey) -> Option<&mut OfCopy> {
        let of = self.copies.get_mut(copy)?;
        of.flying.take_if(|flying| *flying == key)?;
        Some(of)
    }

    /// A copy has it, by this start of its node.
    pub(crate) fn on_acked(&mut self, copy: usize, key: NodeRequestKey, boot: u32, now_us: u64) {
        let Some(of) = self.land(copy, key) else {
            return;
        };
        of.may_have = true;
        // One that this start has acknowledged is asked again if the list knows only an earlier start.
        let is_again = of.boot >= Some(boot);
        of.boot = of.boot.max(Some(boot));
        of.failure = None;
        of.failures = match is_again {
            true => of.failures.saturating_add(1),
            false => 0,
        };
        // Unless it comes back after having been out, it need not be asked again soon.
        of.not_before_us = now_us + (PAUSE_US << of.failures.min(PAUSE_DOUBLINGS_MAX));
        self.was_acknowledged = true;
        self.protocol.on_acked(copy, boot);
    }

    /// A copy could not be asked yet.
    pub(crate) fn on_unsent(&mut self, copy: usize, now_us: u64) {
        self.note_unsent(copy, Failure::Untried, now_us);
        self.protocol.on_failed(copy);
    }

    /// The nodes refuse to prepare what it is on a copy, and its texts are too long to be sent. `told`: what the
    /// client may hear of it.
    pub(crate) fn on_unpreparable(&mut self, copy: usize, told: Told, now_us: u64) {
        self.note_unsent(copy, Failure::Refused, now_us);
        self.protocol.on_refused(copy);
        self.note_said(Failure::Refused, told);
    }

    fn note_unsent(&mut self, copy: usize, failure: Failure, now_us: u64) {
        if let Some(of) = self.copies.get_mut(copy) {
            of.failure = Some(failure);
            of.not_before_us = now_us + PAUSE_US;
        }
    }

    /// A copy has failed. `told`: what the client may hear of it.
    pub(crate) fn on_failed(
        &mut self,
        (copy, key): (usize, NodeRequestKey),
        failure: Failure,
        told: Option<Told>,
        now_us: u64,
    ) {
        let Some(of) = self.land(copy, key) else {
            return;
        };
        of.may_have |= failure >= Failure::Unclear;
        of.failure = Some(failure);
        let mut pause_us = PAUSE_US;
        if failure != Failure::Untried {
            pause_us <<= of.failures.min(PAUSE_DOUBLINGS_MAX);
            of.failures = of.failures.saturating_add(1);
        }
        of.not_before_us = now_us + pause_us;
        match failure {
            Failure::Untried => self.protocol.on_failed(copy),
            Failure::Refused => self.protocol.on_refused(copy),
            Failure::Busy | Failure::Unclear | Failure::Silent => {
                // It has come there, at the latest now.
                self.protocol.on_sent(Members::of(copy), now_us);
                self.protocol.on_failed(copy);
            }
        }
        if let Some(told) = told {
            self.note_said(failure, told);
        }
    }

    fn note_said(&mut self, failure: Failure, told: Told) {
        let says_more = self.said.as_ref().is_none_or(|(said, _)| failure >= *said);
        if says_more {
            let before = self.said.as_ref().map_or(0, |(_, said)| said.byte_len());
            self.held.set(self.held.bytes() - before + told.byte_len());
            self.said = Some((failure, told));
        }
    }
}
