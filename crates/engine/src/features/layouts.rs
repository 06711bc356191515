//! Copies of tables in other clustering orders (*layouts*): which there are.

mod added_columns;
mod alter;
mod carried;
mod counted;
mod derived;
mod dropped_columns;
mod fan_out_write;
mod keyspace_rights;
mod on_layouts;
mod plan;
mod read;
mod reads;
mod refusals;
mod requests;
mod restored_order;
mod writes;

use std::sync::{Arc, Mutex, PoisonError};

use helenus_layout::plan::LogicalTable;
use helenus_wire::ErrorBody;
use rustc_hash::FxHashMap;

pub use self::counted::{Counted, LayoutStats};
pub use self::derived::{Doubted, Doubts, Missed, Output, Shared, Told};
use self::on_layouts::OnLayouts;
use self::plan::LayoutPlan;
pub(super) use self::reads::{as_asked, read_table_instead};
pub(super) use self::requests::{on_alone, on_made};
use crate::config::Config;
use crate::context::Context;
use crate::features::Slot;
use crate::keys::ClientRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::query::Query;
use crate::rewrite::leases::Flagged;
use crate::snapshot::Snapshot;
use crate::statement::prepared::{Prepared, Statement};

/// What is kept of a request: what it has to do with layouts.
pub(super) type InRequest = Option<Box<OnLayouts>>;

/// What is kept with a statement: what it becomes where its table has layouts.
#[derive(Debug, Default)]
pub(crate) struct InStatement(Mutex<Option<LayoutPlan<Statement>>>);

/// What a request has to do with layouts.
#[inline]
fn on_layouts(slot: &Slot) -> Option<&OnLayouts> {
    slot.rare()?.layouts.as_deref()
}

/// The same, which it has not any more.
fn take_from(slot: &mut Slot) -> Option<OnLayouts> {
    slot.rare_mut()?.layouts.take().map(|of| *of)
}

/// Whether nodes are asked for something else than what the client has asked.
#[inline]
pub(super) fn is_rewritten(slot: &Slot) -> bool {
    on_layouts(slot).is_some()
}

/// What the client has asked, if a layout is read in place of its table.
#[inline]
pub(super) fn asked(slot: &Slot) -> Option<&Query> {
    match on_layouts(slot) {
        Some(OnLayouts::Read(read)) => Some(&read.asked),
        _ => None,
    }
}

/// What was sent for a request has come to nothing; whether it goes on.
pub(super) fn on_failed(
    engine: &mut Engine,
    client: ClientRequestKey,
    error: &ErrorBody<'_>,
    in_doubt: bool,
) -> bool {
    let request = engine.requests().clients.get(client);
    let layouts = request.and_then(|request| on_layouts(&request.features));
    let is_followed = matches!(layouts, Some(OnLayouts::Write(write)) if write.is_followed);
    if is_followed {
        engine.on_whole_failed(client, ErrorBody { ..*error }, in_doubt);
    }
    is_followed
}

/// What the proxy has prepared for the layouts that a request writes.
pub(super) fn prepared(slot: &Slot) -> Option<&[Arc<Prepared>]> {
    match on_layouts(slot) {
        Some(OnLayouts::Write(write)) => Some(&write.prepared),
        _ => None,
    }
}

/// Whether clients see less of the schema than there is.
pub(super) fn hides(config: &Config) -> bool {
    config.layouts.hides_tables()
}

/// Whether clients do not see a table.
pub(super) fn hides_table(cx: &Context, keyspace: &str, table: &str) -> bool {
    cx.shared.config.layouts.hides_tables() && holds_layout(&cx.snapshot, keyspace, table)
}

/// Keyspace and name of the table that this one holds a layout of.
pub(super) fn table_behind<'s>(
    snapshot: &'s Snapshot,
    keyspace: &str,
    physical: &str,
) -> Option<(&'s str, &'s str)> {
    let layouts = &snapshot.features().layouts;
    let table = layouts.table_of_layout(keyspace, physical)?;
    Some((&table.keyspace, &table.name))
}

/// Whether a table holds a layout of another. Beside those in the catalogue these are tables that are
/// named so: `helenus layouts` makes them before they are in the catalogue, and drops them later. The
/// partition key tells them from a table that a user has named so, once both are known. In a keyspace of layouts
/// alone, all are of the catalogue.
fn holds_layout(snapshot: &Snapshot, keyspace: &str, physical: &str) -> bool {
    let layouts = &snapshot.features().layouts;
    if layouts.table_of_layout(keyspace, physical).is_some() {
        return true;
    }
    let named = helenus_layout::naming::divide(physical);
    let of_table = named.and_then(|(table, _)| snapshot.schema().partition_key(keyspace, table));
    let own = snapshot.schema().partition_key(keyspace, physical);
    of_table.is_some_and(|of_table| own.is_none_or(|own| own == of_table))
}

