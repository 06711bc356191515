//! The partitions of the statements of a batch, found one after the other.

use helenus_cql::Facts;
use helenus_wire::ValueRef;
use rustc_hash::FxHashMap;

use crate::snapshot::Snapshot;
use crate::statement::prepared::Prepared;
use crate::statement::routing_key::Recipe;

/// By their routing keys, made of values in the order of the markers. They are numbered in the order in which they are found.
#[derive(Default)]
pub(crate) struct Partitions {
    by_key: FxHashMap<Box<[u8]>, usize>,
    /// The last one.
    last: Option<(Box<[u8]>, usize)>,
    tokens: Vec<i64>,
    /// A key that is looked for.
    key: Vec<u8>,
}

impl Partitions {
    /// The Murmur3 token of each.
    pub(crate) fn tokens(&self) -> &[i64] {
        &self.tokens
    }

    /// The partition of a text, or of one of the statements in a text, whose values are those of the whole; `None` if
    /// it cannot be told.
    pub(crate) fn of_text(
        &mut self,
        facts: &Facts,
        keyspace: Option<&str>,
        values: &[ValueRef<'_>],
        snapshot: &Snapshot,
    ) -> Option<usize> {
        let recipe = Recipe::in_order(facts, keyspace, snapshot);
        self.find(&recipe, values, snapshot)
    }

    /// The same of a prepared statement.
    pub(crate) fn of_prepared(
        &mut self,
        prepared: &Prepared,
        values: &[ValueRef<'_>],
        snapshot: &Snapshot,
    ) -> Option<usize> {
        self.find(&prepared.key, values, snapshot)
    }

    fn find(
        &mut self,
        recipe: &Recipe,
        values: &[ValueRef<'_>],
        snapshot: &Snapshot,
    ) -> Option<usize> {
        if !recipe.build_in_order(values, &mut self.key) {
            return None;
        }
        if let Some((key, at)) = &self.last
            && **key == *self.key
        {
            return Some(*at);
        }
        let at = match self.by_key.get(&*self.key) {
            Some(at) => *at,
            None => {
                let ring = snapshot.ring.as_ref()?;
                let (_, token) = ring.slot_and_token_of_key(&self.key)?;
                self.tokens.push(token);
                let at = self.tokens.len() - 1;
                self.by_key.insert(self.key.as_slice().into(), at);
                at
            }
        };
        self.last = Some((self.key.as_slice().into(), at));
        Some(at)
    }
}
