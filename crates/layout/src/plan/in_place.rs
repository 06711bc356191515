//! How a SELECT of one partition is carried out on each of the copies that take the place of a table's replicas.
//!
//! There is no table to fall back on, so every copy that can give the table's answer at all is named, the
//! cheapest first. A copy with the table's own order gets the client's statement, whatever it says. On others,
//! what [`super::read`] says of layouts holds; a statement that the table takes without ALLOW FILTERING gets it
//! where the copy has to filter. What the table would refuse for the lack of it is left to copies with the
//! table's own order, which refuse it likewise.
//!
//! ```text
//! cost of a copy in order  = share that is read · part of it that LIMIT leaves
//! cost of a copy to sort   = (share that is read + 0.3 · share of rows that fit) / 0.5
//! ```
//!
//! A copy whose rows would have to be sorted, but are expected to be too many, comes last.

use helenus_cql::{Facts, SelectFacts};

use super::expected_share::expected_share;
use super::logical_table::{Copy, LogicalTable};
use super::question::Question;
use super::read::{
    GAIN_SORTED, Limits, SORTING, limit_to_sort, pieces_in_order, pieces_to_sort, usable,
};
use super::restore::Restore;
use super::splice::{Piece, qualified, splice};
use crate::layout::Layout;

/// A SELECT as it is on one copy.
#[derive(Clone, Debug, PartialEq)]
pub struct InPlace {
    /// Which of [`LogicalTable::copies`].
    pub at: usize,
    /// With the client's markers in their order.
    pub text: String,
    /// The answer is not in the table's order yet.
    pub restore: Option<Restore>,
    /// Predicted, relative to reading the whole partition.
    pub cost: f64,
    /// It is the client's statement but for the table's name: what a node says of it, it says of that.
    pub is_own: bool,
}

/// What costs more than any answer in order.
const LAST: f64 = 10.0;

/// The SELECT on each copy that can give the table's answer, the cheapest first.
pub fn read_in_place(table: &LogicalTable, text: &str, facts: &Facts) -> Vec<InPlace> {
    let Some(select) = facts.select.as_deref() else {
        return Vec::new();
    };
    let own = Layout::own(table.clustering.len());
    let question = Question::of_partition(table, text, facts);
    let limits = question
        .as_ref()
        .map(|question| Limits::of(table, select, question));
    let copies = table.copies.iter().enumerate();
    let reads = copies.filter(|(_, copy)| copy.readable);
    let reads = reads.filter_map(|(at, copy)| {
        let asked = question.as_ref().zip(limits.as_ref());
        match (copy.layout == own, asked) {
            (true, asked) => as_it_came(table, (text, facts), asked, (at, copy)),
            (false, Some(asked)) => rewritten(table, (text, facts, select), asked, (at, copy)),
            (false, None) => None,
        }
    });
    let mut reads: Vec<InPlace> = reads.collect();
    reads.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    reads
}

/// On a copy with the table's own order.
fn as_it_came(
    table: &LogicalTable,
    (text, facts): (&str, &Facts),
    asked: Option<(&Question, &Limits)>,
    (at, copy): (usize, &Copy),
) -> Option<InPlace> {
    let name = (facts.spans.table.clone()?, qualified(copy));
    let cost = asked.and_then(|(question, limits)| {
        let access = usable(table, question, copy)?;
        Some(expected_share(table, &access, &question.values) * limits.part_read)
    });
    Some(InPlace {
        at,
        text: splice(text, 0..text.len(), vec![name])?,
        restore: None,
        cost: cost.unwrap_or(1.0),
        is_own: true,
    })
}

fn rewritten(
    table: &LogicalTable,
    (text, facts, select): (&str, &Facts, &SelectFacts),
    (question, limits): (&Question, &Limits),
    (at, copy): (usize, &Copy),
) -> Option<InPlace> {
    let access = usable(table, question, copy)?;
    let own = Layout::own(table.clustering.len());
    if !select.allow_filtering && question.filters(&own) {
        return None;
    }
    let share = expected_share(table, &access, &question.values);
    let (mut pieces, restore, cost) = match access.in_order {
        true => {
            let pieces = pieces_in_order(table, text, facts, question, copy)?;
            (pieces, None, share * limits.part_read)
        }
        false => {
            let (pieces, restore) = pieces_to_sort(table, text, facts, question, copy)?;
            let cost = (share + SORTING * question.matching) / GAIN_SORTED;
            let last = if limits.may_sort { 0.0 } else { LAST };
            (pieces, Some(restore), cost + last)
        }
    };
    let filters = !select.allow_filtering && question.filters(&copy.layout);
    pieces.extend(tail(facts, restore.is_some(), filters)?);
    Some(InPlace {
        at,
        text: splice(text, 0..text.len(), pieces)?,
        restore,
        cost,
        is_own: false,
    })
}

/// What is added behind the restrictions. `None` if that cannot be done.
fn tail(facts: &Facts, sorts: bool, filters: bool) -> Option<Vec<Piece>> {
    let limit = sorts.then(limit_to_sort);
    if let Some(span) = &facts.spans.allow_filtering {
        let before = span.start;
        let limit = limit.map(|limit| (before..before, format!("{limit} ")));
        return Some(limit.into_iter().collect());
    }
    let filtering = filters.then(|| "ALLOW FILTERING".to_owned());
    let added: Vec<String> = limit.into_iter().chain(filtering).collect();
    if added.is_empty() {
        return Some(Vec::new());
    }
    let end = last_clause_end(facts)?;
    Some(vec![(end..end, format!(" {}", added.join(" ")))])
}

/// Where the last clause ends that may stand before ALLOW FILTERING.
fn last_clause_end(facts: &Facts) -> Option<usize> {
    let spans = &facts.spans;
    let clauses = [
        &spans.where_clause,
        &spans.order_by,
        &spans.per_partition_limit,
        &spans.limit,
    ];
    clauses.into_iter().flatten().map(|span| span.end).max()
}
