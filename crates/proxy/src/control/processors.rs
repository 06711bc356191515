//! How many processors each node has: that bounds the scans it can run side by side.
//!
//! No table says so, but the pool of threads that take the answers of other nodes is as large. A
//! node that has never had such an answer does not list it, and one before 4.0 has no such table.

use std::net::SocketAddr;

use helenus_wire::Version;
use tokio::task::JoinSet;

use super::query;
use crate::config::Config;
use crate::conn::{ConnError, Dialer};
use crate::pool::link_options;
use crate::shared::Common;
use crate::snapshot::Snapshot;

/// Where a node tells.
pub const POOLS: &str = "system_views.thread_pools";
const POOL: &str = "RequestResponseStage";

/// A node that has answered so often without telling is not asked any more.
const ANSWERS_MAX: u8 = 6;

/// Questions under way, and how often each node has answered without telling.
#[derive(Default)]
pub struct Asking {
    tasks: JoinSet<(usize, Result<Option<u32>, ConnError>)>,
    under_way: Vec<usize>,
    in_vain: Vec<u8>,
}

impl Asking {
    /// Asks all nodes of which it is not known.
    pub fn ask(&mut self, shared: &Common, version: Version) {
        let snapshot = shared.snapshot.load();
        self.in_vain.resize(snapshot.nodes.len(), 0);
        for (index, node) in snapshot.nodes.iter().enumerate() {
            let asked = self.in_vain[index] >= ANSWERS_MAX || self.under_way.contains(&index);
            if node.gone || node.processors.is_some() || asked {
                continue;
            }
            let dialer = (**shared.dialer.load()).clone();
            let config = shared.settings.load_full();
            let address = node.address;
            self.under_way.push(index);
            self.tasks.spawn(async move {
                let limit = dialer.connect_timeout * 3;
                let told = tokio::time::timeout(limit, ask(&config, &dialer, address, version));
                let told = told.await.unwrap_or(Err(ConnError::Timeout(limit)));
                if let Err(e) = &told {
                    tracing::debug!(node = %address, "no word on its processors: {e}");
                }
                (index, told)
            });
        }
    }

    /// A snapshot that knows of one node more, when it has told; `None` at once if nobody is asked.
    pub async fn next(&mut self, shared: &Common) -> Option<Snapshot> {
        while let Some(ended) = self.tasks.join_next().await {
            let Ok((index, told)) = ended else { continue };
            self.under_way.retain(|asked| *asked != index);
            match told {
                Ok(Some(processors)) => {
                    let mut snapshot = (*shared.snapshot.load_full()).clone();
                    snapshot.epoch += 1;
                    let node = snapshot.nodes.get_mut(index)?;
                    node.processors = Some(processors);
                    tracing::info!(node = %node.address, processors, "processors of a node");
                    return Some(snapshot);
                }
                Ok(None) | Err(ConnError::Node { .. }) => self.in_vain[index] += 1,
                Err(_) => {}
            }
        }
        None
    }
}

/// Opens a connection to a node and asks it; `None` if it does not say.
pub async fn ask(
    config: &Config,
    dialer: &Dialer,
    address: SocketAddr,
    version: Version,
) -> Result<Option<u32>, ConnError> {
    let mut conn = dialer.dial(address, version).await?;
    conn.open(&link_options(), config.control_token().as_deref())
        .await?;
    let cql = format!("SELECT active_tasks_limit FROM {POOLS} WHERE name = '{POOL}'");
    let rows = query(&mut conn, &cql).await?;
    let cell = rows
        .rows
        .first()
        .and_then(|row| rows.cell(row, "active_tasks_limit"));
    let limit = cell.and_then(|cell| cell.try_into().ok());
    Ok(limit
        .map(i32::from_be_bytes)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n > 0))
}
