//! The nodes behind an endpoint, as far as they run on this machine.

use anyhow::{Result, bail};
use helenus_cluster::{Cluster, NodeStatus, cluster_dir};
use helenus_load::client::endpoint::Endpoint;
use helenus_load::process::Watched;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A node of `helenus cluster`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LocalNode {
    pub(super) number: u16,
    pub(super) address: SocketAddr,
    /// Data centre.
    pub(super) dc: String,
    pub(super) pid: Option<u32>,
}

impl LocalNode {
    fn of(status: &NodeStatus) -> Self {
        Self {
            number: status.node,
            address: status.address,
            dc: status.dc.clone(),
            pid: status.pid,
        }
    }

    pub(super) fn watched(&self) -> Option<Watched> {
        Some(Watched::new(format!("node {}", self.number), self.pid?))
    }
}

/// A cluster of `helenus cluster`.
#[derive(Clone, Debug)]
pub(super) struct LocalCluster {
    pub(super) dir: PathBuf,
    pub(super) nodes: Vec<LocalNode>,
}

impl LocalCluster {
    fn at(dir: PathBuf) -> Result<Self> {
        let status = Cluster::status_of(&dir)?;
        let nodes = status.nodes.iter().map(LocalNode::of).collect();
        Ok(Self { dir, nodes })
    }
}

/// The cluster that is named, or the default one if the endpoint is one of its nodes.
pub(super) fn local(
    name: Option<&str>,
    dir: Option<&Path>,
    endpoint: &Endpoint,
) -> Result<Option<LocalCluster>> {
    let named = match (name, dir) {
        (Some(name), _) => Some(cluster_dir(name)?),
        (None, dir) => dir.map(Path::to_path_buf),
    };
    if let Some(dir) = named {
        let cluster = LocalCluster::at(dir)?;
        if cluster.nodes.iter().all(|node| node.pid.is_none()) {
            bail!(
                "no node of the cluster in {} is running",
                cluster.dir.display()
            );
        }
        return Ok(Some(cluster));
    }
    // Without a cluster of that name, there is nothing to look at.
    let found = cluster_dir("default").ok();
    let found = found.and_then(|dir| LocalCluster::at(dir).ok());
    Ok(found.filter(|cluster| leads_to(&endpoint.contact_points, &cluster.nodes)))
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
            dc: "dc1".to_owned(),
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
