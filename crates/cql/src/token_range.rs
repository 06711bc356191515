//! Restricts a scan to a part of the ring, by splicing the statement's own text.

use crate::facts::{Facts, KeyTerm, Kind, Op, SelectFacts, Term, TokenRelation};
use crate::name::quote_identifier;

/// A statement over a part of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRange {
    pub text: String,
    /// Indexes of the original's markers that were removed, in order.
    pub markers_gone: Vec<u16>,
}

/// True if [`token_range`] can restrict this statement, of a table with these partition key columns.
pub fn takes_token_range(facts: &Facts, select: &SelectFacts, key: &[&str]) -> bool {
    let on_key = |column: &str| key.contains(&column);
    let equal = |term: &KeyTerm| on_key(term.column.as_str());
    let bounds = |wanted: fn(Op) -> bool| select.tokens.iter().filter(|t| wanted(t.op)).count();
    facts.kind == Kind::Select
        && !key.is_empty()
        && facts.spans.table.is_some()
        && !facts.key_terms.iter().any(equal)
        && !select
            .ins
            .iter()
            .any(|i| i.columns.iter().any(|c| on_key(c.as_str())))
        && !select
            .ranges
            .iter()
            .any(|r| r.columns.iter().any(|c| on_key(c.as_str())))
        && !select.other_relations
        && bounds(is_lower) <= 1
        && bounds(is_upper) <= 1
        && select
            .tokens
            .iter()
            .all(|t| (is_lower(t.op) || is_upper(t.op)) && is_of_key(t, key))
}

/// True if it is about the token of the whole key: a node refuses any other.
fn is_of_key(relation: &TokenRelation, key: &[&str]) -> bool {
    let columns = relation.columns.iter().map(|column| column.as_str());
    columns.eq(key.iter().copied())
}

pub fn is_lower(op: Op) -> bool {
    matches!(op, Op::Greater | Op::GreaterEqual)
}

pub fn is_upper(op: Op) -> bool {
    matches!(op, Op::Less | Op::LessEqual)
}

/// The statement with `token(key) > above` and `token(key) <= up_to` in place of its own bounds;
/// `None` leaves that side as it is.
pub fn token_range(
    text: &str,
    facts: &Facts,
    select: &SelectFacts,
    key: &[&str],
    above: Option<i64>,
    up_to: Option<i64>,
) -> Option<TokenRange> {
    if !takes_token_range(facts, select, key) {
        return None;
    }
    let bounds = [above, up_to].map(|bound| bound.map(|token| token.to_string()));
    let mut markers_gone: Vec<u16> = [is_lower, is_upper]
        .into_iter()
        .zip(&bounds)
        .filter(|(_, bound)| bound.is_some())
        .filter_map(|(of_side, _)| marker(&bound_of(select, of_side)?.term))
        .collect();
    markers_gone.sort_unstable();
    Some(TokenRange {
        text: splice(text, facts, select, key, &bounds)?,
        markers_gone,
    })
}

/// A statement over a part of the ring, to be bound together with its other values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedRange {
    pub text: String,
    /// The meaning of its markers, in order.
    pub values: Vec<RangeValue>,
}

/// The meaning of a marker of a [`PreparedRange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeValue {
    /// The original's marker of this index.
    Own(u16),
    /// The exclusive lower bound.
    Above,
    /// The inclusive upper bound.
    UpTo,
}

