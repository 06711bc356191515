//! Proxies that would not understand encoded columns.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use helenus_proxy::{DRIVER_NAME, VERSION_ENCODES};

use crate::nodes::cluster::Cluster;

/// Address, driver and its version.
type Client = (IpAddr, Option<String>, Option<String>);

/// The addresses of proxies without `payload.enabled`, as the nodes list their clients.
async fn without_payload(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for node in cluster.nodes() {
        let clients: Result<Vec<Client>> = cluster
            .rows_of(
                &node,
                "SELECT address, driver_name, driver_version FROM system_views.clients",
            )
            .await;
        let clients = clients.with_context(|| {
            format!(
                "{} does not tell its clients, among which there may be proxies without payload.enabled: give \
                 the role SELECT on system_views.clients",
                cluster.address(&node)
            )
        })?;
        let blind = clients
            .into_iter()
            .filter(|(_, name, version)| is_blind(name.as_deref(), version.as_deref()));
        found.extend(blind.map(|(address, ..)| address.to_string()));
    }
    Ok(found)
}

fn is_blind(driver: Option<&str>, version: Option<&str>) -> bool {
    driver == Some(DRIVER_NAME) && !version.is_some_and(|of| of.ends_with(VERSION_ENCODES))
}

/// Fails if there are any.
pub(super) async fn check(cluster: &Cluster) -> Result<()> {
    let blind = without_payload(cluster).await?;
    if blind.is_empty() {
        return Ok(());
    }
    let addresses: Vec<String> = blind.into_iter().collect();
    bail!(
        "a proxy on {} runs without payload.enabled: its clients would read nulls in place of encoded values. Set \
         payload.enabled = true and restart it, on every proxy of the cluster",
        addresses.join(" and on ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_tell_whether_they_understand_encoded_columns() {
        assert!(is_blind(Some("Helenus"), Some("0.1.0")));
        assert!(is_blind(Some("Helenus"), None));
        assert!(!is_blind(Some("Helenus"), Some("0.1.0+payload")));
        assert!(!is_blind(Some("DataStax Python Driver"), Some("3.29")));
        assert!(!is_blind(None, None));
    }
}
