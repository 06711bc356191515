//! The catalogue of layouts: which there are, changed by compare-and-set on a table's version.
//!
//! Proxies read it all the time (crate `proxy`, module `layouts`); what they do in which state is
//! documented there. Whoever changes it waits, before relying on the change, until every proxy has heard
//! of it or writes nothing ([`super::settle`]).

use anyhow::{Result, bail};
use helenus_cql::Name;
use helenus_rows::{TableName, literal};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlTimestamp;

use super::names;
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{Versioned, later_than, place};
use crate::online::keyspace;
use crate::online::noted::Notes;

/// A layout's table is in the keyspace of its own table.
const LAYOUTS: &str = "CREATE TABLE IF NOT EXISTS helenus.layouts (\
    keyspace_name text, table_name text, layout text, version bigint static, \
    distinct_values map<text, bigint> static, rows bigint static, \
    physical text, clustering list<text>, state text, created timestamp, \
    PRIMARY KEY ((keyspace_name, table_name), layout))";
/// A static column that only earlier versions made. They wrote to it where layouts were in place of the replicas of
/// their table, and left it empty where they were further copies.
const MODE: &str = "mode";
/// The ranges that have been copied.
pub(super) const PROGRESS: Notes = Notes {
    name: "layout_progress",
    item: "layout",
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Proxies write it, nobody reads it.
    Writing,
    /// Proxies write it and read it.
    Ready,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Writing => "writing",
            State::Ready => "ready",
        }
    }
}

/// One layout of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub layout: String,
    pub physical: String,
    pub clustering: Vec<String>,
    /// As it is stored, also if it is none that is known here.
    pub state: String,
    /// Names this filling of it, in milliseconds.
    pub created: i64,
}

impl Entry {
    /// Its table, if it is a layout of this one.
    pub(super) fn table(&self, of: &TableName) -> TableName {
        TableName {
            keyspace: of.keyspace.clone(),
            table: Name::from_stored(&*self.physical),
        }
    }

    /// The same, written and not read, under a number that no command has seen yet. Whoever works on it
    /// under an older one notices.
    pub(super) fn begun_anew(&self) -> Entry {
        Entry {
            state: State::Writing.name().to_owned(),
            created: later_than(self.created),
            ..self.clone()
        }
    }
}

/// All layouts of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    /// None if it never had one.
    pub version: Option<i64>,
    pub rows: Option<i64>,
    pub distinct: Vec<(String, i64)>,
    pub entries: Vec<Entry>,
}

impl Partition {
    pub(super) fn entry(&self, layout: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.layout == layout)
    }

    /// Fails if a layout of that name, or with that table, is in it: then its table is not to be dropped.
    pub(super) fn check_free(&self, table: &TableName, layout: &str, physical: &str) -> Result<()> {
        let is_it = |entry: &&Entry| entry.layout == layout || entry.physical == physical;
        match self.entries.iter().find(is_it) {
            None => Ok(()),
            Some(entry) => bail!(
                "{physical} is not dropped: layout {} of {table}, which was created meanwhile, uses it",
                entry.layout
            ),
        }
    }

    /// Fails if one of these is no longer as it was put in: then another command is at work.
    pub(super) fn check_unchanged(&self, table: &TableName, entries: &[Entry]) -> Result<()> {
        let mut ours = entries.iter();
        match ours.find(|entry| self.entry(&entry.layout) != Some(*entry)) {
            None => Ok(()),
            Some(entry) => bail!(
                "layout {} of {table} was changed by somebody else meanwhile: see `helenus layouts status`",
                entry.layout
            ),
        }
    }
}

