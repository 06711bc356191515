//! Reading topology and schema over the control connection.

use helenus_policy::ring::{NodeSpec, Ring};
use helenus_policy::route::NodeTable;
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::code;
use rustc_hash::{FxHashMap, FxHashSet};

use super::connection::Control;
use super::members::{Known, Members, pinned};
use super::movers::has_left;
use super::schema::{
    compares_reversed_types, descending_columns, list_columns, partition_keys, replica_sets,
    shadowing_folds,
};
use crate::config::Config;
use crate::conn::ConnError;
use crate::control::rows::Rows;
use helenus_engine::snapshot::{Mover, Node, Snapshot, SystemTable};

/// A node's tables about its cluster.
struct Tables {
    local: Rows,
    peers: Rows,
    /// No columns before Cassandra 4.0.
    peers_v2: Rows,
    keyspaces: Rows,
    columns: Rows,
    /// Columns that are masked.
    masks: Rows,
    /// See [`shadowing_folds`].
    folds_shadowed: FxHashSet<String>,
}

impl Control {
    /// Reads topology and schema. `old` keeps the nodes' indexes.
    pub(crate) async fn read(
        &mut self,
        config: &Config,
        old: Option<&Snapshot>,
    ) -> Result<Snapshot, ConnError> {
        self.read_with(config, old, &[]).await
    }

    /// [`Self::read`] when these nodes have joined or left for good, as all nodes say.
    pub(super) async fn read_with(
        &mut self,
        config: &Config,
        old: Option<&Snapshot>,
        settled: &[Mover],
    ) -> Result<Snapshot, ConnError> {
        let tables = self.tables().await?;
        let local = &tables.local;
        let own = local
            .rows
            .first()
            .ok_or(ConnError::Unexpected("no row", "system.local"))?;
        let peers = match tables.peers_v2.columns.is_empty() {
            true => &tables.peers,
            false => &tables.peers_v2,
        };
        let text = |name: &str| local.text(own, name).unwrap_or_default();
        let state = local.text(own, "bootstrapped");
        if !peers.rows.is_empty() && has_left(state.as_deref()) {
            return Err(ConnError::HasLeft);
        }
        let local_dc = config.cluster.local_dc.clone().unwrap_or_else(|| {
            old.map_or_else(|| text("data_center"), |o| o.nodes().local_dc().to_owned())
        });
        let known = Known {
            old,
            settled,
            serves: &|dc: &str| dc == local_dc || config.cluster.allow_remote_dc,
        };
        let members = Members::read(local, own, self.address, peers, known);
        let Members {
            nodes,
            tokens,
            joining,
            joining_owners,
            leaving,
        } = members.ok_or(ConnError::HasLeft)?;
        let of_reversed_types =
            |node: &Node| !node.is_gone() && compares_reversed_types(node.release_version());
        let compared_in_reverse = match nodes.iter().any(of_reversed_types) {
            true => descending_columns(&tables.columns),
            false => FxHashMap::default(),
        };
        let partitioner = Partitioner::from_class_name(&text("partitioner"));
        let local_rack = config.cluster.local_rack.as_deref();
        let specs = specs(partitioner, &nodes, &tokens);
        let ring = partitioner
            .map(|p| Ring::new(p, &specs))
            .filter(|r| !r.is_empty());
        let places = NodeTable::new(&specs, Some(&local_dc), local_rack);
        let pinned = pinned(&nodes, &places, self.address);
        let keyspaces = ring.as_ref().map(|r| replica_sets(&tables.keyspaces, r));
        let schema_version = local
            .cell(own, "schema_version")
            .and_then(|c| c.try_into().ok())
            .unwrap_or_default();
        let of_node = SystemTable {
            columns: local.columns.clone(),
            row: own.clone(),
        };
        let next = match old {
            None => Snapshot::builder().epoch(1),
            // What is not read here stays.
            Some(old) => Snapshot::builder()
                .epoch(old.epoch() + 1)
                .sizes(old.schema().sizes().clone())
                .other_schema_version(old.schema().other_version())
                .features(old.features().clone()),
        };
        let next = next
            .cluster_name(text("cluster_name"))
            .version(self.conn.version)
            .authenticate(self.authenticate.clone())
            .supported(self.supported.clone())
            .places(places)
            .nodes(nodes)
            .joining(joining, joining_owners)
            .leaving(leaving)
            .ring(ring)
            .tokens(in_order(partitioner, tokens))
            .pinned(pinned)
            .local_dc(local_dc)
            .keyspaces(keyspaces.unwrap_or_default())
            .folds_shadowed(tables.folds_shadowed)
            .compared_in_reverse(compared_in_reverse)
            .tables(partition_keys(&tables.columns, &tables.masks))
            .lists(list_columns(&tables.columns))
            .schema_version(schema_version)
            .local(of_node)
            .peers(SystemTable::of_columns(tables.peers.columns))
            .peers_v2(SystemTable::of_columns(tables.peers_v2.columns));
        Ok(next.build())
    }

    async fn tables(&mut self) -> Result<Tables, ConnError> {
        let local = self.table("SELECT * FROM system.local").await?;
        // Cassandra 3.x does not have this table.
        let peers_v2 = self.table_if_any("SELECT * FROM system.peers_v2").await?;
        let peers = self.table("SELECT * FROM system.peers").await?;
        let keyspaces = self
            .table("SELECT keyspace_name, replication FROM system_schema.keyspaces")
            .await?;
        let columns = self
            .table(
                "SELECT keyspace_name, table_name, column_name, clustering_order, kind, position, type \
                 FROM system_schema.columns",
            )
            .await?;
        // There are none before Cassandra 5.0.
        let masks = self
            .table_if_any(
                "SELECT keyspace_name, table_name, column_name FROM system_schema.column_masks",
            )
            .await?;
        let mut folds_shadowed = FxHashSet::default();
        for (table, column) in [
            ("functions", "function_name"),
            ("aggregates", "aggregate_name"),
        ] {
            let cql = format!("SELECT keyspace_name, {column} FROM system_schema.{table}");
            let functions = self.table(&cql).await?;
            folds_shadowed.extend(shadowing_folds(&functions, column));
        }
        Ok(Tables {
            local,
            peers,
            peers_v2,
            keyspaces,
            columns,
            masks,
            folds_shadowed,
        })
    }

    /// No rows if there is no such table.
    async fn table_if_any(&mut self, cql: &str) -> Result<Rows, ConnError> {
        match self.table(cql).await {
            Err(ConnError::Node {
                code: code::INVALID,
                ..
            }) => Ok(Rows::default()),
            told => told,
        }
    }
}

fn specs(
    partitioner: Option<Partitioner>,
    nodes: &[Node],
    tokens: &[Vec<String>],
) -> Vec<NodeSpec> {
    let nodes = nodes.iter().zip(tokens);
    nodes
        .map(|(node, tokens)| NodeSpec {
            dc: node.dc().to_owned(),
            rack: node.rack().to_owned(),
            tokens: partitioner.map_or_else(Vec::new, |p| {
                tokens.iter().filter_map(|t| Token::parse(p, t)).collect()
            }),
        })
        .collect()
}

/// All tokens in the order of the ring.
fn in_order(partitioner: Option<Partitioner>, tokens: Vec<Vec<String>>) -> Vec<String> {
    let mut tokens: Vec<(Option<Token>, String)> = tokens
        .into_iter()
        .flatten()
        .map(|t| (partitioner.and_then(|p| Token::parse(p, &t)), t))
        .collect();
    tokens.sort();
    tokens.into_iter().map(|(_, t)| t).collect()
}
