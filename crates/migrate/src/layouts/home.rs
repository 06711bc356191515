//! Where layouts are held: in their table's keyspace, or, if they are *derived*, in one of their own.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use helenus_catalogue::{KEYSPACE, Layout, LayoutState};
use helenus_cql::{Name, fold_identifier};
use helenus_rows::TableName;

use super::create::request::Wanted;
use super::names::{self, NAME_MAX};
use super::replication::Replication;
use crate::catalogue::{Known, now_ms, read_all};
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// What is said of where layouts are to be held.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// Makes them derived.
    pub replication: Option<Replication>,
    pub keyspace: Option<Name>,
}

/// The name of a keyspace, as in CQL: upper case counts between quotation marks only.
pub(super) fn parse_keyspace(text: &str) -> Result<Name> {
    let name = fold_identifier(text);
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_good) {
        bail!("{text:?} cannot be a keyspace's name: use letters, digits and underscores");
    }
    check_length(&name)?;
    Ok(name)
}

fn check_length(keyspace: &Name) -> Result<()> {
    if keyspace.len() > NAME_MAX {
        bail!(
            "the keyspace of the layouts would be named {keyspace}, which is longer than Cassandra's {NAME_MAX} \
             characters: choose a shorter name with --keyspace"
        );
    }
    Ok(())
}

/// The layouts that are wanted, as entries of the catalogue, which may have some of them already.
pub(super) fn entries(
    wanted: &[Wanted],
    said: &Said,
    table: &TableName,
    known: &Known,
) -> Result<Vec<Layout>> {
    let created = now_ms();
    let entry = |layout: &Wanted| {
        let before = known.layout(&layout.name);
        Ok(Layout {
            name: layout.name.clone(),
            keyspace: keyspace_of(layout, before, said, table, known)?,
            physical: names::physical(&table.table, &layout.name)?,
            clustering: layout.clustering.clone(),
            state: LayoutState::Writing.name().to_owned(),
            created,
        })
    };
    wanted.iter().map(entry).collect()
}

/// The keyspace of a layout that is derived.
fn keyspace_of(
    layout: &Wanted,
    before: Option<&Layout>,
    said: &Said,
    table: &TableName,
    known: &Known,
) -> Result<Option<String>> {
    let has_derived = known.layouts().iter().any(Layout::is_derived);
    let name = &layout.name;
    if said.replication.is_none() {
        return match before {
            Some(before) => Ok(before.keyspace.clone()),
            None if has_derived => bail!(
                "the layouts of {table} are derived, and a table's layouts are all of one kind: say with --replication \
                 how the keyspace of layout {name} is replicated, or drop the others first (helenus layouts drop \
                 {table} --all)"
            ),
            None => Ok(None),
        };
    }
    if !has_derived && !known.layouts().is_empty() {
        bail!(
            "the layouts of {table} are held in its own keyspace, and a table's layouts are all of one kind: leave \
             --replication out, or drop them first (helenus layouts drop {table} --all)"
        );
    }
    let before = before.and_then(|before| before.keyspace.as_deref());
    let keyspace = match (before, &said.keyspace) {
        (Some(before), Some(said)) if *before != **said => bail!(
            "layout {name} of {table} is held in the keyspace {before}, not in {said}: leave --keyspace out, or drop the \
             layout first"
        ),
        (Some(before), _) => Name::from_stored(before),
        (None, Some(said)) => said.clone(),
        (None, None) => names::derived_keyspace(&table.keyspace),
    };
    check_keyspace(&keyspace, table)?;
    Ok(Some(keyspace.to_string()))
}

/// Refuses keyspaces in which layouts would be something else.
fn check_keyspace(keyspace: &Name, table: &TableName) -> Result<()> {
    check_length(keyspace)?;
    if *keyspace == table.keyspace {
        bail!(
            "{keyspace} is the keyspace of {table} itself, and derived layouts are held in another: leave --replication \
             and --keyspace out for layouts in it, or choose another with --keyspace"
        );
    }
    if &**keyspace == KEYSPACE || &**keyspace == "system" || keyspace.starts_with("system_") {
        bail!("{keyspace} is not a keyspace for tables of layouts: choose another with --keyspace");
    }
    Ok(())
}

/// Whether a keyspace is another than that of some tables, and all of its tables hold layouts of those, or are `new` ones: then
/// a right on that keyspace is one on this.
pub(super) async fn holds_nothing_else(
    cluster: &Cluster,
    of: &Name,
    keyspace: &Name,
    new: &[TableName],
) -> Result<bool> {
    if keyspace == of {
        return Ok(false);
    }
    let catalogue = read_all(cluster).await?;
    let own = catalogue
        .tables
        .iter()
        .filter(|(table, _)| table.keyspace == **of);
    let layouts = own.flat_map(|(table, of)| {
        let layouts = of.layouts.iter().flat_map(|of| &of.layouts);
        let held = layouts.filter(|layout| layout.keyspace_in(table) == &**keyspace);
        held.map(|layout| layout.physical.as_str())
    });
    let new = new.iter().filter(|of| of.keyspace == *keyspace);
    let known: BTreeSet<&str> = layouts.chain(new.map(|of| &*of.table)).collect();
    let names = table::names(cluster, keyspace).await?;
    Ok(names.iter().all(|name| known.contains(name.as_str())))
}

