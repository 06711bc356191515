//! Links to nodes by role and node, as JSON.

use std::collections::BTreeMap;

use helenus_engine::worker_status::{PoolRow, Report, Wanted};
use serde::Serialize;

use super::shown::node_name;
use crate::admin::http::parameters;
use crate::process::Process;

const ROWS: u64 = 1_000;
const ROWS_MAX: u64 = 10_000;

#[derive(Debug, Serialize)]
pub(in crate::admin) struct PoolsView {
    /// There may be more: `limit` says how many are shown.
    has_more: bool,
    silent_workers: usize,
    pools: Vec<PoolView>,
}

/// The links of one role to one node, over all workers.
#[derive(Debug, Serialize)]
struct PoolView {
    /// Null where it cannot be told, or without authentication.
    role: Option<String>,
    /// There may be several of one role: one for each password or token in use.
    role_number: u32,
    node: String,
    /// Clients in that role, on all nodes.
    clients: usize,
    links: usize,
    opening: usize,
    /// Links for keyspaces and for what is large.
    special_links: usize,
    in_flight: usize,
}

/// The answer of `/api/pools`.
///
/// # Errors
/// A sentence about the parameter that is wrong.
pub(in crate::admin) async fn view(
    shared: &Process,
    query: Option<&str>,
) -> Result<PoolsView, String> {
    parameters::only(query, &["limit"])?;
    let limit = parameters::number(query, "limit", ROWS, 1..=ROWS_MAX)? as usize;
    let answers = shared.ask_workers(Wanted::Pools { max: limit + 1 }).await;
    let mut pools: BTreeMap<(u32, u16), PoolRow> = BTreeMap::new();
    for report in answers.reports {
        let Report::Pools(rows) = report else {
            continue;
        };
        for row in rows {
            let key = (row.role_number, row.node.0);
            match pools.get_mut(&key) {
                None => {
                    pools.insert(key, row);
                }
                Some(of) => {
                    of.clients += row.clients;
                    of.links += row.links;
                    of.opening += row.opening;
                    of.special += row.special;
                    of.in_flight += row.in_flight;
                }
            }
        }
    }
    let snapshot = shared.snapshot.load();
    let has_more = pools.len() > limit;
    let pools = pools.into_values().take(limit).map(|row| PoolView {
        role: row.role.map(|role| role.to_string()),
        role_number: row.role_number,
        node: node_name(&snapshot, row.node),
        clients: row.clients,
        links: row.links,
        opening: row.opening,
        special_links: row.special,
        in_flight: row.in_flight,
    });
    Ok(PoolsView {
        has_more,
        silent_workers: answers.silent,
        pools: pools.collect(),
    })
}
