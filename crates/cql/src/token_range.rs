//! A scan restricted to a part of the ring, by splicing the statement's own text.

use crate::facts::{Facts, KeyTerm, Kind, Op, SelectFacts, Term, TokenRelation};
use crate::name::quote_identifier;

/// A statement over a part of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRange {
    pub text: String,
    /// Markers of the original that are gone, by index, in order.
    pub markers_gone: Vec<u16>,
}

/// Whether [`token_range`] can restrict this statement, of a table with these partition key columns.
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
            .all(|t| is_lower(t.op) || is_upper(t.op))
}

pub fn is_lower(op: Op) -> bool {
    matches!(op, Op::Greater | Op::GreaterEqual)
}

pub fn is_upper(op: Op) -> bool {
    matches!(op, Op::Less | Op::LessEqual)
}

/// The statement with `token(key) > above` and `token(key) <= up_to` in the place of its own bounds;
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
    let columns: Vec<_> = key.iter().map(|column| quote_identifier(column)).collect();
    let token = format!("token({})", columns.join(", "));
    let sides = [
        (
            above.map(|value| format!("{token} > {value}")),
            is_lower as fn(Op) -> bool,
        ),
        (up_to.map(|value| format!("{token} <= {value}")), is_upper),
    ];
    let mut markers_gone = Vec::new();
    // What to put where; a place is a span of the original.
    let mut edits: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    let mut further = Vec::new();
    for (relation, of_side) in sides {
        let Some(relation) = relation else { continue };
        match select.tokens.iter().find(|t| of_side(t.op)) {
            Some(TokenRelation { span, term, .. }) => {
                edits.push((span.clone(), relation));
                match term {
                    Term::Marker(index) | Term::NamedMarker(index) => markers_gone.push(*index),
                    _ => {}
                }
            }
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
    markers_gone.sort_unstable();
    Some(TokenRange {
        text: out,
        markers_gone,
    })
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
        check("SELECT * FROM t WHERE m CONTAINS 3", &["k"], both, None);
    }
}
