//! Numbers in statements and requests.

use helenus_cql::{Literal, Term};
use helenus_wire::{ValueRef, Values};

use crate::statement::prepared::Statement;

pub(crate) fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// An integer in a statement, as it is written or bound.
pub(crate) fn integer(
    term: &Term,
    values: &Values<'_>,
    names: &[Box<str>],
    statement: &Statement,
) -> Option<i64> {
    if let Term::Literal(Literal::Int(number)) = term {
        return i64::try_from(*number).ok();
    }
    let bytes = bound(term, values, names, statement)?;
    match bytes.len() {
        4 => Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
        8 => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// A text in a statement, as it is written or bound.
pub(crate) fn text<'a>(
    term: &'a Term,
    values: &Values<'a>,
    names: &[Box<str>],
    statement: &Statement,
) -> Option<&'a str> {
    match term {
        Term::Literal(Literal::Text(text)) => Some(text),
        _ => std::str::from_utf8(bound(term, values, names, statement)?).ok(),
    }
}

/// What is bound to a marker.
fn bound<'a>(
    term: &Term,
    values: &Values<'a>,
    names: &[Box<str>],
    statement: &Statement,
) -> Option<&'a [u8]> {
    let value = match term {
        Term::Marker(index) if values.named => values.named(names.get(*index as usize)?),
        Term::Marker(index) => values.get(*index as usize),
        Term::NamedMarker(index) if values.named => {
            let markers = &statement.facts.named_markers;
            values.named(markers.iter().find(|(_, i)| i == index)?.0.as_str())
        }
        Term::NamedMarker(index) => values.get(*index as usize),
        _ => None,
    };
    match value {
        Some(ValueRef::Set(bytes)) => Some(bytes),
        _ => None,
    }
}
