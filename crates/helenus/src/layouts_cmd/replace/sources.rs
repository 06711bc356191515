//! From which copy rows are brought back to the table.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use helenus_rows::{TableName, literal};

use super::super::catalogue::{Entry, Partition, State};
use super::super::lists::CopiesRow;
use super::{described, in_sync_everywhere, nodes};
use crate::online::cluster::Cluster;
use crate::online::table;

/// Fails unless all nodes are up.
pub(super) async fn check_nodes(cluster: &Cluster, name: &TableName) -> Result<()> {
    let away = cluster.away().await;
    if !away.is_empty() {
        bail!(
            "{} cannot be reached, and each row is written to all replicas of {name}: wait until all nodes are up",
            away.join(", ")
        );
    }
    Ok(())
}

/// Fails if reads of the table do not write back what some replicas lack. A write at ALL that fails may be on one of them,
/// and a read at ALL shows it like one that all have: only if that read repairs it, enough replicas have it for QUORUM.
pub(super) async fn check_read_repair(cluster: &Cluster, name: &TableName) -> Result<()> {
    let rows: Vec<(Option<String>,)> = cluster
        .rows(format!(
            "SELECT read_repair FROM system_schema.tables WHERE keyspace_name = {} AND table_name = {}",
            literal(&name.keyspace),
            literal(&name.table)
        ))
        .await?;
    let of = rows.into_iter().next().and_then(|row| row.0);
    check_repairs(name, of.as_deref())
}

/// A table without the option has the default. Before Cassandra 4.0 there is no such column, and asking for it fails.
fn check_repairs(name: &TableName, read_repair: Option<&str>) -> Result<()> {
    match read_repair {
        Some(of) if !of.eq_ignore_ascii_case("BLOCKING") => bail!(
            "{name} has read_repair = '{of}', so rows that come back to some of its replicas only would not be found: \
             ALTER TABLE {} WITH read_repair = 'BLOCKING', past the proxies, and run this again. It can be set back when \
             the layouts are dropped",
            name.to_cql()
        ),
        _ => Ok(()),
    }
}

/// Which starts of nodes the lists are about.
pub(super) fn listed_boots(lists: &[CopiesRow]) -> BTreeMap<String, i32> {
    let mut boots = BTreeMap::new();
    for row in lists {
        let Ok(list) = &row.list else { continue };
        for (number, owner) in row.owners.iter().enumerate() {
            if let Ok(boot) = i32::try_from(list.boot(number)) {
                let of = boots.entry(owner.clone()).or_insert(boot);
                // Of two starts, what was acknowledged by the earlier one may be lost.
                *of = (*of).min(boot);
            }
        }
    }
    boots
}

/// The first of these copies all of whose nodes still run as they did when they had all that was acknowledged, or that
/// which is asked for.
pub(super) async fn source<'a>(
    cluster: &Cluster,
    (name, known): (&TableName, &'a Partition),
    (sources, boots, from): (&[usize], &BTreeMap<String, i32>, Option<&str>),
    ring: &[nodes::RingNode],
) -> Result<&'a Entry> {
    let sources = candidates(name, known, sources, from)?;
    if let (Some(_), [entry]) = (from, &*sources) {
        return Ok(entry);
    }
    if let Some(entry) = sound(cluster, name, (&sources, boots), ring).await? {
        return Ok(entry);
    }
    let all = sources.iter().map(|entry| described(entry, name));
    bail!(
        "no copy of {name} is in sync in all ranges with nodes that have not been restarted since (in sync: {}). While \
         clients use the copies, wait until `helenus layouts status {name}` shows one: proxies find a restart by a write \
         to each of its ranges. Otherwise `helenus layouts drop {name} --all --from LAYOUT` takes one of those in sync: \
         what its nodes had acknowledged in the 10 s before they ended may be lost, if they did not end properly",
        match all.len() {
            0 => "none".to_owned(),
            _ => all.collect::<Vec<_>>().join(", "),
        }
    )
}

