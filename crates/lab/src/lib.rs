//! The laboratory: commands that bring up nodes, generate load, measure and simulate. No production installation needs
//! them.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod bench;
pub mod busy;
pub mod cluster;
mod command_line;
pub mod demo;
mod endpoint_args;
pub mod load;
pub mod mirror;
mod node_cpus;
mod node_storage;
mod nodetool;
mod played;
pub mod probe;
pub mod replay;
mod result_file;
pub mod sim;
mod stored_documents;
mod testbed;
mod tls_args;
