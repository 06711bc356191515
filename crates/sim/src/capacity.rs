//! The throughput of many nodes, from a ramp that was measured over few: nodes that are as fast as the
//! measured curve says, before proxies that choose among replicas as in production ([`crate::queueing`]).
//!
//! - **A node** is a flow-equivalent server: with n requests in it, it completes as many per second as the
//!   measured node did with n clients, whatever it is inside that makes it so. All its requests progress
//!   alike (processor sharing). By construction a single node in a closed loop repeats the ramp's curve.
//! - **Work** of a request is log-normal around 1; its spread follows from the ramp's percentiles.
//!
//! Not modelled: whatever the ramp has not shown. Caches and compactions are as during the ramp, with as
//! much data per node. Streaming, garbage collection of one node alone, coordinators that forward,
//! messages between nodes, the proxies' own CPU and queues, and the network but for a fixed delay are left
//! out. Scheduling, hedging and aggregation are part of it only as far as the ramp went through a proxy.
//!
//! Source of the idea: K. M. Chandy, U. Herzog, L. Woo, *Parametric Analysis of Queuing Networks*, IBM
//! Journal of Research and Development 19 (1975).
//!
//! [`sweep`]: many loads, and the knee among them.

pub mod sweep;

#[cfg(test)]
mod tests;

use crate::queueing::{Cell, Curve, Demand, Extent, Policy, Service, Setup};

/// Ten proxies, a hundred nodes, reads only.
pub fn setup(curve: Curve, demand: Demand) -> Setup {
    Setup {
        seed: 1,
        policy: Policy::default(),
        cell: Cell::Idle,
        nodes: 100,
        proxies: 10,
        replicas: 3,
        keys: 1_000_000,
        zipf: 0.0,
        hot_share: 0.0,
        spreads_hot: false,
        write_share: 0.0,
        service: Service::Shared(curve),
        forward_share: None,
        hop_us: 100,
        timeout_us: 2_000_000,
        report_every_us: None,
        demand,
        extent: Extent::Requests(200_000),
    }
}