/// A copy that is in sync in all ranges, with nodes that have not been restarted since; not this one. None if there is
/// none: ranges may have different ones.
pub(super) async fn other<'a>(
    cluster: &Cluster,
    (name, known): (&TableName, &'a Partition),
    but: usize,
    lists: &[CopiesRow],
) -> Result<Option<&'a Entry>> {
    let mut numbers = in_sync_everywhere(lists, known.entries.len());
    numbers.retain(|number| *number != but);
    let sources = candidates(name, known, &numbers, None)?;
    let ring = nodes::read(cluster).await?;
    sound(cluster, name, (&sources, &listed_boots(lists)), &ring).await
}

/// The first of these copies all of whose nodes still run as the lists know them.
async fn sound<'a>(
    cluster: &Cluster,
    name: &TableName,
    (sources, boots): (&[&'a Entry], &BTreeMap<String, i32>),
    ring: &[nodes::RingNode],
) -> Result<Option<&'a Entry>> {
    let now = nodes::boots(cluster).await?;
    for entry in sources {
        let keyspace = entry.table(name).keyspace;
        let (replication, _) = table::find_keyspace(cluster, &keyspace)
            .await?
            .with_context(|| format!("there is no keyspace {keyspace}"))?;
        let mut owners = ring
            .iter()
            .filter(|node| replication.contains_key(&node.data_center));
        let is_sound = owners.all(|node| {
            let boot = boots.get(&node.host);
            boot.is_some() && boot == now.get(&node.host)
        });
        if is_sound {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// The copies that may be taken, those first that are read; only one if it is asked for.
fn candidates<'a>(
    name: &TableName,
    known: &'a Partition,
    sources: &[usize],
    from: Option<&str>,
) -> Result<Vec<&'a Entry>> {
    let of = sources
        .iter()
        .filter_map(|number| known.entries.get(*number));
    let mut of: Vec<&Entry> = of.collect();
    // A `rebuild` that has only begun has changed nothing of what is in sync.
    of.sort_by_key(|entry| entry.state != State::Ready.name());
    if let Some(from) = from {
        of.retain(|entry| entry.layout == from);
        if of.is_empty() {
            bail!(
                "no copy {from} of {name} is, or was, in sync in all ranges: it does not have all rows"
            );
        }
    }
    Ok(of)
}

#[cfg(test)]
mod tests {
    use super::super::tests::entry;
    use super::*;

    #[test]
    fn rows_do_not_come_back_to_a_table_whose_reads_repair_nothing() {
        let name: TableName = "shop.orders".parse().expect("a name");
        check_repairs(&name, Some("BLOCKING")).expect("it does");
        check_repairs(&name, None).expect("by default");
        let told = check_repairs(&name, Some("NONE")).expect_err("it does not");
        let command = "ALTER TABLE shop.orders WITH read_repair = 'BLOCKING'";
        assert!(told.to_string().contains(command), "{told}");
    }

    #[test]
    fn rows_come_from_copies_that_had_all_of_them() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let known = Partition {
            entries: vec![
                entry("a", State::Writing, 1),
                entry("b", State::Ready, 1),
                entry("c", State::Ready, 1),
            ],
            ..Partition::default()
        };
        let of = |sources: &[usize], from: Option<&str>| -> Option<Vec<String>> {
            let found = candidates(&name, &known, sources, from).ok()?;
            Some(found.iter().map(|entry| entry.layout.clone()).collect())
        };
        let names = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect());
        assert_eq!(
            of(&[0, 1], None),
            names(&["b", "a"]),
            "what is read comes first"
        );
        assert_eq!(of(&[0, 1], Some("a")), names(&["a"]));
        assert_eq!(of(&[0, 1], Some("c")), None, "it lacks some");
        assert_eq!(of(&[7], None), names(&[]));
    }
}
