//! Replaces pieces of a statement's text.

use std::ops::Range;

use helenus_cql::quote_identifier;

use super::logical_table::{Copy, LogicalTable};

/// The bytes `within` of the text, with pieces replaced. None if the spans do not fit.
pub(super) fn splice(
    text: &str,
    within: Range<usize>,
    mut pieces: Vec<(Range<usize>, String)>,
) -> Option<String> {
    pieces.sort_unstable_by_key(|(span, _)| span.start);
    let mut derived = String::with_capacity(within.len() + 64);
    let mut at = within.start;
    for (span, piece) in &pieces {
        append(&mut derived, text.get(at..span.start)?);
        append(&mut derived, piece);
        at = span.end;
    }
    append(&mut derived, text.get(at..within.end)?);
    Some(derived)
}

/// `FROM"t"WHERE` needs no blanks, but what takes the place of `"t"` may.
fn append(derived: &mut String, piece: &str) {
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if derived.ends_with(in_word) && piece.starts_with(in_word) {
        derived.push(' ');
    }
    derived.push_str(piece);
}

/// How a table is named, whichever keyspace the connection uses.
pub fn qualified_table(table: &LogicalTable) -> String {
    let keyspace = quote_identifier(&table.keyspace);
    format!("{keyspace}.{}", quote_identifier(&table.name))
}

/// How a copy is named, whichever keyspace the connection uses.
pub fn qualified(table: &LogicalTable, copy: &Copy) -> String {
    let keyspace = quote_identifier(table.keyspace_of(copy));
    format!("{keyspace}.{}", quote_identifier(&copy.physical))
}
