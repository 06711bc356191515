//! After which losses a request with a statement may be sent again, by its text, the schema and its client's timestamp.

use helenus_cql::Facts;
use helenus_wire::{Options, ValueRef, Values};

use crate::pipeline::retry::resendable::Resendable;
use crate::snapshot::Snapshot;
use crate::statement::prepared::{Prepared, Statement};

impl Statement {
    /// As a request with these options and values of the statement. `in_force`: the keyspace where its text
    /// names none.
    pub(crate) fn resendable(
        &self,
        snapshot: &Snapshot,
        in_force: Option<&str>,
        options: &Options<'_>,
        values: &Values<'_>,
    ) -> Resendable {
        let facts = &self.facts;
        let replaces_list = || snapshot.schema().may_replace_list(facts, in_force);
        Resendable::of_statement(facts, replaces_list, || {
            has_client_time(facts, options, values)
        })
    }
}

impl Prepared {
    /// [`Statement::resendable`], with the keyspace in which it was prepared.
    pub(crate) fn resendable(
        &self,
        snapshot: &Snapshot,
        options: &Options<'_>,
        values: &Values<'_>,
    ) -> Resendable {
        let facts = &self.statement.facts;
        let replaces_list = || {
            self.replaces_list.of(snapshot.epoch(), || {
                snapshot
                    .schema()
                    .may_replace_list(facts, self.keyspace.as_deref())
            })
        };
        Resendable::of_statement(facts, replaces_list, || {
            has_client_time(facts, options, values)
        })
    }
}

/// True if a write has a timestamp of its client's: the request's, or one in the statement.
fn has_client_time(facts: &Facts, options: &Options<'_>, values: &Values<'_>) -> bool {
    // Nodes take this for none where they do not refuse it.
    if options.timestamp.is_some_and(|time| time != i64::MIN) {
        return true;
    }
    let all_inner = || !facts.inner.is_empty() && facts.inner.iter().all(|of| of.using_timestamp);
    // The value that is unset may be the timestamp.
    let is_unset = |(_, value)| value == ValueRef::Unset;
    (facts.using_timestamp || all_inner()) && !values.iter().any(is_unset)
}
