//! Reads whose rows can be had in pieces, one page after another.

use helenus_cql::SelectFacts;

/// Whether the pages of a statement's result can be joined into larger ones.
pub(crate) fn comes_in_pieces(select: &SelectFacts) -> bool {
    // Aggregates go over all rows whatever the page, and user-defined ones look like any function.
    !select.calls
        && !select.aggregates
        && !select.group_by
        && !select.ann
        && select.order_by.is_empty()
}
