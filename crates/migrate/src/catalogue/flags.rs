//! Flags (`helenus_catalogue::Flag`): types of the keyspace `helenus`, which each node has for itself.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use helenus_catalogue::change::Change;
use helenus_catalogue::{Feature, Flag, LayoutState, SELECT_FLAGS, Written};
use helenus_rows::TableName;

use super::entries::{self, Known};
use crate::nodes::cluster::Cluster;

/// Looks at a node that does not have a flag yet.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) async fn of_one_node(cluster: &Cluster) -> Result<BTreeSet<Flag>> {
    let names: Vec<(String,)> = cluster.rows(SELECT_FLAGS).await?;
    Ok(parsed(&names))
}

fn parsed(names: &[(String,)]) -> BTreeSet<Flag> {
    names
        .iter()
        .filter_map(|(name,)| Flag::parse(name))
        .collect()
}

/// Makes sure that every node has the flag of a table that the catalogue names. What the catalogue says of the
/// table may be relied on only afterwards.
///
/// # Errors
/// A node is down, or does not tell, and no earlier command can have asked it.
pub(crate) async fn raise(cluster: &Cluster, table: &TableName, feature: Feature) -> Result<()> {
    let known = entries::read_with_losses(cluster, table).await?;
    let Some(number) = known.flag(feature) else {
        bail!("{}", dropped_meanwhile(table, feature));
    };
    let flag = Flag {
        feature,
        table: entries::key(table),
        number,
    };
    cluster.run(&flag.create()).await?;
    cluster.agree().await?;
    for node in cluster.nodes() {
        let mut looks = 1..LOOKS;
        loop {
            let told: Result<Vec<(String,)>> = cluster.rows_of(&node, SELECT_FLAGS).await;
            let why = match told {
                Ok(names) if parsed(&names).contains(&flag) => break,
                Ok(_) if looks.next().is_some() => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Ok(_) => anyhow!("it has no type \"{flag}\" in the keyspace helenus"),
                Err(_) if was_relied_on(&known, feature) => break,
                Err(why) => why,
            };
            let address = cluster.address(&node);
            return Err(why.context(format!(
                "{address} does not tell that {table} depends on the catalogue, which every node must know first: run this \
                 again when all nodes are up"
            )));
        }
    }
    let now = entries::read_with_losses(cluster, table).await?;
    if now.flag(feature) != Some(number) {
        // Without what the catalogue said, it would be taken for lost.
        cluster.run(&flag.drop()).await?;
        bail!("{}", dropped_meanwhile(table, feature));
    }
    drop_up_to(cluster, table, feature, number - 1).await
}

fn dropped_meanwhile(table: &TableName, feature: Feature) -> String {
    match feature {
        Feature::Layouts => format!(
            "another command has dropped the layouts of {table} meanwhile: look with `helenus layouts status {table}`, and \
             run this again if they are wanted"
        ),
        Feature::Encodings => format!(
            "another command has taken back the encoded columns of {table} meanwhile: look with `helenus payload status \
             {table}`, and run this again if they are wanted"
        ),
    }
}

/// True if the flag was everywhere when an earlier command went on.
fn was_relied_on(known: &Known, feature: Feature) -> bool {
    match feature {
        Feature::Layouts => {
            let mut layouts = known.layouts().iter();
            layouts.any(|layout| layout.state() == Some(LayoutState::Ready))
        }
        Feature::Encodings => {
            let mut columns = known.encodings().iter();
            columns.any(|column| column.written() != Some(Written::Announced))
        }
    }
}

/// Drops the flags of a table up to a number.
async fn drop_up_to(
    cluster: &Cluster,
    table: &TableName,
    feature: Feature,
    number: i64,
) -> Result<()> {
    let key = entries::key(table);
    let flags = of_one_node(cluster).await?;
    let is_it =
        |flag: &&Flag| flag.feature == feature && flag.table == key && flag.number <= number;
    let mut any = false;
    for flag in flags.iter().filter(is_it) {
        cluster.run(&flag.drop()).await?;
        any = true;
    }
    match any {
        true => cluster.agree().await,
        false => Ok(()),
    }
}

/// Takes away the flag of a table without items, with those that its catalogue has `lost`, and then what the catalogue
/// still says of it. Returns whether there was anything.
pub(crate) async fn lower(
    cluster: &Cluster,
    table: &TableName,
    feature: Feature,
    lost: &BTreeSet<Flag>,
) -> Result<bool> {
    let known = entries::read_with_losses(cluster, table).await?;
    if known.has_any(feature) {
        return Ok(false);
    }
    let key = entries::key(table);
    let is_it = |flag: &&Flag| flag.feature == feature && flag.table == key;
    let mut lost = lost.iter().filter(is_it).peekable();
    let has_lost = lost.peek().is_some();
    for flag in lost {
        cluster.run(&flag.drop()).await?;
    }
    if has_lost {
        cluster.agree().await?;
    }
    let Some(number) = known.flag(feature) else {
        return Ok(has_lost);
    };
    drop_up_to(cluster, table, feature, number).await?;
    // If somebody has begun anew, with a flag of a greater number, that is left.
    entries::try_change(cluster, table, &known, &[Change::End(feature)]).await?;
    Ok(true)
}
