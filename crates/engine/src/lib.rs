//! The logic of the proxy, pure: no sockets, no clock, no threads, no tasks.
//!
//! One [`Engine`] is one worker. It is handed clients, nodes, their bytes, messages and the time, and
//! answers with bytes to be written and with what it wants to have done ([`output::Output`]). So the
//! same code can run behind sockets, in a simulation and before a fuzzer.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod admission;
mod answering;
mod arrival;
mod backlog;
pub mod batch_limits;
pub mod capture;
mod capturing;
pub mod client;
pub mod config;
mod connections;
mod context;
mod departures;
pub mod drain;
mod editions;
mod encoded_answers;
mod encoded_reads;
mod encoded_requests;
pub mod encodings;
mod ends;
mod engine;
pub mod execution;
mod expiry;
pub mod explain;
mod failures;
mod fencing;
mod following;
pub mod gates;
mod gating;
mod giving_up;
mod hedging;
mod holding;
pub mod holds;
pub mod hot_partitions;
mod inputs;
mod keys;
mod layout_reads;
mod layout_requests;
mod layout_writes;
pub mod layouts;
pub mod leases;
pub mod list_columns;
mod logins;
pub mod memory;
mod merging;
mod moving;
pub mod node;
mod node_request;
mod obeying;
pub mod output;
pub mod page_limits;
mod parting;
mod passing;
mod pauses;
mod query;
mod queueing;
pub mod recalled;
mod recent;
mod recording;
pub mod records;
mod refusing;
mod registry;
mod released;
mod repeated;
pub mod report;
mod reporting;
pub mod reports;
mod request;
mod resendable;
mod residue;
mod route;
pub mod rules;
mod sampling;
mod schema_reads;
mod sending_again;
mod settle;
pub mod shared;
pub mod snapshot;
pub mod statement;
pub mod stats;
mod stepping;
mod sync;
pub mod table_sizes;
mod tick;
pub mod timeouts;
mod trail;
mod unavailable;
mod way;

pub use engine::Engine;
pub use keys::{ClientRequestKey, LinkKey, NodeRequestKey, PoolKey, SessionKey};

#[cfg(test)]
mod testing;
