//! A SELECT with `IN` on the partition key as one of a single partition, by splicing its own text.

use std::ops::Range;

use crate::facts::{Facts, InValues, Kind, Term};
use crate::name::quote_identifier;
use crate::scan::scan;
use crate::splice::spliced;

/// The statement with `column = ?` in place of each `IN` on the partition key.
#[derive(Clone, Debug, PartialEq)]
pub struct OneKey {
    pub text: String,
    /// The meaning of its markers, in order.
    pub values: Vec<KeyValue>,
    /// What the statement says of each column of the partition key.
    pub columns: Vec<KeyColumnValues>,
}

/// The meaning of a marker of a [`OneKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// The original's marker of this index.
    Own(u16),
    /// The value of this column of the partition key.
    Key(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub enum KeyColumnValues {
    One(Term),
    Each(Vec<Term>),
    /// A marker for the whole list.
    List(Term),
}

/// `None` if the statement does not restrict each of these columns once, by `=` or `IN` with constants and
/// markers, and one by `IN`.
pub fn one_key(text: &str, facts: &Facts, key: &[&str]) -> Option<OneKey> {
    let select = facts.select.as_deref()?;
    if facts.kind != Kind::Select || key.is_empty() || !select.tokens.is_empty() {
        return None;
    }
    let mut columns = Vec::with_capacity(key.len());
    let mut pieces: Vec<(Range<usize>, String)> = Vec::new();
    let mut values: Vec<KeyValue> = (0..facts.markers).map(KeyValue::Own).collect();
    // From the last marker on: how many of the original's go, and what takes their place.
    let mut replaced: Vec<(usize, usize, usize)> = Vec::new();
    for (at, name) in key.iter().enumerate() {
        let mut terms = facts
            .key_terms
            .iter()
            .filter(|t| t.column.as_str() == *name);
        let is_in = |columns: &[crate::Name]| columns.iter().any(|c| c.as_str() == *name);
        let mut ins = select.ins.iter().filter(|of| is_in(&of.columns));
        let mut ranges = select.ranges.iter().filter(|of| is_in(&of.columns));
        let relation = match (terms.next(), ins.next(), ranges.next()) {
            (Some(term), None, None) => {
                columns.push(KeyColumnValues::One(known(&term.term)?));
                None
            }
            (None, Some(relation), None) => Some(relation),
            _ => return None,
        };
        if terms.next().is_some() || ins.next().is_some() {
            return None;
        }
        let Some(relation) = relation else { continue };
        if relation.columns.len() != 1 {
            return None;
        }
        let (of_column, markers) = match &relation.values {
            InValues::Marker(term) => (KeyColumnValues::List(known(term)?), 1),
            InValues::Terms(terms) => {
                let terms: Vec<Term> = terms.iter().map(known).collect::<Option<_>>()?;
                let markers = terms.iter().filter(|term| is_marker(term)).count();
                (KeyColumnValues::Each(terms), markers)
            }
        };
        columns.push(of_column);
        let before = scan(text.get(..relation.span.start)?).markers;
        replaced.push((usize::from(before), markers, at));
        // Named and positional markers cannot be mixed.
        let marker = match facts.named_markers.is_empty() {
            true => "?".to_owned(),
            false => format!(":helenus_key_{at}"),
        };
        let name = quote_identifier(name);
        pieces.push((relation.span.clone(), format!("{name} = {marker}")));
    }
    if pieces.is_empty() {
        return None;
    }
    replaced.sort_unstable();
    for (before, markers, column) in replaced.into_iter().rev() {
        let gone = before..before.checked_add(markers)?;
        values.get(gone.clone())?;
        values.splice(gone, [KeyValue::Key(column)]);
    }
    Some(OneKey {
        text: spliced(text, pieces)?,
        values,
        columns,
    })
}

/// A value that can be told without a node.
fn known(term: &Term) -> Option<Term> {
    (*term != Term::Other).then(|| term.clone())
}

fn is_marker(term: &Term) -> bool {
    matches!(term, Term::Marker(_) | Term::NamedMarker(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, key: &[&str], expected: Option<(&str, &[KeyValue])>) {
        let made = one_key(text, &crate::facts(text), key);
        let made = made.map(|of| (of.text, of.values));
        let expected = expected.map(|(text, values)| (text.to_owned(), values.to_vec()));
        assert_eq!(made, expected, "{text}");
    }

    #[test]
    fn a_marker_takes_the_place_of_each_list_among_the_others() {
        use KeyValue::{Key, Own};
        check(
            "SELECT * FROM t WHERE k IN ? AND c > ? LIMIT ?",
            &["k"],
            Some((
                "SELECT * FROM t WHERE k = ? AND c > ? LIMIT ?",
                &[Key(0), Own(1), Own(2)],
            )),
        );
        check(
            "SELECT a FROM t WHERE c = ? AND b IN (?, 'x?', ?) AND a IN (1, 2) AND d = ?",
            &["a", "b"],
            Some((
                "SELECT a FROM t WHERE c = ? AND b = ? AND a = ? AND d = ?",
                &[Own(0), Key(1), Key(0), Own(3)],
            )),
        );
        check(
            "SELECT a FROM t WHERE \"B\" IN (:x, :y) AND a = :z",
            &["a", "B"],
            Some((
                "SELECT a FROM t WHERE \"B\" = :helenus_key_1 AND a = :z",
                &[Key(1), Own(2)],
            )),
        );
        check(
            "SELECT a FROM t WHERE k IN ()",
            &["k"],
            Some(("SELECT a FROM t WHERE k = ?", &[Key(0)])),
        );
    }

    #[test]
    fn what_is_no_list_of_values_is_left_alone() {
        for text in [
            "SELECT * FROM t WHERE k = 1",
            "SELECT * FROM t WHERE c IN (1, 2)",
            "SELECT * FROM t WHERE k IN (1, f(2))",
            "SELECT * FROM t WHERE k IN (1, 2) AND k = 1",
            "SELECT * FROM t WHERE k IN (1, 2) AND k > 1 ALLOW FILTERING",
            "SELECT * FROM t WHERE (k, c) IN ((1, 2))",
            "SELECT * FROM t WHERE k IN (1, 2) AND token(k) > 5",
            "DELETE FROM t WHERE k IN (1, 2)",
        ] {
            check(text, &["k"], None);
        }
        check("SELECT * FROM t WHERE k IN (1, 2)", &["k", "l"], None);
    }
}
