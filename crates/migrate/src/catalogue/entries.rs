//! Entries of the catalogue (`helenus_catalogue`), as commands read and change them.
//!
//! All tables share one version, but a command is only in the way of another that works on the same table: whoever
//! loses a compare-and-set against a change of another table tries again.
//!
//! Whoever changes the catalogue waits, before relying on the change, until every proxy has heard of it or does
//! nothing ([`super::settle`]).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use helenus_catalogue::change::{self, Change};
use helenus_catalogue::stored::{self, EARLIER, Stored, is_earlier};
use helenus_catalogue::{Catalogue, Encoding, Feature, Layout, OfTable, TableKey};
use helenus_cql::Name;
use helenus_rows::TableName;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;

use super::keyspace;
use super::noted::Notes;
use crate::nodes::cluster::Cluster;

/// Compare-and-sets that lose against changes of other tables, or whose outcome is unknown.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(300);

/// The catalogue's entries of a table when they were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Of the whole catalogue.
    version: i64,
    pub(crate) of: OfTable,
}

impl Known {
    #[cfg(test)]
    pub(crate) fn of(of: OfTable) -> Known {
        Known { version: 1, of }
    }

    pub fn layouts(&self) -> &[Layout] {
        let layouts = self.of.layouts.as_ref();
        layouts.map_or(&[], |of| of.layouts.as_slice())
    }

    pub fn layout(&self, name: &str) -> Option<&Layout> {
        self.layouts().iter().find(|layout| layout.name == name)
    }

    pub fn encodings(&self) -> &[Encoding] {
        let encodings = self.of.encodings.as_ref();
        encodings.map_or(&[], |of| of.columns.as_slice())
    }

    pub fn encoding(&self, column: &str) -> Option<&Encoding> {
        self.encodings().iter().find(|of| of.column == column)
    }

    /// The number of the table's flag.
    pub(crate) fn flag(&self, feature: Feature) -> Option<i64> {
        match feature {
            Feature::Layouts => self.of.layouts.as_ref().map(|of| of.flag),
            Feature::Encodings => self.of.encodings.as_ref().map(|of| of.flag),
        }
    }

    pub(crate) fn has_any(&self, feature: Feature) -> bool {
        match feature {
            Feature::Layouts => !self.layouts().is_empty(),
            Feature::Encodings => !self.encodings().is_empty(),
        }
    }

    /// Nothing was ever put into the catalogue, or all of it is lost.
    pub(crate) fn is_blank(&self) -> bool {
        self.version == 0
    }

    /// Makes sure that proxies of each data center can see what was read here.
    pub(crate) async fn spread(&self, cluster: &Cluster) -> Result<()> {
        match self.is_blank() {
            true => Ok(()),
            false => keyspace::spread(cluster, stored::SELECT).await,
        }
    }

    /// True if all of these changes can be seen.
    fn shows(&self, changes: &[Change<'_>]) -> bool {
        changes.iter().all(|change| match change {
            Change::Begin(feature, number) => self.flag(*feature) == Some(*number),
            Change::End(feature) => self.flag(*feature).is_none(),
            Change::PutLayout(layout) => self.layout(&layout.name) == Some(layout),
            Change::RemoveLayout(name) => self.layout(name).is_none(),
            Change::PutEncoding(encoding) => self.encoding(&encoding.column) == Some(encoding),
            Change::RemoveEncoding(column) => self.encoding(column).is_none(),
            Change::Count { rows, .. } => {
                let counted = self.of.layouts.as_ref().and_then(|of| of.rows);
                counted == i64::try_from(*rows).ok()
            }
        })
    }
}

/// As the catalogue names a table.
pub(crate) fn key(table: &TableName) -> TableKey {
    TableKey::new(&table.keyspace, &table.table)
}

pub(crate) fn name(table: &TableKey) -> TableName {
    TableName {
        keyspace: Name::from_stored(&*table.keyspace),
        table: Name::from_stored(&*table.table),
    }
}

/// What the keyspace has to have, beside the catalogue itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    Layouts { progress: Notes, are_derived: bool },
    Encodings { progress: Notes },
}