/// The statement with `token(key) > ?` and `token(key) <= ?` in place of its own bounds, to be
/// prepared. `markers`: how many the original has. Nothing is selected but columns and `COUNT(*)`.
pub fn prepared_range(
    text: &str,
    facts: &Facts,
    select: &SelectFacts,
    key: &[&str],
    markers: u16,
) -> Option<PreparedRange> {
    if !takes_token_range(facts, select, key) {
        return None;
    }
    // Markers come in the order of the text: those of the restrictions, then those of the limits.
    let limits = [&select.per_partition_limit, &select.limit];
    let limits = limits.into_iter().flatten().filter_map(marker).count();
    let restrictions = markers.checked_sub(limits as u16)?;
    let sides = [
        (bound_of(select, is_lower), RangeValue::Above),
        (bound_of(select, is_upper), RangeValue::UpTo),
    ];
    let replaced = |index: u16| {
        let of_marker = |(bound, _): &&(Option<&TokenRelation>, _)| {
            bound.is_some_and(|relation| marker(&relation.term) == Some(index))
        };
        sides.iter().find(of_marker).map(|(_, value)| *value)
    };
    let mut values: Vec<RangeValue> = (0..markers)
        .map(|index| replaced(index).unwrap_or(RangeValue::Own(index)))
        .collect();
    let is_literal = |bound: &Option<&TokenRelation>| {
        bound.is_some_and(|relation| marker(&relation.term).is_none())
    };
    // The position of a constant among the other restrictions' markers is not known.
    let literals = sides.iter().filter(|(bound, _)| is_literal(bound)).count();
    if literals > 0 && restrictions > 0 {
        return None;
    }
    let mut constants: Vec<(usize, RangeValue)> = sides
        .iter()
        .filter(|(bound, _)| is_literal(bound))
        .filter_map(|(bound, value)| Some((bound.as_ref()?.span.start, *value)))
        .collect();
    constants.sort_unstable_by_key(|(at, _)| *at);
    let appended = sides.iter().filter(|(bound, _)| bound.is_none());
    let further: Vec<RangeValue> = constants
        .into_iter()
        .map(|(_, value)| value)
        .chain(appended.map(|(_, value)| *value))
        .collect();
    let at = usize::from(restrictions);
    values.splice(at..at, further);
    // Named and positional markers cannot be mixed.
    let names = match facts.named_markers.is_empty() {
        true => ["?", "?"],
        false => [":token_above", ":token_up_to"],
    };
    let bounds = names.map(|name| Some(name.to_owned()));
    Some(PreparedRange {
        text: splice(text, facts, select, key, &bounds)?,
        values,
    })
}

/// The statement's own bound on one side.
fn bound_of(select: &SelectFacts, of_side: fn(Op) -> bool) -> Option<&TokenRelation> {
    select.tokens.iter().find(|relation| of_side(relation.op))
}

fn marker(term: &Term) -> Option<u16> {
    match term {
        Term::Marker(index) | Term::NamedMarker(index) => Some(*index),
        _ => None,
    }
}

