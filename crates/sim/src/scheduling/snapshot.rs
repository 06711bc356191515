//! The simulated cluster as proxies know it.

use std::sync::Arc;

use helenus_engine::snapshot::table_sizes::TableSizes;
use helenus_engine::snapshot::{KeyColumn, Node, Snapshot};
use helenus_policy::predict::TableSize;
use helenus_policy::ring::{Replication, Ring};
use helenus_policy::route::NodeTable;
use helenus_policy::token::Partitioner;
use helenus_wire::Version;

use super::data::specs;
use super::rows::KEYSPACE;
use super::setup::Setup;

/// The sizes of the tables as nodes estimate them, from their files.
fn sizes(setup: &Setup) -> TableSizes {
    let mut sizes = TableSizes::default();
    // As large as the settings that bounds on bytes are compared with.
    let (partitions, row_bytes) = (u64::from(setup.rows), setup.row_bytes_held() as u64);
    let bytes = partitions * row_bytes;
    // Rows that are in memory only, a node does not count.
    let in_files = setup.tables * u32::from(setup.flushed);
    for table in 0..in_files {
        let size = TableSize { partitions, bytes };
        sizes.insert(KEYSPACE, &format!("t{table}"), size);
    }
    sizes
}

pub(super) fn snapshot(setup: &Setup) -> Snapshot {
    let specs = specs(setup.nodes as usize, setup.vnodes as usize);
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let replicas = Arc::new(ring.replica_sets(&Replication::Simple { rf: 1 }));
    let key: Arc<[KeyColumn]> = Arc::new([KeyColumn {
        name: "k".to_owned(),
        cql_type: "bigint".to_owned(),
        is_masked: false,
    }]);
    let tables = (0..setup.tables).map(|table| (format!("t{table}"), key.clone()));
    let node = |at: u32| {
        let [_, _, high, low] = (at + 1).to_be_bytes();
        let mut host_id = [0; 16];
        host_id[..4].copy_from_slice(&(at + 1).to_be_bytes());
        Node {
            address: ([10, 0, high, low], 9042).into(),
            host_id,
            dc: "dc1".to_owned(),
            rack: "r1".to_owned(),
            release_version: "5.0.6".to_owned(),
            processors: Some(setup.cores),
            timeouts: None,
            batches: None,
            pages: None,
            hints: None,
            gone: false,
        }
    };
    let tokens = (0..ring.len()).filter_map(|slot| Some(ring.end_token(slot)?.to_text()));
    Snapshot {
        epoch: 1,
        cluster_name: "model".to_owned(),
        version: Version::V5,
        nodes: (0..setup.nodes).map(node).collect(),
        places: NodeTable::new(&specs, Some("dc1"), None),
        tokens: tokens.collect(),
        keyspaces: [(KEYSPACE.to_owned(), replicas)].into_iter().collect(),
        sizes: Arc::new(sizes(setup)),
        tables: [(KEYSPACE.to_owned(), tables.collect())]
            .into_iter()
            .collect(),
        local_dc: "dc1".to_owned(),
        ring: Some(ring),
        ..Snapshot::unknown()
    }
}
