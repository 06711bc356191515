//! Plans of statements whose table has layouts. A plan is made once for each text, and again when the catalogue
//! has changed.

use std::sync::{Arc, OnceLock};

use helenus_cql::{Facts, Kind};
use helenus_layout::plan::{self, LogicalTable, Ranked};

use crate::features::layouts::LayoutStats;
use crate::features::layouts::restored_order::{RestoredOrder, Room};
use crate::statement::of_text::OfText;
use crate::stats::{Stats, add};

/// A statement and the layouts of its table.
#[derive(Debug)]
pub(crate) struct LayoutPlan<S> {
    pub table: Arc<LogicalTable>,
    pub plan: Arc<Plan<S>>,
}

#[derive(Debug)]
pub(crate) enum Plan<S> {
    /// A read of one partition, maybe of a layout.
    Read(CopyReads<S>),
    /// A write, with one more statement for each layout.
    Write(Box<[CopyWrite<S>]>),
    /// A write on the table alone, with which its layouts are compared afterwards.
    Compared,
    /// Why it cannot be carried out on layouts.
    Refused(Box<str>),
    /// As it came.
    Table,
}

/// A read as it would be on each layout.
#[derive(Debug)]
pub(crate) struct CopyReads<S> {
    /// The layouts that are worth it to read, the cheapest first.
    pub ranked: Box<[RankedRead<S>]>,
    /// For rows that are to be sorted, which are the same on each layout.
    pub room: Arc<Room>,
    /// By layout; `None` where it would answer differently.
    derived: Box<[OnceLock<Option<Arc<S>>>]>,
    /// By layout.
    stats: Box<[OnceLock<Arc<LayoutStats>>]>,
}

/// A layout on which a read can be carried out.
#[derive(Debug)]
pub(crate) struct RankedRead<S> {
    pub at: usize,
    /// The rows come in another order.
    pub is_sorted: bool,
    /// Then: the statement, and how its answers become the table's. `None` if the order of a type is not known.
    sorted: OnceLock<Option<(Arc<S>, Arc<RestoredOrder>)>>,
}

/// A write as it is on one layout.
#[derive(Debug)]
pub(crate) struct CopyWrite<S> {
    pub text: Box<str>,
    statement: OnceLock<Arc<S>>,
}

impl<S: OfText> CopyWrite<S> {
    /// As a statement that the nodes can prepare.
    pub(crate) fn statement(&self) -> &Arc<S> {
        let made = || Arc::new(S::of_text(&self.text));
        self.statement.get_or_init(made)
    }
}

impl<S> Clone for LayoutPlan<S> {
    fn clone(&self) -> Self {
        LayoutPlan {
            table: self.table.clone(),
            plan: self.plan.clone(),
        }
    }
}

impl<S: OfText> LayoutPlan<S> {
    pub(crate) fn of(table: &Arc<LogicalTable>, text: &str, facts: &Facts) -> LayoutPlan<S> {
        let plan = match facts.kind {
            Kind::Select => Plan::Read(CopyReads::of(table, text, facts)),
            Kind::Insert | Kind::Update | Kind::Delete => match plan::write(table, text, facts) {
                plan::Write::Copies(texts) => Plan::Write(texts.into_iter().map(write).collect()),
                plan::Write::Compared => Plan::Compared,
                plan::Write::Refused(why) => Plan::Refused(why.into()),
            },
            _ => Plan::Table,
        };
        LayoutPlan {
            table: table.clone(),
            plan: Arc::new(plan),
        }
    }

    /// The plan for another reading of the table, if nothing about that has changed.
    pub(crate) fn still_of(&self, table: &Arc<LogicalTable>) -> Option<LayoutPlan<S>> {
        (*self.table == **table).then(|| LayoutPlan {
            table: table.clone(),
            plan: self.plan.clone(),
        })
    }
}

fn write<S>(text: String) -> CopyWrite<S> {
    CopyWrite {
        text: text.into(),
        statement: OnceLock::new(),
    }
}

impl<S: OfText> CopyReads<S> {
    fn of(table: &LogicalTable, text: &str, facts: &Facts) -> CopyReads<S> {
        let derived: Box<[OnceLock<Option<Arc<S>>>]> =
            table.copies.iter().map(|_| OnceLock::new()).collect();
        let ranked = plan::rank(table, text, facts).into_iter();
        let ranked = ranked.map(|Ranked { at, is_sorted }| RankedRead {
            at,
            is_sorted,
            sorted: OnceLock::new(),
        });
        CopyReads {
            ranked: ranked.collect(),
            room: Arc::default(),
            derived,
            stats: table.copies.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// The statement on a layout that has been ranked, and how its answers become the table's if they are in another order.
    pub(crate) fn ranked_read<'a>(
        &'a self,
        ranked: &'a RankedRead<S>,
        table: &LogicalTable,
        text: &str,
        facts: &Facts,
    ) -> Option<(&'a Arc<S>, Option<&'a Arc<RestoredOrder>>)> {
        if !ranked.is_sorted {
            return Some((self.derived(table, text, facts, ranked.at)?, None));
        }
        let made = || {
            let (text, restore) = plan::read_and_sort(table, text, facts, ranked.at)?;
            let order = RestoredOrder::of(&restore, self.room.clone())?;
            Some((Arc::new(S::of_text(&text)), Arc::new(order)))
        };
        let (statement, order) = ranked.sorted.get_or_init(made).as_ref()?;
        Some((statement, Some(order)))
    }

    /// Counts a read of one layout. `max`: layouts that are counted by name.
    pub(crate) fn count(&self, table: &LogicalTable, at: usize, stats: &Stats, max: usize) {
        let (Some(of), Some(copy)) = (self.stats.get(at), table.copies.get(at)) else {
            return;
        };
        let name = (&*table.keyspace, &*table.name, &*copy.physical);
        let of = of.get_or_init(|| stats.features.layouts.of(name, max));
        add(&of.reads, 1);
    }

    /// The statement on one layout, if its answer is the table's own there as it comes.
    pub(crate) fn derived(
        &self,
        table: &LogicalTable,
        text: &str,
        facts: &Facts,
        at: usize,
    ) -> Option<&Arc<S>> {
        let made = || {
            let text = plan::read_from(table, text, facts, at)?;
            Some(Arc::new(S::of_text(&text)))
        };
        self.derived.get(at)?.get_or_init(made).as_ref()
    }
}
