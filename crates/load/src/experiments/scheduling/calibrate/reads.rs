//! Reads of the rows of one node, sent to one node.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::routing::Token;

use crate::client::raw::RawClients;
use crate::experiments::scheduling::queries::WRONG;
use crate::experiments::scheduling::tables::{Index, Tables};
use crate::measure::ErrorKind;
use crate::workload::Workload;

/// One of the two tables.
pub(super) struct Table {
    pub tables: Tables,
    pub index: Arc<Index>,
    /// Its rows by owner: stretches of rows that follow each other on the ring.
    pub stretches: Vec<Vec<Range<usize>>>,
}

/// Reads over one node, all of the same kind.
pub(super) struct Reads {
    pub raw: RawClients,
    pub values: Vec<Vec<Vec<u8>>>,
    pub rows: usize,
    pub next: AtomicUsize,
}

impl Workload for Reads {
    fn kinds(&self) -> Vec<&str> {
        vec!["read"]
    }

    async fn call(&self, client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.values.len();
        let values: Vec<&[u8]> = self.values[at].iter().map(Vec::as_slice).collect();
        let outcome = match self.raw.execute(client, 0, &values).await {
            Ok(response) if response.rows == self.rows => Ok(()),
            Ok(_) => Err(WRONG),
            Err(error) => Err(error),
        };
        (0, outcome)
    }
}

impl Table {
    /// Values of reads of an owner's rows.
    pub(super) fn values(&self, owner: usize, rows: Option<usize>) -> Vec<Vec<Vec<u8>>> {
        let bigint = |value: i64| value.to_be_bytes().to_vec();
        let all = self.index.rows(0);
        let stretches = self.stretches[owner].iter();
        let Some(rows) = rows else {
            let each = stretches.flat_map(|stretch| all[stretch.clone()].iter());
            return each.map(|&(_, key)| vec![bigint(key)]).collect();
        };
        let ranges = stretches.flat_map(|stretch| {
            // The row before the range must be the owner's, so that no other node is asked.
            let ends = (stretch.start + 1..).step_by(17);
            ends.take_while(|begin| begin + rows < stretch.end)
                .map(|begin| (all[begin - 1].0, all[begin + rows - 1].0))
        });
        ranges
            .map(|(above, up_to)| {
                let limit = (rows as i32).to_be_bytes().to_vec();
                vec![bigint(above), bigint(up_to), limit]
            })
            .collect()
    }
}

/// Rows of the ring that one node has, by node, in the order of their addresses.
pub(super) fn stretches(
    session: &Session,
    tables: &Tables,
    index: &Index,
    nodes: &[String],
) -> Result<Vec<Vec<Range<usize>>>> {
    let state = session.get_cluster_state();
    let name = tables.name(0);
    let table = name.split('.').next_back().unwrap_or_default();
    let mut stretches = vec![Vec::new(); nodes.len()];
    let mut open: Option<(usize, usize)> = None;
    for (row, &(token, _)) in index.rows(0).iter().enumerate() {
        let owners = state.get_token_endpoints(&tables.keyspace, table, Token::new(token));
        let (owner, _) = owners.first().context("a row has no owner")?;
        let address = format!("{}:{}", owner.address.ip(), owner.address.port());
        let node = nodes.iter().position(|of| *of == address);
        let node = node.with_context(|| format!("{address} is not among the nodes"))?;
        match open {
            Some((of, _)) if of == node => {}
            _ => {
                if let Some((of, begin)) = open.replace((node, row)) {
                    stretches[of].push(begin..row);
                }
            }
        }
    }
    Ok(stretches)
}
