//! How a snapshot is put together, or becomes the next one.

use std::sync::Arc;

use helenus_policy::ring::{NodeIndex, ReplicaSets, Ring};
use helenus_policy::route::NodeTable;
use helenus_wire::Version;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::features::InSnapshot;
use crate::snapshot::Snapshot;
use crate::snapshot::list_columns::ListColumns;
use crate::snapshot::node::{Mover, Node};
use crate::snapshot::schema::KeyColumn;
use crate::snapshot::system_tables::SystemTable;
use crate::snapshot::table_sizes::TableSizes;

/// A snapshot that is being put together.
#[must_use]
#[derive(Clone, Debug)]
pub struct Builder(Snapshot);

impl Snapshot {
    /// One that says nothing yet.
    pub fn builder() -> Builder {
        Builder(Snapshot::unknown())
    }

    /// The next one, which says the same so far.
    pub fn successor(&self) -> Builder {
        let next = self.clone();
        next.edit().epoch(self.epoch + 1)
    }

    /// One that nobody has seen yet is changed.
    pub fn edit(self) -> Builder {
        Builder(self)
    }
}

impl Builder {
    pub fn build(mut self) -> Snapshot {
        self.0.nodes.work_out();
        self.0
    }

    pub fn epoch(mut self, epoch: u64) -> Builder {
        self.0.epoch = epoch;
        self
    }

    pub fn cluster_name(mut self, name: impl Into<String>) -> Builder {
        self.0.cluster_name = name.into();
        self
    }

    /// The version spoken to all nodes.
    pub fn version(mut self, version: Version) -> Builder {
        self.0.protocol.version = version;
        self
    }

    /// The body of the nodes' AUTHENTICATE, if they ask for authentication.
    pub fn authenticate(mut self, body: Option<Vec<u8>>) -> Builder {
        self.0.protocol.authenticate = body;
        self
    }

    /// Body of the nodes' SUPPORTED.
    pub fn supported(mut self, body: Vec<u8>) -> Builder {
        self.0.protocol.supported = body;
        self
    }

    pub fn nodes(mut self, nodes: impl IntoIterator<Item = Node>) -> Builder {
        self.0.nodes.all = nodes.into_iter().collect();
        self
    }

    /// Something else is known of a node.
    pub fn node(mut self, at: NodeIndex, change: impl FnOnce(&mut Node)) -> Builder {
        if let Some(node) = self.0.nodes.all.get_mut(at.as_usize()) {
            change(node);
        }
        self
    }

    /// Something else is known of each node.
    pub fn each_node(mut self, mut change: impl FnMut(NodeIndex, &mut Node)) -> Builder {
        for (at, node) in (0..=u16::MAX).map(NodeIndex).zip(&mut self.0.nodes.all) {
            change(at, node);
        }
        self
    }

    /// Where each node is, seen from here.
    pub fn places(mut self, places: NodeTable) -> Builder {
        self.0.nodes.places = places;
        self
    }

    /// `None` if the partitioner is not one whose tokens the proxy can compute.
    pub fn ring(mut self, ring: Option<Ring>) -> Builder {
        self.0.nodes.ring = ring;
        self
    }

    /// Texts of the ring's tokens in order.
    pub fn tokens(mut self, tokens: Vec<String>) -> Builder {
        self.0.nodes.tokens = tokens;
        self
    }

    /// Nodes that are listed and not used yet. `owners`: how many owners of tokens these are beside the nodes that
    /// are used.
    pub fn joining(mut self, movers: Vec<Mover>, owners: usize) -> Builder {
        self.0.nodes.joining = movers;
        self.0.nodes.joining_owners = owners;
        self
    }

    /// Nodes that are still used although they are not listed any more.
    pub fn leaving(mut self, movers: Vec<Mover>) -> Builder {
        self.0.nodes.leaving = movers;
        self
    }

    /// The node that answers for node-local tables.
    pub fn pinned(mut self, node: NodeIndex) -> Builder {
        self.0.nodes.pinned = node;
        self
    }

    pub fn local_dc(mut self, name: impl Into<String>) -> Builder {
        self.0.nodes.local_dc = name.into();
        self
    }

    pub fn keyspaces(mut self, owners: FxHashMap<String, Arc<ReplicaSets>>) -> Builder {
        self.0.schema.keyspaces = owners;
        self
    }

    /// One more keyspace.
    pub fn keyspace(mut self, name: impl Into<String>, owners: Arc<ReplicaSets>) -> Builder {
        self.0.schema.keyspaces.insert(name.into(), owners);
        self
    }

    /// Partition keys by keyspace and table (or view).
    pub fn tables(
        mut self,
        keys: FxHashMap<String, FxHashMap<String, Arc<[KeyColumn]>>>,
    ) -> Builder {
        self.0.schema.tables = keys;
        self
    }

    /// One more table.
    pub fn table(
        mut self,
        keyspace: impl Into<String>,
        name: impl Into<String>,
        key: impl Into<Arc<[KeyColumn]>>,
    ) -> Builder {
        let tables = self.0.schema.tables.entry(keyspace.into()).or_default();
        tables.insert(name.into(), key.into());
        self
    }

    /// Which columns of tables cannot be written twice.
    pub fn lists(mut self, lists: ListColumns) -> Builder {
        self.0.schema.lists = Arc::new(lists);
        self
    }

    /// How large tables are.
    pub fn sizes(mut self, sizes: impl Into<Arc<TableSizes>>) -> Builder {
        self.0.schema.sizes = sizes.into();
        self
    }

    /// Keyspaces with functions of their own that are called as those of [`helenus_cql::Fold`].
    pub fn folds_shadowed(mut self, keyspaces: FxHashSet<String>) -> Builder {
        self.0.schema.folds_shadowed = keyspaces;
        self
    }

    /// Descending clustering columns by keyspace and table, if some node compares them in reverse.
    pub fn compared_in_reverse(
        mut self,
        columns: FxHashMap<String, FxHashMap<String, Vec<String>>>,
    ) -> Builder {
        self.0.schema.compared_in_reverse = columns;
        self
    }

    pub fn schema_version(mut self, version: [u8; 16]) -> Builder {
        self.0.schema.version = version;
        self
    }

    /// That of a node that is up and has another one.
    pub fn other_schema_version(mut self, version: Option<[u8; 16]>) -> Builder {
        self.0.schema.other_version = version;
        self
    }

    /// `system.local` of a node.
    pub fn local(mut self, table: SystemTable) -> Builder {
        self.0.system_tables.local = table;
        self
    }

    /// `system.peers` of a node.
    pub fn peers(mut self, table: SystemTable) -> Builder {
        self.0.system_tables.peers = table;
        self
    }

    /// `system.peers_v2` of a node: no columns where it has none.
    pub fn peers_v2(mut self, table: SystemTable) -> Builder {
        self.0.system_tables.peers_v2 = table;
        self
    }

    pub fn features(mut self, known: InSnapshot) -> Builder {
        self.0.features = known;
        self
    }
}
