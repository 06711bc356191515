//! A layout as the catalogue has it.

use anyhow::{Result, bail};
use helenus_catalogue::change::Change;
use helenus_catalogue::{Layout, LayoutState};
use helenus_cql::Name;
use helenus_rows::TableName;

use crate::catalogue::claim::Claim;
use crate::catalogue::noted::Notes;
use crate::catalogue::{self, Known, later_than};
use crate::nodes::cluster::Cluster;

/// The ranges that have been copied.
pub(super) const PROGRESS: Notes = Notes {
    name: "layout_progress",
    item: "layout",
};

/// CQL that creates the table in which commands note how far they have come, where it is missing.
pub fn create_progress() -> String {
    PROGRESS.create()
}

/// The table that holds a layout of this one.
pub(super) fn table_of(layout: &Layout, of: &TableName) -> TableName {
    TableName {
        keyspace: match &layout.keyspace {
            Some(keyspace) => Name::from_stored(keyspace.as_str()),
            None => of.keyspace.clone(),
        },
        table: Name::from_stored(&*layout.physical),
    }
}

/// The tables that hold these layouts.
pub(super) fn tables_of<'a>(
    layouts: impl IntoIterator<Item = &'a Layout>,
    of: &TableName,
) -> Vec<TableName> {
    let layouts = layouts.into_iter();
    layouts.map(|layout| table_of(layout, of)).collect()
}

/// Puts these entries in the place of those that were read.
pub(super) async fn put(
    cluster: &Cluster,
    table: &TableName,
    known: &Known,
    entries: &[Layout],
) -> Result<()> {
    let changes: Vec<Change<'_>> = entries.iter().map(Change::PutLayout).collect();
    catalogue::change(cluster, table, known, &changes).await
}

pub(super) fn in_state(layout: &Layout, state: LayoutState) -> Layout {
    Layout {
        state: state.name().to_owned(),
        ..layout.clone()
    }
}

/// The entry in state `Writing`, under a number that no command has seen yet. Whoever works on it under an older one
/// notices.
pub(super) fn begun_anew(layout: &Layout) -> Layout {
    Layout {
        created: later_than(layout.created),
        ..in_state(layout, LayoutState::Writing)
    }
}

/// Fails if a layout of that name, or held in that table, is in the catalogue: then the table is not to be dropped.
pub(super) fn check_free(
    known: &Known,
    table: &TableName,
    layout: &str,
    held_in: &TableName,
) -> Result<()> {
    let is_it = |of: &&Layout| of.name == layout || table_of(of, table) == *held_in;
    match known.layouts().iter().find(is_it) {
        None => Ok(()),
        Some(of) => bail!(
            "{held_in} is not dropped: layout {} of {table}, which was created meanwhile, uses it",
            of.name
        ),
    }
}

/// Fails if one of these is no longer as it was put in: then another command is at work.
pub(super) fn check_unchanged(known: &Known, table: &TableName, ours: &[Layout]) -> Result<()> {
    let mut ours = ours.iter();
    match ours.find(|layout| known.layout(&layout.name) != Some(*layout)) {
        None => Ok(()),
        Some(layout) => bail!(
            "layout {} of {table} was changed by somebody else meanwhile: see `helenus layouts status`",
            layout.name
        ),
    }
}

/// To these entries, as they were put in.
pub(super) fn claim<'a>(
    cluster: &'a Cluster,
    table: &'a TableName,
    ours: &'a [Layout],
) -> Claim<'a> {
    Claim::new(cluster, table, |known| check_unchanged(known, table, ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::testing::known;

    #[test]
    fn a_command_notices_that_another_has_begun() {
        let table: TableName = "shop.orders".parse().expect("a name");
        // The clock of whoever made it was ahead.
        let created = i64::MAX - 5;
        let ready = Layout {
            name: "a".to_owned(),
            keyspace: None,
            physical: "orders__layout_a".to_owned(),
            clustering: vec!["clerk".to_owned()],
            state: LayoutState::Ready.name().to_owned(),
            created,
        };
        let first = begun_anew(&ready);
        assert_eq!(first.state, "writing");
        let second = begun_anew(&first);
        assert!(created < first.created && first.created < second.created);
        let ours = [first.clone()];
        assert!(check_unchanged(&known(&[&first]), &table, &ours).is_ok());
        let opened = in_state(&first, LayoutState::Ready);
        for others in [&[&second][..], &[&opened], &[]] {
            let refused = check_unchanged(&known(others), &table, &ours);
            assert!(refused.is_err(), "{others:?}");
        }
    }

    #[test]
    fn a_table_that_the_catalogue_names_is_not_free_to_be_dropped() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let layout = Layout {
            name: "a".to_owned(),
            keyspace: None,
            physical: "orders__layout_a".to_owned(),
            ..Layout::default()
        };
        let derived = Layout {
            name: "c".to_owned(),
            keyspace: Some("shop__layouts".to_owned()),
            physical: "orders__layout_c".to_owned(),
            ..Layout::default()
        };
        let known = known(&[&layout, &derived]);
        let check = |layout: &str, held_in: &str| {
            let held_in = held_in.parse().expect("a name");
            check_free(&known, &table, layout, &held_in)
        };
        assert!(check("a", "shop.orders__layout_a").is_err());
        assert!(check("a", "shop.another").is_err());
        assert!(check("b", "shop.orders__layout_a").is_err());
        assert!(check("b", "shop.orders__layout_b").is_ok());
        assert!(check("d", "shop__layouts.orders__layout_c").is_err());
        assert!(
            check("d", "shop.orders__layout_c").is_ok(),
            "the other is held elsewhere"
        );
    }
}
