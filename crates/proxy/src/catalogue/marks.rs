//! Puts into the catalogue what workers have told of derived layouts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use helenus_catalogue::change::{self, Change};
use helenus_catalogue::{Catalogue, Layout, OfTable, TableKey, stored};
use helenus_engine::features::layouts;
use helenus_wire::{Consistency, code};

use super::news::{DOUBTS_MAX, Doubted, Told, Unmarked};
use super::reader::Reader;
use crate::conn::ConnError;
use crate::process::Process;

/// Partitions that one request puts in doubt.
const DOUBTS_AT_ONCE: usize = 100;
/// A worker tells of what it has noted within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Marks for the catalogue, and what is known of it.
pub(super) struct Marks<'a> {
    pub common: &'a Process,
    pub catalogue: &'a Catalogue,
    /// Layouts that have missed writes although it does not say so.
    pub unmarked: &'a Unmarked,
    pub local_dc: &'a str,
}

impl Marks<'_> {
    /// Puts it into the catalogue, so that other proxies hear of it, and a sweep; and hears what these have put there. What
    /// fails is tried again with the next reading.
    pub(super) async fn tell(&self, reader: &mut Reader, told: &mut Told) {
        let tables: Vec<TableKey> = told.doubted.keys().cloned().collect();
        for table in &tables {
            let Some(tokens) = told.doubted.get(table) else {
                continue;
            };
            match doubt(reader, table, tokens).await {
                Ok(()) => drop(told.doubted.remove(table)),
                Err(e) => on_untold(&e),
            }
        }
        for (table, names) in self.unmarked.tables() {
            if let Err(e) = self.mark(reader, &table, &names).await {
                on_untold(&e);
            }
        }
        if let Err(e) = self.read_doubts(reader, &told.doubted).await {
            tracing::warn!(
                "partitions in doubt could not be read, so that tables are read in place of derived layouts: {e}"
            );
        }
    }

    /// Reads what other proxies have put in doubt, and what has been compared since.
    async fn read_doubts(&self, reader: &mut Reader, untold: &Doubted) -> Result<(), ConnError> {
        let asked = Instant::now();
        let mut told = Vec::new();
        for table in self.derived_tables() {
            let found = reader.doubts(&table, DOUBTS_MAX + 1, self.local_dc).await?;
            told.push((table, found));
        }
        let pending = self.common.layout_news.pending();
        for (table, tokens) in &mut told {
            for of in [&pending, untold] {
                tokens.extend(of.get(table).into_iter().flatten());
            }
        }
        let told: Vec<_> = told
            .into_iter()
            .map(|(table, tokens)| as_told(table, tokens))
            .collect();
        // A worker may have just noted some, and not told of them yet.
        let doubts = &self.common.features.layouts.doubts;
        doubts.adopt(&told, asked.checked_sub(TOLD_WITHIN).unwrap_or(asked));
        Ok(())
    }

    /// Tables with derived layouts.
    fn derived_tables(&self) -> Vec<TableKey> {
        let is_derived = |of: &OfTable| {
            let mut layouts = of.layouts.iter().flat_map(|of| &of.layouts);
            layouts.any(Layout::is_derived)
        };
        let tables = self.catalogue.tables.iter();
        let derived = tables.filter(|(_, of)| is_derived(of));
        derived.map(|(table, _)| table.clone()).collect()
    }

    /// The catalogue says that layouts of a table have missed writes, unless it has changed meanwhile.
    async fn mark(
        &self,
        reader: &mut Reader,
        table: &TableKey,
        names: &[String],
    ) -> Result<(), ConnError> {
        let catalogue = self.catalogue;
        let layouts = catalogue.layouts(table).map(|of| &of.layouts);
        let layouts = layouts.into_iter().flatten();
        let behind = layouts.filter(|layout| names.contains(&layout.name));
        let behind: Vec<Layout> = behind.map(|layout| layout.behind(now_ms())).collect();
        let changes: Vec<Change<'_>> = behind.iter().map(Change::PutLayout).collect();
        let later = now_ms().max(catalogue.version.saturating_add(1));
        let batch = change::batch(catalogue.version, later, table, &changes);
        reader.change(&batch).await
    }
}

fn on_untold(error: &ConnError) {
    let remedy = match error {
        ConnError::Node {
            code: code::UNAUTHORIZED,
            ..
        } => {
            ". The role of cluster.username needs MODIFY on helenus.catalogue and helenus.layout_doubts \
             (helenus layouts create --proxy-role)"
        }
        _ => "",
    };
    tracing::warn!(
        "what layouts have missed could not be put into the catalogue, which is tried again: {error}{remedy}"
    );
}

fn as_told(table: TableKey, tokens: BTreeSet<i64>) -> ((String, String), layouts::Told) {
    let told = match tokens.len() > DOUBTS_MAX {
        true => layouts::Told::All,
        false => layouts::Told::Tokens(tokens.into_iter().collect()),
    };
    ((table.keyspace, table.table), told)
}

async fn doubt(
    reader: &mut Reader,
    table: &TableKey,
    tokens: &BTreeSet<i64>,
) -> Result<(), ConnError> {
    let tokens: Vec<i64> = tokens.iter().copied().collect();
    for tokens in tokens.chunks(DOUBTS_AT_ONCE) {
        reader.change(&change::doubt(table, tokens)).await?;
    }
    Ok(())
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

impl Reader {
    /// The partitions of a table that are in doubt, so many at most.
    async fn doubts(
        &mut self,
        table: &TableKey,
        max: usize,
        local_dc: &str,
    ) -> Result<BTreeSet<i64>, ConnError> {
        let level = self.level(local_dc).await?;
        let select = stored::select_doubts(table, max);
        let rows = self.known(&select, "layout_doubts", level).await?;
        let Some(rows) = rows else {
            return Ok(BTreeSet::new());
        };
        let tokens = rows
            .rows
            .iter()
            .filter_map(|row| rows.bigint(row, "ring_token"));
        Ok(tokens.collect())
    }

    /// Changes the catalogue, at a quorum of every data centre. A change that is not applied, because somebody else has
    /// changed the catalogue, is tried again after the next read.
    async fn change(&mut self, batch: &str) -> Result<(), ConnError> {
        let level = match self.is_in_each_dc().await? {
            true => Consistency::EACH_QUORUM,
            false => Consistency::QUORUM,
        };
        self.write(batch, level).await
    }
}
