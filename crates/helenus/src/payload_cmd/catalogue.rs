//! The catalogue of encoded columns, changed by compare-and-set on a table's version.
//!
//! Proxies read it all the time (crate `proxy`, module `catalogue`); what they do in which state is
//! documented in the engine (`encodings`).

use anyhow::{Result, bail};
use helenus_proxy::Written;
use helenus_rows::{TableName, literal};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlTimestamp;

use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{Versioned, later_than, now_ms, place};
use crate::online::keyspace;
use crate::online::noted::{Notes, Task};

const ENCODINGS: &str = "CREATE TABLE IF NOT EXISTS helenus.encodings (\
    keyspace_name text, table_name text, column_name text, version bigint static, \
    hidden text, state text, codec text, dictionary int, goal text, created timestamp, \
    PRIMARY KEY ((keyspace_name, table_name), column_name))";
const DICTIONARIES: &str = "CREATE TABLE IF NOT EXISTS helenus.dictionaries (\
    keyspace_name text, table_name text, id int, column_name text, codec text, learned blob, \
    created timestamp, PRIMARY KEY ((keyspace_name, table_name), id))";
/// The ranges whose values have been moved.
pub(super) const PROGRESS: Notes = Notes {
    name: "encoding_progress",
    item: "column_name",
};

/// Where a column is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Encoded,
    /// As if it had never been encoded.
    Text,
}

impl Goal {
    pub(super) fn name(self) -> &'static str {
        match self {
            Goal::Encoded => "encoded",
            Goal::Text => "text",
        }
    }
}

/// An encoded column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub column: String,
    pub hidden: String,
    /// As it is stored, also if it is none that is known here.
    pub state: String,
    pub codec: String,
    pub dictionary: Option<i32>,
    pub goal: String,
    /// Names this attempt to get there, in milliseconds.
    pub created: i64,
}

impl Entry {
    pub(super) fn announced(column: &str, hidden: &str) -> Entry {
        Entry {
            column: column.to_owned(),
            hidden: hidden.to_owned(),
            state: Written::Announced.name().to_owned(),
            goal: Goal::Encoded.name().to_owned(),
            created: now_ms(),
            ..Entry::default()
        }
    }

    pub(super) fn written(&self) -> Option<Written> {
        Written::of_name(&self.state)
    }

    pub(super) fn is_to_be(&self, goal: Goal) -> bool {
        self.goal == goal.name()
    }

    /// The same under a number that no command has seen yet. Whoever works on it under an older one notices.
    pub(super) fn begun_anew(&self, goal: Goal) -> Entry {
        Entry {
            goal: goal.name().to_owned(),
            created: later_than(self.created),
            ..self.clone()
        }
    }

    /// What is noted of the moving of its values.
    pub(super) fn task<'a>(&'a self, table: &'a TableName) -> Task<'a> {
        Task {
            notes: PROGRESS,
            table,
            item: &self.column,
            created: self.created,
        }
    }
}

/// All encoded columns of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    /// None if it never had one.
    pub version: Option<i64>,
    pub entries: Vec<Entry>,
}

impl Partition {
    pub(super) fn entry(&self, column: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.column == column)
    }

    /// Fails if it is no longer as it was put in: then another command is at work.
    pub(super) fn check_unchanged(&self, table: &TableName, entry: &Entry) -> Result<()> {
        match self.entry(&entry.column) == Some(entry) {
            true => Ok(()),
            false => bail!(
                "column {} of {table} was changed by somebody else meanwhile: look with `helenus payload status \
                 {table}`",
                entry.column
            ),
        }
    }
}

/// Creates keyspace and tables where they are missing.
pub(super) async fn create(
    cluster: &Cluster,
    like: &TableName,
    proxy_roles: &[String],
) -> Result<()> {
    let tables = [
        ENCODINGS.to_owned(),
        DICTIONARIES.to_owned(),
        PROGRESS.create(),
    ];
    keyspace::create(cluster, like, proxy_roles, &tables).await
}

pub(super) async fn exists(cluster: &Cluster) -> Result<bool> {
    keyspace::has_all(cluster, &["encodings", "dictionaries", PROGRESS.name]).await
}

/// The tables that have, or had, encoded columns.
pub(super) async fn tables(cluster: &Cluster) -> Result<Vec<TableName>> {
    if !exists(cluster).await? {
        return Ok(Vec::new());
    }
    keyspace::named_in(cluster, "encodings").await
}

