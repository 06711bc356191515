//! Batches that are one text.

use std::ops::Range;
use std::sync::Arc;

use helenus_cql::{Facts, quote_identifier};

use super::change::{Change, NOT_UNDERSTOOD, misfits, splice};
use super::changed::{Changed, Source};
use crate::features::encodings::EncodedTable;
use crate::features::encodings::coding::Coding;
use crate::features::encodings::shown::Shown;

/// The plan of a batch that is one text; `None` if it writes no encoded column. By statement: its table, if
/// that has encoded columns. The plan depends on no keyspace in force.
///
/// # Errors
/// Why it is refused.
pub(crate) fn text_batch<S>(
    tables: &[Option<&Arc<EncodedTable>>],
    in_force: Option<&str>,
    text: &str,
    facts: &Facts,
    coding: &mut Coding,
) -> Result<Option<Changed<S>>, String> {
    let mut pieces = Vec::new();
    let of_inner: usize = facts.inner.iter().map(|f| usize::from(f.markers)).sum();
    let mut from = usize::from(facts.markers).saturating_sub(of_inner);
    // Those of USING come first.
    let mut sources: Vec<Source> = own(0..from).collect();
    let mut is_changed = false;
    let mut encoded: Vec<Arc<EncodedTable>> = Vec::new();
    for (inner, table) in facts.inner.iter().zip(tables) {
        let markers = from..from + usize::from(inner.markers);
        if let (None, Some(keyspace), Some(span)) =
            (&inner.keyspace, in_force, inner.spans.table.clone())
        {
            let keyspace = quote_identifier(keyspace);
            pieces.push((span.start..span.start, format!("{keyspace}.")));
        }
        let changed = match table {
            Some(table) => {
                if let Some(of) = table.misfit().filter(|_| inner.lwt) {
                    return Err(misfits(table, of));
                }
                let known = encoded.iter().position(|of| Arc::ptr_eq(of, table));
                let number = known.unwrap_or_else(|| {
                    encoded.push((*table).clone());
                    encoded.len() - 1
                });
                let mut change = Change::new(number, table, text, coding);
                let found = change.modify(inner)?;
                found.map(|()| (change.sources(inner, from), change.pieces))
            }
            None => None,
        };
        is_changed |= changed.is_some();
        match changed {
            Some((of, own_pieces)) => {
                sources.extend(of);
                pieces.extend(own_pieces);
            }
            None => sources.extend(own(markers.clone())),
        }
        from = markers.end;
    }
    if !is_changed {
        return Ok(None);
    }
    let text = splice(text, facts.spans.statement.clone(), pieces);
    let text = text.ok_or(NOT_UNDERSTOOD)?;
    Ok(Some(Changed::new(text, sources, encoded, Shown::ByName)))
}

fn own(markers: Range<usize>) -> impl Iterator<Item = Source> {
    markers.map(|at| Source::Own(u16::try_from(at).unwrap_or(u16::MAX)))
}
