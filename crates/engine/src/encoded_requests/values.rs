//! The values that are sent in place of a client's.

use helenus_wire::{ValueRef, Version};

use crate::encodings::EncodedTable;
use crate::encodings::coding::Coding;
use crate::execution::rewriting::Refusal;
use crate::statement::encoded_plan::{Changed, Source};
use crate::statement::prepared::Statement;

pub(super) const NOT_READABLE: &str = "the request cannot be understood";

/// The encoded values of a request, in the order in which they are sent.
pub(super) fn made_values(
    coding: &mut Coding,
    changed: &Changed<Statement>,
    values: &[ValueRef<'_>],
) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut made = Vec::new();
    for source in &changed.sources {
        let Source::Encoded(at, of) = source else {
            continue;
        };
        let (table, column) = (changed.tables.get(of.table), of.column);
        let table = table.ok_or_else(|| Refusal::invalid(NOT_READABLE))?;
        made.push(match values.get(usize::from(*at)) {
            Some(ValueRef::Set(bytes)) => {
                let text = std::str::from_utf8(bytes).map_err(|_| not_utf8(table, column))?;
                coding.encode(table, column, text)
            }
            _ => Vec::new(),
        });
    }
    Ok(made)
}

/// As a node says it.
fn not_utf8(table: &EncodedTable, column: usize) -> Refusal {
    let column = table.columns.get(column);
    let name = column.map_or("", |column| column.name.as_str());
    Refusal::invalid(format!(
        "Exception while binding column {name}: String didn't validate."
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
        Source::Encoded(at, _) => match (own(*at), made.next()) {
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
