//! Texts of statements.
use helenus_cql::lexer::{Lexer, TokenKind::*};
use helenus_cql::{Facts, facts, without_values};

/// Any text is understood or opaque; what is said to stand somewhere stands there, and operators are shown no value.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let found = facts(text);
    are_places_in(text, &found);
    let shown = without_values(text, &found);
    let is_value = |kind| {
        matches!(
            kind,
            Text | DollarText | Integer | Float | Hex | Uuid | Duration
        )
    };
    let value = Lexer::new(&shown).find(|token| is_value(token.kind));
    assert_eq!(value, None, "{text:?} is shown as {shown:?}");
}

fn are_places_in(text: &str, found: &Facts) {
    let of = &found.spans;
    let statement = &of.statement;
    let parts = [
        &of.table,
        &of.selection,
        &of.where_clause,
        &of.group_by,
        &of.order_by,
        &of.per_partition_limit,
        &of.limit,
        &of.allow_filtering,
        &of.using,
        &found.span_where,
    ];
    assert!(text.get(statement.clone()).is_some(), "{text:?}: {found:?}");
    for part in parts.into_iter().flatten() {
        assert!(text.get(part.clone()).is_some(), "{text:?}: {found:?}");
        let is_inside = statement.start <= part.start && part.end <= statement.end;
        assert!(is_inside, "{text:?}: {found:?}");
    }
    for inner in &found.inner {
        are_places_in(text, inner);
    }
}
