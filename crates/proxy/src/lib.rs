//! The shell: sockets, TLS, sessions, links, control connection, admin HTTP.
//!
//! [`serve`] runs a proxy until it is told to stop. Each worker thread owns its clients and its
//! links; what workers share is immutable and swapped whole.

mod admin;
mod answer;
mod auth;
mod by_owner;
mod classify;
pub mod config;
mod conn;
mod control;
mod cut;
mod dispatch;
mod fan;
mod flush;
mod fold;
mod handshake;
mod in_keys;
mod in_range;
mod learned;
mod link;
mod order;
mod pool;
mod prepared;
pub mod reference;
mod reload;
mod reprepare;
mod request;
mod scan;
mod scan_limit;
mod schedule;
mod server;
mod session;
mod share;
mod shared;
mod siblings;
mod silence;
mod snapshot;
mod stats;
mod system;
mod tls;
mod transport;
mod turns;
mod understand;
mod worker;

pub use config::Config;
pub use reload::{Program, SetLogFilter};
pub use server::{CheckReport, check, serve};
