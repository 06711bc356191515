//! The nodes behind an endpoint, as far as they run on this machine.

use super::options::RampArgs;
use anyhow::{Result, bail};
use helenus_cluster::{Cluster, NodeStatus, cluster_dir};
use helenus_load::endpoint::Endpoint;
use helenus_load::process::Watched;
use std::net::SocketAddr;

/// A node of `helenus cluster`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LocalNode {
    pub(super) number: u16,
    pub(super) address: SocketAddr,
    pub(super) pid: Option<u32>,
}

impl LocalNode {
    fn of(status: &NodeStatus) -> Self {
        Self {
            number: status.node,
            address: status.address,
            pid: status.pid,
        }
    }

    pub(super) fn watched(&self) -> Option<Watched> {
        Some(Watched::new(format!("node {}", self.number), self.pid?))
    }
}

/// The nodes of the cluster that is named, or of the default one if the endpoint is one of them.
pub(super) fn local(args: &RampArgs, endpoint: &Endpoint) -> Result<Vec<LocalNode>> {
    let named = match (&args.cluster, &args.cluster_dir) {
        (Some(name), _) => Some(cluster_dir(name)?),
        (None, dir) => dir.clone(),
    };
    let nodes = |dir: &std::path::Path| -> Result<Vec<LocalNode>> {
        let status = Cluster::status_of(dir)?;
        Ok(status.nodes.iter().map(LocalNode::of).collect())
    };
    if let Some(dir) = named {
        let nodes = nodes(&dir)?;
        if nodes.iter().all(|node| node.pid.is_none()) {
            bail!("no node of the cluster in {} is running", dir.display());
        }
        return Ok(nodes);
    }
    // Without a cluster of that name, there is nothing to look at.
    let found = cluster_dir("default").ok().and_then(|dir| nodes(&dir).ok());
    Ok(found
        .filter(|nodes| leads_to(&endpoint.contact_points, nodes))
        .unwrap_or_default())
}

fn leads_to(contact_points: &[String], nodes: &[LocalNode]) -> bool {
    let addresses = contact_points.iter().filter_map(|text| text.parse().ok());
    addresses
        .into_iter()
        .any(|address: SocketAddr| nodes.iter().any(|node| node.address == address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_recognized_by_the_address_of_any_node() {
        let node = |number: u16| LocalNode {
            number,
            address: SocketAddr::from(([127, 0, 3, number as u8], 9042)),
            pid: Some(7),
        };
        let nodes = [node(1), node(2)];
        let to = |text: &str| leads_to(&[text.to_owned()], &nodes);
        assert!(to("127.0.3.2:9042"));
        assert!(!to("127.0.3.2:9142") && !to("127.0.3.3:9042") && !to("localhost:9042"));
        assert_eq!(
            node(2).watched().map(|watched| watched.name),
            Some("node 2".into())
        );
    }
}
