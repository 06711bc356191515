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

use super::lists;
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{Versioned, later_than, place};
use crate::online::keyspace;
use crate::online::noted::Notes;

/// A layout's table is in the keyspace of its own table, or, in mode `replace`, in `physical_keyspace`. In that mode
/// copies have numbers in the order of the layouts' names.
const LAYOUTS: &str = "CREATE TABLE IF NOT EXISTS helenus.layouts (\
    keyspace_name text, table_name text, layout text, version bigint static, mode text static, \
    distinct_values map<text, bigint> static, rows bigint static, \
    physical text, physical_keyspace text, clustering list<text>, state text, created timestamp, \
    PRIMARY KEY ((keyspace_name, table_name), layout))";
/// Columns that earlier versions do not have.
const ADDED: [(&str, &str); 2] = [("mode", "text static"), ("physical_keyspace", "text")];
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

/// What layouts are to their table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Further copies of it.
    Add,
    /// They are being made in place of its replicas: for proxies the table has none.
    Replacing,
    /// In place of its replicas: proxies write and read them alone, by the lists of copies.
    Replace,
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Add => "add",
            Mode::Replacing => "replacing",
            Mode::Replace => "replace",
        }
    }
}

/// One layout of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub layout: String,
    pub physical: String,
    /// That of its table, in mode `replace`; otherwise it is that of the table itself.
    pub keyspace: Option<String>,
    pub clustering: Vec<String>,
    /// As it is stored, also if it is none that is known here.
    pub state: String,
    /// Names this filling of it, in milliseconds.
    pub created: i64,
}

