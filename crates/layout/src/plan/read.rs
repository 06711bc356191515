//! Which copy answers a SELECT, and with which text.
//!
//! A copy answers if its answer is the table's own, or can be made that: the rows of one partition in the
//! same order, which they have if the clustering columns not bound by `=` follow each other as in the table;
//! only aggregates for which the order does not matter; or rows that are few enough to be sorted
//! ([`Restore`]). Those of them that are expected to cost clearly less than the table are worth it, the cheapest most:
//! the others are for where that is not held, or cannot be read.
//!
//! ```text
//! cost of a copy in order  = share that is read · part of it that LIMIT leaves
//! cost of a copy to sort   = share that is read + 0.3 · share of rows that fit
//! part that LIMIT leaves   = LIMIT / (rows of a partition · share of rows that fit), 1 at most
//! ```

use std::ops::Range;

use helenus_cql::{Facts, SelectFacts, Selected, quote_identifier};

use super::expected_share::expected_share;
use super::logical_table::{Copy, LogicalTable};
use super::question::{Question, Wanted};
use super::restore::{ROWS_MAX, Restore};
use super::splice::{qualified, splice};
use crate::access::Access;
use crate::layout::Layout;

/// A copy from which a SELECT can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Which of [`LogicalTable::copies`].
    pub at: usize,
    /// The answer has to be put into the table's order: [`read_and_sort`] has the text, otherwise [`read_from`].
    pub is_sorted: bool,
}

/// A copy is worth the detour if it costs less than this share of what the table costs.
const GAIN: f64 = 0.7;
/// [`GAIN`] where the answer has to be sorted: if it does not fit a page, all was in vain.
const GAIN_SORTED: f64 = 0.5;
/// Sorting a row, relative to reading it.
const SORTING: f64 = 0.3;

/// The copies that are worth it to read the SELECT from, the cheapest first; without any, the table. That the table
/// takes the statement is known: its PREPARE succeeded.
pub fn rank(table: &LogicalTable, text: &str, facts: &Facts) -> Vec<Ranked> {
    ranked(table, text, facts).unwrap_or_default()
}

/// The SELECT for one copy, whether or not it is the best, to go on where a page ended. None if that
/// copy does not give the table's answer as it is.
pub fn read_from(table: &LogicalTable, text: &str, facts: &Facts, at: usize) -> Option<String> {
    let question = Question::of(table, text, facts)?;
    let copy = table.copies.get(at)?;
    usable(table, &question, copy).filter(|access| access.in_order)?;
    in_order(table, text, facts, &question, copy)
}

/// The SELECT for one copy that does not have the table's order, whether or not that is worth it, and what
/// is to be done with the answer.
pub fn read_and_sort(
    table: &LogicalTable,
    text: &str,
    facts: &Facts,
    at: usize,
) -> Option<(String, Restore)> {
    let question = Question::of(table, text, facts)?;
    let copy = table.copies.get(at)?;
    usable(table, &question, copy).filter(|access| !access.in_order)?;
    to_sort(table, text, facts, &question, copy)
}

fn ranked(table: &LogicalTable, text: &str, facts: &Facts) -> Option<Vec<Ranked>> {
    if table.copies.is_empty() {
        return None;
    }
    let question = Question::of(table, text, facts)?;
    let select = facts.select.as_deref()?;
    let limits = Limits::of(table, select, &question);
    let share = |access: &Access| expected_share(table, access, &question.values);
    let own = share(&Access::of(
        &question.shape,
        &Layout::own(table.clustering.len()),
    ));
    let mut worth_it = Vec::new();
    for (at, copy) in table.copies.iter().enumerate() {
        let Some(access) = usable(table, &question, copy) else {
            continue;
        };
        let (cost, most) = match access.in_order {
            true => (share(&access) * limits.part_read, GAIN),
            false if !limits.may_sort => continue,
            false => (share(&access) + SORTING * question.matching, GAIN_SORTED),
        };
        if cost < most * own * limits.part_read {
            worth_it.push((cost, !access.in_order, at));
        }
    }
    // Of equal ones first those with the order, and then as the copies come.
    worth_it.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let ranked = worth_it.into_iter();
    let ranked = ranked.map(|(_, is_sorted, at)| Ranked { at, is_sorted });
    Some(ranked.collect())
}

