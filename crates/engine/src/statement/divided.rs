//! A SELECT of several partitions as one of a single partition, or of a stretch of the ring, on each copy that takes
//! the place of its table's replicas. That is found out once for each text.

use std::sync::Arc;

use helenus_cql::{
    Facts, InRelation, InValues, KeyColumnValues, KeyValue, Name, RangeValue, Term, one_key,
    prepared_range,
};
use helenus_layout::plan::LogicalTable;

use crate::statement::copy_reads::ReadsOfCopies;
use crate::statement::of_text::OfText;

const NOT_BY_VALUES: &str = "Helenus does not know which partitions are meant: write the values of the partition key as \
                             constants or markers";
const KEY_UNREADABLE: &str =
    "Helenus cannot read its partition key: bind it by markers, to values that are not null";
const PARTLY: &str = "a part of its partition key is restricted, or a column with CONTAINS, LIKE or the like, so it \
                      cannot be asked for one stretch of the ring after the other: restrict the whole key, or read \
                      with token() alone and filter the rows";
const BOUNDS: &str = "its bounds on token() cannot be replaced: write them as markers, one on each side at most, \
                      without token() = …";

#[derive(Debug)]
pub(crate) enum Divided<S> {
    Keys(ByKey<S>),
    Ring(ByStretch<S>),
    /// It cannot be, for this reason.
    Not(&'static str),
}

#[derive(Debug)]
pub(crate) struct ByKey<S> {
    /// What it says of each column of the partition key.
    pub columns: Vec<KeyColumnValues>,
    pub values: Vec<KeyValue>,
    pub reads: Arc<ReadsOfCopies<S>>,
}

#[derive(Debug)]
pub(crate) struct ByStretch<S> {
    pub values: Vec<RangeValue>,
    pub reads: Arc<ReadsOfCopies<S>>,
}

impl<S: OfText> Divided<S> {
    pub(crate) fn of(table: &LogicalTable, text: &str, facts: &Facts) -> Divided<S> {
        let key: Vec<&str> = table.partition_key.iter().map(String::as_str).collect();
        let reads = |text: &str| {
            let facts = helenus_cql::facts(text);
            Arc::new(ReadsOfCopies::of(table, text, &facts))
        };
        if let Some(one) = one_key(text, facts, &key) {
            return Divided::Keys(ByKey {
                reads: reads(&one.text),
                columns: one.columns,
                values: one.values,
            });
        }
        let Some(select) = facts.select.as_deref() else {
            return Divided::Not(NOT_BY_VALUES);
        };
        let markers = facts.markers;
        if let Some(range) = prepared_range(text, facts, select, &key, markers) {
            return Divided::Ring(ByStretch {
                reads: reads(&range.text),
                values: range.values,
            });
        }
        Divided::Not(why_not(facts, &key))
    }
}

fn why_not(facts: &Facts, key: &[&str]) -> &'static str {
    let of_key = |name: &Name| key.contains(&name.as_str());
    let select = facts.select.as_deref();
    let is_computed = |ins: &InRelation| match &ins.values {
        InValues::Terms(terms) => terms.contains(&Term::Other),
        InValues::Marker(term) => *term == Term::Other,
    };
    let mut ins = select.iter().flat_map(|select| &select.ins);
    let mut terms = facts.key_terms.iter();
    if select.is_some_and(|select| !select.tokens.is_empty()) {
        return BOUNDS;
    }
    let computes = terms.any(|term| of_key(&term.column) && term.term == Term::Other)
        || ins.any(|of| of.columns.iter().any(of_key) && is_computed(of));
    if computes {
        return NOT_BY_VALUES;
    }
    let is_one = |column: &&str| {
        let mut terms = facts.key_terms.iter();
        terms.any(|term| term.column.as_str() == *column)
    };
    match key.iter().all(is_one) {
        true => KEY_UNREADABLE,
        false => PARTLY,
    }
}
