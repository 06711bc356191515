//! This start of the proxy as workers know it, and its write intents.

use std::sync::Arc;

use helenus_engine::copies::{BUCKETS, Member};
use helenus_layout::insync::BitChange;

use super::recording::Recording;
use crate::process::Intent;

/// Times are those of [`helenus_engine::copies::InSync`].
#[derive(Debug, Default)]
pub(super) struct Own {
    /// One value from when the start has a number until its end: writes are those of a member.
    member: Option<Arc<Member>>,
    recording: Recording,
}

impl Own {
    pub(super) fn member(&self) -> Option<&Arc<Member>> {
        self.member.as_ref()
    }

    /// The start has this number, if it has one.
    pub(super) fn enter(&mut self, number: Option<usize>) {
        if self.member.is_none() {
            self.member = number.map(|number| Arc::new(Member::new(number)));
        }
    }

    /// A worker wants a bit to be recorded. What an earlier start wanted is of no use any more.
    pub(super) fn on_intent(&mut self, (of, change): Intent) {
        let is_own = |member: &Arc<Member>| Arc::ptr_eq(member, &of);
        if self.member.as_ref().is_some_and(is_own) {
            self.recording.add(change);
        }
    }

    /// Bits of buckets that are idle are to be cleared.
    pub(super) fn clear_idle(&mut self, now_us: u64) {
        if let Some(member) = &self.member {
            self.recording.clear_idle(&mut member.intents(), now_us);
        }
    }

    /// What is to be written to the catalogue.
    pub(super) fn next(&mut self, now_us: u64) -> Option<&[BitChange]> {
        self.recording.next(now_us)
    }

    /// It was written.
    pub(super) fn on_recorded(&mut self) {
        if let Some(member) = &self.member {
            self.recording.on_recorded(&mut member.intents());
        }
    }

    /// Nobody knows whether it was.
    pub(super) fn on_failed(&mut self, now_us: u64) {
        if let Some(member) = &self.member {
            self.recording.on_failed(&mut member.intents(), now_us);
        }
    }

    /// All copies have all writes of this start, and none can begin any more if all workers have ended.
    pub(super) fn has_left_nothing(&self) -> bool {
        let is_clear = |member: &Arc<Member>| {
            let intents = member.intents();
            (0..BUCKETS).all(|bucket| !intents.is_pending(bucket))
        };
        self.member.as_ref().is_some_and(is_clear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_one_member_and_hears_of_its_own_intents_only() {
        let mut own = Own::default();
        own.enter(None);
        assert!(own.member().is_none());
        own.enter(Some(3));
        let member = own.member().expect("it has a number").clone();
        own.enter(Some(3));
        own.enter(None);
        assert!(own.member().is_some_and(|of| Arc::ptr_eq(of, &member)));
        let change = member.intents().begin(7).expect("the bit is clear");
        let before = Arc::new(Member::new(3));
        own.on_intent((before, change));
        assert_eq!(own.next(0), None);
        own.on_intent((member.clone(), change));
        assert_eq!(own.next(0), Some(&[change][..]));
        own.on_recorded();
        assert!(member.intents().is_recorded(7));
        assert!(!own.has_left_nothing());
        member.intents().end(7, 0);
        assert!(own.has_left_nothing());
    }
}