/// Creates the keyspace, replicated as that of the table `like`, and what is needed in it, where that is missing.
pub(crate) async fn create(
    cluster: &Cluster,
    like: &TableName,
    proxy_roles: &[String],
    needs: Needs,
) -> Result<()> {
    let (progress, more): (_, &[&str]) = match needs {
        Needs::Layouts {
            progress,
            are_derived: true,
        } => (progress, &[stored::CREATE_DOUBTS, stored::CREATE_SWEEPS]),
        Needs::Layouts { progress, .. } => (progress, &[]),
        Needs::Encodings { progress } => (progress, &[stored::CREATE_DICTIONARIES]),
    };
    let mut tables = vec![stored::CREATE.to_owned(), progress.create()];
    tables.extend(more.iter().map(|create| (*create).to_owned()));
    // Of what they have missed, or doubt.
    let written: &[&str] = match needs {
        Needs::Layouts { are_derived, .. } if are_derived => {
            &["catalogue", "layout_doubts", "layout_sweeps"]
        }
        _ => &[],
    };
    keyspace::create(cluster, like, proxy_roles, &tables, written).await?;
    match needs {
        Needs::Layouts { are_derived, .. } if are_derived => shorten_grace(cluster).await,
        _ => Ok(()),
    }
}

/// The table of partitions in doubt may be of an earlier version.
async fn shorten_grace(cluster: &Cluster) -> Result<()> {
    let found: Vec<(i32,)> = cluster.rows(stored::SELECT_DOUBTS_GRACE).await?;
    match found.iter().all(|of| of.0 == stored::DOUBTS_GRACE_S) {
        true => Ok(()),
        false => cluster.run(stored::ALTER_DOUBTS).await,
    }
}

type Row = (
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<BTreeMap<String, i64>>,
    Option<String>,
    Option<Vec<String>>,
    Option<String>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<i32>,
    Option<String>,
);

fn stored_of(row: Row) -> Stored {
    let (version, keyspace, table, kind, item, flag, rows, distinct, ..) = &row;
    let mut stored = Stored {
        version: *version,
        keyspace: keyspace.clone(),
        table: table.clone(),
        kind: kind.clone(),
        item: item.clone(),
        flag: *flag,
        rows: *rows,
        distinct: distinct.clone().unwrap_or_default().into_iter().collect(),
        ..Stored::default()
    };
    let (.., physical, clustering, state, created, hidden, codec, dictionary, goal) = row;
    stored.physical = physical;
    stored.clustering = clustering.unwrap_or_default();
    stored.state = state;
    stored.created = created;
    stored.hidden = hidden;
    stored.codec = codec;
    stored.dictionary = dictionary;
    stored.goal = goal;
    stored
}

/// All of it, after all changes that were ever agreed on; empty if there is none.
pub(crate) async fn read_all(cluster: &Cluster) -> Result<Catalogue> {
    let tables = keyspace::tables(cluster).await?;
    ensure!(!is_earlier(tables.iter().map(String::as_str)), EARLIER);
    if !tables.contains("catalogue") {
        return Ok(Catalogue::default());
    }
    let mut select = Statement::new(stored::SELECT);
    select.set_consistency(Consistency::Serial);
    let rows: Vec<Row> = cluster.rows(select).await?;
    Ok(Catalogue::of_rows(
        rows.into_iter().map(stored_of).collect(),
    ))
}

/// The entries of one table, also if some are lost.
pub(crate) async fn read_with_losses(cluster: &Cluster, table: &TableName) -> Result<Known> {
    let mut catalogue = read_all(cluster).await?;
    Ok(Known {
        version: catalogue.version,
        of: catalogue.tables.remove(&key(table)).unwrap_or_default(),
    })
}

/// All tables with layouts.
pub(crate) async fn entries_of_all(cluster: &Cluster) -> Result<Vec<(TableKey, Vec<Layout>)>> {
    let catalogue = read_all(cluster).await?;
    let tables = catalogue.tables.into_iter().filter_map(|(table, of)| {
        let layouts = of.layouts?.layouts;
        Some((table, layouts))
    });
    Ok(tables.collect())
}

/// The table of which this one holds a layout.
pub(crate) async fn original(cluster: &Cluster, copy: &TableName) -> Result<Option<TableName>> {
    let catalogue = read_all(cluster).await?;
    let is_it = |(table, of): &(&TableKey, &OfTable)| {
        let layouts = of.layouts.as_ref().map(|of| &of.layouts);
        let mut layouts = layouts.into_iter().flatten();
        layouts.any(|layout| {
            layout.keyspace_in(table) == &*copy.keyspace && layout.physical == *copy.table
        })
    };
    let mut tables = catalogue.tables.iter();
    Ok(tables.find(is_it).map(|(table, _)| name(table)))
}

