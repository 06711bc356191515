//! The logic of the proxy, pure: no sockets, no clock, no threads, no tasks.
//!
//! One [`Engine`] is one worker. It is handed clients, nodes, their bytes, messages and the time, and
//! answers with bytes to be written and with what it wants to have done ([`output::Output`]). So the
//! same code can run behind sockets, in a simulation and before a fuzzer.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod backlog;
pub mod config;
mod context;
pub mod exec;
pub mod features;
mod keys;
pub mod memory;
pub mod output;
pub(crate) mod pipeline;
pub mod rewrite;
pub mod scheduler;
pub mod session;
pub mod shared;
pub mod snapshot;
pub mod statement;
pub mod stats;
pub mod support;
pub mod upstream;
pub mod worker_status;

pub use keys::{ClientRequestKey, LinkKey, NodeRequestKey, PoolKey, SessionKey};
pub use pipeline::engine::Engine;

#[cfg(test)]
mod testing;
