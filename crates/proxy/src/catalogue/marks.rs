//! Puts into the catalogue what workers have told of derived layouts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use helenus_catalogue::change::{self, Change};
use helenus_catalogue::{Catalogue, Layout, OfTable, TableKey, stored};
use helenus_engine::features::layouts;
use helenus_wire::{Consistency, code};

use super::news::{DOUBTS_MAX, Doubted, KnownTo, Told, Unmarked};
use super::reader::Reader;
use crate::conn::ConnError;
use crate::process::Process;

/// Partitions that one request puts in doubt.
const DOUBTS_AT_ONCE: usize = 100;
/// Longer than that no table's partitions in doubt may take to be read: others must be, before what is known of them is too
/// old.
const READ_MAX: Duration = Duration::from_secs(2);
/// A worker tells of what it has noted within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Marks for the catalogue, and what is known of it.
pub(super) struct Marks<'a> {
    pub common: &'a Process,
    pub catalogue: &'a Catalogue,
    /// Layouts that have missed writes although it does not say so.
    pub unmarked: &'a Unmarked,
    pub local_dc: &'a str,
    /// Some data centre could not be told something: what else there is goes to this one at once.
    pub is_cut_off: bool,
}

impl Marks<'_> {
    /// Puts it into the catalogue, so that other proxies hear of it, and a sweep; and hears what these have put there. What
    /// fails is tried again with the next reading.
    pub(super) async fn tell(&mut self, reader: &mut Reader, told: &mut Told) {
        let tables: Vec<TableKey> = told.doubted.keys().cloned().collect();
        for table in &tables {
            if let Err(e) = self.doubt(reader, table, &mut told.doubted).await {
                on_untold(&e);
            }
        }
        let mut known = self.catalogue.clone();
        for (table, names) in self.unmarked.tables() {
            match self.mark(reader, &mut known, &table, &names).await {
                Ok(Reached::All) => {}
                Ok(Reached::DataCentre) => told.is_unspread = true,
                Err(e) => {
                    on_untold(&e);
                    self.doubt_whole(reader, &table).await;
                }
            }
        }
        if told.is_unspread && !self.is_cut_off {
            match spread(reader).await {
                Ok(()) => told.is_unspread = false,
                Err(e) => on_untold(&e),
            }
        }
        if let Err(e) = self.read_doubts(reader, &told.doubted).await {
            tracing::warn!(
                "partitions in doubt could not be read, so that tables are read in place of derived layouts: {e}"
            );
        }
    }

    /// Puts partitions of a table in doubt, and leaves those of which not all data centres know.
    async fn doubt(
        &mut self,
        reader: &mut Reader,
        table: &TableKey,
        doubted: &mut Doubted,
    ) -> Result<(), ConnError> {
        let Some(tokens) = doubted.get_mut(table) else {
            return Ok(());
        };
        let all: Vec<i64> = tokens.keys().copied().collect();
        // What has been told is noted at once: there may be no time for all of them.
        for some in all.chunks(DOUBTS_AT_ONCE) {
            let is_untold = |token: &i64| tokens.get(token) == Some(&KnownTo::Proxy);
            let untold: Vec<i64> = some.iter().copied().filter(is_untold).collect();
            let in_own: Vec<String> = (!untold.is_empty())
                .then(|| change::doubt(table, &untold))
                .into_iter()
                .collect();
            let doubts = [change::doubt(table, some)];
            let (reached, _) = self.change(reader, &doubts, &in_own).await?;
            match reached {
                Reached::All => tokens.retain(|token, _| !some.contains(token)),
                Reached::DataCentre => {
                    let known = untold.into_iter().map(|token| (token, KnownTo::DataCentre));
                    tokens.extend(known);
                }
            }
        }
        if tokens.is_empty() {
            doubted.remove(table);
        }
        Ok(())
    }

    /// The catalogue is changed by a majority of all its replicas. Without one, this data centre's proxies read the table.
    async fn doubt_whole(&mut self, reader: &mut Reader, table: &TableKey) {
        let whole = [change::doubt(table, &[stored::WHOLE_TABLE])];
        if let Err(e) = self.change(reader, &whole, &whole).await {
            on_untold(&e);
        }
    }

    /// Reads what other proxies have put in doubt, and what has been compared since. A table that cannot be read keeps no
    /// other waiting.
    async fn read_doubts(&self, reader: &mut Reader, untold: &Doubted) -> Result<(), ConnError> {
        let asked = Instant::now();
        let doubts = &self.common.features.layouts.doubts;
        let level = reader.level(self.local_dc).await?;
        let mut tables = self.derived_tables();
        // After one that takes too long there is no time for others, so that another is the first of these each time.
        let turns = usize::try_from(now_ms() / 1_000).unwrap_or_default();
        let turns = turns.checked_rem(tables.len()).unwrap_or_default();
        tables.rotate_left(turns);
        tables.sort_by_key(|of| doubts.is_unread((&of.keyspace, &of.table)));
        let mut found = Vec::new();
        let mut has_time = true;
        for table in tables {
            let read = match has_time {
                true => {
                    let reading = reader.doubts(&table, DOUBTS_MAX + 1, level);
                    let read = tokio::time::timeout(READ_MAX, reading).await;
                    read.unwrap_or(Err(ConnError::Timeout(READ_MAX)))
                }
                false => Err(ConnError::Timeout(READ_MAX)),
            };
            has_time &= !matches!(read, Err(ConnError::Timeout(_)));
            if let Err(e) = &read {
                tracing::warn!(
                    %table,
                    "partitions in doubt could not be read, so that the table is read in place of its derived layouts: {e}"
                );
            }
            found.push((table, read.ok()));
        }
        let pending = self.common.layout_news.pending();
        for (table, tokens) in &mut found {
            for of in [&pending, untold] {
                if let (Some(tokens), Some(more)) = (tokens.as_mut(), of.get(table)) {
                    tokens.extend(more.keys());
                }
            }
        }
        let told: Vec<_> = found
            .into_iter()
            .map(|(table, tokens)| as_told(table, tokens))
            .collect();
        // A worker may have just noted some, and not told of them yet.
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

    /// The catalogue says that layouts of a table have missed writes, unless it has changed meanwhile. `known`: as it was
    /// before, and is then: the next table's layouts are marked on top of it.
    async fn mark(
        &mut self,
        reader: &mut Reader,
        known: &mut Catalogue,
        table: &TableKey,
        names: &[String],
    ) -> Result<Reached, ConnError> {
        let mut next = known.clone();
        next.version = now_ms().max(known.version.saturating_add(1));
        let of = next
            .tables
            .get_mut(table)
            .and_then(|of| of.layouts.as_mut());
        let layouts = of.map(|of| &mut of.layouts).into_iter().flatten();
        let mut changes = Vec::new();
        for layout in layouts.filter(|layout| names.contains(&layout.name)) {
            *layout = layout.behind(now_ms());
            changes.push(Change::PutLayout(layout));
        }
        let batch = [change::batch(known.version, next.version, table, &changes)];
        let (reached, is_applied) = self.change(reader, &batch, &batch).await?;
        // One that is not applied, because somebody else has changed the catalogue, is tried again after the next reading;
        // unless it was applied before, when a data centre that is down kept others from hearing of it.
        if is_applied || self.is_so(reader, &next).await {
            *known = next;
        }
        Ok(reached)
    }

    /// True if the catalogue is this one by now.
    async fn is_so(&self, reader: &mut Reader, next: &Catalogue) -> bool {
        let read = reader.catalogue(self.local_dc).await;
        read.is_ok_and(|read| read.catalogue.as_ref() == Some(next))
    }

    /// Changes something in all data centres; if one is down, this in its own, whose proxies know then. Returns whether what
    /// has a condition was applied, too.
    async fn change(
        &mut self,
        reader: &mut Reader,
        in_all: &[String],
        in_own: &[String],
    ) -> Result<(Reached, bool), ConnError> {
        let level = reader.level_of_all().await?;
        let own_level = reader.level(self.local_dc).await?;
        if own_level == level {
            let is_applied = write(reader, in_all, level).await?;
            return Ok((Reached::All, is_applied));
        }
        if !self.is_cut_off {
            match write(reader, in_all, level).await {
                Ok(is_applied) => return Ok((Reached::All, is_applied)),
                Err(e) => on_untold(&e),
            }
            self.is_cut_off = true;
        }
        let is_applied = write(reader, in_own, own_level).await?;
        Ok((Reached::DataCentre, is_applied))
    }
}

