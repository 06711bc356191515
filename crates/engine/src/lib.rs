//! The logic of the proxy, pure: no sockets, no clock, no threads, no tasks.
//!
//! One [`Engine`] is one worker. It is handed clients, nodes, their bytes, messages and the time, and
//! answers with bytes to be written and with what it wants to have done ([`output::Output`]). So the
//! same code can run behind sockets, in a simulation and before a fuzzer.

pub mod admission;
pub mod client;
mod client_glue;
pub mod config;
mod context;
mod dispatch;
pub mod drain;
mod engine;
pub mod execution;
pub mod gates;
mod keys;
pub mod memory;
pub mod node;
pub mod output;
pub mod recalled;
mod recent;
mod request;
mod residue;
pub mod shared;
pub mod snapshot;
pub mod statement;
pub mod stats;
pub mod timeouts;
mod work;

pub use engine::{Engine, TICK};
pub use keys::{LinkKey, PoolKey, RequestKey, SessionKey};

#[cfg(test)]
mod testing {
    use std::time::Instant;

    /// Some instant to begin from.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn begin() -> Instant {
        Instant::now()
    }
}
