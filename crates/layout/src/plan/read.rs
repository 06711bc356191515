//! Which copy answers a SELECT, and with which text.
//!
//! A copy answers if its answer is the table's own: the rows of one partition in the same order, which
//! they have if the clustering columns not bound by `=` follow each other as in the table; or only
//! aggregates for which the order does not matter. Of these copies the one that is expected to read
//! the fewest rows is taken, if that is clearly less than the table would read.

use helenus_cql::{Facts, Selected, quote_identifier};

use super::expected_share::expected_share;
use super::logical_table::{Copy, LogicalTable};
use super::question::Question;
use super::splice::{qualified, splice};
use crate::access::Access;
use crate::layout::Layout;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    Table,
    /// `at`: which of [`LogicalTable::copies`]. The text has the client's markers in their order.
    Copy {
        at: usize,
        text: String,
    },
}

/// A copy is worth the detour if it reads less than this share of what the table reads.
const GAIN: f64 = 0.7;

/// Where the SELECT is read. That the table takes the statement is known: its PREPARE succeeded.
pub fn read(table: &LogicalTable, text: &str, facts: &Facts) -> Read {
    best(table, text, facts).unwrap_or(Read::Table)
}

/// The SELECT for one copy, whether or not it is the best, to go on where a page ended. None if that
/// copy cannot answer it.
pub fn read_from(table: &LogicalTable, text: &str, facts: &Facts, at: usize) -> Option<String> {
    let question = Question::of(table, text, facts)?;
    let copy = table.copies.get(at)?;
    usable(table, &question, copy)?;
    derive(table, text, facts, &question, copy)
}

fn best(table: &LogicalTable, text: &str, facts: &Facts) -> Option<Read> {
    if table.copies.is_empty() {
        return None;
    }
    let question = Question::of(table, text, facts)?;
    let share = |access: &Access| expected_share(table, access, &question.values);
    let own = Access::of(&question.shape, &Layout::own(table.clustering.len()));
    let copies = table.copies.iter().enumerate();
    let (_, at, copy) = copies
        .filter_map(|(at, copy)| {
            let access = usable(table, &question, copy)?;
            Some((share(&access), at, copy))
        })
        .filter(|(copy_share, ..)| *copy_share < GAIN * share(&own))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let text = derive(table, text, facts, &question, copy)?;
    Some(Read::Copy { at, text })
}

/// The slice of the copy, if it gives the table's answer.
fn usable(table: &LogicalTable, question: &Question, copy: &Copy) -> Option<Access> {
    if !copy.readable || copy.layout.len() != table.clustering.len() {
        return None;
    }
    let access = Access::of(&question.shape, &copy.layout);
    access.in_order.then_some(access)
}

fn derive(
    table: &LogicalTable,
    text: &str,
    facts: &Facts,
    question: &Question,
    copy: &Copy,
) -> Option<String> {
    let select = facts.select.as_deref()?;
    let spans = &facts.spans;
    let mut pieces = vec![(spans.table.clone()?, qualified(table, &copy.physical))];
    if select.columns == Selected::All {
        let columns: Vec<_> = table
            .all_columns()
            .into_iter()
            .map(quote_identifier)
            .collect();
        pieces.push((spans.selection.clone()?, columns.join(", ")));
    }
    if let Some(span) = &spans.order_by {
        match order_by(table, question, copy) {
            Some(order) => pieces.push((span.clone(), order)),
            None => {
                // With the blank before.
                let before = text.get(..span.start)?;
                let start = span.start - usize::from(before.ends_with(' '));
                pieces.push((start..span.end, String::new()));
            }
        }
    }
    splice(text, 0..text.len(), pieces)
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