/// One change of a table's layouts.
pub(super) enum Change<'a> {
    /// Adds or replaces.
    Put(&'a Entry),
    Remove(&'a str),
    /// Statistics of the table's rows.
    Count {
        rows: u64,
        distinct: &'a [(String, u64)],
    },
}

/// Creates keyspace and tables where they are missing.
pub(super) async fn create(
    cluster: &Cluster,
    like: &TableName,
    proxy_roles: &[String],
) -> Result<()> {
    let tables = [LAYOUTS.to_owned(), PROGRESS.create()];
    keyspace::create(cluster, like, proxy_roles, &tables).await
}

pub(super) async fn exists(cluster: &Cluster) -> Result<bool> {
    keyspace::has_all(cluster, &["layouts", PROGRESS.name]).await
}

/// The tables that have, or had, layouts.
pub(super) async fn tables(cluster: &Cluster) -> Result<Vec<TableName>> {
    if !exists(cluster).await? {
        return Ok(Vec::new());
    }
    keyspace::named_in(cluster, "layouts").await
}

/// The table of which this one holds a layout.
pub(crate) async fn original(cluster: &Cluster, name: &TableName) -> Result<Option<TableName>> {
    if !exists(cluster).await? {
        return Ok(None);
    }
    let found: Vec<(String, String, Option<String>)> = cluster
        .rows("SELECT keyspace_name, table_name, physical FROM helenus.layouts")
        .await?;
    let is_it = |(keyspace, _, physical): &(String, String, Option<String>)| {
        *keyspace == *name.keyspace && physical.as_deref() == Some(&*name.table)
    };
    let mut found = found.into_iter();
    let found = found.find(is_it);
    Ok(found.map(|(keyspace, table, ..)| TableName {
        keyspace: Name::from_stored(keyspace),
        table: Name::from_stored(table),
    }))
}

type Row = (
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<std::collections::BTreeMap<String, i64>>,
    Option<String>,
    Option<String>,
    Option<Vec<String>>,
    Option<String>,
    Option<CqlTimestamp>,
);

/// What the catalogue says of a table.
pub(super) enum Found {
    Layouts(Partition),
    Unsupported(Unsupported),
}

/// Layouts that are not further copies of their table: earlier versions made some in place of its replicas.
#[derive(Debug)]
pub(super) struct Unsupported {
    pub mode: String,
    pub layouts: Vec<String>,
}

impl Unsupported {
    /// What is wrong, and what to do about it.
    pub(super) fn told(&self, table: &TableName) -> String {
        let keyspaces = self.layouts.iter().map(|layout| {
            let keyspace = Name::from_stored(names::keyspace_of_replacing(table, layout));
            format!("DROP KEYSPACE IF EXISTS {}; ", keyspace.to_cql())
        });
        format!(
            "the layouts of {table} are in mode `{}`, which is not supported: earlier versions had layouts in place of a \
             table's replicas, and rows may be in these alone. `helenus layouts drop {table} --all` of the version that \
             made them brings the rows back to the table; once it has all of them, this removes the layouts by hand: \
             {}DELETE FROM helenus.layouts WHERE {};",
            self.mode,
            keyspaces.collect::<String>(),
            place(table)
        )
    }
}

/// The layouts of a table, after all changes that were ever agreed on. Fails if they are not supported.
pub(crate) async fn read(cluster: &Cluster, table: &TableName) -> Result<Partition> {
    match find(cluster, table).await? {
        Found::Layouts(partition) => Ok(partition),
        Found::Unsupported(unsupported) => bail!("{}", unsupported.told(table)),
    }
}

/// The same, whatever they are.
pub(super) async fn find(cluster: &Cluster, table: &TableName) -> Result<Found> {
    if !exists(cluster).await? {
        return Ok(Found::Layouts(Partition::default()));
    }
    let columns = keyspace::columns(cluster, "layouts").await?;
    let has_mode = columns.contains(MODE);
    let mut select = Statement::new(format!(
        "SELECT version, {}, rows, distinct_values, layout, physical, clustering, state, created FROM \
         helenus.layouts WHERE {}",
        // In place of the column, if it is not there, another one is asked for.
        if has_mode { MODE } else { "table_name" },
        place(table)
    ));
    select.set_consistency(Consistency::Serial);
    let rows: Vec<Row> = cluster.rows(select).await?;
    let mode = rows.first().and_then(|(_, mode, ..)| mode.clone());
    if let Some(mode) = mode.filter(|_| has_mode).filter(|mode| !is_add(mode)) {
        let layouts = rows
            .into_iter()
            .filter_map(|(_, _, _, _, layout, ..)| layout);
        let layouts = layouts.collect();
        return Ok(Found::Unsupported(Unsupported { mode, layouts }));
    }
    let mut partition = Partition::default();
    for (version, _, rows, distinct, layout, physical, clustering, state, created) in rows {
        partition.version = version;
        partition.rows = rows;
        partition.distinct = distinct.unwrap_or_default().into_iter().collect();
        partition.entries.extend(layout.map(|layout| Entry {
            layout,
            physical: physical.unwrap_or_default(),
            clustering: clustering.unwrap_or_default(),
            state: state.unwrap_or_default(),
            created: created.map_or(0, |created| created.0),
        }));
    }
    Ok(Found::Layouts(partition))
}

/// Of the mode's earlier names, those of what layouts still are.
fn is_add(mode: &str) -> bool {
    ["", "add"].contains(&mode)
}

/// Changes a table's layouts if nobody else has since `known` was read. Fails if somebody has.
pub(super) async fn change(
    cluster: &Cluster,
    table: &TableName,
    known: &Partition,
    changes: &[Change<'_>],
) -> Result<()> {
    let place = Versioned {
        name: "layouts",
        table,
    };
    let statements: Vec<String> = changes
        .iter()
        .map(|change| statement(table, change))
        .collect();
    if place.change(cluster, known.version, &statements).await? {
        return Ok(());
    }
    let new = known.version.map_or(1, |version| version + 1);
    let now = read(cluster, table).await?;
    if now.version == Some(new) && is_done(&now, changes) {
        return Ok(());
    }
    bail!(
        "somebody else changes the layouts of {table} at the same time: look with `helenus layouts status \
         {table}` and run this again"
    )
}

fn is_done(partition: &Partition, changes: &[Change<'_>]) -> bool {
    changes.iter().all(|change| match change {
        Change::Put(entry) => partition.entry(&entry.layout) == Some(entry),
        Change::Remove(layout) => partition.entry(layout).is_none(),
        Change::Count { rows, .. } => partition.rows == i64::try_from(*rows).ok(),
    })
}

fn statement(table: &TableName, change: &Change<'_>) -> String {
    let (keyspace, name) = (literal(&table.keyspace), literal(&table.table));
    match change {
        Change::Put(entry) => {
            let columns = entry.clustering.iter().map(|column| literal(column));
            format!(
                "INSERT INTO helenus.layouts (keyspace_name, table_name, layout, physical, clustering, state, \
                 created) VALUES ({keyspace}, {name}, {}, {}, [{}], {}, {})",
                literal(&entry.layout),
                literal(&entry.physical),
                columns.collect::<Vec<_>>().join(", "),
                literal(&entry.state),
                entry.created
            )
        }
        Change::Remove(layout) => format!(
            "DELETE FROM helenus.layouts WHERE {} AND layout = {}",
            place(table),
            literal(layout)
        ),
        Change::Count { rows, distinct } => {
            let counts = distinct.iter();
            let counts = counts.map(|(column, count)| format!("{}: {count}", literal(column)));
            format!(
                "UPDATE helenus.layouts SET rows = {rows}, distinct_values = {{{}}} WHERE {}",
                counts.collect::<Vec<_>>().join(", "),
                place(table)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_notices_that_another_has_begun() {
        let table: TableName = "shop.orders".parse().expect("a name");
        // The clock of whoever made it was ahead.
        let created = i64::MAX - 5;
        let ready = Entry {
            layout: "a".to_owned(),
            physical: "orders__layout_a".to_owned(),
            clustering: vec!["clerk".to_owned()],
            state: State::Ready.name().to_owned(),
            created,
        };
        let first = ready.begun_anew();
        assert_eq!(first.state, "writing");
        let second = first.begun_anew();
        assert!(created < first.created && first.created < second.created);
        let partition = |entries: &[&Entry]| Partition {
            entries: entries.iter().copied().cloned().collect(),
            ..Partition::default()
        };
        let ours = [first.clone()];
        assert!(partition(&[&first]).check_unchanged(&table, &ours).is_ok());
        let opened = Entry {
            state: State::Ready.name().to_owned(),
            ..first.clone()
        };
        for others in [&[&second][..], &[&opened], &[]] {
            let refused = partition(others).check_unchanged(&table, &ours);
            assert!(refused.is_err(), "{others:?}");
        }
    }

    #[test]
    fn a_table_that_an_entry_names_is_not_free_to_be_dropped() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let partition = Partition {
            entries: vec![Entry {
                layout: "a".to_owned(),
                physical: "orders__layout_a".to_owned(),
                clustering: Vec::new(),
                state: State::Writing.name().to_owned(),
                created: 1,
            }],
            ..Partition::default()
        };
        let check = |layout, physical| partition.check_free(&table, layout, physical);
        assert!(check("a", "orders__layout_a").is_err());
        assert!(check("a", "another").is_err());
        assert!(check("b", "orders__layout_a").is_err());
        assert!(check("b", "orders__layout_b").is_ok());
    }

    #[test]
    fn layouts_in_place_of_replicas_are_told_with_what_removes_them() {
        let table: TableName = "shop.\"Orders\"".parse().expect("a name");
        let unsupported = Unsupported {
            mode: "replacing".to_owned(),
            layouts: vec!["a".to_owned(), "b".to_owned()],
        };
        let told = unsupported.told(&table);
        let by_hand = "DROP KEYSPACE IF EXISTS \"shop__Orders__a\"; DROP KEYSPACE IF EXISTS \"shop__Orders__b\"; \
                       DELETE FROM helenus.layouts WHERE keyspace_name = 'shop' AND table_name = 'Orders';";
        assert!(told.ends_with(by_hand), "{told}");
        assert!(told.contains("`replacing`"), "{told}");
    }
}
