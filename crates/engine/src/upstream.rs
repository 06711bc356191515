//! Connections to nodes: pools of roles, their links, the answers that come.
//!
//! [`links::Links`] owns all of it. It knows no node requests or clients, and returns what concerns
//! them to the engine: that half is in `pipeline/`, most of it in `pipeline/nodes`.

mod busy;
pub(crate) mod choose_link;
pub mod connect;
mod dropped;
pub(crate) mod dropped_streams;
mod encode;
mod health;
mod leak_check;
pub(crate) mod link;
pub(crate) mod links;
mod listing;
pub mod node_reports;
mod open_requests;
pub(crate) mod pace;
pub(crate) mod pool;
mod repreparing;
pub(crate) mod traffic;
mod window;
