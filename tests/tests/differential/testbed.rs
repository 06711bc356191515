//! Nodes, and the proxy under test in front of them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use helenus_cluster::{Cluster, Consistency};
use helenus_tests::proxy::Proxy;
use helenus_tests::{kinds, pool};

pub(crate) struct Testbed {
    pub proxy: Proxy,
    pub cluster: Cluster,
}

impl Testbed {
    pub(crate) fn up(nodes: u16, operations: usize) -> Result<Testbed> {
        // A time-out would be a difference that means nothing.
        let kind = match operations {
            0..10_000 => kinds::patient(nodes),
            // Half as much is not enough for a long run.
            _ => kinds::patient(nodes).heap_mib(1024),
        };
        let cluster = pool::take(kind).context("the nodes do not start")?;
        // Likewise in the proxy: on a busy machine a slow node is not a dead one.
        let settings = [
            "limits.request_timeout_ms=800000",
            "links.silence_ms=600000",
            "links.connect_timeout_ms=60000",
            "cluster.schema_agreement_max_ms=60000",
            "scheduling.scan_wait_max_ms=600000",
            "scheduling.point_wait_max_ms=600000",
            "scheduling.write_wait_max_ms=600000",
            "scheduling.other_wait_max_ms=600000",
            // So that even the few rows of a test make several pieces.
            "scheduling.piece_kib=1",
            "scheduling.parallel_rows=8",
            // Features that only many requests at once meet.
            "aggregation.merge_writes=[\"*\"]",
            "aggregation.lwt_turns=true",
            "aggregation.lwt_wait_max_ms=10000",
            "aggregation.share_in_flight_max=1",
            "links.node_in_flight_max=16",
        ];
        let proxy = Proxy::start_patient(&cluster.contact_points(), &settings)?;
        Ok(Testbed { proxy, cluster })
    }

    /// Waits until all nodes know the same schema, as every driver does after a change.
    pub(crate) fn agree(admin: &mut helenus_cluster::Connection) -> Result<()> {
        for _ in 0..600 {
            let mut ids = BTreeSet::new();
            for table in ["local", "peers"] {
                let text = format!("SELECT schema_version FROM system.{table}");
                ids.extend(admin.query(&text, Consistency::One)?);
            }
            if ids.len() <= 1 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the nodes do not agree on the schema")
    }
}
