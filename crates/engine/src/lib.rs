//! The logic of the proxy, pure: no sockets, no clock, no threads, no tasks.
//!
//! One [`Engine`] is one worker. It is handed clients, nodes, their bytes, messages and the time, and
//! answers with bytes to be written and with what it wants to have done ([`output::Output`]). So the
//! same code can run behind sockets, in a simulation and before a fuzzer.

pub mod admission;
pub mod client;
pub mod config;
mod context;
pub mod drain;
mod ends;
mod engine;
pub mod execution;
pub mod gates;
pub mod memory;
pub mod node;
mod node_glue;
pub mod output;
pub mod recalled;
mod recent;
mod request;
mod residue;
mod route;
pub mod shared;
pub mod snapshot;
pub mod statement;
pub mod stats;
pub mod timeouts;
mod way;
mod work;

pub use engine::{ClientRequestKey, Engine, LinkKey, NodeRequestKey, PoolKey, SessionKey, TICK};

#[cfg(test)]
mod testing {
    use std::time::Instant;

    /// Some instant to begin from.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn begin() -> Instant {
        Instant::now()
    }
}
