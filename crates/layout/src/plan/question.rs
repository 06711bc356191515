//! The question of a SELECT to a table with layouts, if a layout can answer it at all.

use helenus_cql::{
    Facts, InValues, Kind, Literal, Name, Op, RangeRelation, SelectFacts, Selected, Term, calls,
    is_lower, is_upper,
};

use super::expected_share::{RANGE_SHARE, share_of_values};
use super::functions::is_selectable;
use super::logical_table::LogicalTable;
use super::order_free::is_order_free;
use crate::shape::Shape;

/// Values of an `IN ?`, as predicted.
const LISTED_BY_MARKER: f64 = 3.0;

#[derive(Debug)]
pub(super) struct Question {
    pub shape: Shape,
    /// How many values each clustering column is compared with, for estimates.
    pub values: Vec<f64>,
    /// Share of the partition's rows that fit all restrictions, as predicted.
    pub matching: f64,
    /// ORDER BY asks for the opposite of the table's order.
    pub reversed: bool,
    pub wanted: Wanted,
}

/// How many of the rows that fit the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// So many at most, 1 or more.
    First(usize),
    /// As many as a marker says, or none that Cassandra would give.
    Unknown,
}

impl Question {
    /// None if only the table itself can answer.
    pub(super) fn of(table: &LogicalTable, text: &str, facts: &Facts) -> Option<Self> {
        let select = facts.select.as_deref()?;
        let here = facts.kind == Kind::Select && *facts.table.as_ref()? == *table.name;
        // A SELECT that the table takes without filtering is one slice of it, which no order makes smaller.
        // With an index, the index may answer, in its own way.
        if !here || !select.allow_filtering || table.indexed {
            return None;
        }
        if !is_plain(select) || !facts.restricted_by_values() || !selectable(text, select) {
            return None;
        }
        let mut question = Question {
            shape: Shape {
                ordered: !is_order_free(table, text, select),
                ..Shape::default()
            },
            values: vec![1.0; table.clustering.len()],
            matching: 1.0,
            reversed: false,
            wanted: wanted(select),
        };
        question.restrict(table, facts, select)?;
        question.reversed = reversed(table, select, &question.shape)?;
        Some(question)
    }

    /// Adds the restrictions. None if the partition is not known or a restriction is none that
    /// layouts understand.
    fn restrict(
        &mut self,
        table: &LogicalTable,
        facts: &Facts,
        select: &SelectFacts,
    ) -> Option<()> {
        let mut seen: Vec<&Name> = Vec::new();
        let mut once = |name| (!seen.contains(&name)).then(|| seen.push(name));
        let mut keys = 0;
        for term in &facts.key_terms {
            once(&term.column)?;
            if table.is_partition_key(&term.column) {
                keys += 1;
            } else if let Some(at) = table.clustering_column(&term.column) {
                self.shape.equal = self.shape.equal.with(at);
                self.matching *= share_of_values(table, Some(&term.column), 1.0);
            } else {
                table.column(&term.column)?;
                self.matching *= share_of_values(table, Some(&term.column), 1.0);
            }
        }
        for relation in &select.ins {
            let [column] = relation.columns.as_slice() else {
                return None;
            };
            once(column)?;
            let at = table.clustering_column(column)?;
            self.shape.listed = self.shape.listed.with(at);
            let values = match &relation.values {
                InValues::Terms(terms) => terms.len() as f64,
                InValues::Marker(_) => LISTED_BY_MARKER,
            };
            *self.values.get_mut(at)? = values;
            self.matching *= share_of_values(table, Some(column), values);
        }
        for column in ranged(&select.ranges)? {
            once(column)?;
            if let Some(at) = table.clustering_column(column) {
                self.shape.range = self.shape.range.with(at);
            } else {
                table.column(column)?;
            }
            self.matching *= RANGE_SHARE;
        }
        (keys == table.partition_key.len()).then_some(())
    }
}

/// Each column restricted by a range, once: by one bound or by one on either side.
fn ranged(ranges: &[RangeRelation]) -> Option<Vec<&Name>> {
    let mut columns: Vec<&Name> = Vec::new();
    for range in ranges {
        let [column] = range.columns.as_slice() else {
            return None;
        };
        let same = |side: fn(Op) -> bool| {
            let of_column = ranges
                .iter()
                .filter(|r| r.columns.as_slice() == [column.clone()]);
            of_column.filter(|r| side(r.op)).count()
        };
        let is_bound = is_lower(range.op) || is_upper(range.op);
        if !is_bound || same(is_lower) > 1 || same(is_upper) > 1 {
            return None;
        }
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    Some(columns)
}

/// Has nothing whose meaning depends on more than the rows and their order.
fn is_plain(select: &SelectFacts) -> bool {
    let json_of_all = select.json && select.columns == Selected::All;
    !json_of_all
        && !select.distinct
        && !select.group_by
        && !select.ann
        && select.tokens.is_empty()
        && !select.other_relations
}

/// Calls no function that could be a user's.
fn selectable(text: &str, select: &SelectFacts) -> bool {
    let Selected::Columns(items) = &select.columns else {
        return true;
    };
    let known = |piece: &str| calls(piece).iter().all(is_selectable);
    let mut pieces = items.iter().map(|item| text.get(item.span.clone()));
    !(select.calls || select.aggregates) || pieces.all(|piece| piece.is_some_and(known))
}

/// True if ORDER BY reverses the table's order; None if Cassandra would not take it: its columns must come as in
/// the table, and only those may be left out that are bound by `=`.
fn reversed(table: &LogicalTable, select: &SelectFacts, shape: &Shape) -> Option<bool> {
    let mut reversed = None;
    let mut next = 0;
    for ordering in &select.order_by {
        let at = table.clustering_column(&ordering.column)?;
        if at < next || (next..at).any(|left_out| !shape.equal.contains(left_out)) {
            return None;
        }
        next = at + 1;
        let flipped = table.clustering.get(at)?.descending != ordering.descending;
        if *reversed.get_or_insert(flipped) != flipped {
            return None;
        }
    }
    Some(reversed.unwrap_or(false))
}

/// In one partition, PER PARTITION LIMIT is another LIMIT. Of an aggregate, neither says which rows it is of.
fn wanted(select: &SelectFacts) -> Wanted {
    let limits = [&select.limit, &select.per_partition_limit];
    let given = limits.into_iter().flatten().filter(|_| !select.aggregates);
    given.fold(Wanted::All, |wanted, limit| {
        let rows = match limit {
            Term::Literal(Literal::Int(rows)) => i32::try_from(*rows).ok(),
            _ => None,
        };
        let rows = rows.and_then(|rows| usize::try_from(rows).ok());
        match (wanted, rows.filter(|rows| *rows > 0)) {
            (Wanted::Unknown, _) | (_, None) => Wanted::Unknown,
            (Wanted::First(other), Some(rows)) => Wanted::First(other.min(rows)),
            (Wanted::All, Some(rows)) => Wanted::First(rows),
        }
    })
}
