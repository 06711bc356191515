//! The partitions of the statements of a batch, found one after the other.

use helenus_cql::Facts;
use helenus_wire::Values;
use rustc_hash::FxHashMap;

use crate::snapshot::Snapshot;
use crate::statement::prepared::{Prepared, Statement};
use crate::statement::routing_key::Recipe;

/// By their routing keys. They are numbered in the order in which they are found.
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

    /// The partition of a text; `None` if it cannot be told.
    pub(crate) fn of_text(
        &mut self,
        statement: &Statement,
        keyspace: Option<&str>,
        values: &Values<'_>,
        snapshot: &Snapshot,
    ) -> Option<usize> {
        let recipe = Recipe::of_text(&statement.facts, keyspace, snapshot);
        self.find(&recipe, (values, &[]), snapshot)
    }

    /// The same of a prepared statement.
    pub(crate) fn of_prepared(
        &mut self,
        prepared: &Prepared,
        values: &Values<'_>,
        snapshot: &Snapshot,
    ) -> Option<usize> {
        self.find(&prepared.key, (values, &prepared.names), snapshot)
    }

    /// The same of one of the statements in a text. `names`: of the text's markers, if it was prepared.
    pub(crate) fn of_inner(
        &mut self,
        facts: &Facts,
        keyspace: Option<&str>,
        (values, names): (&Values<'_>, &[Box<str>]),
        snapshot: &Snapshot,
    ) -> Option<usize> {
        let recipe = Recipe::of_text(facts, keyspace, snapshot).by_names(names);
        self.find(&recipe, (values, names), snapshot)
    }

    fn find(
        &mut self,
        recipe: &Recipe,
        (values, names): (&Values<'_>, &[Box<str>]),
        snapshot: &Snapshot,
    ) -> Option<usize> {
        if !recipe.build(values, names, &mut self.key) {
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
