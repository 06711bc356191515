//! Who owns which part of the ring, as the nodes themselves say it, and which start of each node that is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use helenus_layout::insync::Ranges;
use helenus_policy::ring::{NodeSpec, Replication, Ring};
use helenus_policy::token::{Partitioner, Token};
use scylla::value::CqlValue;

use super::super::lists::uuid_text;
use crate::online::cluster::Cluster;

/// Attempts to hear from all nodes which of their starts run.
const ATTEMPTS: usize = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// A node with its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RingNode {
    pub host: String,
    pub data_center: String,
    pub tokens: BTreeSet<i64>,
}

/// Ranges by the host ids of their owners, in the order of the copies.
pub(super) type Groups = BTreeMap<Vec<String>, Ranges>;

/// All nodes, in order. Fails if they do not say the same: a node is joining or leaving.
pub(super) async fn read(cluster: &Cluster) -> Result<Vec<RingNode>> {
    type Row = (Option<CqlValue>, Option<String>, Option<BTreeSet<String>>);
    let mut agreed: Option<Vec<RingNode>> = None;
    for node in cluster.nodes() {
        let mut found = Vec::new();
        for table in ["local", "peers"] {
            let select = format!("SELECT host_id, data_center, tokens FROM system.{table}");
            let rows: Vec<Row> = cluster.rows_of(&node, &select).await?;
            for (host, data_center, tokens) in rows {
                let tokens = tokens.unwrap_or_default();
                let parsed = tokens.iter().map(|token| token.parse().ok());
                let parsed: Option<BTreeSet<i64>> = parsed.collect();
                found.push(RingNode {
                    host: host.as_ref().map(uuid_text).unwrap_or_default(),
                    data_center: data_center.unwrap_or_default(),
                    tokens: parsed
                        .context("a node has tokens that are not those of Murmur3Partitioner")?,
                });
            }
        }
        found.sort_unstable();
        let agrees = agreed.as_ref().is_none_or(|agreed| *agreed == found);
        let is_whole = found
            .iter()
            .all(|node| !node.host.is_empty() && !node.tokens.is_empty());
        if !agrees || !is_whole {
            bail!(
                "the nodes do not agree on who owns which part of the ring: wait until no node is joining, leaving \
                 or being replaced (nodetool status, nodetool describecluster)"
            );
        }
        agreed = Some(found);
    }
    agreed.context("no node is known")
}

/// The ranges of the ring by their owners, one of each of these data centers.
pub(super) fn groups(nodes: &[RingNode], data_centers: &[String]) -> Result<Groups> {
    let specs: Vec<NodeSpec> = nodes
        .iter()
        .map(|node| NodeSpec {
            dc: node.data_center.clone(),
            rack: String::new(),
            tokens: node.tokens.iter().copied().map(Token::Murmur3).collect(),
        })
        .collect();
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let sets = data_centers.iter().map(|data_center| {
        let one = BTreeMap::from([(data_center.clone(), 1)]);
        ring.replica_sets(&Replication::NetworkTopology(one))
    });
    let sets: Vec<_> = sets.collect();
    let mut groups: BTreeMap<Vec<String>, Vec<(i64, i64)>> = BTreeMap::new();
    for slot in 0..ring.len() {
        let owners = sets.iter().zip(data_centers).map(|(sets, data_center)| {
            let owner = match sets.of_slot(slot) {
                [owner] => nodes.get(owner.as_usize()),
                _ => None,
            };
            let owner = owner.map(|node| node.host.clone());
            owner.with_context(|| {
                format!("data center {data_center} does not have one replica of each partition")
            })
        });
        let bounds = ring.start_token(slot).zip(ring.end_token(slot));
        let Some((Token::Murmur3(after), Token::Murmur3(end))) = bounds else {
            bail!("the partitioner is not Murmur3Partitioner");
        };
        let ranges = groups.entry(owners.collect::<Result<_>>()?).or_default();
        // One that goes over the end of the ring is two.
        match after < end {
            true => ranges.push((after, end)),
            false => ranges.extend([(after, i64::MAX), (i64::MIN, end)]),
        }
    }
    let groups = groups.into_iter();
    Ok(groups
        .map(|(owners, ranges)| (owners, Ranges::new(ranges)))
        .collect())
}

