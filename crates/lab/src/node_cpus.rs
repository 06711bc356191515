//! Limits on the CPU of nodes that this program started, so that clients and proxies on the same machine
//! take none from them.

use anyhow::{Result, ensure};
use helenus_cluster::Cluster;

/// Share of the machine's cores that all capped nodes get together, unless the user decides.
const NODES_SHARE: f64 = 0.6;

/// Cores for each of so many nodes.
pub(crate) fn default_share(nodes: u16) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let each = cores * NODES_SHARE / f64::from(nodes.max(1));
    ((each * 100.0).round() / 100.0).max(0.01)
}

/// Caps every node, or none if one cannot be.
pub(crate) fn cap_all(cluster: &mut Cluster, cores: f64) -> Result<()> {
    let nodes = cluster.nodes();
    for &number in &nodes {
        if let Err(error) = cluster.cpu_cap(number, Some(cores)) {
            for &capped in nodes.iter().take_while(|&&other| other != number) {
                cluster.cpu_cap(capped, None)?;
            }
            return Err(error.into());
        }
    }
    Ok(())
}

pub(crate) fn parse_cores(text: &str) -> Result<f64> {
    let cores: f64 = text.parse()?;
    ensure!((0.01..=1024.0).contains(&cores), "from 0.01 to 1024 cores");
    Ok(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_leave_cores_to_clients_and_proxies() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        for nodes in 1..=20 {
            let each = default_share(nodes);
            // Hundredths of a core are rounded.
            assert!(each * f64::from(nodes) <= cores * 0.6 + 0.005 * f64::from(nodes));
            assert!(parse_cores(&each.to_string()).is_ok(), "{each}");
        }
    }

    #[test]
    fn senseless_numbers_of_cores_are_refused() {
        for wrong in ["0", "-1", "NaN", "2000", "all"] {
            assert!(parse_cores(wrong).is_err(), "{wrong}");
        }
    }
}
