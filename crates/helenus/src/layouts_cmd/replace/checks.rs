//! What can have layouts in place of its replicas, and which these are to be.

use anyhow::{Result, bail};
use helenus_cql::Name;
use helenus_layout::insync::COPIES_MAX;
use helenus_rows::{Table, TableName, has_user_type, literal};

use super::super::catalogue::{Entry, Mode, Partition};
use super::super::names;
use super::super::request::Wanted;
use super::nodes::RingNode;
use crate::online::cluster::Cluster;

/// A copy that is to be made. They come in the order of their names, and so have their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewCopy {
    pub name: String,
    pub clustering: Vec<String>,
    pub data_center: String,
    /// Its table, which has the name of the table itself.
    pub table: TableName,
}

/// Refuses what proxies could not keep in sync, with the reason and the way out.
pub(super) async fn check(table: &Table, cluster: &Cluster) -> Result<()> {
    let name = &table.name;
    if let Some(column) = table.untimed() {
        bail!(
            "column {} of {name} is a {}: CQL does not tell when the elements of lists, the fields of user types and, \
             before Cassandra 5.0, the elements of sets and maps that are not frozen were written, so copies could \
             not be compared. Make the column frozen, or use --mode add",
            column.name,
            column.cql_type
        );
    }
    let mut columns = table.keys().chain(table.others());
    if let Some(column) = columns.find(|column| has_user_type(&column.cql_type)) {
        bail!(
            "column {} of {name} has a user's type ({}), which only the keyspace of the table has: use --mode add",
            column.name,
            column.cql_type
        );
    }
    let indexes: Vec<(String,)> = cluster
        .rows(format!(
            "SELECT index_name FROM system_schema.indexes WHERE keyspace_name = {} AND table_name = {}",
            literal(&name.keyspace),
            literal(&name.table)
        ))
        .await?;
    if let Some((index,)) = indexes.first() {
        bail!(
            "{name} has an index, {index}, which copies would not have: drop it, or use --mode add"
        );
    }
    Ok(())
}

/// The copies that are wanted, each in a data center of its own.
pub(super) fn copies(
    table: &Table,
    wanted: &[Wanted],
    data_centers: &[String],
    nodes: &[RingNode],
) -> Result<Vec<NewCopy>> {
    if wanted.len() < 2 || wanted.len() > COPIES_MAX {
        bail!(
            "in mode `replace` a table has 2 to {COPIES_MAX} layouts, because they are its only copies; {} are asked \
             for",
            wanted.len()
        );
    }
    if !data_centers.is_empty() && data_centers.len() != wanted.len() {
        bail!(
            "--data-centers names {} data centers for {} layouts: name one for each, in their order",
            data_centers.len(),
            wanted.len()
        );
    }
    let mut copies: Vec<NewCopy> = Vec::new();
    for (at, layout) in wanted.iter().enumerate() {
        let of_list = data_centers.get(at);
        let data_center = match (&layout.data_center, of_list) {
            (Some(own), Some(other)) if own != other => bail!(
                "layout {} is to be in {own} by --layout and in {other} by --data-centers",
                layout.name
            ),
            (Some(data_center), _) | (None, Some(data_center)) => data_center.clone(),
            (None, None) => bail!(
                "layout {} needs a data center: --layout {}={}@DATACENTER, or --data-centers",
                layout.name,
                layout.name,
                layout.clustering.join(",")
            ),
        };
        if !nodes.iter().any(|node| node.data_center == data_center) {
            let mut known: Vec<&str> = nodes.iter().map(|node| &*node.data_center).collect();
            known.sort_unstable();
            known.dedup();
            bail!(
                "there is no data center {data_center:?}, only {}",
                known.join(", ")
            );
        }
        if let Some(other) = copies.iter().find(|copy| copy.data_center == data_center) {
            bail!(
                "layouts {} and {} are both to be in data center {data_center}: the nodes of a data center have one \
                 copy of a row. Divide the nodes into as many virtual data centers as there are layouts",
                other.name,
                layout.name
            );
        }
        copies.push(NewCopy {
            name: layout.name.clone(),
            clustering: layout.clustering.clone(),
            data_center,
            table: TableName {
                keyspace: Name::from_stored(names::keyspace(&table.name, &layout.name)?),
                table: table.name.table.clone(),
            },
        });
    }
    copies.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(copies)
}

/// What is worth knowing of them.
pub(super) fn remark(table: &Table, copies: &[NewCopy]) -> Option<String> {
    let own = table.clustering.iter().map(|column| &column.name);
    let has_own = copies
        .iter()
        .any(|copy| copy.clustering.iter().eq(own.clone()));
    (!has_own).then(|| {
        format!(
            "none of the layouts has the order of {} itself: statements whose rows cannot be sorted by Helenus (GROUP \
             BY, DISTINCT, JSON, aggregates that depend on the order, more than 5,000 rows) will be refused",
            table.name
        )
    })
}

/// Fails if the catalogue has other layouts of the table than these.
pub(super) fn check_known(known: &Partition, copies: &[NewCopy], table: &TableName) -> Result<()> {
    if known.entries.is_empty() {
        return Ok(());
    }
    if known.mode(table)? == Mode::Add {
        bail!(
            "{table} has layouts beside itself (mode `add`): drop them first (helenus layouts drop {table} --all)"
        );
    }
    let is_it = |(entry, copy): (&Entry, &NewCopy)| {
        entry.layout == copy.name
            && entry.clustering == copy.clustering
            && entry.table(table) == copy.table
    };
    let are_they =
        known.entries.len() == copies.len() && known.entries.iter().zip(copies).all(is_it);
    match are_they {
        true => Ok(()),
        false => bail!(
            "{table} has other layouts in mode `replace` already, or is getting them (helenus layouts status {table}): \
             repeat the command that has begun, or drop them first (helenus layouts drop {table} --all)"
        ),
    }
}

