//! Where on the ring the partition of a request belongs.

use std::sync::Arc;

use helenus_cql::Facts;
use helenus_policy::ring::ReplicaSets;
use helenus_wire::Values;

use crate::snapshot::Snapshot;
use crate::statement::prepared::{Prepared, Statement};
use crate::statement::routing_key::Recipe;

/// Where a partition belongs.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Slot of the ring.
    pub slot: usize,
    /// The Murmur3 token of the partition's key, if that is known.
    pub token: Option<i64>,
    /// The owners of each slot, for the partition's keyspace.
    pub owners: Arc<ReplicaSets>,
}

impl Place {
    /// A hash of the partition's key: as evenly spread as its token is.
    #[inline]
    pub(crate) fn hash(&self) -> Option<u32> {
        self.token.map(|token| token as u32)
    }
}

/// Finds the places of requests, one after another.
#[derive(Default)]
pub(super) struct Placer {
    key: Vec<u8>,
}

impl Placer {
    /// The routing key of the last request that had a place.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn of_text(
        &mut self,
        statement: &Statement,
        keyspace: Option<&str>,
        values: &Values<'_>,
        snapshot: &Snapshot,
    ) -> Option<Place> {
        let recipe = Recipe::of_text(&statement.facts, keyspace, snapshot);
        let facts = statement.facts.inner.first().unwrap_or(&statement.facts);
        let keyspace = facts.keyspace.as_ref().map(|k| k.as_str()).or(keyspace)?;
        self.place(&recipe, values, &[], keyspace, snapshot)
    }

    pub(super) fn of_prepared(
        &mut self,
        prepared: &Prepared,
        values: &Values<'_>,
        snapshot: &Snapshot,
    ) -> Option<Place> {
        let (keyspace, _) = prepared.table.as_ref()?;
        self.place(&prepared.key, values, &prepared.names, keyspace, snapshot)
    }

    /// Of one of the statements in a text. `names`: of the text's markers, if it was prepared.
    pub(super) fn of_inner(
        &mut self,
        facts: &Facts,
        keyspace: Option<&str>,
        values: &Values<'_>,
        names: &[Box<str>],
        snapshot: &Snapshot,
    ) -> Option<Place> {
        let recipe = Recipe::of_inner(facts, keyspace, names, snapshot);
        let keyspace = facts.keyspace.as_ref().map(|k| k.as_str()).or(keyspace)?;
        self.place(&recipe, values, names, keyspace, snapshot)
    }

    fn place(
        &mut self,
        recipe: &Recipe,
        values: &Values<'_>,
        names: &[Box<str>],
        keyspace: &str,
        snapshot: &Snapshot,
    ) -> Option<Place> {
        let at = recipe
            .build(values, names, &mut self.key)
            .then(|| snapshot.nodes().ring()?.slot_and_token_of_key(&self.key))
            .flatten();
        let owners = snapshot.schema().owners(keyspace)?.clone();
        let (slot, token) = at?;
        Some(Place {
            slot,
            token: Some(token),
            owners,
        })
    }
}
