//! The cells of the plain client: few shared connections instead of a driver's pools.
//!
//! A driver opens connections to each node and chooses an owner for each point read. Many applications
//! do neither: they keep a handful of connections, and all their threads share them. Then a point read
//! waits behind scans not only inside a node, but also behind their answers on its connection. These
//! cells measure both: points and scans on the same connections, and points on connections of their
//! own. A query's number decides its connection, so every arm sends the same queries over the same
//! connections; directly, connections are spread round-robin over the nodes.

use super::mix::Mix;
use super::tables::Tables;
use crate::experiments::arms::{HELENUS, ROUND_ROBIN, TOKEN_AWARE};
use std::time::Duration;

pub(super) mod queries;

#[derive(Clone, Debug)]
pub struct Plain {
    /// The one table that is read. The rows of a scan are distributed log-uniformly.
    pub tables: Tables,
    /// For all clients together; as many again for the points where they have their own.
    pub connections: usize,
    pub mixes: Vec<Mix>,
    pub clients: Vec<usize>,
    /// Total queries per cell.
    pub queries: u64,
    /// Maximum time for which a cell sends queries.
    pub cell_time: Option<Duration>,
    /// Only direct and Helenus with its defaults.
    pub short: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlainCell {
    pub mix: Mix,
    pub clients: usize,
    /// Points have connections of their own.
    pub apart: bool,
}

impl Plain {
    pub(super) fn cells(&self) -> Vec<PlainCell> {
        let of_mix = |&mix: &Mix| self.clients.iter().map(move |&clients| (mix, clients));
        let pairs = self.mixes.iter().flat_map(of_mix);
        let cells = pairs.flat_map(|(mix, clients)| {
            [false, true].map(|apart| PlainCell {
                mix,
                clients,
                apart,
            })
        });
        cells.collect()
    }

    pub(super) fn takes_part(&self, arm: &str) -> bool {
        match self.short {
            true => [TOKEN_AWARE, HELENUS].contains(&arm),
            // A plain client does not choose a node.
            false => arm != ROUND_ROBIN,
        }
    }
}

impl PlainCell {
    pub(super) fn name(&self) -> String {
        let (mix, clients) = (self.mix, self.clients);
        let connections = match self.apart {
            true => "points on their own connections",
            false => "shared connections",
        };
        format!("plain client, {mix}, {clients} clients, {connections}")
    }
}