/// The text with a lower and an upper bound, as far as given, in place of its own.
fn splice(
    text: &str,
    facts: &Facts,
    select: &SelectFacts,
    key: &[&str],
    [lower, upper]: &[Option<String>; 2],
) -> Option<String> {
    let columns: Vec<_> = key.iter().map(|column| quote_identifier(column)).collect();
    let token = format!("token({})", columns.join(", "));
    let lower = lower.as_ref().map(|bound| format!("{token} > {bound}"));
    let upper = upper.as_ref().map(|bound| format!("{token} <= {bound}"));
    // Replacements, by span of the original.
    let mut edits: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    let mut further = Vec::new();
    let sides = [(lower, is_lower as fn(Op) -> bool), (upper, is_upper)];
    for (relation, of_side) in sides {
        let Some(relation) = relation else { continue };
        match bound_of(select, of_side) {
            Some(own) => edits.push((own.span.clone(), relation)),
            None => further.push(relation),
        }
    }
    if !further.is_empty() {
        let further = further.join(" AND ");
        let (at, joined) = match &facts.spans.where_clause {
            Some(clause) => (clause.end, format!(" AND {further}")),
            None => (facts.spans.table.as_ref()?.end, format!(" WHERE {further}")),
        };
        edits.push((at..at, joined));
    }
    edits.sort_by_key(|(span, _)| (span.start, span.end));
    let mut out = String::with_capacity(text.len() + 96);
    let mut at = 0;
    for (span, with) in edits {
        out.push_str(text.get(at..span.start)?);
        out.push_str(&with);
        at = span.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        text: &str,
        key: &[&str],
        bounds: (Option<i64>, Option<i64>),
        expected: Option<(&str, &[u16])>,
    ) {
        let facts = crate::facts(text);
        let select = facts.select.as_deref().expect("a SELECT");
        let range = token_range(text, &facts, select, key, bounds.0, bounds.1);
        let expected = expected.map(|(text, gone)| TokenRange {
            text: text.to_owned(),
            markers_gone: gone.to_vec(),
        });
        assert_eq!(range, expected, "{text}");
    }

    #[test]
    fn bounds_go_where_the_grammar_wants_them() {
        let both = (Some(-5), Some(7));
        check(
            "SELECT * FROM ks.t LIMIT 10",
            &["k"],
            both,
            Some((
                "SELECT * FROM ks.t WHERE token(k) > -5 AND token(k) <= 7 LIMIT 10",
                &[],
            )),
        );
        check(
            "SELECT a FROM t WHERE c > ? ALLOW FILTERING;",
            &["k", "Odd"],
            (None, Some(7)),
            Some((
                "SELECT a FROM t WHERE c > ? AND token(k, \"Odd\") <= 7 ALLOW FILTERING;",
                &[],
            )),
        );
        check(
            "SELECT * FROM t WHERE token(k) > ? LIMIT ?",
            &["k"],
            both,
            Some((
                "SELECT * FROM t WHERE token(k) > -5 AND token(k) <= 7 LIMIT ?",
                &[0],
            )),
        );
        check(
            "SELECT * FROM t WHERE token(k) < ? AND token(k) >= :from PER PARTITION LIMIT 2",
            &["k"],
            both,
            Some((
                "SELECT * FROM t WHERE token(k) <= 7 AND token(k) > -5 PER PARTITION LIMIT 2",
                &[0, 1],
            )),
        );
    }

    #[test]
    fn bounds_are_bound_among_the_other_values() {
        use RangeValue::{Above, Own, UpTo};
        for (text, markers, expected) in [
            (
                "SELECT * FROM t",
                0,
                Some((
                    "SELECT * FROM t WHERE token(k) > ? AND token(k) <= ?",
                    vec![Above, UpTo],
                )),
            ),
            (
                "SELECT * FROM t WHERE c = ? AND token(k) < ? AND d > ? PER PARTITION LIMIT ? LIMIT ?",
                5,
                Some((
                    "SELECT * FROM t WHERE c = ? AND token(k) <= ? AND d > ? AND token(k) > ? \
                     PER PARTITION LIMIT ? LIMIT ?",
                    vec![Own(0), UpTo, Own(2), Above, Own(3), Own(4)],
                )),
            ),
            (
                "SELECT k FROM t WHERE token(k) <= 9 AND token(k) >= -9 LIMIT :n",
                1,
                Some((
                    "SELECT k FROM t WHERE token(k) <= :token_up_to AND token(k) > :token_above \
                     LIMIT :n",
                    vec![UpTo, Above, Own(0)],
                )),
            ),
            (
                "SELECT k FROM t WHERE c = :c AND token(k) > :t ALLOW FILTERING",
                2,
                Some((
                    "SELECT k FROM t WHERE c = :c AND token(k) > :token_above AND \
                     token(k) <= :token_up_to ALLOW FILTERING",
                    vec![Own(0), Above, UpTo],
                )),
            ),
            ("SELECT k FROM t WHERE c = ? AND token(k) > 5", 1, None),
            ("SELECT k FROM t WHERE token(k) = ?", 1, None),
            ("SELECT k FROM t LIMIT ?", 0, None),
        ] {
            let facts = crate::facts(text);
            let select = facts.select.as_deref().expect("a SELECT");
            let range = prepared_range(text, &facts, select, &["k"], markers);
            let expected = expected.map(|(text, values)| PreparedRange {
                text: text.to_owned(),
                values,
            });
            assert_eq!(range, expected, "{text}");
        }
    }

    #[test]
    fn what_restricts_the_key_already_is_left_alone() {
        let both = (Some(1), Some(2));
        check(
            "SELECT * FROM t WHERE k1 = 1 ALLOW FILTERING",
            &["k1", "k2"],
            both,
            None,
        );
        check("SELECT * FROM t WHERE k IN (1, 2)", &["k"], both, None);
        check("SELECT * FROM t WHERE token(k) = 4", &["k"], both, None);
        for columns in ["b, a", "a", "a, b, b", "a, c"] {
            let text = format!("SELECT count(*) FROM t WHERE token({columns}) > 0");
            check(&text, &["a", "b"], both, None);
        }
        check("SELECT * FROM t WHERE m CONTAINS 3", &["k"], both, None);
    }
}