impl Entry {
    /// Its table, if it is a layout of this one.
    pub(super) fn table(&self, of: &TableName) -> TableName {
        let keyspace = self.keyspace.as_deref();
        TableName {
            keyspace: keyspace.map_or_else(|| of.keyspace.clone(), Name::from_stored),
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
    /// As it is stored; `add` if nothing is.
    pub mode: Option<String>,
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

    /// Fails if it is one that this version does not know.
    pub(super) fn mode(&self, table: &TableName) -> Result<Mode> {
        match self.mode.as_deref() {
            None | Some("" | "add") => Ok(Mode::Add),
            Some("replacing") => Ok(Mode::Replacing),
            Some("replace") => Ok(Mode::Replace),
            Some(mode) => bail!(
                "the layouts of {table} are in mode {mode:?}, which this version does not know: use the version \
                 of helenus that has made them"
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
    /// What all of its layouts are to the table; none: what those are that have nothing said of them.
    Mode(Option<Mode>),
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
    let mut tables = vec![LAYOUTS.to_owned(), PROGRESS.create()];
    tables.extend(lists::create());
    keyspace::create(cluster, like, proxy_roles, (&tables, &lists::CHANGED)).await?;
    // One of an earlier version lacks some.
    keyspace::add_columns(cluster, "layouts", &ADDED).await?;
    keyspace::add_columns(cluster, "copies", &lists::ADDED).await
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
    type Row = (String, String, Option<String>, Option<String>);
    let [_, elsewhere] = added(cluster).await?;
    let found: Vec<Row> = cluster
        .rows(format!(
            "SELECT keyspace_name, table_name, physical, {} FROM helenus.layouts",
            if elsewhere {
                "physical_keyspace"
            } else {
                "physical"
            }
        ))
        .await?;
    let is_it = |(keyspace, _, physical, of_copy): &Row| {
        let of_copy = of_copy.as_deref().filter(|_| elsewhere);
        *of_copy.unwrap_or(keyspace) == *name.keyspace && physical.as_deref() == Some(&*name.table)
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
    Option<String>,
    Option<Vec<String>>,
    Option<String>,
    Option<CqlTimestamp>,
);

/// Which of the [`ADDED`] columns there are.
async fn added(cluster: &Cluster) -> Result<[bool; 2]> {
    let columns = keyspace::columns(cluster, "layouts").await?;
    Ok(ADDED.map(|(name, _)| columns.contains(name)))
}

/// The layouts of a table, after all changes that were ever agreed on.
pub(crate) async fn read(cluster: &Cluster, table: &TableName) -> Result<Partition> {
    if !exists(cluster).await? {
        return Ok(Partition::default());
    }
    let [has_mode, elsewhere] = added(cluster).await?;
    // In place of a column that is not there, another one is asked for.
    let column = |name, is_there| if is_there { name } else { "table_name" };
    let mut select = Statement::new(format!(
        "SELECT version, {}, rows, distinct_values, layout, physical, {}, clustering, state, created FROM \
         helenus.layouts WHERE {}",
        column("mode", has_mode),
        column("physical_keyspace", elsewhere),
        place(table)
    ));
    select.set_consistency(Consistency::Serial);
    let rows: Vec<Row> = cluster.rows(select).await?;
    let mut partition = Partition::default();
    for (version, mode, rows, distinct, layout, physical, keyspace, clustering, state, created) in
        rows
    {
        partition.version = version;
        partition.mode = mode.filter(|_| has_mode);
        partition.rows = rows;
        partition.distinct = distinct.unwrap_or_default().into_iter().collect();
        partition.entries.extend(layout.map(|layout| Entry {
            layout,
            physical: physical.unwrap_or_default(),
            keyspace: keyspace.filter(|_| elsewhere),
            clustering: clustering.unwrap_or_default(),
            state: state.unwrap_or_default(),
            created: created.map_or(0, |created| created.0),
        }));
    }
    Ok(partition)
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
        Change::Mode(mode) => partition.mode.as_deref() == mode.map(Mode::name),
        Change::Count { rows, .. } => partition.rows == i64::try_from(*rows).ok(),
    })
}

fn statement(table: &TableName, change: &Change<'_>) -> String {
    let (keyspace, name) = (literal(&table.keyspace), literal(&table.table));
    match change {
        Change::Put(entry) => {
            let columns = entry.clustering.iter().map(|column| literal(column));
            format!(
                "INSERT INTO helenus.layouts (keyspace_name, table_name, layout, physical, {}clustering, \
                 state, created) VALUES ({keyspace}, {name}, {}, {}, {}[{}], {}, {})",
                entry
                    .keyspace
                    .as_ref()
                    .map_or("", |_| "physical_keyspace, "),
                literal(&entry.layout),
                literal(&entry.physical),
                entry
                    .keyspace
                    .as_ref()
                    .map_or_else(String::new, |keyspace| format!("{}, ", literal(keyspace))),
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
        Change::Mode(mode) => {
            let mode = mode.map_or_else(|| "null".to_owned(), |mode| literal(mode.name()));
            format!(
                "UPDATE helenus.layouts SET mode = {mode} WHERE {}",
                place(table)
            )
        }
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
            keyspace: None,
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
                keyspace: None,
                clustering: Vec::new(),
                state: State::Writing.name().to_owned(),
                created: 1,
            }],
            ..Partition::default()
        };
        let modes = [
            None,
            Some("add"),
            Some("replace"),
            Some("replacing"),
            Some("other"),
        ];
        let known = modes.map(|mode| {
            let mode = mode.map(str::to_owned);
            let entries = Vec::new();
            let partition = Partition {
                mode,
                entries,
                ..Partition::default()
            };
            partition.mode(&table).ok()
        });
        let add = Some(Mode::Add);
        let (replace, replacing) = (Some(Mode::Replace), Some(Mode::Replacing));
        assert_eq!(known, [add, add, replace, replacing, None]);
        let check = |layout, physical| partition.check_free(&table, layout, physical);
        assert!(check("a", "orders__layout_a").is_err());
        assert!(check("a", "another").is_err());
        assert!(check("b", "orders__layout_a").is_err());
        assert!(check("b", "orders__layout_b").is_ok());
    }
}
