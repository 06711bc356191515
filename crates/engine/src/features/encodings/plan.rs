//! Plans of statements whose table has encoded columns: text, values, answer.
//!
//! In a text column's place stands the column of encoded values where that is written; the other one of the
//! two is deleted with it. A selection gets the encoded values behind its own columns, or in place of texts where
//! there are none any more. Operations that encoded values do not allow, such as a condition on them, are refused.

mod batch;
mod change;
mod changed;
mod modify;
mod select;

use std::sync::Arc;

use helenus_cql::{Facts, Kind, SelectFacts, Selected, quote_identifier};

pub(crate) use self::batch::text_batch;
use self::change::{Change, NOT_UNDERSTOOD, misfits, splice};
pub(crate) use self::changed::{Changed, Source};
use crate::features::encodings::EncodedTable;
use crate::features::encodings::coding::Coding;
use crate::features::encodings::shown::Shown;
use crate::statement::of_text::OfText;

/// A statement and the encoded columns of its table.
#[derive(Debug)]
pub(crate) struct EncodedPlan<S> {
    pub table: Arc<EncodedTable>,
    pub plan: Arc<Plan<S>>,
}

impl<S> Clone for EncodedPlan<S> {
    fn clone(&self) -> Self {
        EncodedPlan {
            table: self.table.clone(),
            plan: self.plan.clone(),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Plan<S> {
    /// As it came.
    PassThrough,
    /// [`Self::PassThrough`], and its answer may have all columns of the table.
    All,
    Changed(Changed<S>),
    /// Why it cannot be carried out.
    Refused(Box<str>),
}

impl<S: OfText> EncodedPlan<S> {
    pub(crate) fn of(
        table: &Arc<EncodedTable>,
        text: &str,
        facts: &Facts,
        coding: &mut Coding,
    ) -> EncodedPlan<S> {
        let mut change = Change::new(0, table, text, coding);
        let found = match facts.kind {
            Kind::Select => change.select(facts),
            Kind::Insert | Kind::Update | Kind::Delete => change
                .modify(facts)
                .map(|found| found.map(|()| Shown::ByName)),
            _ => Ok(None),
        };
        let selects_all = |select: &SelectFacts| select.columns == Selected::All;
        let shows_all = facts.lwt || facts.select.as_deref().is_some_and(selects_all);
        let plan = match found {
            Ok(_) if shows_all && table.misfit().is_some() => Plan::Refused(
                table
                    .misfit()
                    .map_or(String::new(), |of| misfits(table, of))
                    .into(),
            ),
            Ok(None) if shows_all => Plan::All,
            Ok(None) => Plan::PassThrough,
            Err(why) => Plan::Refused(why.into()),
            Ok(Some(shown)) => finished(change, facts, shown),
        };
        EncodedPlan {
            table: table.clone(),
            plan: Arc::new(plan),
        }
    }
}

/// The plan, once all changes are known.
fn finished<S>(mut change: Change<'_>, facts: &Facts, shown: Shown) -> Plan<S> {
    let table = change.table;
    if let Some(span) = facts.spans.table.clone() {
        let keyspace = quote_identifier(&table.keyspace);
        let name = format!("{keyspace}.{}", quote_identifier(&table.name));
        change.pieces.push((span, name));
    }
    let sources = change.sources(facts, 0);
    match splice(change.text, facts.spans.statement.clone(), change.pieces) {
        Some(text) => Plan::Changed(Changed::new(text, sources, vec![table.clone()], shown)),
        None => Plan::Refused(NOT_UNDERSTOOD.into()),
    }
}

#[cfg(test)]
mod tests;