/// Consequences of LIMIT, and of the number of rows that are expected, for a choice.
struct Limits {
    /// Of the rows of its slice, the part that is read of what has the order.
    part_read: f64,
    /// An answer can be sorted, and is expected to fit a page.
    may_sort: bool,
}

impl Limits {
    fn of(table: &LogicalTable, select: &SelectFacts, question: &Question) -> Limits {
        let rows = table.rows_per_partition();
        let rows = rows.map(|rows| rows * question.matching);
        let part_read = match (question.wanted, rows) {
            (Wanted::First(wanted), Some(rows)) => (wanted as f64 / rows).min(1.0),
            _ => 1.0,
        };
        let are_few = match (question.wanted, rows) {
            (_, Some(rows)) => rows <= ROWS_MAX as f64,
            // The table would end early, nobody knows how much.
            (wanted, None) => wanted == Wanted::All,
        };
        Limits {
            part_read,
            may_sort: are_few && Restore::of(table, select, question).is_some(),
        }
    }
}

/// The slice of the copy, if it can be read.
fn usable(table: &LogicalTable, question: &Question, copy: &Copy) -> Option<Access> {
    let fits = copy.readable && copy.layout.len() == table.clustering.len();
    fits.then(|| Access::of(&question.shape, &copy.layout))
}

/// The statement for a copy that gives the table's answer.
fn in_order(
    table: &LogicalTable,
    text: &str,
    facts: &Facts,
    question: &Question,
    copy: &Copy,
) -> Option<String> {
    let mut pieces = of_copy(table, facts, copy, &[])?;
    if let Some(span) = &facts.spans.order_by {
        match order_by(table, question, copy) {
            Some(order) => pieces.push((span.clone(), order)),
            None => pieces.push(removed(text, span)?),
        }
    }
    splice(text, 0..text.len(), pieces)
}

/// The statement for a copy that gives all rows of the table's answer in another order.
fn to_sort(
    table: &LogicalTable,
    text: &str,
    facts: &Facts,
    question: &Question,
    copy: &Copy,
) -> Option<(String, Restore)> {
    let (restore, appended) = Restore::of(table, facts.select.as_deref()?, question)?;
    let spans = &facts.spans;
    let mut pieces = of_copy(table, facts, copy, &appended)?;
    for span in [&spans.order_by, &spans.per_partition_limit, &spans.limit]
        .into_iter()
        .flatten()
    {
        pieces.push(removed(text, span)?);
    }
    // One more than is sorted shows that there are too many, and bounds what a client without pages gets.
    let before = spans.allow_filtering.as_ref()?.start;
    pieces.push((before..before, format!("LIMIT {} ", ROWS_MAX + 1)));
    Some((splice(text, 0..text.len(), pieces)?, restore))
}

/// The copy's name and columns in place of the table's.
fn of_copy(
    table: &LogicalTable,
    facts: &Facts,
    copy: &Copy,
    appended: &[&str],
) -> Option<Vec<(Range<usize>, String)>> {
    let spans = &facts.spans;
    let mut pieces = vec![(spans.table.clone()?, qualified(table, copy))];
    let selection = spans.selection.clone()?;
    let quoted = |columns: &[&str]| {
        let columns: Vec<_> = columns
            .iter()
            .map(|column| quote_identifier(column))
            .collect();
        columns.join(", ")
    };
    if facts.select.as_deref()?.columns == Selected::All {
        pieces.push((selection, quoted(&table.all_columns())));
    } else if !appended.is_empty() {
        let end = selection.end;
        pieces.push((end..end, format!(", {}", quoted(appended))));
    }
    Some(pieces)
}

/// With the blank before.
fn removed(text: &str, span: &Range<usize>) -> Option<(Range<usize>, String)> {
    let before = text.get(..span.start)?;
    let start = span.start - usize::from(before.ends_with(' '));
    Some((start..span.end, String::new()))
}

/// The first column that is not bound decides the direction of all behind it. Without one there is
/// no order to speak of: there is one row at most, or the order does not matter.
fn order_by(table: &LogicalTable, question: &Question, copy: &Copy) -> Option<String> {
    if !question.reversed || !question.shape.ordered {
        return None;
    }
    let mut columns = copy.layout.columns();
    let first = columns.find(|column| !question.shape.equal.contains(*column))?;
    let column = table.clustering.get(first)?;
    let direction = if column.descending { "ASC" } else { "DESC" };
    let name = quote_identifier(&column.name);
    Some(format!("ORDER BY {name} {direction}"))
}
