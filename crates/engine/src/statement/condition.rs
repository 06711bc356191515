//! The outcome of a write's condition.

use helenus_policy::turns::Condition;
use helenus_wire::RowsView;

/// The outcome of a write's condition, as the answer tells.
pub(crate) fn condition_of(content: &[u8]) -> Condition {
    let Ok(view) = RowsView::parse(content) else {
        return Condition::Unknown;
    };
    if view.columns.first().is_none_or(|c| c.name != "[applied]") {
        return Condition::Unknown;
    }
    match view.rows().next() {
        Some(Ok(row)) if row.first() == Some(&Some(&[0][..])) => Condition::Failed,
        Some(Ok(_)) => Condition::Held,
        _ => Condition::Unknown,
    }
}
