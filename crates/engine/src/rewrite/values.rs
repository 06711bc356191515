//! Values in statements and requests.

use helenus_cql::{Literal, Term};
use helenus_wire::{ValueRef, Values};

use crate::statement::prepared::Statement;

pub(crate) fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// A limit in a statement, as it is written, or bound as an int. A node refuses other bytes.
pub(crate) fn limit(
    term: &Term,
    values: &Values<'_>,
    names: &[Box<str>],
    statement: &Statement,
) -> Option<i64> {
    let int = |bytes: &[u8]| Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?)));
    literal(term).or_else(|| int(bound(term, values, names, statement)?))
}

/// A token of the Murmur3 partitioner, as it is written, or bound as a bigint.
pub(crate) fn token(
    term: &Term,
    values: &Values<'_>,
    names: &[Box<str>],
    statement: &Statement,
) -> Option<i64> {
    let bigint = |bytes: &[u8]| Some(i64::from_be_bytes(bytes.try_into().ok()?));
    literal(term).or_else(|| bigint(bound(term, values, names, statement)?))
}

fn literal(term: &Term) -> Option<i64> {
    match term {
        Term::Literal(Literal::Int(number)) => i64::try_from(*number).ok(),
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

/// The value bound to a marker.
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

#[cfg(test)]
mod tests {
    use helenus_wire::{QueryView, Version};

    use super::*;
    use crate::testing::bench::Asking;

    #[test]
    fn what_a_node_refuses_as_a_number_is_none() {
        let statement = Statement::new("SELECT k FROM t WHERE token(k) > ? LIMIT ?");
        let read = |value: &[u8]| {
            let asking = Asking {
                values: &[value, value],
                ..Asking::default()
            };
            let body = asking.query(Version::V4, &statement.text);
            let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
            let values = &view.options.values;
            let limit = limit(&Term::Marker(1), values, &[], &statement);
            (token(&Term::Marker(0), values, &[], &statement), limit)
        };
        assert_eq!(read(&7_i64.to_be_bytes()), (Some(7), None));
        assert_eq!(read(&7_i32.to_be_bytes()), (None, Some(7)));
        assert_eq!(read(&[7; 3]), (None, None));
        assert_eq!(read(&[]), (None, None));
    }
}
