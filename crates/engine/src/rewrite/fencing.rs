//! Which lease a request needs: that on the catalogue if it is, or may be, about a flagged table, otherwise that on the flags
//! ([`crate::rewrite::leases`]).

use helenus_cql::{Facts, Kind};
use helenus_wire::{BatchChild, BatchView, Opcode};

use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::rewrite::leases::{Flagged, Need};
use crate::statement::analysis::Analysis;
use crate::statement::prepared::{Prepared, Statement};

/// The knowledge of tables flagged for a feature that a request needs.
pub(crate) fn need(
    engine: &mut Engine,
    flagged: &Flagged,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: Option<&Statement>,
) -> Need {
    if flagged.is_empty() {
        return Need::Flags;
    }
    match (arrival.opcode, statement) {
        (Opcode::Batch, _) => need_of_batch(engine, flagged, arrival, analysis),
        (_, Some(of)) if of.facts.kind == Kind::Batch => {
            let in_force = analysis.in_force();
            let inner = of.facts.inner.iter();
            flagged.most(inner.map(|inner| named_table(inner, in_force)))
        }
        // Whatever it may be about.
        (_, Some(of)) if of.facts.kind == Kind::Opaque => flagged.need_of_any(),
        (_, of) => flagged.need(analysis.table(of)),
    }
}

fn need_of_batch(
    engine: &mut Engine,
    flagged: &Flagged,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
) -> Need {
    let Ok(view) = BatchView::parse(arrival.content, arrival.version) else {
        return flagged.need(None);
    };
    let children = view.children.iter().map(|child| match child {
        BatchChild::Text(text, _) => {
            let statement = engine.statements_mut().of_text(analysis.keyspace, text);
            match statement.facts.kind {
                Kind::Opaque => flagged.need_of_any(),
                _ => flagged.need(table_of(&statement, None, analysis.keyspace)),
            }
        }
        BatchChild::Prepared(id, _) => {
            let prepared = engine.prepared(id);
            match prepared.as_ref().and_then(|of| of.table.as_ref()) {
                Some((keyspace, table)) => flagged.need(Some((&**keyspace, &**table))),
                None => flagged.need_of_any(),
            }
        }
    });
    children.max().unwrap_or(Need::Flags)
}

/// The first statement of a batch that only the nodes know. Once it has been prepared again, the batch may turn out to
/// need less.
pub(crate) fn unknown_in_batch<'a>(engine: &mut Engine, arrival: &Arrival<'a>) -> Option<&'a [u8]> {
    if arrival.opcode != Opcode::Batch {
        return None;
    }
    let view = BatchView::parse(arrival.content, arrival.version).ok()?;
    view.children.iter().find_map(|child| match child {
        BatchChild::Prepared(id, _) => {
            let prepared = engine.prepared(id);
            prepared.is_none().then_some(*id)
        }
        BatchChild::Text(..) => None,
    })
}

/// Keyspace and table of a statement; `prepared`: as what nodes know it.
pub(crate) fn table_of<'s>(
    statement: &'s Statement,
    prepared: Option<&'s Prepared>,
    keyspace: Option<&'s str>,
) -> Option<(&'s str, &'s str)> {
    match prepared {
        Some(prepared) => prepared.table.as_ref().map(|(ks, table)| (&**ks, &**table)),
        None => statement.table(keyspace),
    }
}

/// Keyspace and table that a statement of a batch names.
pub(crate) fn named_table<'f>(
    facts: &'f Facts,
    in_force: Option<&'f str>,
) -> Option<(&'f str, &'f str)> {
    let keyspace = facts.keyspace.as_ref().map(|name| name.as_str());
    Some((keyspace.or(in_force)?, facts.table.as_ref()?.as_str()))
}
