//! Decides if a request may be sent again although a node may have had it. Everything that sends again asks
//! `Requests::may_be_sent_again` (`pipeline/retry/resend.rs`): links that break or fall silent, coordinators that miss
//! replicas, second attempts of slow reads, and writes that part from others.
//!
//! | | no node has begun it | it has been executed or will not be | a node may still execute it |
//! |---|---|---|---|
//! | conditions, counters, lists, functions | yes | no | no |
//! | other writes without a client's timestamp | yes | yes | no |
//! | other writes with one, and reads | yes | yes | yes |
//!
//! Without a client's timestamp a write has the time at which a node executes it. One that a node
//! still has to execute, as it stands still, would undo what clients write after they have been told that
//! another node has executed it.
//!
//! Lists: see `snapshot/list_columns.rs`.
//!
//! A node that closes a connection is taken to be ending. One that lives on still executes what it has begun,
//! within milliseconds: a write without a timestamp that another node has executed first is then the later.

use std::sync::atomic::{AtomicU64, Ordering};

use helenus_cql::{Facts, Kind};

/// After which losses a request may be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resendable {
    /// If no node has begun it: executed twice, it would do something else than once.
    #[default]
    IfNotBegun,
    /// Also if no node will execute it any more: the time of its execution is its timestamp.
    IfOver,
    /// However often, and however late, nodes execute it.
    Always,
}

/// The state of a request that a node was sent, or was to be sent, and has not carried out as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// It has not left, or its node has refused it.
    NotBegun,
    /// It may have been executed, in part or as a whole; what has not been by now never will be.
    Over,
    /// Its node may still execute it.
    MayCome,
}

impl Resendable {
    /// True if a request that was lost in this way may be sent again.
    pub(crate) fn after(self, loss: Loss) -> bool {
        match self {
            Resendable::IfNotBegun => loss <= Loss::NotBegun,
            Resendable::IfOver => loss <= Loss::Over,
            Resendable::Always => true,
        }
    }

    /// True if executing it twice, one after the other, is as good as executing it once.
    pub(crate) fn is_idempotent(self) -> bool {
        self.after(Loss::Over)
    }

    /// Of a statement. If it is a write: whether it may replace a list, and whether it has a timestamp of its
    /// client's.
    pub(crate) fn of_statement(
        facts: &Facts,
        may_replace_list: impl FnOnce() -> bool,
        is_timed: impl FnOnce() -> bool,
    ) -> Resendable {
        let is_write = matches!(
            facts.kind,
            Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch
        );
        if !facts.idempotent_but_for_lists || is_write && may_replace_list() {
            return Resendable::IfNotBegun;
        }
        match is_write && !is_timed() {
            true => Resendable::IfOver,
            false => Resendable::Always,
        }
    }
}

/// An answer that the schema gives, kept until there is another snapshot.
#[derive(Debug, Default)]
pub(crate) struct OfSchema(AtomicU64);

impl OfSchema {
    pub(crate) fn of(&self, epoch: u64, ask: impl FnOnce() -> bool) -> bool {
        let known = self.0.load(Ordering::Relaxed);
        // Before the first snapshot nothing is known, and nothing kept.
        if epoch != 0 && known >> 1 == epoch {
            return known & 1 == 1;
        }
        let is_so = ask();
        self.0
            .store(epoch << 1 | u64::from(is_so), Ordering::Relaxed);
        is_so
    }
}

#[cfg(test)]
mod tests;
