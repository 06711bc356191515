//! The cluster, as the proxy knows it at one moment. Immutable; replaced whole.

pub mod batch_limits;
pub mod hint_window;
pub mod list_columns;
pub mod page_limits;
pub mod table_sizes;
pub mod timeouts;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_policy::ring::{NodeIndex, ReplicaSets, Ring};
use helenus_policy::route::{Locality, NodeTable};
use helenus_wire::Version;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::features::InSnapshot;
use crate::snapshot::batch_limits::BatchLimits;
use crate::snapshot::hint_window::HintWindow;
use crate::snapshot::list_columns::ListColumns;
use crate::snapshot::page_limits::PageLimits;
use crate::snapshot::table_sizes::TableSizes;
use crate::snapshot::timeouts::Timeouts;

/// Cassandra's name of a node, whatever its address.
pub type HostId = [u8; 16];

/// One Cassandra node. Its index never changes while the proxy runs, also when it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub address: SocketAddr,
    pub host_id: HostId,
    pub dc: String,
    pub rack: String,
    pub release_version: String,
    /// `None` until it has told.
    pub processors: Option<u32>,
    /// `None` until it has told.
    pub timeouts: Option<Timeouts>,
    /// `None` until it has told.
    pub batches: Option<BatchLimits>,
    /// `None` until it has told.
    pub pages: Option<PageLimits>,
    /// `None` until it has told.
    pub hints: Option<HintWindow>,
    /// No longer part of the cluster.
    pub gone: bool,
}

/// A node that joins the cluster or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mover {
    pub host_id: HostId,
    pub address: SocketAddr,
}

/// One column of a partition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    pub name: String,
    /// CQL type name.
    pub cql_type: String,
    /// True if clients may be shown another value than the one that rows lie by.
    pub is_masked: bool,
}

/// A column of a system table: name and type option as the node describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemColumn {
    pub name: String,
    pub type_raw: Vec<u8>,
}

/// The columns of a system table and one row to start from.
#[derive(Clone, Debug, Default)]
pub struct SystemTable {
    pub columns: Vec<SystemColumn>,
    /// A real row (of `system.local`), whose values the proxy shows where it has none of its own.
    pub row: Vec<Option<Vec<u8>>>,
}

/// The cluster.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Grows with every replacement; 0 until a node has told of the cluster.
    pub epoch: u64,
    pub cluster_name: String,
    /// The version spoken to all nodes.
    pub version: Version,
    /// The body of the nodes' AUTHENTICATE, if they ask for authentication.
    pub authenticate: Option<Vec<u8>>,
    /// Body of the nodes' SUPPORTED.
    pub supported: Vec<u8>,
    pub nodes: Vec<Node>,
    /// Where each node is, seen from here.
    pub places: NodeTable,
    /// `None` if the partitioner is not one whose tokens the proxy can compute.
    pub ring: Option<Ring>,
    /// Texts of the ring's tokens in order.
    pub tokens: Vec<String>,
    pub keyspaces: FxHashMap<String, Arc<ReplicaSets>>,
    /// Partition keys by keyspace and table (or view).
    pub tables: FxHashMap<String, FxHashMap<String, Arc<[KeyColumn]>>>,
    /// Which columns of tables cannot be written twice.
    pub lists: Arc<ListColumns>,
    /// How large tables are.
    pub sizes: Arc<TableSizes>,
    /// Features' knowledge of tables.
    pub features: InSnapshot,
    /// Keyspaces with functions of their own that are called as those of [`helenus_cql::Fold`].
    pub folds_shadowed: FxHashSet<String>,
    /// Descending clustering columns by keyspace and table, if some node compares them in reverse, so that
    /// its `MIN` is others' `MAX`.
    pub compared_in_reverse: FxHashMap<String, FxHashMap<String, Vec<String>>>,
    /// Nodes that are listed and not used yet: they do not serve, or others have not heard of them.
    pub joining: Vec<Mover>,
    /// How many owners of tokens these are beside the nodes that are used: of several with the same tokens, one is.
    pub joining_owners: usize,
    /// Nodes that are still used although they are not listed any more: others have not heard of that.
    pub leaving: Vec<Mover>,
    /// The node that answers for node-local tables.
    pub pinned: NodeIndex,
    pub local_dc: String,
    pub schema_version: [u8; 16],
    /// That of a node that is up and has another one.
    pub other_schema_version: Option<[u8; 16]>,
    pub local: SystemTable,
    pub peers: SystemTable,
    pub peers_v2: SystemTable,
}

