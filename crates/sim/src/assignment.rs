//! The experiment of `helenus sim assignment`: policies of replica choice while something goes wrong
//! ([`crate::queueing`]).
//!
//! Nodes serve four requests at a time. One that is asked for what it does not own asks an owner, which costs it a
//! part of the work.

#[cfg(test)]
mod tests;

use crate::queueing::{Cell, Demand, Extent, Policy, Service, Setup};

/// What each node is like.
const LANES: Service = Service::Lanes {
    lanes: 4,
    work_us: 2_000,
    sigma: 0.5,
};

/// Ten proxies that know nothing of each other, a hundred nodes.
pub fn setup(cell: Cell, seed: u64) -> Setup {
    Setup {
        seed,
        policy: Policy::default(),
        cell,
        nodes: 100,
        proxies: 10,
        replicas: 3,
        keys: 1_000_000,
        zipf: 0.99,
        hot_share: if cell == Cell::HotKey { 0.1 } else { 0.0 },
        spreads_hot: true,
        write_share: 0.0,
        service: LANES,
        forward_share: Some(0.25),
        hop_us: 100,
        timeout_us: 2_000_000,
        report_every_us: Some(250_000),
        demand: Demand::Utilisation(0.15),
        extent: for_us(8_000_000),
    }
}

/// So long, after a second that does not count.
pub fn for_us(length_us: u64) -> Extent {
    Extent::Time(1_000_000..1_000_000 + length_us)
}