/// Refuses a keyspace that holds layouts of tables of another one: who may read that one as a whole would read these.
pub(super) async fn refuse_shared(
    cluster: &Cluster,
    keyspace: &Name,
    table: &TableName,
) -> Result<()> {
    let catalogue = read_all(cluster).await?;
    let held = catalogue.tables.iter().find(|(of, entries)| {
        let layouts = entries.layouts.iter().flat_map(|of| &of.layouts);
        let mut derived = layouts.filter(|layout| layout.is_derived());
        of.keyspace != *table.keyspace
            && derived.any(|layout| layout.keyspace_in(of) == &**keyspace)
    });
    match held {
        Some((of, _)) => bail!(
            "{keyspace} holds layouts of {}.{}, whose keyspace has rights of its own: choose another with --keyspace",
            of.keyspace,
            of.table
        ),
        None => Ok(()),
    }
}

/// Checks that the keyspace of derived layouts is there and replicated as was said, or that it can be made. Returns
/// the statement that makes it.
pub(super) async fn missing(
    cluster: &Cluster,
    keyspace: &Name,
    replication: Option<&Replication>,
) -> Result<Option<String>> {
    if !table::keyspace_exists(cluster, keyspace).await? {
        let Some(replication) = replication else {
            bail!(
                "there is no keyspace {keyspace} any more, which held layouts: say with --replication how it is to be \
                 replicated, and it is made anew"
            );
        };
        return Ok(Some(format!(
            "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {replication} AND durable_writes = true",
            keyspace.to_cql()
        )));
    }
    let options = table::replication_options(cluster, keyspace).await?;
    if let Some(wanted) = replication.filter(|of| !of.is_of(&options, &cluster.data_centers())) {
        bail!(
            "the keyspace {keyspace} is there, and replicated as {}, not as {wanted}: choose another with --keyspace",
            table::replication(cluster, keyspace).await?
        );
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::create::request;
    use crate::layouts::replication;
    use crate::layouts::testing;

    fn said(keyspace: Option<&str>) -> Said {
        let map = "{'class': 'NetworkTopologyStrategy', 'dc1': 1}";
        Said {
            replication: Some(replication::parse(map).expect("a map")),
            keyspace: keyspace.map(|name| parse_keyspace(name).expect("a name")),
        }
    }

    /// The keyspaces of the layouts a and b, where the catalogue has a layout a, in that one, or none.
    fn keyspaces(said: &Said, known: Option<Option<&str>>) -> Result<Vec<Option<String>>> {
        let table: TableName = "shop.orders".parse().expect("a name");
        let before = known.map(|keyspace| Layout {
            name: "a".to_owned(),
            keyspace: keyspace.map(str::to_owned),
            physical: "orders__layout_a".to_owned(),
            ..Layout::default()
        });
        let known = testing::known(&before.iter().collect::<Vec<_>>());
        let wanted = ["a=x,y", "b=y,x"].map(|text| request::parse(text).expect(text));
        let entries = entries(&wanted, said, &table, &known)?;
        let keyspaces = entries.into_iter().map(|entry| entry.keyspace);
        Ok(keyspaces.collect())
    }

    #[test]
    fn layouts_are_derived_if_their_replication_is_said() {
        let none = Said::default();
        let own = vec![None, None];
        let by_default = |name: &str| Some(name.to_owned());
        for (said, known, expected) in [
            (&none, None, own.clone()),
            (&none, Some(None), own),
            (&said(None), None, vec![by_default("shop__layouts"); 2]),
            (&said(Some("far")), None, vec![by_default("far"); 2]),
            (
                &said(Some("far")),
                Some(Some("far")),
                vec![by_default("far"); 2],
            ),
            (
                &said(None),
                Some(Some("far")),
                vec![by_default("far"), by_default("shop__layouts")],
            ),
        ] {
            assert_eq!(keyspaces(said, known).expect("they can be made"), expected);
        }
    }

    #[test]
    fn an_entry_says_where_its_layout_is_held() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let before = Layout {
            name: "a".to_owned(),
            keyspace: Some("far".to_owned()),
            ..Layout::default()
        };
        let known = testing::known(&[&before]);
        let wanted = [request::parse("a=x,y").expect("a layout")];
        let again = entries(&wanted, &Said::default(), &table, &known).expect("it goes on");
        assert_eq!(again[0].keyspace.as_deref(), Some("far"));
    }

    #[test]
    fn a_table_has_layouts_of_one_kind() {
        for (said, known, why) in [
            (said(None), Some(None), "leave --replication out"),
            (Said::default(), Some(Some("far")), "say with --replication"),
            (
                said(Some("near")),
                Some(Some("far")),
                "leave --keyspace out",
            ),
        ] {
            let refused = keyspaces(&said, known).expect_err(why).to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn not_every_keyspace_can_hold_layouts() {
        for name in ["shop", "helenus", "system", "system_auth"] {
            let refused = keyspaces(&said(Some(name)), None).expect_err(name);
            assert!(refused.to_string().contains("--keyspace"), "{refused}");
        }
        assert_eq!(&*parse_keyspace("Far").expect("a name"), "far");
        assert_eq!(&*parse_keyspace("\"Far\"").expect("a name"), "Far");
        for name in ["", "a-b", "a.b", "é", &"k".repeat(49)] {
            assert!(parse_keyspace(name).is_err(), "{name}");
        }
        let table: TableName = format!("{}.orders", "k".repeat(40))
            .parse()
            .expect("a name");
        let refused = entries(
            &[request::parse("a=x,y").expect("a layout")],
            &said(None),
            &table,
            &testing::known(&[]),
        );
        let refused = refused.expect_err("too long").to_string();
        assert!(
            refused.contains("shorter name with --keyspace"),
            "{refused}"
        );
    }
}
