//! The statements of a request that has several, each by itself.

use std::sync::Arc;

use helenus_wire::{BatchChild, BatchView, ExecuteView, Opcode, QueryView, Values, Version};

use crate::context::Context;
use crate::snapshot::Snapshot;
use crate::statement::Statements;
use crate::statement::analysis::Analysis;
use crate::statement::place::{Place, Placer};
use crate::statement::prepared::{Prepared, Statement};

/// One statement of a BATCH.
#[derive(Debug)]
pub(crate) enum Child {
    Text(Arc<Statement>, Option<i64>),
    Prepared(Arc<Prepared>, Option<i64>),
    /// Only nodes know what this id stands for.
    Unknown(Box<[u8]>),
}

impl Statements {
    /// The statements of a BATCH that has been analyzed, with the tokens of their partitions if these are asked
    /// for. The key that is kept is that of the first of them.
    pub(crate) fn children(
        &mut self,
        cx: &Context,
        content: &[u8],
        version: Version,
        analysis: &Analysis<'_>,
        with_tokens: bool,
    ) -> Vec<Child> {
        let view = BatchView::parse(content, version);
        let children = view.map(|view| view.children).unwrap_or_default();
        // The first one comes last: its key is kept.
        let last_to_first = children.iter().rev().map(|child| match child {
            BatchChild::Text(text, values) => {
                let statement = self.texts.statement(analysis.keyspace, text);
                let token = with_tokens
                    .then(|| {
                        let (placer, snapshot) = (&mut self.placer, &cx.snapshot);
                        placer.of_text(&statement, analysis.keyspace, values, snapshot)
                    })
                    .flatten();
                Child::Text(statement, token.and_then(|place| place.token))
            }
            BatchChild::Prepared(id, values) => match self.prepared.get(&cx.shared, id) {
                None => Child::Unknown((*id).into()),
                Some(prepared) => {
                    let token = with_tokens
                        .then(|| self.placer.of_prepared(&prepared, values, &cx.snapshot))
                        .flatten();
                    Child::Prepared(prepared, token.and_then(|place| place.token))
                }
            },
        });
        let mut found: Vec<Child> = last_to_first.collect();
        found.reverse();
        found
    }

    /// The tokens of the partitions of the statements in a text `BEGIN BATCH … APPLY BATCH`, as far as they are
    /// known.
    pub(crate) fn inner_tokens(
        &mut self,
        cx: &Context,
        opcode: Opcode,
        content: &[u8],
        version: Version,
        analysis: &Analysis<'_>,
        statement: &Statement,
    ) -> Vec<Option<i64>> {
        let values = values_of(opcode, content, version);
        let names = analysis.prepared.as_ref().map(|of| &*of.names);
        let names = names.unwrap_or_default();
        let keyspace = analysis.in_force();
        let inner = statement.facts.inner.iter().rev();
        let tokens = inner.map(|facts| {
            let (placer, snapshot) = (&mut self.placer, &cx.snapshot);
            let place = placer.of_inner(facts, keyspace, &values, names, snapshot);
            place.and_then(|place| place.token)
        });
        let mut tokens: Vec<Option<i64>> = tokens.collect();
        tokens.reverse();
        tokens
    }
}

/// Where a text belongs whose values are all written into it.
pub(crate) fn place_of_text(
    snapshot: &Snapshot,
    statement: &Statement,
    keyspace: Option<&str>,
) -> Option<Place> {
    Placer::default().of_text(statement, keyspace, &Values::default(), snapshot)
}

/// The tokens of the statements in such a text, where they are known.
pub(crate) fn tokens_of_text(
    snapshot: &Snapshot,
    statement: &Statement,
    keyspace: Option<&str>,
) -> Vec<Option<i64>> {
    let inner = statement.facts.inner.iter();
    let tokens = inner.map(|facts| {
        let values = Values::default();
        let place = Placer::default().of_inner(facts, keyspace, &values, &[], snapshot);
        place.and_then(|place| place.token)
    });
    tokens.collect()
}

fn values_of(opcode: Opcode, content: &[u8], version: Version) -> Values<'_> {
    let options = match opcode {
        Opcode::Execute => ExecuteView::parse(content, version).map(|view| view.options),
        _ => QueryView::parse(content, version).map(|view| view.options),
    };
    options.map(|options| options.values).unwrap_or_default()
}
