//! Layouts in place of a table's replicas (mode `replace`): no row stays in the table itself, and each layout is a full
//! copy with one replica, in a keyspace of its own in one data center.
//!
//! ```text
//!  mode in helenus.layouts   stage in helenus.copies   in sync in the lists       clients
//!  replacing                 filling                   no lists                   use the table
//!  replacing, then replace   joining                   the table, then copies     use the table
//!  replace                   open                      copies                     use the copies; the table is emptied
//!  replace                   in use                    copies                     use the copies
//!  replace                   returning                 copies, then the table     use the copies, then the table
//!  replace, then none        closing                   the table                  use the table
//!  add, or none              none                      no lists                   use the table
//!
//!  replace                   filling                   no lists                   wait (without proxies)
//!  replace                   draining                  no lists                   wait (`drop --from`)
//! ```
//!
//! - While the table alone is in sync in all lists, it makes no difference whether a proxy goes by the lists or knows of
//!   none. So the mode changes only then, and lists are made and taken away when no proxy goes by them.
//! - All other changes of hands are those of the lists: members join, are compared by proxies, and are evicted.
//! - The lists and the stage are one partition, which is changed by compare-and-set as a whole.
//! - The stage has the number of the command that is at work. Another one that takes over has another number, and waits
//!   until nothing that the first has sent can arrive any more; the first asks for its number before it writes
//!   ([`claim::Claim`]).
//! - Copies join while the catalogue says that they are ready; the table joins only by a command.
//! - Without lists proxies neither read nor write a table in mode `replace`.

mod age;
pub(super) mod checks;
pub(super) mod claim;
pub(super) mod create;
mod emptied_copies;
mod emptying;
mod joining;
mod making;
pub(super) mod nodes;
mod offline;
mod overtaken;
mod proxies;
pub(super) mod rebuild;
mod refilling;
pub(super) mod remove;
mod returning;
mod ring;
mod sources;
pub(super) mod stage;
pub(super) mod status;
mod switch;
mod taking_out;
pub(super) mod undo;
pub(super) mod verify;
mod waiting;

use anyhow::{Result, bail};
use helenus_cql::Name;
use helenus_rows::{Table, TableName};

use super::catalogue::{self, Change, Entry, Partition};
use crate::online::cluster::Cluster;
use crate::online::table;

/// The numbers of copies that are in sync in all groups of ranges; none if a list cannot be as it is, or there is none.
fn in_sync_everywhere(rows: &[super::lists::CopiesRow], copies: usize) -> Vec<usize> {
    use helenus_layout::insync::State;
    let is_in_sync = |copy: &usize| {
        rows.iter().all(|row| {
            let list = row.list.as_ref();
            list.is_ok_and(|list| list.state(*copy) == State::InSync)
        })
    };
    match rows.is_empty() {
        true => Vec::new(),
        false => (0..copies).filter(is_in_sync).collect(),
    }
}

/// Takes the layouts over under this number: a command that has begun before can no longer change them.
async fn take_over(
    cluster: &Cluster,
    name: &TableName,
    known: &Partition,
    created: i64,
) -> Result<Partition> {
    let now = catalogue::read(cluster, name).await?;
    let entries = renumbered(name, known, &now, created)?;
    let changes: Vec<Change<'_>> = entries.iter().map(Change::Put).collect();
    catalogue::change(cluster, name, &now, &changes).await?;
    let now = catalogue::read(cluster, name).await?;
    now.check_unchanged(name, &entries)?;
    Ok(now)
}

fn renumbered(
    name: &TableName,
    known: &Partition,
    now: &Partition,
    created: i64,
) -> Result<Vec<Entry>> {
    let copy = |entry: &Entry| {
        (
            entry.layout.clone(),
            entry.table(name),
            entry.clustering.clone(),
        )
    };
    if !known
        .entries
        .iter()
        .map(copy)
        .eq(now.entries.iter().map(copy))
    {
        bail!(
            "another command has changed the layouts of {name} meanwhile: see `helenus layouts status {name}`"
        );
    }
    let entries = now.entries.iter().map(|entry| Entry {
        created,
        ..entry.clone()
    });
    Ok(entries.collect())
}

