//! Values of requests about tables with encoded columns.

use helenus_wire::{ValueRef, Version};

use super::stored::NOT_READABLE;
use crate::features::encodings::EncodedTable;
use crate::features::encodings::coding::Coding;
use crate::features::encodings::json::stored_document;
use crate::features::encodings::plan::{Changed, Source};
use crate::rewrite::refusal::Refusal;
use crate::statement::prepared::Statement;

/// The encoded values of a request, in the order in which they are sent.
pub(super) fn made_values(
    coding: &mut Coding,
    changed: &Changed<Statement>,
    values: &[ValueRef<'_>],
) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut made = Vec::new();
    for source in &changed.sources {
        let (at, table, column) = match source {
            Source::Encoded(at, of) => (at, of.table, Some(of.column)),
            Source::Json(at, table) => (at, *table, None),
            Source::Own(_) | Source::Emptied(_) | Source::Cleared(_) => continue,
        };
        let table = changed.tables.get(table);
        let table = table.ok_or_else(|| Refusal::invalid(NOT_READABLE))?;
        let Some(ValueRef::Set(bytes)) = values.get(usize::from(*at)) else {
            made.push(Vec::new());
            continue;
        };
        let text = std::str::from_utf8(bytes);
        made.push(match column {
            Some(column) => {
                let text = text.map_err(|_| not_utf8(table, column))?;
                coding.encode(table, column, text)
            }
            None => {
                let text = text.map_err(|_| Refusal::invalid(NOT_VALID))?;
                let stored = stored_document(coding, table, text).map_err(Refusal::invalid)?;
                stored.map_or_else(|| bytes.to_vec(), String::into_bytes)
            }
        });
    }
    Ok(made)
}

const NOT_VALID: &str = "String didn't validate.";

/// As a node says it.
fn not_utf8(table: &EncodedTable, column: usize) -> Refusal {
    let column = table.columns.get(column);
    let name = column.map_or("", |column| column.name.as_str());
    Refusal::invalid(format!(
        "Exception while binding column {name}: {NOT_VALID}"
    ))
}

/// The values that are sent. `made`: those that are encoded.
pub(super) fn referred<'v>(
    changed: &Changed<Statement>,
    values: &[ValueRef<'v>],
    made: &'v [Vec<u8>],
    version: Version,
) -> Vec<ValueRef<'v>> {
    let mut made = made.iter();
    let own = |at: u16| {
        values
            .get(usize::from(at))
            .copied()
            .unwrap_or(ValueRef::Null)
    };
    let sources = changed.sources.iter().map(|source| match source {
        Source::Own(at) => own(*at),
        Source::Encoded(at, _) | Source::Json(at, _) => match (own(*at), made.next()) {
            (ValueRef::Set(_), Some(made)) => ValueRef::Set(made),
            (other, _) => other,
        },
        Source::Cleared(at) => match own(*at) {
            ValueRef::Null => ValueRef::Null,
            ValueRef::Set(_) | ValueRef::Unset if version == Version::V3 => ValueRef::Null,
            ValueRef::Set(_) | ValueRef::Unset => ValueRef::Unset,
        },
        Source::Emptied(at) => match own(*at) {
            ValueRef::Unset => ValueRef::Unset,
            ValueRef::Set(_) | ValueRef::Null => ValueRef::Null,
        },
    });
    sources.collect()
}