/// Fails if a copy's table is not named as `create` names it. Nothing else is ever emptied or dropped, whatever the
/// catalogue says.
pub(super) fn check_name(of: &TableName, entry: &Entry) -> Result<()> {
    let name = entry.table(of);
    if is_named(of, &entry.layout, &name) {
        return Ok(());
    }
    bail!(
        "the catalogue has {name} as the table of layout {} of {of}, which `create` has not made: it is not touched",
        entry.layout
    )
}

pub(super) fn is_named(of: &TableName, layout: &str, name: &TableName) -> bool {
    let expected = names::keyspace(of, layout);
    expected.is_ok_and(|expected| *name.keyspace == *expected) && name.table == of.table
}

/// Fails if a table is no copy of another one in that order.
pub(super) fn check_copy(own: &Table, found: &Table, clustering: &[String]) -> Result<()> {
    let is_one = own.is_copied_by(found, clustering) && found.lacking(own).next().is_none();
    match is_one {
        true => Ok(()),
        false => bail!(
            "{} exists and does not have the columns of {} in the order ({}): see `helenus layouts status {}`",
            found.name,
            own.name,
            clustering.join(", "),
            own.name
        ),
    }
}

#[cfg(test)]
mod tests {
    use helenus_rows::{Column, Shape};

    use super::super::super::request;
    use super::*;

    fn table() -> Table {
        let column = |name: &str| Column {
            name: name.to_owned(),
            cql_type: "int".to_owned(),
            descending: false,
            shape: Shape::Single,
        };
        Table {
            name: "shop.orders".parse().expect("a name"),
            partition: vec![column("k")],
            clustering: vec![column("a"), column("b")],
            statics: Vec::new(),
            regulars: vec![column("v")],
            default_ttl: 0,
            gc_grace_seconds: 86_400,
            is_odd: false,
        }
    }

    fn nodes() -> Vec<RingNode> {
        let node = |number: i64| RingNode {
            host: number.to_string(),
            data_center: format!("dc{number}"),
            tokens: [number].into(),
        };
        (1..=3).map(node).collect()
    }

    fn of(layouts: &[&str], data_centers: &[&str]) -> Result<Vec<NewCopy>> {
        let wanted: Vec<Wanted> = layouts
            .iter()
            .map(|layout| request::parse(layout).expect(layout))
            .collect();
        let data_centers: Vec<String> = data_centers.iter().map(|dc| (*dc).to_owned()).collect();
        copies(&table(), &wanted, &data_centers, &nodes())
    }

    #[test]
    fn each_copy_has_a_data_center_and_a_keyspace_of_its_own() {
        let found = of(&["z=a,b@dc2", "y=b,a@dc1"], &[]).expect("copies");
        let shown: Vec<(&str, &str, String)> = found
            .iter()
            .map(|copy| (&*copy.name, &*copy.data_center, copy.table.to_string()))
            .collect();
        assert_eq!(
            shown,
            [
                ("y", "dc1", "shop__orders__y.orders".to_owned()),
                ("z", "dc2", "shop__orders__z.orders".to_owned())
            ],
            "in the order of their names"
        );
        assert_eq!(
            found,
            of(&["z=a,b", "y=b,a"], &["dc2", "dc1"]).expect("copies")
        );
        assert_eq!(remark(&table(), &found), None);
        let other = of(&["y=b,a@dc1", "z=b,a@dc2"], &[]).expect("orders are compared elsewhere");
        assert!(remark(&table(), &other).is_some());
    }

    #[test]
    fn what_cannot_be_copies_is_refused_with_the_reason() {
        for (layouts, data_centers, why) in [
            (&["x=a,b@dc1"][..], &[][..], "2 to 5"),
            (&["x=a,b@dc1", "y=b,a"], &[], "needs a data center"),
            (&["x=a,b@dc1", "y=b,a@dc9"], &[], "only dc1, dc2, dc3"),
            (&["x=a,b@dc1", "y=b,a@dc1"], &[], "both to be"),
            (&["x=a,b", "y=b,a"], &["dc1"], "one for each"),
            (
                &["x=a,b@dc1", "y=b,a"],
                &["dc2", "dc3"],
                "by --data-centers",
            ),
        ] {
            let error = of(layouts, data_centers).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn only_the_same_copies_are_gone_on_with() {
        let copies = of(&["x=a,b@dc1", "y=b,a@dc2"], &[]).expect("copies");
        let table: TableName = "shop.orders".parse().expect("a name");
        let entry = |copy: &NewCopy| Entry {
            layout: copy.name.clone(),
            physical: copy.table.table.to_string(),
            keyspace: Some(copy.table.keyspace.to_string()),
            clustering: copy.clustering.clone(),
            state: "ready".to_owned(),
            created: 1,
        };
        let mut known = Partition {
            mode: Some("replacing".to_owned()),
            entries: copies.iter().map(entry).collect(),
            ..Partition::default()
        };
        check_known(&known, &copies, &table).expect("the same");
        for entry in &known.entries {
            check_name(&table, entry).expect("its name");
        }
        known.mode = None;
        let beside = check_known(&known, &copies, &table).expect_err("beside");
        assert!(beside.to_string().contains("mode `add`"), "{beside}");
        known.mode = Some("replace".to_owned());
        known.entries[1].clustering.reverse();
        assert!(check_known(&known, &copies, &table).is_err());
        known.entries[0].physical = "other".to_owned();
        assert!(check_name(&table, &known.entries[0]).is_err());
    }
}