/// Fails if the table is empty and a copy is not: the catalogue may have lost that clients use the copies.
async fn check_has_rows(cluster: &Cluster, name: &TableName, copies: &[TableName]) -> Result<()> {
    if has_rows(cluster, name).await? {
        return Ok(());
    }
    for copy in copies {
        let exists = table::exists(cluster, &copy.keyspace, &copy.table).await?;
        if exists && has_rows(cluster, copy).await? {
            bail!(
                "{name} is empty and {copy} is not, but the catalogue does not say how that has come: was it restored, or \
                 helenus.copies emptied? Nothing is changed. If the copies have the rows, restore the catalogue or copy \
                 them by hand; if they are not needed, drop the copies' keyspaces"
            );
        }
    }
    Ok(())
}

async fn has_rows(cluster: &Cluster, of: &TableName) -> Result<bool> {
    let select = format!("SELECT * FROM {} LIMIT 1", of.to_cql());
    let rows: Vec<scylla::value::Row> = cluster.rows(select).await?;
    Ok(!rows.is_empty())
}

/// Fails if a table that is named like a copy, and is none as far as the catalogue knows, has rows.
async fn check_is_empty(cluster: &Cluster, name: &TableName, copy: &TableName) -> Result<()> {
    if has_rows(cluster, copy).await? {
        bail!(
            "{copy} is named like a copy of {name} and has rows, but the catalogue does not know it: nothing is dropped. \
             If a `drop` that was interrupted has left it, drop its keyspace by hand (DROP KEYSPACE {}); otherwise \
             give it another name",
            copy.keyspace
        );
    }
    Ok(())
}

/// The data centers of the copies, in the order of their numbers.
async fn data_centers(
    cluster: &Cluster,
    name: &TableName,
    entries: &[Entry],
) -> Result<Vec<String>> {
    let mut data_centers = Vec::new();
    for entry in entries {
        let keyspace = entry.table(name).keyspace;
        let found = table::find_keyspace(cluster, &keyspace).await?;
        let (replication, _) = found.unwrap_or_default();
        data_centers.extend(replication.into_keys().filter(|key| key != "class"));
    }
    Ok(data_centers)
}

/// Fails if the table of one of these is no copy of this one.
async fn check_tables(cluster: &Cluster, own: &Table, entries: &[Entry]) -> Result<()> {
    for entry in entries {
        let name = entry.table(&own.name);
        let found = table::load(cluster, &name).await?;
        checks::check_copy(own, &found, &entry.clustering)?;
    }
    Ok(())
}

/// Fails if a column of one of these has a mask: proxies might read other values than are stored, and do not compare them.
async fn check_masks(cluster: &Cluster, own: &Table, entries: &[Entry]) -> Result<()> {
    let copies = entries.iter().map(|entry| entry.table(&own.name));
    for name in [own.name.clone()].into_iter().chain(copies) {
        let of = Table {
            name: name.clone(),
            ..own.clone()
        };
        if let Some(column) = table::masked(&of, cluster).await?.first() {
            bail!(
                "column {column} of {name} is masked, and proxies do not compare what they may read in another form: drop \
                 the mask (ALTER TABLE {} ALTER {} DROP MASKED), past the proxies, and run this again",
                name.to_cql(),
                Name::from_stored(column.as_str()).to_cql()
            );
        }
    }
    Ok(())
}

/// What a message calls one of the copies.
fn described(entry: &Entry, of: &TableName) -> String {
    format!("{} ({})", entry.layout, entry.table(of))
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::State;
    use super::*;

    /// A layout of `shop.orders`.
    pub(super) fn entry(layout: &str, state: State, created: i64) -> Entry {
        Entry {
            layout: layout.to_owned(),
            physical: "orders".to_owned(),
            keyspace: Some(format!("shop__orders__{layout}")),
            clustering: vec!["day".to_owned()],
            state: state.name().to_owned(),
            created,
        }
    }

    #[test]
    fn layouts_are_taken_over_only_as_they_were() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let entry = |layout, created| entry(layout, State::Writing, created);
        let of = |entries: &[Entry]| Partition {
            entries: entries.to_vec(),
            ..Partition::default()
        };
        let known = of(&[entry("a", 1), entry("b", 1)]);
        // A `rebuild` of one of them has begun since.
        let now = of(&[entry("a", 2), entry("b", 1)]);
        let taken = renumbered(&name, &known, &now, 9).expect("the same layouts");
        assert_eq!(taken, [entry("a", 9), entry("b", 9)]);
        assert!(
            now.check_unchanged(&name, &taken).is_err(),
            "who had them before notices"
        );
        for others in [&[][..], &[entry("a", 1)], &[entry("a", 1), entry("c", 1)]] {
            assert!(
                renumbered(&name, &known, &of(others), 9).is_err(),
                "{others:?}"
            );
        }
    }
}