type Row = (
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i32>,
    Option<String>,
    Option<CqlTimestamp>,
);

/// The encoded columns of a table, after all changes that were ever agreed on.
pub(crate) async fn read(cluster: &Cluster, table: &TableName) -> Result<Partition> {
    if !exists(cluster).await? {
        return Ok(Partition::default());
    }
    let mut select = Statement::new(format!(
        "SELECT version, column_name, hidden, state, codec, dictionary, goal, created FROM \
         helenus.encodings WHERE {}",
        place(table)
    ));
    select.set_consistency(Consistency::Serial);
    let rows: Vec<Row> = cluster.rows(select).await?;
    let mut partition = Partition::default();
    for (version, column, hidden, state, codec, dictionary, goal, created) in rows {
        partition.version = version;
        partition.entries.extend(column.map(|column| Entry {
            column,
            hidden: hidden.unwrap_or_default(),
            state: state.unwrap_or_default(),
            codec: codec.unwrap_or_default(),
            dictionary,
            goal: goal.unwrap_or_default(),
            created: created.map_or(0, |created| created.0),
        }));
    }
    Ok(partition)
}

/// Adds or replaces an entry if nobody else has changed one of the table's since `known` was read.
pub(super) async fn put(
    cluster: &Cluster,
    table: &TableName,
    known: &Partition,
    entry: &Entry,
) -> Result<()> {
    let dictionary = entry.dictionary.map(|id| id.to_string());
    let insert = format!(
        "INSERT INTO helenus.encodings (keyspace_name, table_name, column_name, hidden, state, codec, \
         dictionary, goal, created) VALUES ({}, {}, {}, {}, {}, {}, {}, {}, {})",
        literal(&table.keyspace),
        literal(&table.table),
        literal(&entry.column),
        literal(&entry.hidden),
        literal(&entry.state),
        literal(&entry.codec),
        dictionary.as_deref().unwrap_or("null"),
        literal(&entry.goal),
        entry.created
    );
    let is_done = |now: &Partition| now.entry(&entry.column) == Some(entry);
    change(cluster, table, known, insert, is_done).await
}

/// The same for taking one out.
pub(super) async fn remove(
    cluster: &Cluster,
    table: &TableName,
    known: &Partition,
    column: &str,
) -> Result<()> {
    let delete = format!(
        "DELETE FROM helenus.encodings WHERE {} AND column_name = {}",
        place(table),
        literal(column)
    );
    let is_done = |now: &Partition| now.entry(column).is_none();
    change(cluster, table, known, delete, is_done).await
}

async fn change(
    cluster: &Cluster,
    table: &TableName,
    known: &Partition,
    statement: String,
    is_done: impl Fn(&Partition) -> bool,
) -> Result<()> {
    let versioned = Versioned {
        name: "encodings",
        table,
    };
    if versioned
        .change(cluster, known.version, &[statement])
        .await?
    {
        return Ok(());
    }
    let now = read(cluster, table).await?;
    if now.version == Some(known.version.map_or(1, |version| version + 1)) && is_done(&now) {
        return Ok(());
    }
    bail!(
        "somebody else changes the encoded columns of {table} at the same time: look with `helenus payload \
         status {table}` and run this again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_notices_that_another_has_begun() {
        let table: TableName = "shop.users".parse().expect("a name");
        let mut first = Entry::announced("profile", "profile__encoded");
        // The clock of whoever made it was ahead.
        first.created = i64::MAX - 5;
        let second = first.begun_anew(Goal::Text);
        assert!(second.created > first.created);
        assert!(second.is_to_be(Goal::Text) && !second.is_to_be(Goal::Encoded));
        let partition = |entries: &[&Entry]| Partition {
            entries: entries.iter().copied().cloned().collect(),
            ..Partition::default()
        };
        assert!(partition(&[&first]).check_unchanged(&table, &first).is_ok());
        for others in [&[&second][..], &[]] {
            let refused = partition(others).check_unchanged(&table, &first);
            assert!(refused.is_err(), "{others:?}");
        }
    }

    #[test]
    fn states_and_goals_are_known_by_their_names() {
        let entry = Entry::announced("a", "b");
        assert_eq!(entry.written(), Some(Written::Announced));
        for state in Written::ALL {
            assert_eq!(Written::of_name(state.name()), Some(state));
        }
        assert_eq!(Entry::default().written(), None);
    }
}