/// Which start of each node answers, by host id.
pub(super) async fn boots(cluster: &Cluster) -> Result<BTreeMap<String, i32>> {
    let mut boots = BTreeMap::new();
    for node in cluster.nodes() {
        let rows: Vec<(Option<CqlValue>, Option<i32>)> = cluster
            .rows_of(&node, "SELECT host_id, gossip_generation FROM system.local")
            .await?;
        for (host, boot) in rows {
            let host = host.as_ref().map(uuid_text).unwrap_or_default();
            let boot = boot.with_context(|| {
                format!(
                    "{} does not tell when it was started",
                    cluster.address(&node)
                )
            })?;
            boots.insert(host, boot);
        }
    }
    Ok(boots)
}

/// Which starts of nodes run, as they were read once.
#[derive(Clone, Debug)]
pub(in crate::layouts_cmd) struct Started(BTreeMap<String, i32>);

impl Started {
    pub(super) async fn read(cluster: &Cluster) -> Result<Started> {
        Ok(Started(boots(cluster).await?))
    }

    /// Fails if another one runs by now: what was read since may lack what was acknowledged before.
    pub(in crate::layouts_cmd) async fn check(&self, cluster: &Cluster) -> Result<()> {
        let mut attempts = 1;
        loop {
            match boots(cluster).await {
                Ok(now) => return self.check_same(&now),
                // A busy node is asked again, as for rows.
                Err(error) if attempts == ATTEMPTS => return Err(error),
                Err(_) => attempts += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn check_same(&self, now: &BTreeMap<String, i32>) -> Result<()> {
        match self.0 == *now {
            true => Ok(()),
            false => bail!(
                "a node was restarted meanwhile, or has come or gone, and may have lost what others have: run this again"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_restarted_or_is_gone_is_not_what_was_started() {
        let boots = |of: &[(&str, i32)]| -> BTreeMap<String, i32> {
            of.iter()
                .map(|(host, boot)| ((*host).to_owned(), *boot))
                .collect()
        };
        let started = Started(boots(&[("a", 7), ("b", 7)]));
        started
            .check_same(&boots(&[("a", 7), ("b", 7)]))
            .expect("the same");
        for other in [
            &[("a", 7), ("b", 8)][..],
            &[("a", 7)],
            &[("a", 7), ("b", 7), ("c", 9)],
        ] {
            assert!(started.check_same(&boots(other)).is_err(), "{other:?}");
        }
    }

    fn node(host: &str, data_center: &str, tokens: &[i64]) -> RingNode {
        RingNode {
            host: host.to_owned(),
            data_center: data_center.to_owned(),
            tokens: tokens.iter().copied().collect(),
        }
    }

    #[test]
    fn a_group_for_all_parts_of_the_ring_with_the_same_owners() {
        let nodes = [
            node("a", "dc1", &[0, 200]),
            node("b", "dc1", &[100]),
            node("c", "dc2", &[50]),
            node("d", "dc2", &[150]),
            node("e", "dc3", &[75]),
        ];
        let of = |data_centers: &[&str]| {
            let names: Vec<String> = data_centers.iter().map(|dc| (*dc).to_owned()).collect();
            groups(&nodes, &names)
        };
        let found = of(&["dc1", "dc2"]).expect("groups");
        let owners: Vec<String> = found.keys().map(|owners| owners.concat()).collect();
        assert_eq!(owners, ["ac", "ad", "bc", "bd"]);
        let ranges = |owners: &[&str]| {
            let owners: Vec<String> = owners.iter().map(|owner| (*owner).to_owned()).collect();
            found[&owners].clone()
        };
        assert_eq!(ranges(&["b", "d"]), Ranges::new([(50, 100)]));
        let around = [(150, 200), (200, i64::MAX), (i64::MIN, 0), (0, 0)];
        assert_eq!(ranges(&["a", "c"]), Ranges::new(around));
        // In the order of the copies.
        let found = of(&["dc3", "dc1"]).expect("groups");
        let owners: Vec<String> = found.keys().map(|owners| owners.concat()).collect();
        assert_eq!(owners, ["ea", "eb"]);
        assert!(of(&["dc1", "elsewhere"]).is_err());
    }
}
