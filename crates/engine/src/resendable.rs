//! Whether a request may be sent again although a node may have had it. Everything that sends again asks
//! here: links that break or fall silent, coordinators that miss replicas, second attempts of slow reads,
//! and merged writes that part.
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
//! Lists: see `list_columns.rs`.
//!
//! A node that closes a connection is taken to be ending. One that lives on still executes what it has begun,
//! within milliseconds: a write without a timestamp that another node has executed first is then the later.

use std::sync::atomic::{AtomicU64, Ordering};

use helenus_cql::{Facts, Kind};
use helenus_wire::{Options, ValueRef, Values};

use crate::keys::NodeRequestKey;
use crate::list_columns::ListColumns;
use crate::node_request::Form;
use crate::request::{ClientRequest, Requests};
use crate::snapshot::Snapshot;
use crate::statement::prepared::{Prepared, Statement};

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

/// What is known of a request that a node was sent, or was to be sent, and has not carried out as far as it
/// says.
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
    /// Whether what has been lost in this way may be sent again.
    pub(crate) fn after(self, loss: Loss) -> bool {
        match self {
            Resendable::IfNotBegun => loss <= Loss::NotBegun,
            Resendable::IfOver => loss <= Loss::Over,
            Resendable::Always => true,
        }
    }

    /// Whether executing it twice, one after the other, is as good as executing it once.
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

/// Whether a write may replace a list. `in_force`: the keyspace where its text names none.
pub(crate) fn may_replace_list(facts: &Facts, in_force: Option<&str>, known: &ListColumns) -> bool {
    let may = |facts: &Facts| {
        let keyspace = facts.keyspace.as_deref().or(in_force);
        let table = keyspace.zip(facts.table.as_deref());
        known.may_be_among(&facts.overwrites, table)
    };
    may(facts) || facts.inner.iter().any(may)
}

impl Statement {
    /// As a request with these options and values of the statement. `in_force`: the keyspace where its text
    /// names none.
    pub(crate) fn resendable(
        &self,
        snapshot: &Snapshot,
        in_force: Option<&str>,
        (options, values): (&Options<'_>, &Values<'_>),
    ) -> Resendable {
        let facts = &self.facts;
        let replaces_list = || may_replace_list(facts, in_force, &snapshot.lists);
        Resendable::of_statement(facts, replaces_list, || {
            has_client_time(facts, options, values)
        })
    }
}

impl Prepared {
    /// The same.
    pub(crate) fn resendable(
        &self,
        snapshot: &Snapshot,
        (options, values): (&Options<'_>, &Values<'_>),
    ) -> Resendable {
        let facts = &self.statement.facts;
        let replaces_list = || {
            self.replaces_list.of(snapshot.epoch, || {
                may_replace_list(facts, self.keyspace.as_deref(), &snapshot.lists)
            })
        };
        Resendable::of_statement(facts, replaces_list, || {
            has_client_time(facts, options, values)
        })
    }
}

/// An answer that the schema gives, kept until there is another snapshot.
#[derive(Debug, Default)]
pub(crate) struct OfSchema(AtomicU64);

impl OfSchema {
    fn of(&self, epoch: u64, ask: impl FnOnce() -> bool) -> bool {
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

/// Whether a write has a timestamp of its client's: the request's, or one in the statement.
fn has_client_time(facts: &Facts, options: &Options<'_>, values: &Values<'_>) -> bool {
    // Nodes take this for none where they do not refuse it.
    if options.timestamp.is_some_and(|time| time != i64::MIN) {
        return true;
    }
    let all_inner = || !facts.inner.is_empty() && facts.inner.iter().all(|of| of.using_timestamp);
    // What is said to be unset may be the timestamp.
    let is_unset = |(_, value)| value == ValueRef::Unset;
    (facts.using_timestamp || all_inner()) && !values.iter().any(is_unset)
}

impl ClientRequest {
    /// After which losses what is sent for it may be sent again.
    pub(crate) fn resendable(&self) -> Resendable {
        let batch = self.merge.batch();
        // Each of several writes would undo, by a later time, what others have written meanwhile.
        let is_untimed = |members: usize, is_timed: bool| members > 0 && !is_timed;
        match batch.is_some_and(|of| is_untimed(of.members.len(), of.timed.is_some())) {
            true => Resendable::IfNotBegun,
            false => self.query.resendable,
        }
    }
}

impl Requests {
    /// Whether a node request may be sent again after it was lost in this way.
    pub(crate) fn may_be_sent_again(&self, key: NodeRequestKey, loss: Loss) -> bool {
        let Some(request) = self.nodes.get(key) else {
            return false;
        };
        let resendable = match &request.form {
            Form::Other(query) => Some(query.resendable),
            Form::Own | Form::Piece { .. } => {
                let client = request.owner.client();
                let client = client.and_then(|client| self.clients.get(client));
                client.map(ClientRequest::resendable)
            }
        };
        resendable.is_some_and(|resendable| resendable.after(loss))
    }
}

#[cfg(test)]
mod tests;