/// What a statement becomes on the layouts of its table. Known texts take as much memory again for each of
/// these.
fn plan_of(statement: &Statement, table: &Arc<LogicalTable>) -> LayoutPlan<Statement> {
    let known = statement.features.layouts.0.lock();
    let mut known = known.unwrap_or_else(PoisonError::into_inner);
    if let Some(of) = &*known
        && Arc::ptr_eq(&of.table, table)
    {
        return of.clone();
    }
    let still = known.as_ref().and_then(|of| of.still_of(table));
    let made = still.unwrap_or_else(|| LayoutPlan::of(table, &statement.text, &statement.facts));
    if statement.keeps_plans() {
        *known = Some(made.clone());
    }
    made
}

/// What is known of layouts.
#[derive(Clone, Debug, Default)]
pub struct Layouts {
    /// The tables that have any, by keyspace and table.
    pub tables: FxHashMap<String, FxHashMap<String, Arc<LogicalTable>>>,
    /// These, and all others that may have some.
    pub flagged: Flagged,
    /// The table of each table that holds a layout, by keyspace and name of that.
    held: FxHashMap<String, FxHashMap<String, Arc<LogicalTable>>>,
    has_derived: bool,
    /// A layout that is neither read nor written, of each table that has such.
    aside: FxHashMap<(String, String), String>,
}

impl Layouts {
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.aside.is_empty()
    }

    /// Whether any is derived.
    pub fn has_derived(&self) -> bool {
        self.has_derived
    }

    /// A table holds a layout that is neither read nor written now.
    pub fn set_aside(&mut self, keyspace: &str, physical: &str, table: Arc<LogicalTable>) {
        let of = (table.keyspace.clone(), table.name.clone());
        self.aside.insert(of, format!("{keyspace}.{physical}"));
        let of_keyspace = self.held.entry(keyspace.to_owned()).or_default();
        of_keyspace.insert(physical.to_owned(), table);
    }

    /// Adds a table with layouts, which is flagged thereby.
    pub fn add(&mut self, table: Arc<LogicalTable>) {
        self.flagged.add(&table.keyspace, &table.name);
        for copy in &table.copies {
            self.has_derived |= copy.is_derived();
            let keyspace = table.keyspace_of(copy).to_owned();
            let of_keyspace = self.held.entry(keyspace).or_default();
            of_keyspace.insert(copy.physical.clone(), table.clone());
        }
        let of_keyspace = self.tables.entry(table.keyspace.clone()).or_default();
        of_keyspace.insert(table.name.clone(), table);
    }

    /// A table that has layouts. One whose layouts are all missing has none.
    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Arc<LogicalTable>> {
        let table = self.tables.get(keyspace)?.get(table);
        table.filter(|table| !table.copies.is_empty())
    }

    /// The same, also if none of its layouts is written now.
    pub(crate) fn followed(&self, keyspace: &str, table: &str) -> Option<&Arc<LogicalTable>> {
        let is_followed = self.table(keyspace, table).is_some();
        let has_any = is_followed || self.aside(keyspace, table).is_some();
        self.tables.get(keyspace)?.get(table).filter(|_| has_any)
    }

    /// The table that this one holds a layout of.
    pub(crate) fn table_of_layout(
        &self,
        keyspace: &str,
        physical: &str,
    ) -> Option<&Arc<LogicalTable>> {
        self.held.get(keyspace)?.get(physical)
    }

    /// A layout of a table that is neither read nor written.
    pub(crate) fn aside(&self, keyspace: &str, table: &str) -> Option<&str> {
        if self.aside.is_empty() {
            return None;
        }
        let of = (keyspace.to_owned(), table.to_owned());
        self.aside.get(&of).map(String::as_str)
    }

    /// The name of a table in this keyspace that has derived layouts.
    pub(crate) fn derived_in(&self, keyspace: &str) -> Option<&str> {
        let own = self.tables.get(keyspace)?.values();
        let mut derived = own.filter(|table| table.is_derived());
        let aside = self.aside.keys().find(|(of, _)| of == keyspace);
        let named = derived.next().map(|table| table.name.as_str());
        named.or(aside.map(|(_, name)| name.as_str()))
    }

    /// The tables in this keyspace that have layouts, or had.
    pub(crate) fn tables_of(&self, keyspace: &str) -> Vec<&Arc<LogicalTable>> {
        let of_keyspace = self.tables.get(keyspace);
        of_keyspace
            .into_iter()
            .flat_map(FxHashMap::values)
            .collect()
    }

    /// A table of another keyspace that has layouts in this one.
    pub(crate) fn table_with_layouts_in(&self, keyspace: &str) -> Option<&Arc<LogicalTable>> {
        let mut tables = self.held.get(keyspace)?.values();
        tables.find(|table| table.keyspace != keyspace)
    }

    /// Keyspace and name of all tables, in order.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        for (keyspace, tables) in &self.tables {
            names.extend(
                tables
                    .keys()
                    .map(|table| (keyspace.as_str(), table.as_str())),
            );
        }
        names.sort_unstable();
        names.into_iter()
    }
}
