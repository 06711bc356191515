//! Reads whose rows can be had in pieces, one page after another.

use helenus_cql::{Facts, SelectFacts};

/// True if the pages of a statement's result can be joined into larger ones.
pub(crate) fn comes_in_pieces(select: &SelectFacts) -> bool {
    // Aggregates go over all rows whatever the page, and user-defined ones look like any function.
    !select.calls
        && !select.aggregates
        && !select.group_by
        && !select.ann
        && select.order_by.is_empty()
}

/// True if a scan may read many rows for each that it returns: it filters them. Restrictions of the ring alone drop
/// nothing that is read.
pub(crate) fn filters(facts: &Facts, select: &SelectFacts) -> bool {
    let restricts = !facts.key_terms.is_empty()
        || !select.ins.is_empty()
        || !select.ranges.is_empty()
        || select.other_relations;
    select.allow_filtering && restricts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drops_rows_filters() {
        let check = |restrictions: &str, expected: bool| {
            let text = format!("SELECT k FROM t {restrictions}");
            let facts = helenus_cql::facts(&text);
            let select = facts.select.as_deref().expect("a SELECT");
            assert_eq!(filters(&facts, select), expected, "{text}");
        };
        check("WHERE v = 1 ALLOW FILTERING", true);
        check("WHERE c > ? LIMIT 1 ALLOW FILTERING", true);
        check("WHERE v IN (1, 2) ALLOW FILTERING", true);
        check("WHERE v CONTAINS 3 ALLOW FILTERING", true);
        check("WHERE token(k) > 1 AND v = 1 ALLOW FILTERING", true);
        check("WHERE v = 1", false);
        check("WHERE token(k) > 1 ALLOW FILTERING", false);
        check("ALLOW FILTERING", false);
    }
}