/// Changes what it says of a table: puts in that it has any layouts, or encoded columns, before the first one.
///
/// # Errors
/// Somebody else has changed that since `known` was read.
pub(crate) async fn change(
    cluster: &Cluster,
    table: &TableName,
    known: &Known,
    changes: &[Change<'_>],
) -> Result<()> {
    let Some(feature) = changes.first().map(feature_of) else {
        return Ok(());
    };
    let mut all = Vec::new();
    if !known.has_any(feature) {
        let before = known.flag(feature).unwrap_or_default();
        all.push(Change::Begin(feature, later_than(before)));
    }
    all.extend(changes);
    if try_change(cluster, table, known, &all).await? {
        return Ok(());
    }
    match feature {
        Feature::Layouts => bail!(
            "somebody else changes the layouts of {table} at the same time: look with `helenus layouts status {table}` \
             and run this again"
        ),
        Feature::Encodings => bail!(
            "somebody else changes the encoded columns of {table} at the same time: look with `helenus payload status \
             {table}` and run this again"
        ),
    }
}

fn feature_of(change: &Change<'_>) -> Feature {
    match change {
        Change::Begin(feature, _) | Change::End(feature) => *feature,
        Change::PutLayout(_) | Change::RemoveLayout(_) | Change::Count { .. } => Feature::Layouts,
        Change::PutEncoding(_) | Change::RemoveEncoding(_) => Feature::Encodings,
    }
}

/// Carries out just these changes; false if somebody else has changed what it says of the table.
pub(crate) async fn try_change(
    cluster: &Cluster,
    table: &TableName,
    known: &Known,
    changes: &[Change<'_>],
) -> Result<bool> {
    let mut version = known.version;
    // An attempt may have been carried out, or be carried out by whoever comes next.
    let mut is_uncertain = false;
    for _ in 0..ATTEMPTS {
        let batch = change::batch(version, later_than(version), &key(table), changes);
        let failed = match cluster.is_applied(&batch).await {
            Ok(true) => return settled(cluster).await,
            Ok(false) => None,
            Err(error) => {
                is_uncertain = true;
                Some(error)
            }
        };
        let now = read_with_losses(cluster, table).await;
        let now = now.with_context(|| match &failed {
            Some(error) => format!("the catalogue could not be changed: {error}"),
            None => "the catalogue could not be changed".to_owned(),
        })?;
        if now.of != known.of {
            return match is_uncertain && now.shows(changes) {
                true => settled(cluster).await,
                false => Ok(false),
            };
        }
        version = now.version;
        tokio::time::sleep(PAUSE).await;
    }
    bail!(
        "the catalogue could not be changed, because others change it all the time: run this again"
    )
}

async fn settled(cluster: &Cluster) -> Result<bool> {
    keyspace::spread(cluster, stored::SELECT).await?;
    Ok(true)
}

pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as i64)
}

/// A number for an attempt, a flag or a version that nobody has seen yet.
pub(crate) fn later_than(before: i64) -> i64 {
    now_ms().max(before.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use helenus_catalogue::Layouts;

    use super::*;

    #[test]
    fn what_was_changed_is_recognized() {
        let layout = Layout {
            name: "a".to_owned(),
            keyspace: None,
            physical: "orders__layout_a".to_owned(),
            created: 7,
            ..Layout::default()
        };
        let put = [
            Change::Begin(Feature::Layouts, 5),
            Change::PutLayout(&layout),
        ];
        let known = |flag: i64, layouts: &[&Layout]| Known {
            version: 3,
            of: OfTable {
                layouts: Some(Layouts {
                    flag,
                    layouts: layouts.iter().copied().cloned().collect(),
                    ..Layouts::default()
                }),
                encodings: None,
            },
        };
        assert!(known(5, &[&layout]).shows(&put));
        assert!(!known(6, &[&layout]).shows(&put), "another has begun");
        let other = Layout {
            created: 8,
            ..layout.clone()
        };
        assert!(!known(5, &[&other]).shows(&put));
        assert!(!Known::default().shows(&put));
        let remove = [Change::RemoveLayout("a"), Change::End(Feature::Layouts)];
        assert!(!known(5, &[]).shows(&remove));
        assert!(Known::default().shows(&remove));
    }

    #[test]
    fn a_table_is_begun_once() {
        let mut known = Known::default();
        assert!(!known.has_any(Feature::Layouts));
        assert_eq!(known.flag(Feature::Layouts), None);
        known.of.layouts = Some(Layouts {
            flag: i64::MAX - 5,
            ..Layouts::default()
        });
        assert!(!known.has_any(Feature::Layouts), "they were dropped");
        let number = known.flag(Feature::Layouts).map(later_than);
        assert_eq!(
            number,
            Some(i64::MAX - 4),
            "the clock of whoever made it was ahead"
        );
    }
}
