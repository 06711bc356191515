//! Schema agreement: whether every node that is up knows a change that one of them has just made.

use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{Control, Rows, ip_cell, query, refresh};
use crate::conn::{Conn, ConnError};
use crate::pool::link_options;
use crate::shared::Common;

/// Pause between looking and looking again while nodes disagree.
const PAUSE: Duration = Duration::from_millis(20);

/// A peer that takes longer to tell its schema version is taken to lag.
const ASK_MAX: Duration = Duration::from_millis(500);

const LOCAL: &str = "SELECT schema_version FROM system.local";
const PEERS: &str = "SELECT peer, rpc_address, schema_version, release_version FROM system.peers";

/// Waits until the nodes agree, refreshes the snapshot, and lets the one who waits go on.
pub async fn agree(
    shared: &Common,
    control: &mut Control,
    coordinator: SocketAddr,
    done: oneshot::Sender<()>,
) -> Result<(), ConnError> {
    let limit = Duration::from_millis(shared.settings.load().cluster.schema_agreement_max_ms);
    let deadline = Instant::now() + limit;
    loop {
        match control.agree_with(shared, coordinator).await {
            Ok(true) => break,
            Ok(false) => {}
            // Most likely the node has just died; the others will learn of the change by gossip.
            Err(e) => {
                control.coordinators.remove(&coordinator);
                tracing::debug!(node = %coordinator, "no word on schema agreement: {e}");
            }
        }
        if Instant::now() >= deadline {
            tracing::warn!("the nodes do not agree on the schema after {limit:?}");
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    refresh(shared, control).await?;
    // The client may have gone meanwhile.
    let _ = done.send(());
    Ok(())
}

impl Control {
    /// Whether all nodes that are up have the schema version of this one.
    ///
    /// What a node knows of its peers travels by gossip, once a second; so a peer that seems to lag
    /// is asked itself.
    async fn agree_with(
        &mut self,
        shared: &Common,
        coordinator: SocketAddr,
    ) -> Result<bool, ConnError> {
        let conn = self.conn_to(shared, coordinator).await?;
        let local = query(conn, LOCAL).await?;
        let peers = query(conn, PEERS).await?;
        let Some(own) = schema_version(&local) else {
            return Ok(false);
        };
        let snapshot = shared.snapshot.load_full();
        for row in &peers.rows {
            // A peer that has never been up has no release version; one that is down keeps its old
            // schema version.
            let known = peers.cell(row, "release_version").is_some();
            let down = ip_cell(&peers, row, "peer").is_some_and(|ip| self.down.contains(&ip));
            if !known || down || peers.cell(row, "schema_version") == Some(own) {
                continue;
            }
            let ip = ip_cell(&peers, row, "rpc_address").or(ip_cell(&peers, row, "peer"));
            let node = snapshot.nodes.iter().find(|n| Some(n.address.ip()) == ip);
            let Some(address) = node.map(|n| n.address) else {
                return Ok(false);
            };
            if !self.has_schema(shared, address, own).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn has_schema(&mut self, shared: &Common, address: SocketAddr, version: &[u8]) -> bool {
        let ask = async {
            let conn = self.conn_to(shared, address).await?;
            query(conn, LOCAL).await
        };
        let answer = tokio::time::timeout(ASK_MAX, ask).await;
        match answer.unwrap_or(Err(ConnError::Timeout(ASK_MAX))) {
            Ok(local) => schema_version(&local) == Some(version),
            Err(e) => {
                self.coordinators.remove(&address);
                tracing::debug!(node = %address, "no word on its schema: {e}");
                false
            }
        }
    }

    /// A connection to a node, opened on first use.
    async fn conn_to(
        &mut self,
        shared: &Common,
        address: SocketAddr,
    ) -> Result<&mut Conn, ConnError> {
        if address == self.address {
            return Ok(&mut self.conn);
        }
        match self.coordinators.entry(address) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let dialer = (**shared.dialer.load()).clone();
                let mut conn = dialer.dial(address, self.conn.version).await?;
                let token = shared.settings.load().control_token();
                conn.open(&link_options(), token.as_deref()).await?;
                Ok(entry.insert(conn))
            }
        }
    }
}

fn schema_version(local: &Rows) -> Option<&[u8]> {
    let row = local.rows.first()?;
    local.cell(row, "schema_version")
}