/// Where a change is.
enum Reached {
    All,
    /// In this data centre, and maybe not in others.
    DataCentre,
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
        "what layouts have missed could not be told to all data centres, which is tried again: {error}{remedy}"
    );
}

fn as_told(table: TableKey, tokens: Option<BTreeSet<i64>>) -> ((String, String), layouts::Told) {
    let told = match tokens {
        None => layouts::Told::Unread,
        Some(tokens) => match tokens.len() > DOUBTS_MAX || tokens.contains(&stored::WHOLE_TABLE) {
            true => layouts::Told::All,
            false => layouts::Told::Tokens(tokens.into_iter().collect()),
        },
    };
    ((table.keyspace, table.table), told)
}

pub(super) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

/// Returns whether all were applied.
async fn write(
    reader: &mut Reader,
    statements: &[String],
    level: Consistency,
) -> Result<bool, ConnError> {
    let mut are_applied = true;
    for statement in statements {
        are_applied &= reader.write(statement, level).await?;
    }
    Ok(are_applied)
}

/// Makes sure that a quorum of each data centre has the catalogue: what replicas lack, they are given with the read.
async fn spread(reader: &mut Reader) -> Result<(), ConnError> {
    let level = reader.level_of_all().await?;
    reader.rows(stored::SELECT, level).await.map(drop)
}

impl Reader {
    /// The partitions of a table that are in doubt, so many at most. A table with derived layouts has a table of these,
    /// whatever a node says that lags behind.
    async fn doubts(
        &mut self,
        table: &TableKey,
        max: usize,
        level: Consistency,
    ) -> Result<BTreeSet<i64>, ConnError> {
        let rows = self.rows(&stored::select_doubts(table, max), level).await?;
        let tokens = rows
            .rows
            .iter()
            .filter_map(|row| rows.bigint(row, "ring_token"));
        Ok(tokens.collect())
    }
}

#[cfg(test)]
mod tests;
