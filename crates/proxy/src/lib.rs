//! The shell: sockets, TLS, sessions, links, control connection, admin HTTP.
//!
//! [`serve`] runs a proxy until it is told to stop. Each worker thread owns its clients and its
//! links; what workers share is immutable and swapped whole.

mod admin;
mod aggregate;
mod answer;
mod auth;
mod authenticator;
mod by_owner;
mod checks;
mod classify;
mod client_names;
pub mod config;
mod conn;
mod control;
mod credentials;
mod cut;
mod dispatch;
mod drain;
mod fan;
mod flush;
mod fold;
mod front;
mod handshake;
mod identity;
mod in_keys;
mod in_range;
mod large;
mod learned;
mod link;
mod logins;
mod memory;
mod order;
mod outbox;
mod pool;
mod prepared;
mod recent;
pub mod reference;
mod reload;
mod reprepare;
mod request;
mod retry;
mod rows;
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
mod timeouts;
mod tls;
mod transport;
mod turns;
mod understand;
mod work;
mod worker;

pub use config::Config;
pub use reload::{Program, SetLogFilter};
pub use server::{CheckReport, check, serve};