impl Snapshot {
    /// Before any node has answered.
    pub fn unknown() -> Snapshot {
        Snapshot {
            epoch: 0,
            cluster_name: String::new(),
            version: Version::V4,
            authenticate: None,
            supported: Vec::new(),
            nodes: Vec::new(),
            places: NodeTable::default(),
            ring: None,
            tokens: Vec::new(),
            keyspaces: FxHashMap::default(),
            folds_shadowed: FxHashSet::default(),
            compared_in_reverse: FxHashMap::default(),
            tables: FxHashMap::default(),
            lists: Arc::default(),
            sizes: Arc::default(),
            features: InSnapshot::default(),
            joining: Vec::new(),
            joining_owners: 0,
            leaving: Vec::new(),
            pinned: NodeIndex(0),
            local_dc: String::new(),
            schema_version: [0; 16],
            other_schema_version: None,
            local: SystemTable::default(),
            peers: SystemTable::default(),
            peers_v2: SystemTable::default(),
        }
    }

    pub fn is_known(&self) -> bool {
        self.epoch > 0
    }

    /// True if a node has left, also for another address.
    pub fn is_gone(&self, node: NodeIndex) -> bool {
        let node = self.nodes.get(node.as_usize());
        node.is_none_or(|node| node.gone)
    }

    /// How many rows of a page all nodes take without a word, as far as they have told.
    pub(crate) fn page_rows_max(&self) -> usize {
        let present = self.nodes.iter().filter(|node| !node.gone);
        let limits = present.filter_map(|node| node.pages);
        limits.map(|of| of.rows_max).min().unwrap_or(usize::MAX)
    }

    /// For how long all nodes keep hints for one that is down, as far as they have told.
    pub fn hint_window(&self) -> Duration {
        let present = self.nodes.iter().filter(|node| !node.gone);
        let windows = present.filter_map(|node| node.hints);
        let HintWindow(window) = windows.min_by_key(|of| of.0).unwrap_or_default();
        window
    }

    /// True if the same nodes own the same parts of the ring in another snapshot.
    pub(crate) fn has_ring_of(&self, other: &Snapshot) -> bool {
        let present = |snapshot: &Snapshot| {
            let nodes = snapshot.nodes.iter();
            let gone: Vec<bool> = nodes.map(|node| node.gone).collect();
            gone
        };
        present(self) == present(other) && self.tokens == other.tokens
    }

    /// True if nodes may see the ring differently.
    pub fn is_moving(&self) -> bool {
        !self.joining.is_empty() || !self.leaving.is_empty()
    }

    /// How near a node is, by its address.
    pub fn locality_of(&self, address: SocketAddr) -> Option<Locality> {
        let mut nodes = (0..=u16::MAX).map(NodeIndex).zip(&self.nodes);
        let (at, _) = nodes.find(|(_, node)| node.address == address && !node.gone)?;
        self.places.locality(at)
    }

    /// Names of all data centres.
    pub fn dcs(&self) -> BTreeSet<&str> {
        let present = self.nodes.iter().filter(|node| !node.gone);
        present.map(|node| node.dc.as_str()).collect()
    }

    pub(crate) fn partition_key(&self, keyspace: &str, table: &str) -> Option<&Arc<[KeyColumn]>> {
        self.tables.get(keyspace)?.get(table)
    }

    /// True if some node confuses `MIN` and `MAX` of a column.
    pub(crate) fn compares_in_reverse(&self, keyspace: &str, table: &str, column: &str) -> bool {
        let of_table = self.compared_in_reverse.get(keyspace);
        let columns = of_table.and_then(|tables| tables.get(table));
        columns.is_some_and(|columns| columns.iter().any(|c| c == column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_gone_or_silent_limit_no_page() {
        let node = |rows_max: Option<usize>, gone| Node {
            pages: rows_max.map(|rows_max| PageLimits { rows_max }),
            gone,
            ..crate::testing::node(1)
        };
        let of = |nodes: &[Node]| {
            let nodes = nodes.to_vec();
            let snapshot = Snapshot {
                nodes,
                ..Snapshot::unknown()
            };
            snapshot.page_rows_max()
        };
        assert_eq!(of(&[]), usize::MAX);
        let nodes = [
            node(None, false),
            node(Some(500), false),
            node(Some(300), false),
            node(Some(2), true),
        ];
        assert_eq!(of(&nodes), 300);
        assert_eq!(of(&nodes[..1]), usize::MAX);
    }

    #[test]
    fn only_columns_that_were_found_so_compare_in_reverse() {
        let mut snapshot = Snapshot::unknown();
        let columns = vec!["day".to_owned(), "hour".to_owned()];
        let tables = [("events".to_owned(), columns)].into_iter().collect();
        snapshot
            .compared_in_reverse
            .insert("app".to_owned(), tables);
        let is_so = |keyspace, table, column| snapshot.compares_in_reverse(keyspace, table, column);
        assert!(is_so("app", "events", "day") && is_so("app", "events", "hour"));
        assert!(!is_so("app", "events", "key"));
        assert!(!is_so("app", "others", "day"));
        assert!(!is_so("other", "events", "day"));
    }
}
