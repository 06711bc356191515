//! The cluster, as the proxy knows it at one moment. Immutable; replaced whole.

pub mod batch_limits;
pub mod builder;
pub mod hint_window;
pub mod list_columns;
pub mod newest;
pub mod node;
pub mod nodes;
pub mod page_limits;
pub mod protocol;
pub mod schema;
pub mod system_tables;
pub mod table_sizes;
pub mod timeouts;

pub use self::node::{HostId, Mover, Node, NodeFacts};
pub use self::schema::KeyColumn;
pub use self::system_tables::{SystemColumn, SystemTable};

use helenus_wire::Version;

use crate::features::InSnapshot;
use crate::snapshot::nodes::Nodes;
use crate::snapshot::protocol::Protocol;
use crate::snapshot::schema::Schema;
use crate::snapshot::system_tables::SystemTables;

/// The cluster.
#[derive(Clone, Debug)]
pub struct Snapshot {
    epoch: u64,
    cluster_name: String,
    protocol: Protocol,
    nodes: Nodes,
    schema: Schema,
    system_tables: SystemTables,
    features: InSnapshot,
}

impl Snapshot {
    /// Before any node has answered.
    pub fn unknown() -> Snapshot {
        Snapshot {
            epoch: 0,
            cluster_name: String::new(),
            protocol: Protocol::default(),
            nodes: Nodes::default(),
            schema: Schema::default(),
            system_tables: SystemTables::default(),
            features: InSnapshot::default(),
        }
    }

    /// Grows with every replacement; 0 until a node has told of the cluster.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn is_known(&self) -> bool {
        self.epoch > 0
    }

    pub fn cluster_name(&self) -> &str {
        &self.cluster_name
    }

    /// The version spoken to all nodes.
    #[inline]
    pub fn version(&self) -> Version {
        self.protocol.version
    }

    /// How clients are greeted.
    #[inline]
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    #[inline]
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    #[inline]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The tables in which drivers look for the cluster, as the nodes have them.
    pub(crate) fn system_tables(&self) -> &SystemTables {
        &self.system_tables
    }

    /// Features' part of it.
    #[inline]
    pub fn features(&self) -> &InSnapshot {
        &self.features
    }
}
