//! The links of a worker by role and node, for whoever asks.

use helenus_policy::ring::NodeIndex;

use crate::upstream::links::Links;
use crate::upstream::pool::Pool;
use crate::worker_status::PoolRow;

impl Links {
    /// The first so many, by role and node: the same order on all workers.
    pub(crate) fn list_pools(&self, worker: usize, max: usize) -> Vec<PoolRow> {
        let mut pools: Vec<&Pool> = self.pools.values().collect();
        pools.sort_by_key(|pool| pool.identity.number());
        let rows = pools.into_iter();
        let rows = rows.flat_map(|pool| self.rows_of(worker, pool));
        rows.take(max).collect()
    }

    fn rows_of(&self, worker: usize, pool: &Pool) -> Vec<PoolRow> {
        let nodes = (0..pool.nodes.len()).map(|at| NodeIndex(at as u16));
        let row = |node: NodeIndex| {
            let slots = &pool.nodes[node.as_usize()];
            let special = pool.special.iter().filter(|special| special.node == node);
            let special: Vec<_> = special.filter_map(|special| special.slot.link()).collect();
            let all = pool.links(node).chain(special.iter().copied());
            let in_flight = all.filter_map(|link| Some(self.open.get(link)?.in_flight()));
            PoolRow {
                worker,
                role: pool.identity.role().cloned(),
                role_number: pool.identity.number(),
                clients: pool.sessions,
                node,
                links: pool.links(node).count(),
                opening: slots.iter().filter(|slot| slot.is_opening()).count(),
                special: special.len(),
                in_flight: in_flight.sum(),
            }
        };
        let is_there = |row: &PoolRow| row.links + row.opening + row.special > 0;
        nodes.map(row).filter(is_there).collect()
    }
}
